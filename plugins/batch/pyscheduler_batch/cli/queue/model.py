"""Build the tables of queues and jobs that `pyscheduler queue` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.api import PySchedulerError
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.podgroup import created_at
from pyscheduler.scheduler.malformed_pod import readable_part
from pyscheduler_batch.dialects import QUEUE_DIALECTS
from pyscheduler_batch.gpu_sharing.device_shares import gpu_memory, usable_share
from pyscheduler_batch.model.axis import GPU, ResourceAxis
from pyscheduler_batch.model.build import CYCLE, DUPLICATE, MISSING, build_job, build_queues
from pyscheduler_batch.model.job_spec import JobSpec
from pyscheduler_batch.model.queue_spec import ROOT_QUEUE
from pyscheduler_batch.model.tasks import ACTIVE, ALIVE, NO_NODE, TaskState, make_task, state_of_waiting
from pyscheduler_batch.model.values import amounts_of
from pyscheduler_batch.queue_problems import needs_root, queue_problem
from pyscheduler_batch.sessions.pod_facts import PodAmounts, find_queue, state_on_node
from pyscheduler_batch.sessions.tables import NO_GROUP
from pyscheduler_batch.systems import systems_by_dialect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Node, Pod
    from pyscheduler.podgroup import GroupState
    from pyscheduler_batch.cli.queue.reader import Inventory
    from pyscheduler_batch.dialects import JobDialect
    from pyscheduler_batch.model.axis import Amounts
    from pyscheduler_batch.model.queue_spec import QueueSpec
    from pyscheduler_batch.model.queue_table import QueueTable
    from pyscheduler_batch.model.tasks import Job
    from pyscheduler_batch.system import System

__all__ = [
    "WAITING",
    "DialectModel",
    "JobEntry",
    "Problem",
    "build_models",
    "missing_pods",
    "of_dialect",
    "schedulers_of",
]

#: The states of a task that waits for a node.
WAITING: Final = (TaskState.PENDING, TaskState.GATED)


@attrs.frozen
class Problem:
    """Why a queue or a job cannot be used: a stable reason, and a sentence with what to do."""

    #: `queue`, `job` or `pod`.
    kind: str
    name: str
    dialect: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.dialect}): {self.reason}: {self.message}"


@attrs.frozen(eq=False)
class JobEntry:
    """A job, its description, and the group behind it (None for a pod without a group)."""

    job: Job
    spec: JobSpec
    state: GroupState | None = None

    @property
    def is_waiting(self) -> bool:
        """Return True if a pod of the job has no node."""
        return self.job.count(WAITING) > 0

    def other_keys(self) -> set[str]:
        """Return `namespace/name` of the pods of the job, and of the workloads that own its group or pods."""
        pods = [task.pod for task in self.job.tasks.values() if task.pod is not None]
        objects = [*pods, *([self.state.object] if self.state is not None and self.state.object is not None else [])]
        owners = {owner.name for each in objects for owner in each.metadata.owner_references}
        return {f"{self.spec.namespace}/{name}" for name in (*owners, *(pod.name for pod in pods))}

    @property
    def holds_nodes(self) -> bool:
        """Return True if a pod of the job has a node."""
        return self.job.count(ACTIVE) > 0


@attrs.frozen(kw_only=True, eq=False)
class DialectModel:
    """The queues and jobs of one preset. Arrays are float64[Q, R] by row of `queues` and column of `axis`."""

    #: The preset, which is the dialect of the jobs and of its own queues.
    name: str
    #: The system of that preset.
    system: type[System]
    #: By dialect of queues, the system that writes them, in words.
    systems: Mapping[str, str]
    axis: ResourceAxis
    #: All queues by name, unusable ones included; of two with one name, the last. Those of other distributions'
    #: dialects are among them.
    specs: Mapping[str, QueueSpec]
    #: The usable queues. `allocated` has the sums of active tasks.
    queues: QueueTable
    #: By key `namespace/name`, in that order.
    jobs: Mapping[str, JobEntry]
    problems: Sequence[Problem]
    #: What pods without a node request, for each queue with all queues below it.
    pending: Amounts
    #: int64[Q, 2]: how many jobs hold nodes, and how many have a pod without a node; with all queues below.
    job_counts: NDArray[np.int64]
    #: By name of the queue, the jobs that name it and the queues directly below it.
    _jobs_of: Mapping[str, Sequence[JobEntry]]
    _children: Mapping[str, Sequence[str]]
    #: float64[R]: what all nodes offer.
    capacity: Amounts

    def jobs_of(self, queue: str) -> Sequence[JobEntry]:
        """Return the jobs that name a queue."""
        return self._jobs_of.get(queue, ())

    def children(self, queue: str) -> Sequence[str]:
        """Return the names of the usable queues directly below, sorted; of the top queues for ""."""
        return self._children.get(queue, ())

    def problems_of(self, name: str, kind: str = "queue") -> list[Problem]:
        """Return the problems of a queue, without those of its jobs; or, with the kind `job`, those of a job."""
        return [each for each in self.problems if each.kind == kind and each.name == name]

    def malformed_pods(self, job: Job) -> list[Problem]:
        """Return the problems of the pods of a job that cannot be read; the scheduler ignores these pods."""
        found = [each for each in self.problems if each.kind == "pod"]
        keys = {task.key for task in job.tasks.values()} if found else ()
        return [each for each in found if each.name in keys]


def schedulers_of(inventory: Inventory) -> dict[str, list[str]]:
    """Return by dialect the schedulerNames of its jobs, the most frequent first.

    A pod without a group's object belongs to the dialect whose jobs have its schedulerName.
    """
    systems = systems_by_dialect()
    counts: dict[str, dict[str, int]] = {dialect: {} for dialect in systems}
    for state in inventory.directory:
        if state.object is None:
            continue
        names = counts[state.group.dialect]
        for pod in state.children():
            names[pod.scheduler_name] = names.get(pod.scheduler_name, 0) + 1
    found = {dialect: sorted(names, key=lambda name: (-names[name], name)) for dialect, names in counts.items()}
    for dialect, known in found.items():
        scheduler_name = systems[dialect].preset.scheduler_name
        if scheduler_name not in known:
            known.append(scheduler_name)
    return found


def build_models(
    inventory: Inventory,
    schedulers: Mapping[str, Iterable[str]],
    *,
    trees: Collection[str],
    served: Collection[str],
) -> list[DialectModel]:
    """Return the models of the dialects that have a queue or a job.

    Queues of other distributions' dialects are in the model of each served dialect, as its profile reads them. If no
    served dialect has a queue or a job, they are in the model of the first one.

    `schedulers`: by dialect the schedulerNames of its jobs, see `schedulers_of`. `trees`: the dialects in which only
    queues without children may have jobs. `served`: the dialects of one scheduler, in which a name may be of one queue
    only.
    """
    systems = systems_by_dialect()
    owners: dict[str, str] = {}
    for dialect, names in schedulers.items():
        for name in names:
            owners.setdefault(name, dialect)
    singles: dict[str, list[Pod]] = {}
    for pod in inventory.single_pods:
        if pod.scheduler_name in owners:
            singles.setdefault(owners[pod.scheduler_name], []).append(pod)
    states: dict[str, list[GroupState]] = {}
    for state in inventory.directory:
        states.setdefault(_dialect_of(state, owners, systems), []).append(state)
    dialects: dict[str, list[str]] = {}
    readers = [name for name in systems if name in served]
    for dialect in readers:
        for spec in inventory.queues.get(dialect, ()):
            if dialect not in dialects.setdefault(spec.name, []):
                dialects[spec.name].append(dialect)
    added = [spec for dialect, specs in inventory.queues.items() if dialect not in systems for spec in specs]
    used = {name for name in systems if inventory.queues.get(name) or name in states or name in singles}
    if added and not used.intersection(readers):
        used.update(readers[:1])
    models = [
        _build(
            inventory,
            system,
            [*inventory.queues.get(name, ()), *(added if name in readers else ())],
            states.get(name, ()),
            singles.get(name, ()),
            dialects,
            trees,
        )
        for name, system in systems.items()
        if name in used
    ]
    return [model for model in models if model.specs or model.jobs]


def of_dialect(model: DialectModel, dialect: str) -> DialectModel:
    """Return the model with the queues of one dialect only, and the jobs that name them."""
    if dialect == model.name:
        return model
    specs = {name: spec for name, spec in model.specs.items() if spec.dialect == dialect}
    jobs = {key: entry for key, entry in model.jobs.items() if entry.spec.queue in specs}
    names = {
        "queue": specs.keys(),
        "job": jobs.keys(),
        "pod": {task.key for entry in jobs.values() for task in entry.job.tasks.values()},
    }
    problems = [each for each in model.problems if each.name in names[each.kind]]
    return attrs.evolve(model, specs=specs, jobs=jobs, problems=problems)


def _dialect_of(state: GroupState, owners: Mapping[str, str], systems: Mapping[str, type[System]]) -> str:
    """Return the dialect of a group. `owners`: the dialects by schedulerName.

    Pods name groups of two systems alike; if there is no object, the schedulerName tells them apart.
    """
    if state.object is None:
        found = (owners.get(pod.scheduler_name, "") for pod in state.children())
        own = (name for name in found if name in systems and systems[name].jobs.groups.family == state.id.family)
        return next(own, state.group.dialect)
    return state.group.dialect


def _build(
    inventory: Inventory,
    system: type[System],
    queue_specs: Sequence[QueueSpec],
    states: Iterable[GroupState],
    singles: Iterable[Pod],
    dialects: Mapping[str, Sequence[str]],
    trees: Collection[str],
) -> DialectModel:
    row = system.jobs
    specs = queue_specs if row.name in trees else _with_roots(queue_specs, system)
    described = sorted(
        [
            *((_with_warnings(_spec_of(row, state), inventory), state, _members(state)) for state in states),
            *((system.spec_of_pod(pod), None, [pod]) for pod in singles if not pod.is_terminal),
        ],
        key=lambda item: (item[0].namespace, item[0].name),
    )
    problems: list[Problem] = []
    infos = {pod.uid: _info(row, pod, problems) for _, _, pods in described for pod in pods}
    axis = _axis(inventory, specs, infos.values())
    shares = _shared_gpus(infos.values(), inventory.nodes) if system.shares_gpus else {}
    queues, reasons = build_queues(axis, specs)
    problems += _queue_problems(row, specs, reasons, dialects)
    amounts = PodAmounts(axis)
    jobs: dict[str, JobEntry] = {}
    jobs_of: dict[str, list[JobEntry]] = {}
    counts = np.zeros((len(queues), 2), dtype=np.int64)
    pending = np.zeros((len(queues), len(axis)))
    for spec, state, pods in described:
        job = build_job(axis, spec, priority=0, preemptible=spec.preemptible is not False)
        find_queue(job, queues, reasons, keeps_row=row.name not in trees)
        if job.queue_row >= 0:
            job.queue_error = ""  # where parents do not count, any queue may have jobs
        for pod in pods:
            info, part = infos[pod.uid], shares.get(pod.uid)
            request = amounts.of(info.requests, None if part is None else {GPU: part})
            facts = {"sub_group": row.sub_group_of(spec, info.pod), "role": row.role(info.pod)}
            task = make_task(job, info.pod, request, (_state(info.pod), NO_NODE), **facts)
            job.add(task)
            if job.queue_row < 0:
                continue
            if task.state in ACTIVE:
                queues.add(job.queue_row, task.request, non_preemptible=not job.preemptible)
            elif task.state in WAITING:
                pending[queues.paths[job.queue_row]] += task.request
        entry = jobs[job.key] = JobEntry(job, spec, state)
        jobs_of.setdefault(spec.queue, []).append(entry)
        if job.queue_row >= 0:
            counts[queues.paths[job.queue_row]] += (entry.holds_nodes, entry.is_waiting)
        problems += _job_problems(system, entry, queues)
    children: dict[str, list[str]] = {}
    for name in sorted(queues.names):
        above = int(queues.parent[queues.index[name]])
        children.setdefault(queues.names[above] if above >= 0 else "", []).append(name)
    return DialectModel(
        name=row.name,
        system=system,
        systems={each.name: each.system for each in inventory.queue_rows},
        axis=axis,
        specs={spec.name: spec for spec in specs},
        queues=queues,
        jobs=jobs,
        problems=problems,
        pending=pending,
        job_counts=counts,
        jobs_of=jobs_of,
        children=children,
        capacity=sum((axis.amounts(_offered(node.status.allocatable)) for node in inventory.nodes), axis.zeros()),
    )


def _with_roots(specs: Sequence[QueueSpec], system: type[System]) -> Sequence[QueueSpec]:
    """Return the queues; the system's own below its root are at the top if that queue does not exist."""
    root, own = system.root_queue, system.queues.name
    if not root or any(spec.name == root for spec in specs):
        return specs
    return [attrs.evolve(spec, parent="") if spec.parent == root and spec.dialect == own else spec for spec in specs]


