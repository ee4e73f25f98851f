"""`Batch`: schedule the pods of a profile in rounds that consider all jobs in all queues.

The arg `preset` names the batch system whose rules apply, such as `kai` or `volcano`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import numpy.ma  # noqa: F401 - `np.unique` would import it in the first pass, and hold the event loop for 40 ms

from pyscheduler.api import Node, Pod, PodDisruptionBudget, PriorityClass
from pyscheduler.framework import ConfigError, PolicyRule, PreEnqueuePlugin
from pyscheduler.framework.extensions import Extensions
from pyscheduler.framework.log_capture import CONFIGURATION_LOGGER
from pyscheduler.podgroup import GroupId, GroupObject, PodGroups
from pyscheduler_batch.added_dialects import added_queue_dialects
from pyscheduler_batch.changes import Changes, group_facts, queue_is_changed
from pyscheduler_batch.configured import make_actions, make_tiers, session_type
from pyscheduler_batch.disruption_budgets import DisruptionBudgets, RespectedBudgets
from pyscheduler_batch.gpu_sharing.books import GROUP_LABEL
from pyscheduler_batch.gpu_sharing.shared import SHARED_KEY, SPREAD_KEY, SharedRoom
from pyscheduler_batch.kinds import ALWAYS, kinds_of_settings, status_rules
from pyscheduler_batch.model.batch_plugin import NodeUse, TaskFacts
from pyscheduler_batch.model.job_spec import JobSpec
from pyscheduler_batch.model.session import EnabledPolicy
from pyscheduler_batch.model.tasks import TaskState
from pyscheduler_batch.queue_problems import WAITING_FOR_QUOTA, no_queue
from pyscheduler_batch.resource_claims import CLAIMED_GPUS, ClaimedGpus, follow_devices
from pyscheduler_batch.sessions.assembly import SessionPlugin
from pyscheduler_batch.settings.configuration import ARG_NAMES, batch_args
from pyscheduler_batch.status.report import COMPLETED
from pyscheduler_batch.status.reporter import StatusReporter
from pyscheduler_batch.status.statuses import Statuses
from pyscheduler_batch.systems import job_dialects, presets, system_of
from pyscheduler_batch.usage.usage import QueueUsage, usage_rules
from pyscheduler_quota.controller import QuotaReservations, reservation_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyscheduler.api import KubeObject, ResourceKind
    from pyscheduler.framework import Handle, Lister, Status
    from pyscheduler.podgroup import GroupFields, GroupState
    from pyscheduler_batch.batch_args import BatchArgs
    from pyscheduler_batch.contract import Action
    from pyscheduler_batch.dialects import JobDialect, QueueDialect
    from pyscheduler_batch.gpu_sharing.plugin import GpuSharing
    from pyscheduler_batch.model.axis import ResourceAxis
    from pyscheduler_batch.model.queue_spec import QueueSpec
    from pyscheduler_batch.model.queue_table import QueueTable
    from pyscheduler_batch.model.session import Session
    from pyscheduler_batch.model.tasks import Job, Task

__all__ = ["Batch"]

_log = logging.getLogger(__name__)
_about_args = logging.getLogger(CONFIGURATION_LOGGER)

#: Why a pod without a group waits if the profile requires groups.
GROUP_REQUIRED: Final = "PodGroupRequired"


def _with_default_queue(row: JobDialect, queue: str) -> JobDialect:
    """Return a dialect whose jobs are in this queue if they name none."""
    if not queue:
        return row

    def read(group: GroupObject, fields: GroupFields) -> JobSpec:
        spec = row.read(group, fields)
        return spec if group.spec.queue else attrs.evolve(spec, queue=queue)

    return attrs.evolve(row, default_queue=queue, read=read)


def _kinds_of(args: BatchArgs, extensions: Extensions) -> Sequence[ResourceKind]:
    """Return the kinds that the settings, the system and the queues of other distributions need."""
    system = system_of(args.preset, extensions)
    return (*kinds_of_settings(args, system), *system.kinds(args), *_added_queues(extensions))


def _added_queues(extensions: Extensions) -> Sequence[ResourceKind]:
    return [kind for row in added_queue_dialects(extensions) for kind in row.kinds]


class Batch(PreEnqueuePlugin, SessionPlugin):
    """Schedule the pods of the profile in sessions."""

    name: ClassVar[str] = "Batch"
    own_labels = (GROUP_LABEL,)
    unbounded = frozenset({CLAIMED_GPUS})
    arg_names: ClassVar[Sequence[str]] = ARG_NAMES
    watches: ClassVar[Sequence[ResourceKind]] = ALWAYS
    #: DynamicResources creates claims for pods that request an extended resource of a device class, on nodes that lack
    #: the resource. Sessions count what nodes offer, so they place no such pod.
    needless_rbac: ClassVar[Sequence[PolicyRule]] = (
        PolicyRule(api_groups=("resource.k8s.io",), resources=("resourceclaims",), verbs=("create", "delete")),
    )

    @classmethod
    def extension_kinds_for(cls, extensions: object, args: object) -> Sequence[ResourceKind]:
        """Return what the profile's settings and its system read, and the queues that distributions add."""
        assert isinstance(extensions, Extensions), "what the scheduler hands over"
        try:
            said = args if isinstance(args, Mapping) else {}
            read = batch_args(said, checks_names=False, presets=presets(extensions))
        except ConfigError:
            return _added_queues(extensions)  # the constructor reports it
        return _kinds_of(read, extensions)

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        if handle is None:
            raise ConfigError("Batch needs a handle, which the scheduler gives it")
        extensions = self._extensions = Extensions.of(handle)
        self._args = self._read(args)
        made = system_of(self._args.preset, extensions)
        system = self._system = made(handle, self._args)
        kinds = (*ALWAYS, *_kinds_of(self._args, extensions))
        self.watches = kinds  # type: ignore[misc]  # of a class, as a rule
        self.rbac = (*status_rules(made), *usage_rules(self._args.usage))  # type: ignore[misc]  # the same
        self._groups = PodGroups.of(handle)
        self._groups.claim(self.name, [made.jobs.name], writes_status=True)
        self._actions = make_actions(self._args, made, extensions)
        self._tiers = make_tiers(self._args, made, extensions)
        self._follow_args()
        rows = (system.queues, *added_queue_dialects(extensions))
        self._queues = [(handle.lister(kind.type), row) for row in rows for kind in row.kinds]
        #: By kind, the queues that any profile of this scheduler reads; two dialects must not have queues of one name.
        self._all_queues: dict[type, Lister[Any]] = handle.shared("pyscheduler-batch/queues", dict)
        self._own_kinds = {kind.type for row in rows for kind in row.kinds}
        self._all_queues.update((kind, handle.lister(kind)) for kind in self._own_kinds)
        self._classes = handle.lister(PriorityClass)
        self._session_type = session_type(made)
        self._is_running = False
        #: The key of a job that was read last, and the identity of its group.
        self._last_id: tuple[str, GroupId | None] = ("", None)
        #: By uid of a queue, its description as of a version of the object.
        self._specs: dict[str, tuple[KubeObject, QueueSpec]] = {}
        #: UIDs of the groups whose pods get no condition.
        self._unmarked: set[str] = set()
        self.inner_queues, self.keeps_parts, self.pod_event = system.inner_queues, system.keeps_parts, system.pod_event
        self._sharing: Mapping[str, GpuSharing] = handle.shared(SHARED_KEY, dict)
        self._statuses = Statuses.of(handle, self._groups, system, self._row)
        self._statuses.systems[self.handle.profile_name] = system
        self._reporter = StatusReporter(handle, self._statuses, system)
        self._usage: QueueUsage | None = None
        if self._args.usage is not None and system.counts_past_use:
            self._usage = QueueUsage(handle, self._args.usage, self._tell_news)
            self._statuses.listeners.append(self._usage.note_totals)
        self._reservations: QuotaReservations | None = None
        if made.waits_for_quota(self._args):
            self._reservations = QuotaReservations.join(handle, self.name, self._quota_changed)
            self.rbac = (*self.rbac, *reservation_rules([self._row.groups]))  # type: ignore[misc]  # the same
        self._changes = Changes(handle.clock)
        self._claimed = ClaimedGpus(handle, system.queue_label_of(self._args)) if system.counts_claimed_gpus else None
        has_budgets = self._args.disruption_budgets != "ignore"
        self._budgets: Lister[PodDisruptionBudget] | None = handle.lister(PodDisruptionBudget) if has_budgets else None

    def _read(self, args: object) -> BatchArgs:
        """Read the args, and log what has no effect; raise `ConfigError` for mistakes."""
        said = args if isinstance(args, Mapping) else {}
        read = batch_args(
            said,
            "$.pluginConfig[Batch].args",
            more_actions=self._extensions.actions,
            more_policies=dict.fromkeys(self._extensions.policies),
            presets=presets(self._extensions),
        )
        for sentence in read.warnings:
            _about_args.warning("Configuration of Batch: %s", sentence)
        return read

    def _follow_args(self) -> None:
        """Set what follows from the args, apart from actions and policies."""
        rows = {row.name: row for row in (*job_dialects(self._extensions), self._system.jobs)}
        self._rows = {name: _with_default_queue(row, self._args.default_queue) for name, row in rows.items()}
        self._row = self._rows[self._system.jobs.name]
        self._system.follow(self._args)
        spreading: set[str] = self.handle.shared(SPREAD_KEY, set)
        (spreading.add if self._system.spreads_gpus else spreading.discard)(self.handle.profile_name)
        self.gang_barrier = self._args.gang_barrier

    def prepare_args(self, args: object) -> Callable[[], object]:
        """Check new args; return what puts them in force. The preset cannot change."""
        new = self._read(args)
        if new.preset != self._args.preset:
            text = f'the preset cannot change from "{self._args.preset}" to "{new.preset}" while the scheduler runs'
            raise ConfigError(f"{text}; restart it @ $.pluginConfig[Batch].args.preset")
        fixed = {"binder": "binder", "usage": "usageDBConfig", "quota_reservation": "quotaReservation"}
        fixed["disruption_budgets"] = "disruptionBudgets"
        for field, key in fixed.items():
            if getattr(new, field) != getattr(self._args, field):
                text = f"{key} cannot change while the scheduler runs; restart it"
                raise ConfigError(f"{text} @ $.pluginConfig[Batch].args.{key}")
        for policy, kind in self._system.kinds_of_policies(new).items():
            if kind not in self._system.kinds_read:
                text = f'the policy "{policy}" cannot be added while the scheduler runs'
                raise ConfigError(f"{text}; restart it @ $.pluginConfig[Batch].args.tiers")
        system = type(self._system)
        actions, tiers = make_actions(new, system, self._extensions), make_tiers(new, system, self._extensions)

        def apply() -> None:
            self._args, self._actions, self._tiers = new, actions, tiers
            self._follow_args()
            self._changes.all_changed()

        return apply

    async def run(self) -> None:
        """Write the status of queues and groups, and count their use; from now on, log what is wrong with queues."""
        self._is_running = True
        async with asyncio.TaskGroup() as work:
            work.create_task(self._statuses.run(), name="statuses of queues and groups")
            if self._usage is not None:
                work.create_task(self._usage.run(), name="past use of queues")
            if self._reservations is not None:
                work.create_task(self._reservations.run(), name="quota reservations")

    def _tell_news(self) -> None:
        self.on_news()  # which the scheduler sets later

    @property
    def is_reading(self) -> bool:
        """Return whether the use of queues up to now is still being read."""
        return self._usage is not None and self._usage.is_awaited

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Let every pod pass: the session says why a job waits."""
        return None

    @property
    def actions(self) -> Sequence[Action]:
        """Return the actions of the configuration, in order."""
        return self._actions

    @property
    def tiers(self) -> Sequence[Sequence[EnabledPolicy]]:
        """Return the policies of the configuration by tier."""
        return self._tiers

    def make_session(self, **parts: Any) -> Session:
        """Return a session of the preset."""
        budgets: DisruptionBudgets | None = None
        if self._budgets is not None and len(self._budgets):
            respects = self._args.disruption_budgets == "respect"
            budgets = (RespectedBudgets if respects else DisruptionBudgets)(self._budgets)
            parts["tiers"] = [*parts["tiers"], [EnabledPolicy(budgets)]]
        session = self._session_type(**parts)
        if budgets is not None:
            session.extras[DisruptionBudgets] = budgets
        if sharing := self._sharing.get(self.handle.profile_name):
            session.extras[SharedRoom] = SharedRoom(
                sharing.nodes_with_room,
                sharing.devices_of,
                sharing.has_room_now,
                sharing.keeps_devices,
                sharing.all_shares,
            )
        session.extras[ClaimedGpus] = self._claimed
        self._system.prepare(session)
        if self._usage is not None:
            index, width = session.axis.index, len(session.axis.names)
            self._usage.note_capacity(session.nodes, index)
            session.queues.usage = self._usage.columns(session.queues, index, width)
        return session

    def queue_table(self, axis: ResourceAxis) -> tuple[QueueTable, Mapping[str, str]]:
        """Return the table of the preset's queues, and what is wrong with others."""
        taken = {item.name for lister in self._other_queues() for item in lister}
        return self._system.queue_table(axis, self._queue_specs(), taken)

    def _other_queues(self) -> Iterable[Lister[Any]]:
        """Return the listers of queues that only other profiles read."""
        return [lister for kind, lister in self._all_queues.items() if kind not in self._own_kinds]

    def _follow_budgets(self, on_change: Callable[[str | None], object]) -> None:
        def changed(*_: object) -> None:
            on_change("")  # no description of a job changed; but victims may be there now

        if self._budgets is not None and self._args.disruption_budgets == "respect":
            self._budgets.add_event_handler(on_update=changed, on_delete=changed)

    def subscribe(self, on_change: Callable[[str | None], object]) -> None:
        """Call `on_change` with the key of a job whose group changed; with None for queues and priority classes."""
        changes = self._changes
        changes.tell = on_change
        if self._claimed is not None:
            self._claimed.subscribe(on_change)
        follow_devices(self.handle, on_change)
        self._follow_budgets(on_change)

        def queue_updated(row: QueueDialect, old: KubeObject, new: KubeObject) -> None:
            if queue_is_changed(row, self._system.pool, old, new):
                on_change(None)

        def group_updated(old: KubeObject, new: KubeObject) -> None:
            if group_facts(self._row, self._system, old) != group_facts(self._row, self._system, new):
                on_change(f"group/{new.namespace}/{new.name}")

        for lister, row in self._queues:
            updated = partial(queue_updated, row)
            lister.add_event_handler(on_add=changes.all_changed, on_update=updated, on_delete=changes.all_changed)
        for lister in self._other_queues():
            lister.add_event_handler(on_add=changes.all_changed, on_delete=changes.all_changed)
        self._classes.add_event_handler(
            on_add=changes.all_changed, on_update=changes.all_changed, on_delete=changes.all_changed
        )
        self._system.subscribe(on_change)
        self._groups.directory.subscribe(changes.group_changed)
        for kind in self._row.groups.kinds:
            self.handle.lister(kind.type).add_event_handler(on_update=group_updated)

    def resources(self) -> Iterable[str]:
        """Return the resources that queues name, and those that the system counts in any case."""
        yield from self._system.always_counted
        yield from (CLAIMED_GPUS,) if self._claimed is not None and self._claimed.is_used else ()
        for spec in self._queue_specs():
            for amounts in (spec.quota, spec.limit, spec.guarantee):
                yield from amounts

    def _queue_specs(self) -> Iterable[QueueSpec]:
        known, self._specs = self._specs, {}
        for lister, row in self._queues:
            for item in filter(self._system.pool.has, lister):
                before = known.get(item.metadata.uid)
                fresh = before if before is not None and before[0] is item else (item, row.read(item))
                self._specs[item.metadata.uid] = fresh
                if self._is_running and (before is None or before[1].warnings != fresh[1].warnings):
                    for sentence in fresh[1].warnings:
                        _log.warning("Queue %s: %s", item.name, sentence)
                yield fresh[1]

    # Jobs

    def amounts_beside(self, pod: Pod) -> Mapping[str, float] | None:
        """Return the pod's part of GPUs that it shares, if the profile enables `GpuSharing`, and the GPUs of claims."""
        sharing = self._sharing.get(self.handle.profile_name)
        shared = None if sharing is None else sharing.amounts_beside(pod)
        if self._claimed is None or not pod.spec.resource_claims:
            return shared
        claimed = self._claimed.requested(pod, self.job_key(pod))
        return {**(shared or {}), CLAIMED_GPUS: claimed} if claimed else shared

    def job_key(self, pod: Pod) -> str:
        """Return the key of the pod's group, or of the pod itself."""
        group = self._groups.directory.group_id(pod)
        return f"pod/{pod.uid}" if group is None else f"group/{group.namespace}/{group.name}"

    def is_alone(self, pod: Pod) -> bool:
        """Return whether the pod names no group, as far as is known: who holds it back may make one."""
        return self._groups.directory.group_id(pod) is None

    def _state_of(self, key: str) -> GroupState | None:
        if key != self._last_id[0]:
            kind, _, rest = key.partition("/")
            namespace, _, name = rest.partition("/")
            self._last_id = key, GroupId(namespace, name, self._row.groups.family) if kind == "group" else None
        found = self._last_id[1]
        return None if found is None else self._groups.directory.get(found)

    def jobs_without_pods(self) -> Iterable[str]:
        """Return the keys of groups without living members, if the system counts these."""
        if not self._system.counts_empty_groups:
            return
        for state in self._groups.directory:
            if state.child_count == 0:
                yield f"group/{state.id.key}"

    def counts_without_pods(self, key: str) -> bool:
        """Return whether this is a group that has not completed, if the system counts groups without pods."""
        if not self._system.counts_empty_groups:
            return False
        spec = self.job_spec(key, ()) if key.startswith("group/") else None
        return spec is not None and spec.phase != COMPLETED

    def job_spec(self, key: str, pods: Sequence[Pod]) -> JobSpec | None:
        """Return what the group's object says; for a pod without a group, a job of this pod."""
        state = self._state_of(key)
        if state is not None:
            if state.object is None:
                return None
            row = self._rows.get(state.group.dialect, self._row)
            read = row.groups.object_fields
            assert read is not None, "the dialects of jobs have objects"
            spec = self._statuses.remember(row.read(state.object, read(state.object)))
            self._statuses.warn(state.object, spec)
            spec = self._system.completed(spec, pods, row, state)
            (self._unmarked.discard if spec.mark_unschedulable else self._unmarked.add)(spec.uid)
            error = self._error_of(spec, state, pods)
            return spec if error == spec.error else attrs.evolve(spec, error=error)
        if key.startswith("group/"):
            return None
        pod = pods[0]
        queue = self._system.queue_of(pod) or self._row.default_queue
        lacks_queue = "" if queue else f"QueueDoesNotExist: {no_queue(self._system.queue_label_of(self._args))}"
        error = GROUP_REQUIRED if self._args.require_group else lacks_queue
        alone = attrs.evolve(self._system.spec_of_pod(pod), queue=queue, phase="Inqueue", error=error)
        return self._system.completed(alone, pods)

    def _error_of(self, spec: JobSpec, state: GroupState, pods: Sequence[Pod]) -> str:
        """Return what is wrong with a group, or else what holds it back; "" for nothing."""
        if spec.error:
            return spec.error
        if held := self._waits_for_quota(state):
            return f"{WAITING_FOR_QUOTA}: {held}"
        error = self._system.held_back(spec)
        return "" if error and any(pod.node_name for pod in pods) else error

    def _waits_for_quota(self, state: GroupState) -> str:
        """Return why a group must wait for quota; "" if it need not."""
        if self._reservations is None or not self._system.waits_for_quota(self._args):
            return ""
        return self._reservations.refusal(state)

    def _quota_changed(self, group: GroupId) -> None:
        self._changes.tell(f"group/{group.key}")

    def node_use(self, node: Node) -> NodeUse:
        """Return what a node is to the system."""
        return self._system.node_use(node)

    def is_foreign(self, key: str, pods: Sequence[Pod]) -> bool:
        """Return whether the job is in another pool: its group, or the pod without a group."""
        state = self._state_of(key)
        described = state.object if state is not None else next(iter(pods), None)
        return described is not None and not self._system.pool.has(described)

    def job_priority(self, spec: JobSpec, pods: Sequence[Pod]) -> float:
        """Return the value of the group's priority class, or of the default class; a pod without a group has its own.

        Priorities of pods do not count for a group. Source: `cache.Snapshot` of Volcano and kube-batch; KAI
        `pkg/scheduler/cache/cluster_info`.
        """
        if self._system.pods_have_own_priority and self._is_single(spec, pods):
            return pods[0].priority
        found = self._classes.get(spec.priority_class_name) if spec.priority_class_name else None
        if found is None:
            found = next((each for each in self._classes if each.global_default), None)
        return self._system.default_priority if found is None else found.value

    @staticmethod
    def _is_single(spec: JobSpec, pods: Sequence[Pod]) -> bool:
        """Return whether the job is a pod without a group."""
        return len(pods) == 1 and pods[0].uid == spec.uid

    def is_preemptible(self, spec: JobSpec, priority: float) -> bool:
        """Return what the group says, or else whether the priority is below those that the system protects."""
        return priority < self._system.protected_from if spec.preemptible is None else spec.preemptible

    def task_facts(self, spec: JobSpec, pod: Pod) -> TaskFacts:
        """Return what the pod's labels and annotations say."""
        pod = self._groups.directory.expected(pod)
        row = self._row
        return TaskFacts(row.sub_group_of(spec, pod), row.role(pod), row.preemptible(pod) is not False)

    def are_plain(self, spec: JobSpec, pods: Sequence[Pod]) -> bool:
        """Return whether no pod has a label or annotation that says something about it within its job."""
        if spec.policies is not None:
            return False  # any label may be one of theirs
        has_none, expected = self._row.marks.isdisjoint, self._groups.directory.expected
        for pod in pods:
            metadata = expected(pod).metadata
            if not (has_none(metadata.labels) and has_none(metadata.annotations)):
                return False
        return True

    def ended(self, key: str) -> Iterable[tuple[Pod, TaskState]]:
        """Return the members of a group that have ended."""
        state = self._state_of(key)
        if state is None:
            return ()
        succeeded = ((pod, TaskState.SUCCEEDED) for pod in state.succeeded.values())
        return (*succeeded, *((pod, TaskState.FAILED) for pod in state.failed.values()))

    def marks_unschedulable(self, job: Job) -> bool:
        """Return what the group of KAI says in `markUnschedulable`."""
        return job.uid not in self._unmarked

    async def pass_ended(self, session: Session, waiting: Mapping[str, str]) -> None:
        """Report what the pass came to, in statuses and events."""
        await self._reporter.pass_ended(session, waiting)

    def evicted(self, job: Job, *, action: str, by: Job | None, tasks: Sequence[Task]) -> None:
        """Record the events of an eviction."""
        self._reporter.evicted(job, action=action, by=by, tasks=tasks)
