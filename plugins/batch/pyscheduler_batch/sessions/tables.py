"""The cluster as tables of queues, jobs, tasks (pods) and nodes, kept from one scheduling round to the next."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from pyscheduler.framework.departures import is_preempted
from pyscheduler.framework.resource import EPHEMERAL_STORAGE
from pyscheduler_batch.model.axis import ResourceAxis, is_counted
from pyscheduler_batch.model.build import build_job, build_queues
from pyscheduler_batch.model.memory import Memory
from pyscheduler_batch.model.tasks import (
    ACTIVE,
    ALLOCATED,
    NO_NODE,
    Job,
    Task,
    TaskState,
    is_critical,
    make_task,
    state_of_waiting,
)
from pyscheduler_batch.sessions.gang_memory import GangMemory
from pyscheduler_batch.sessions.node_rows import NodeRows
from pyscheduler_batch.sessions.pod_facts import PodAmounts, find_queue, state_on_node

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.cooperative_yield import CooperativeYield
    from pyscheduler_batch.model.axis import Amounts
    from pyscheduler_batch.model.batch_plugin import BatchPlugin, TaskFacts
    from pyscheduler_batch.model.job_spec import JobSpec
    from pyscheduler_batch.model.queue_table import QueueTable
    from pyscheduler_batch.sessions.pending import PendingPods

__all__ = ["NO_GROUP", "ClusterTables", "parts"]

#: Why a job whose group has no object is not considered.
NO_GROUP: Final = "PodGroupDoesNotExist"
#: So many keys of jobs are remembered; then those of jobs without pods are forgotten.
_MOST_KEYS: Final = 100_000
#: Other tasks of the scheduler may run after so many waiting pods.
_PART: Final = 256
#: So many kinds of look-alikes are remembered; then all are forgotten.
_MOST_KINDS: Final = 10_000
_GATED: Final = (TaskState.GATED, NO_NODE)
_T = TypeVar("_T")


@attrs.define(eq=False, weakref_slot=False)
class _Entry:
    """The members of a job; `job` is None while it must not be considered."""

    key: str
    #: Their uids, in the order of arrival. None once the job is built: then its tasks are the members.
    members: dict[str, None] | None = None
    job: Job | None = None


class ClusterTables:
    """The tables of one batch profile."""

    def __init__(
        self,
        plugin: BatchPlugin,
        profile_name: str,
        *,
        equivalence_key: Callable[[Pod], Hashable | None] = lambda _: None,
    ) -> None:
        """Create empty tables. `equivalence_key`: equal for pods that filters and scores treat alike, or None."""
        self._plugin = plugin
        self._equivalence_key = equivalence_key
        #: By what look-alikes share, their number. No number is given twice.
        self._look_alikes: dict[Hashable, int] = {}
        self._numbers = count()
        self._profile_name = profile_name
        self.axis = ResourceAxis.of(())
        self.queues, self.problems = build_queues(self.axis, ())
        #: By uid, the jobs that can be considered.
        self.jobs: dict[str, Job] = {}
        #: By uid of a task.
        self.infos: dict[str, PodInfo] = {}
        #: What policies and actions keep from pass to pass.
        self.memory = Memory()
        self._entries: dict[str, _Entry] = {}
        #: The keys of jobs whose group has no object.
        self._unknown: dict[str, None] = {}
        #: By uid of a task.
        self._entry_of: dict[str, _Entry] = {}
        #: By uid of a task on a node, its state and the row of the node. The others wait.
        self._places: dict[str, tuple[TaskState, int]] = {}
        #: By uid, pods without a group that a plugin holds back; their jobs are not built.
        self._left_out: dict[str, PodInfo] = {}
        self._evicting: set[str] = set()
        self._amounts = PodAmounts(self.axis)
        self.nodes = self._node_rows(())
        #: In order: the pods of a job lie side by side in memory as a rule.
        self._dirty: dict[str, None] = {}
        #: The resources of which jobs need a minimum: a job may wait for one that no node has.
        self._named: set[str] = set()
        self._is_stale = True
        #: The keys of all jobs so far, also of those whose pods are gone: a controller may create them again.
        self._known_keys: set[str] = set()
        self._has_new_jobs = False
        #: By uid, the jobs that must not be placed while they hold no node, and why.
        self._held: Mapping[str, str] = {}
        self._gangs = GangMemory()

    # What others report

    def changed(self, job_key: str | None) -> None:
        """Take notice that the description of a job changed; None: a queue or a priority class."""
        if job_key is None:
            self._is_stale = True
            return
        self._dirty[job_key] = None
        self._gangs.read_ended(job_key, partial(self._plugin.ended, job_key))

    def hold(self, held: Mapping[str, str]) -> None:
        """Keep jobs out of their queues while they hold no node. `held`: by uid of a job, why."""
        before, self._held = self._held, {**held}
        # Sorted: sets of text have another order in each process.
        for uid in sorted({uid for uid, _ in before.items() ^ held.items()}):
            job = self.jobs.get(uid)
            entries = () if job is None else filter(None, map(self._entry_of.get, job.uids()))
            self._dirty.update((entry.key, None) for entry in entries)

    def take_new_jobs(self) -> bool:
        """Return whether a job came that was never there before, since the last call."""
        found, self._has_new_jobs = self._has_new_jobs, False
        return found

    # Views for a session

    def queue_table(self) -> QueueTable:
        """Return a table of its own for a session."""
        queues = self.queues
        return attrs.evolve(queues, allocated=queues.allocated.copy(), non_preemptible=queues.non_preemptible.copy())

    def task(self, uid: str) -> Task | None:
        """Return the task of a pod; None if it is in no job that can be considered."""
        entry = self._entry_of.get(uid)
        job = None if entry is None else entry.job
        return None if job is None else job.tasks.get(uid)

    def unknown(self) -> Mapping[str, Iterable[Pod]]:
        """Return by key the pods of jobs whose group has no object."""
        return {
            key: [self.infos[uid].pod for uid in members]
            for key in self._unknown
            if (members := self._members(self._entries[key]))
        }

    def unbuilt(self, pending: Iterable[PodInfo], gated: Collection[str]) -> Sequence[Job]:
        """Return the jobs of waiting pods that are not built, because a refresh failed; with these pods and no more."""
        by_key: dict[str, list[Pod]] = {}
        for info in pending:
            pod = info.pod
            entry = self._entry_of.get(pod.uid)
            if pod.uid not in gated and (entry is None or (entry.job is None and entry.key not in self._unknown)):
                by_key.setdefault(self._plugin.job_key(pod), []).append(pod)
        own = {key: pods for key, pods in by_key.items() if not self._plugin.is_foreign(key, pods)}
        jobs = [Job(uid=key, key=key.partition("/")[2], queue="") for key in own]
        for job, pods in zip(jobs, own.values(), strict=True):
            job.add_alike(self.axis.zeros(), pods, ())
        return jobs

    # Following the cluster

    async def refresh(
        self, snapshot: Snapshot, pods: PendingPods, evicting: Collection[str], turns: CooperativeYield
    ) -> None:
        """Follow the cluster. `evicting`: uids of pods whose eviction is under way, but not seen yet.

        Other tasks of the scheduler may run meanwhile, but must not change the snapshot.
        """
        names = [*snapshot.names_by_row]
        changes = pods.changes()
        if (
            changes is None
            or names != self.nodes.names
            or self._is_stale
            or not self._knows_all(snapshot, pending := changes[0])
        ):
            pending = pods.all()
            changes = pending, ()
            self._start_over(snapshot, names, pending)
        await turns.yield_if_due()
        rows = {*self.nodes.changed(snapshot)}
        for uid in self._evicting.symmetric_difference(evicting):
            row = self._places.get(uid, _GATED)[1]
            if row != NO_NODE:
                rows.add(row)
        self._evicting = set(evicting)
        self.nodes.follow(snapshot)
        gone: list[tuple[str, int]] = []
        for row in sorted(rows):
            gone += [(uid, row) for uid in self._read_row(snapshot, row)]
            await turns.yield_if_due()
        for part in parts(changes[0]):
            self._read_pending(part, pods.gated)
            await turns.yield_if_due()
        gone += [(uid, NO_NODE) for uid in changes[1]]
        for uid, row in gone:
            self._left_out.pop(uid, None)
            # A pod may have come to another node, or back to the queue.
            if uid in self.infos and self._place(uid)[1] == row:
                self._remove(uid)
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            await self._rebuild(key, turns)
            await turns.yield_if_due()
        if not self._named <= self.axis.index.keys():
            self._is_stale = True
            await self.refresh(snapshot, pods, evicting, turns)

    def _knows_all(self, snapshot: Snapshot, pending: Sequence[PodInfo]) -> bool:
        """Return whether the axis has all resources that the nodes and the waiting pods name."""
        known = self.axis.index
        return all(
            name in known for row in self.nodes.changed(snapshot) for name in snapshot.nodes[row].allocatable.scalars
        ) and all(
            name in known
            for info in pending
            if self.infos.get(info.pod.uid) is not info
            for name in info.requests.scalars
        )

    def _start_over(self, snapshot: Snapshot, names: list[str], pending: Iterable[PodInfo]) -> None:
        """Forget everything but the axis' resources."""
        scalars = {name for node in snapshot.nodes for name in node.allocatable.scalars}
        scalars.update(name for info in pending for name in info.requests.scalars)
        scalars.update(self._plugin.resources(), self._named)
        if any(info.requests.ephemeral_storage for info in pending):
            scalars.add(EPHEMERAL_STORAGE)
        self.axis = ResourceAxis.of(scalars | set(self.axis.names))
        self.queues, self.problems = self._plugin.queue_table(self.axis)
        self.memory.forget()
        self.jobs, self.infos, self._entries, self._entry_of, self._unknown = {}, {}, {}, {}, {}
        self._places, self._left_out = {}, {}
        self._evicting, self._dirty = set(), dict.fromkeys(self._plugin.jobs_without_pods())
        self._amounts = PodAmounts(self.axis)
        self.nodes = self._node_rows(names, self.nodes.changes)
        self._look_alikes.clear()
        self._is_stale = False

    def _place(self, uid: str) -> tuple[TaskState, int]:
        """Return the state of a task, and the row of its node."""
        return self._places.get(uid) or (state_of_waiting(self.infos[uid].pod), NO_NODE)

    def _members(self, entry: _Entry) -> dict[str, None]:
        """Return the uids of a job's members, to be changed."""
        if entry.members is None:
            entry_of = self._entry_of
            uids = () if entry.job is None else entry.job.uids()
            entry.members = {uid: None for uid in uids if entry_of.get(uid) is entry}
        return entry.members

    def _node_rows(self, names: Sequence[str], changes: int = 0) -> NodeRows:
        own, plugin = self._profile_name, self._plugin
        return NodeRows(
            plugin,
            self.axis,
            names,
            is_own=lambda pod: pod.scheduler_name == own,
            amounts_of=self._amounts_of,
            changes=changes,
        )

    def _read_row(self, snapshot: Snapshot, row: int) -> list[str]:
        """Read the pods of one node; return the tasks that are not there any more."""
        own, gone = self.nodes.read(snapshot, row, self._evicting)
        #: By state, so that the tasks of a node share them.
        places: dict[TaskState, tuple[TaskState, int]] = {}
        for info, is_leaving in own:
            pod = info.pod
            if is_leaving and (pod.uid in self._evicting or is_preempted(pod)):
                self._gangs.evicted(self._plugin.job_key(pod))
            state = TaskState.RELEASING if is_leaving else state_on_node(pod)
            self._put(info, places.setdefault(state, (state, row)))
        return gone

    def _read_pending(self, changed: Iterable[PodInfo], gated: Collection[str]) -> None:
        """Read waiting pods that changed. `gated`: uids of those that PreEnqueue rejects."""
        for info in changed:
            pod = info.pod
            uid = pod.metadata.uid
            if uid not in gated:
                self._left_out.pop(uid, None)
                self._put(info, None)
            elif self._left_out.get(uid) is not info:
                # A plugin that holds a pod back may yet put it into a group: a job for this pod would be built in vain.
                if not pod.spec.scheduling_gates and uid not in self.infos and self._plugin.is_alone(pod):
                    self._left_out[uid] = info
                else:
                    self._put(info, _GATED)

    def _put(self, info: PodInfo, place: tuple[TaskState, int] | None) -> None:
        """Record a task; its job is built anew if anything about the task changed. `place`: None if it waits."""
        uid, places = info.pod.metadata.uid, self._places
        known = self.infos.get(uid)
        if known is info and places.get(uid) == place:
            return
        if known is not None and (known is not info or places.get(uid) == _GATED):
            # Who opened a gate may have put the pod into a group, which its annotations will say later.
            self._remove(uid)
            known = None
        if place is not None:
            places[uid] = place
        elif known is not None:
            places.pop(uid, None)
        if known is info:
            self._dirty[self._entry_of[uid].key] = None
            return
        key = self._plugin.job_key(info.pod)
        entry = self._entries.get(key) or self._new_entry(key)
        (self._members(entry) if entry.members is None else entry.members)[uid] = None
        self._entry_of[uid], self.infos[uid] = entry, info
        self._dirty[entry.key] = None

    def _new_entry(self, key: str) -> _Entry:
        if key not in self._known_keys:
            self._has_new_jobs = True
            if len(self._known_keys) > _MOST_KEYS:
                self._known_keys = {*self._entries}
            self._known_keys.add(key)
        entry = self._entries[key] = _Entry(key, {})
        return entry

    def _remove(self, uid: str) -> None:
        entry = self._entry_of[uid]
        del self._members(entry)[uid], self._entry_of[uid], self.infos[uid]
        self._places.pop(uid, None)
        self._dirty[entry.key] = None

    # Jobs

    async def _rebuild(self, key: str, turns: CooperativeYield) -> None:
        """Build a job anew from its members and its description; a large one in turns."""
        entry = self._entries.get(key)
        members = {} if entry is None else self._members(entry)
        is_here = bool(members) or self._plugin.counts_without_pods(key)
        if entry is not None and entry.job is not None:
            self._count(entry.job, -1.0)
            self.jobs.pop(entry.job.uid, None)
            self.memory.note(entry.job.uid)
            entry.job = None
        self._unknown.pop(key, None)
        if not is_here:
            self._entries.pop(key, None)
            self._gangs.forget(key)
            return
        if entry is None:
            entry = self._new_entry(key)
        infos = [*map(self.infos.__getitem__, members)]
        pods = [info.pod for info in infos]
        if self._plugin.is_foreign(key, pods):
            return
        spec = self._plugin.job_spec(key, pods)
        if spec is None:
            self._unknown[key] = None
            return
        self._named.update(filter(is_counted, spec.min_resources))
        priority = self._plugin.job_priority(spec, pods)
        job = build_job(self.axis, spec, priority=priority, preemptible=self._plugin.is_preemptible(spec, priority))
        find_queue(job, self.queues, self.problems, keeps_row=self._plugin.inner_queues)
        if spec.error:
            job.queue_row, job.queue_error = -1, spec.error
        await self._add_tasks(key, job, spec, infos, turns)
        if job.uid in self._held and not job.count(ALLOCATED):
            job.queue_row, job.queue_error = -1, self._held[job.uid]
        entry.job, entry.members = job, None
        self.jobs[job.uid] = job
        self.memory.note(job.uid)
        self._count(job, 1.0)
        self._gangs.note(key, job)

    async def _add_tasks(
        self, key: str, job: Job, spec: JobSpec, infos: Sequence[PodInfo], turns: CooperativeYield
    ) -> None:
        """Add the tasks of a job: its members that have ended, then the others."""
        if len(infos) > _PART:
            await turns.yield_if_due()
        facts_of, places = self._plugin.task_facts, self._places
        # A pod may have ended since the snapshot was taken; then it counts as what it is there.
        ended = [(pod, state) for pod, state in self._plugin.ended(key) if pod.metadata.uid not in self.infos]
        for pod, state in ended:
            job.add(_task(job, pod, self.axis.zeros(), (state, NO_NODE), facts_of(spec, pod)))
        pods = [info.pod for info in infos]
        requests: list[Amounts] = []
        are_plain = True
        for part in parts(infos):
            requests += [self._amounts_of(info) for info in part]
            are_plain = are_plain and self._plugin.are_plain(spec, [info.pod for info in part])
            if len(requests) < len(infos):
                await turns.yield_if_due()
        if not ended and are_plain and len({*map(id, requests)}) == 1:
            is_placed = not places.keys().isdisjoint(pod.metadata.uid for pod in pods)
            job.add_alike(requests[0], (*pods,), [self._place(pod.metadata.uid) for pod in pods] if is_placed else ())
        else:
            for at, (pod, request) in enumerate(zip(pods, requests, strict=True), start=1):
                if at % _PART == 0:
                    await turns.yield_if_due()
                job.add(_task(job, pod, request, self._place(pod.metadata.uid), facts_of(spec, pod)))
        # A group has a uid of its own.
        if len(pods) == 1 and not ended and pods[0].uid == job.uid and job.counts[TaskState.PENDING]:
            job.look_alike = self._look_alike(job, pods[0], requests[0], facts_of(spec, pods[0]))

    def _look_alike(self, job: Job, pod: Pod, request: Amounts, facts: TaskFacts) -> int | None:
        """Return the number that a job of one waiting pod shares with those that differ in age and name only."""
        # What a pass changes in a job is not among what look-alikes share.
        if job.phase != "Inqueue" or job.queue_row < 0:
            return None
        key = self._equivalence_key(pod)
        if key is None:
            return None
        of_job = (job.queue, job.priority, job.preemptible, job.min_member, pod.namespace)
        of_task = (pod.spec.priority, pod.spec.preemption_policy != "Never", is_critical(pod), facts)
        if len(self._look_alikes) > _MOST_KINDS:
            self._look_alikes.clear()
        shared = (key, of_job, of_task, request.tobytes())
        if shared not in self._look_alikes:
            self._look_alikes[shared] = next(self._numbers)
        return self._look_alikes[shared]

    def _count(self, job: Job, sign: float) -> None:
        """Add a job's active tasks to the sums of its queues, or take them out."""
        active = job.count(ACTIVE) if job.queue_row >= 0 else 0
        if not active:
            return
        if job.alike is not None:
            total = job.alike * active
        else:
            total = self.axis.zeros()
            for task in job.tasks.values():
                if task.state in ACTIVE:
                    total += task.request
        self.queues.add(job.queue_row, total * sign, non_preemptible=not job.preemptible)

    def _amounts_of(self, info: PodInfo) -> Amounts:
        """Return float64[R], read-only: the requests of a pod, and what it counts for besides."""
        return self._amounts.of(info.requests, self._plugin.amounts_beside(info.pod))


def parts(items: Sequence[_T], size: int = _PART) -> Iterator[Sequence[_T]]:
    """Return the items in parts of this size, each of which should take a few milliseconds."""
    return (items[at : at + size] for at in range(0, len(items), size))


def _task(job: Job, pod: Pod, request: Amounts, place: tuple[TaskState, int], facts: TaskFacts) -> Task:
    return make_task(
        job, pod, request, place, sub_group=facts.sub_group, role=facts.role, preemptable=facts.preemptible
    )