def _offered(allocatable: Mapping[str, object]) -> dict[str, float]:
    return amounts_of(allocatable, "status.allocatable", [])


def _axis(inventory: Inventory, specs: Iterable[QueueSpec], infos: Iterable[PodInfo]) -> ResourceAxis:
    names = {name for node in inventory.nodes for name in node.status.allocatable}
    for spec in specs:
        names.update(spec.quota, spec.limit, spec.guarantee)
    for info in infos:
        names.update(info.requests.scalars)
    # Resources that no queue and no pod mentions would be noise.
    return ResourceAxis.of(name for name in names if not name.startswith("hugepages-"))


def _info(row: JobDialect, pod: Pod, problems: list[Problem]) -> PodInfo:
    """Return what is known about a pod; fields that cannot be read are a problem, and do not count."""
    try:
        return PodInfo.of(pod)
    except PySchedulerError as error:
        problems.append(Problem("pod", pod.key, row.name, "MalformedPod", f"{error}; correct the pod"))
        return readable_part(pod)


def _members(state: GroupState) -> list[Pod]:
    return [*state.children(), *state.succeeded.values(), *state.failed.values()]


def _spec_of(row: JobDialect, state: GroupState) -> JobSpec:
    """Return what a group says; a group without an object says nothing."""
    read = row.groups.object_fields
    if state.object is not None and read is not None:
        return row.read(state.object, read(state.object))
    pods = [*state.children()]
    return JobSpec(
        namespace=state.id.namespace,
        name=state.id.name,
        uid=f"{row.name}/{state.id.namespace}/{state.id.name}",
        dialect=row.name,
        created=min((created_at(pod) for pod in pods), default=0.0),
        queue=next((queue for pod in pods if (queue := row.queue(pod))), row.default_queue),
        min_member=state.group.min,
        error=NO_GROUP,
    )


def _with_warnings(spec: JobSpec, inventory: Inventory) -> JobSpec:
    """Return what a group says, with a warning about a priority class that does not exist."""
    classes = inventory.classes
    return spec if classes is None else attrs.evolve(spec, warnings=spec.warnings_with(classes.get))


def _shared_gpus(infos: Iterable[PodInfo], nodes: Sequence[Node]) -> dict[str, float]:
    """Return by uid of a pod its part of GPUs that it shares by its annotations.

    The part that a request for memory is depends on the node; before the pod has one, the smallest GPU counts.
    """
    memory = {node.name: gpu_memory(node.labels) for node in nodes if GPU in node.status.allocatable}
    found: dict[str, float] = {}
    for info in infos:
        pod = info.pod
        share = usable_share(pod.annotations, has_whole_gpus=info.requests.scalars.get(GPU, 0) > 0)
        if share is not None:
            capacity = memory.get(pod.node_name or "") or min(memory.values(), default=gpu_memory({}))
            found[pod.uid] = share.gpus(capacity)
    return found


def _state(pod: Pod) -> TaskState:
    if pod.is_terminal:
        return TaskState.SUCCEEDED if pod.status.phase == "Succeeded" else TaskState.FAILED
    if pod.is_terminating:
        return TaskState.RELEASING
    return state_on_node(pod) if pod.node_name else state_of_waiting(pod)


def missing_pods(system: type[System], entry: JobEntry) -> list[str]:
    """Return which minimums of a job cannot be reached with the pods that exist, one text each."""
    job, tasks = entry.job, entry.job.tasks.values()
    spec = system.without_succeeded(
        entry.spec,
        [task.sub_group for task in tasks if task.state in ALIVE],
        [task.sub_group for task in tasks if task.state is TaskState.SUCCEEDED],
    )
    counted = {*ACTIVE, TaskState.PENDING}
    if not system.has_sub_group_tree:
        counted |= {TaskState.GATED, TaskState.SUCCEEDED}
    there = [task for task in tasks if task.state in counted]
    found = []
    if system.has_sub_group_tree and spec.sub_groups:
        inner = {each.parent for each in spec.sub_groups}
        for each in (each for each in spec.sub_groups if each.name not in inner):
            count = sum(task.sub_group == each.name for task in there)
            if count < each.min_member:
                found.append(f"{count} of at least {each.min_member} pods of sub-group {each.name} are present")
    elif len(there) < spec.min_member:
        found.append(f"{len(there)} of at least {spec.min_member} pods are present")
    for role, least in spec.min_task_member.items():
        count = sum(task.role == role for task in there)
        if count < least:
            found.append(f"{count} of at least {least} pods of task {role} are present")
    gated = job.counts[TaskState.GATED]
    if found and gated and TaskState.GATED not in counted:
        found.append(f"{gated} pods have scheduling gates")
    return found


# --- problems -----------------------------------------------------------------------------------


def _queue_problems(
    row: JobDialect, specs: Sequence[QueueSpec], reasons: Mapping[str, str], dialects: Mapping[str, Sequence[str]]
) -> list[Problem]:
    by_name = {spec.name: spec for spec in specs}
    found = []
    for name, spec in sorted(by_name.items()):
        if name in reasons:
            message = _queue_message(reasons[name], spec, by_name)
            found.append(Problem("queue", name, spec.dialect, reasons[name], message))
        sharing = dialects.get(name, ())
        others = [dialect for dialect in sharing if dialect != row.name]
        if others and row.name in sharing:
            systems = " and ".join(each.system for each in QUEUE_DIALECTS if each.name in others)
            message = f"{systems} has a queue of this name, too, and a scheduler with profiles of both uses neither"
            message += "; rename one, or choose the dialect of a scheduler that has only one with --dialect"
            found.append(Problem("queue", name, row.name, DUPLICATE, message))
    return found


def _queue_message(reason: str, spec: QueueSpec, by_name: Mapping[str, QueueSpec]) -> str:
    if reason == DUPLICATE:
        return "two objects describe a queue of this name; delete one of them"
    if reason == CYCLE:
        chain, at = [spec.name], spec.parent
        while at in by_name and at not in chain:
            chain.append(at)
            at = by_name[at].parent
        return f"its parents make a cycle, {' -> '.join([*chain, at])}; give one of them another parent"
    if reason == MISSING:
        last = spec
        while last.parent in by_name:
            last = by_name[last.parent]
        if last.parent == ROOT_QUEUE:
            return f"it {needs_root()}"
        whose = "its parent" if last is spec else f"the parent of {last.name}"
        return f'{whose}, "{last.parent}", does not exist; create that queue or change the parent'
    return "the object cannot be used; see its warnings"


_GROUP_MESSAGES: Final = {
    NO_GROUP: "its pods name a PodGroup that does not exist; create it",
    "InvalidMinMember": "its minimum is not a usable number; correct spec.minMember",
    "InvalidSubGroups": "its sub-groups make no tree; correct spec.subGroups",
}


def _job_problems(system: type[System], entry: JobEntry, queues: QueueTable) -> list[Problem]:
    found = []
    if entry.spec.error:
        message = _GROUP_MESSAGES.get(entry.spec.error, "its object cannot be used; see its warnings")
        found.append(Problem("job", entry.job.key, system.jobs.name, entry.spec.error, message))
    problem = queue_problem(entry.job, queues, label=system.queue_label)
    # A group without an object says nothing about its queue.
    if problem is not None and entry.spec.error != NO_GROUP:
        found.append(Problem("job", entry.job.key, system.jobs.name, *problem))
    return found
