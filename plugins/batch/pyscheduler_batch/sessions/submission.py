"""Carry out the decisions of a scheduling round: nominate nodes, evict pods, and bind jobs.

The cluster may have changed during the round. So the filters run again before a pod is bound to its node.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.interfaces import NominatingInfo
from pyscheduler.framework.trial import Trial
from pyscheduler.runtime.cooperative_yield import CooperativeYield
from pyscheduler.runtime.placement import Placement, fits_on
from pyscheduler.scheduler.failure import CLEAR_NOMINATION, pending_version
from pyscheduler_batch.model.decisions import DecisionKind
from pyscheduler_batch.model.sub_groups import is_whole
from pyscheduler_batch.model.tasks import ACTIVE, ALLOCATED, TaskState
from pyscheduler_batch.sessions.commitments import Commitments
from pyscheduler_batch.sessions.gang_barrier import GangBarrier
from pyscheduler_batch.sessions.recovery import TURN_EVERY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
    from pyscheduler.runtime.permit.waiting_pods import WaitingPodMap
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler.scheduler.pod_status import PodStatusWriter
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle
    from pyscheduler_batch.model.batch_plugin import BatchPlugin
    from pyscheduler_batch.model.decisions import Decision
    from pyscheduler_batch.model.queue_table import QueueTable
    from pyscheduler_batch.model.session import Session
    from pyscheduler_batch.model.tasks import Job, Task
    from pyscheduler_batch.sessions.eviction import Evictions
    from pyscheduler_batch.sessions.tables import ClusterTables
    from pyscheduler_batch.sessions.wait_texts import WaitTexts

__all__ = ["Submission", "attributed"]

_log = logging.getLogger(__name__)

#: The states of what a pass has placed.
_PLACED_NOW: Final = frozenset({TaskState.ALLOCATED, TaskState.PIPELINED})


@attrs.define(kw_only=True, eq=False)
class Submission:
    """Carries out decisions for one profile."""

    profile: Profile
    plugin: BatchPlugin
    scheduling: SchedulingCycle
    waiting_pods: WaitingPodMap
    statuses: PodStatusWriter
    evictions: Evictions
    texts: WaitTexts
    commitments: Commitments = attrs.Factory(Commitments)
    #: By uid of a pod that waits for released resources, its node.
    nominated: dict[str, str] = attrs.Factory(dict)
    #: Number of jobs of the last pass that could not be reserved, and of pods that it placed and evicted again.
    failures: int = 0
    #: Whether the last pass began to evict.
    has_evicted: bool = False

    async def submit(
        self, decisions: Sequence[Decision], session: Session, tables: ClusterTables, *, paid: Collection[str]
    ) -> Sequence[Attempt]:
        """Carry out all decisions of a session; return the attempts to bind.

        `paid`: the uids of the jobs for which pods were evicted, in this pass or an earlier one.
        """
        names, infos = tables.nodes.names, tables.infos
        decisions, self.failures = _net(decisions)
        await self._promise(_lasting(decisions, paid), names, infos, session.turn)
        await self._evict([each for each in decisions if each.kind is DecisionKind.EVICT], session.turn)
        crowd = self._crowd(session.queues, tables)
        by_job: dict[str, list[Decision]] = {}
        for each in decisions:
            if each.kind is not DecisionKind.BIND:
                continue
            if self._is_crowded(each.task.job, crowd, session.queues):
                self._note_loss(each.task, names[each.node], has_failed=False)
            else:
                by_job.setdefault(each.task.job.uid, []).append(each)
        attempts: list[Attempt] = []
        try:
            for members in by_job.values():
                attempts += await self._bind_job(members, names, session.turn)
                await session.turn()
        except BaseException:
            self._take_back(attempts)
            raise
        return attempts

    def evict_again(self, decisions: Iterable[Decision]) -> None:
        """Go on with evictions of a scheduler that crashed, with the words that it has written."""
        self.evictions.begin(decisions, after=self._nominate, nominated=self.nominated)

    def _crowd(self, queues: QueueTable, tables: ClusterTables) -> NDArray[np.bool_] | None:
        """Return bool[Q]: the queues above a limit as long as the pods hold their nodes whose eviction is under way.

        A pass counts these pods as gone. Their deletion may fail, so nothing is bound in their place before. None: no
        eviction is under way.
        """
        if not self.evictions.under_way:
            return None
        staying = np.zeros_like(queues.allocated)
        for uid in self.evictions.under_way:
            task = tables.task(uid)
            if task is not None and task.job.queue_row >= 0:
                staying[queues.paths[task.job.queue_row]] += task.request
        over: NDArray[np.bool_] = np.any((staying > 0) & (queues.allocated + staying > queues.limit), axis=1)
        return over

    @staticmethod
    def _is_crowded(job: Job, crowd: NDArray[np.bool_] | None, queues: QueueTable) -> bool:
        return crowd is not None and bool(crowd[queues.paths[job.queue_row]].any())

    async def _evict(self, decisions: Sequence[Decision], turn: Callable[[], Awaitable[None]]) -> None:
        """Begin to evict; tell the plugin once for each job that loses tasks, action and job that gets the room."""
        self.has_evicted = self.evictions.begin(decisions, after=self._nominate, nominated=self.nominated)
        evicted: dict[tuple[str, str, str], list[Decision]] = {}
        for each in decisions:
            planner = each.planned_for
            by = "" if planner is None else planner.uid
            evicted.setdefault((each.task.job.uid, each.action, by), []).append(each)
        for members in evicted.values():
            await turn()
            first = members[0]
            tasks = [each.task for each in members]
            by_keys = () if first.planned_for is None else (first.planned_for.key,)
            for pod in (task.pod for task in tasks if task.pod is not None):
                text = f"action={first.action}"
                self.scheduling.stories.ended(pod, "Evicted", text, node=pod.node_name, others=by_keys)
            try:
                self.plugin.evicted(first.task.job, action=first.action, by=first.planned_for, tasks=tasks)
            except Exception as error:  # noqa: BLE001 - a bug in an event must not undo the decisions
                about, call = f"job={first.task.job.key}", self.plugin.evicted
                self.scheduling.plugin_failures.report(error, plugin="", point="Evicted", about=about, call=call)

    async def _nominate(self, by: Job | None) -> bool:
        """Wait until the nominations of a job are written; return False if that failed.

        After a crash, nominations say for whom the room of evicted pods is.
        """
        pods = [] if by is None else [task.pod for task in by.tasks.values() if task.pod is not None]
        pods = [pod for pod in pods if pod.uid in self.nominated]
        turns = CooperativeYield(self.scheduling.clock)
        for pod in pods:
            # Withdrawn meanwhile: then the job waits for no room.
            if pod.uid in self.nominated:
                self.statuses.write(pod, nominating=NominatingInfo(self.nominated[pod.uid]))
            await turns.yield_if_due()
        return await self.statuses.sent([pod.uid for pod in pods])

    async def _promise(
        self,
        decisions: Iterable[Decision],
        names: Sequence[str],
        infos: Mapping[str, PodInfo],
        turn: Callable[[], Awaitable[None]],
    ) -> None:
        """Nominate the tasks that wait for released resources; end the nominations that the pass did not repeat."""
        nominated = [each for each in decisions if each.kind is DecisionKind.NOMINATE]
        promised = {each.task.uid: names[each.node] for each in nominated if each.task.uid in infos}
        # The API server ends the nomination of a pod that it binds. Until then, a crash must not lose it.
        bound = {each.task.uid for each in decisions if each.kind is DecisionKind.BIND}
        for uid in [uid for uid in self.nominated if uid not in promised and uid not in bound]:
            info = infos.get(uid)
            if info is not None and info.pod.node_name and info.pod.status.nominated_node_name:
                continue  # its binding may fail
            del self.nominated[uid]
            if info is not None and not info.pod.node_name:
                self.scheduling.queue.nominator.delete(info.pod)
                self.statuses.write(info.pod, nominating=CLEAR_NOMINATION)
        for uid, node_name in promised.items():
            await turn()
            info = infos[uid]
            if info.pod.node_name:
                continue
            nominating = NominatingInfo(node_name)
            if self.nominated.get(uid) != node_name:
                self.nominated[uid] = node_name
                self.scheduling.queue.nominator.add(info, nominating)
            self.statuses.write(info.pod, nominating=nominating)

    async def _bind_job(
        self, members: Sequence[Decision], names: Sequence[str], turn: Callable[[], Awaitable[None]]
    ) -> Sequence[Attempt]:
        """Reserve the tasks of a job that the pass placed; all of them or none.

        Other tasks of the scheduler may run between two of them. Each is filtered on the cluster as it is then.
        """
        queue = self.scheduling.queue
        reserved: list[Attempt] = []
        pods = [each.task.pod for each in members if each.task.pod is not None]
        taken: dict[str, QueuedPodInfo] = {}
        for at in range(0, len(pods), TURN_EVERY):
            taken.update((info.pod.uid, info) for info in queue.take(pods[at : at + TURN_EVERY]))
            await turn()
        reason = "" if len(taken) == len(members) else "a pod is not pending any more"
        waiting, joint = dict(taken), Trial()
        try:
            for each in () if reason else members:
                attempt = self.scheduling.begin(self.profile, waiting.pop(each.task.uid))
                attempt.state.joint = joint
                reason = self._reserve(attempt, names[each.node])
                if reason:
                    queue.put_back(attempt.queued)
                    break
                reserved.append(attempt)
                await turn()
        except BaseException:
            self._take_back(reserved)
            raise
        if not reason:
            self._let_wait(reserved, members[0].task.job)
            for each, attempt in zip(members, reserved, strict=True):
                attempt.on_failure = partial(self._note_loss, each.task, names[each.node], has_failed=True)
            return reserved
        self.failures += 1
        _log.info('Job was not bound; the next pass decides again job=%s err="%s"', members[0].task.job.key, reason)
        for each in members:
            self._note_loss(each.task, None, has_failed=True)
        self._take_back(reserved)
        for info in (*(attempt.queued for attempt in reserved), *waiting.values()):
            queue.put_back(info)
        return ()

    def _take_back(self, attempts: Iterable[Attempt]) -> None:
        """Give back what attempts hold that are not bound; their pods are still in flight."""
        for attempt in attempts:
            self.waiting_pods.stop(attempt.pod.uid)
            self.scheduling.undo(attempt)

    def _note_loss(self, task: Task, node_name: str | None, *, has_failed: bool) -> None:
        wall = self.scheduling.clock.wall()
        self.commitments.binding_lost(task, node_name, has_failed=has_failed, wall=wall)

    def _let_wait(self, attempts: Sequence[Attempt], job: Job) -> None:
        """Let the pods of a gang wait for each other before they are bound, as far as the gang's minimum needs them."""
        if not self.plugin.gang_barrier or len(attempts) < 2:
            return
        if job.sub_groups or job.min_task_member:
            needed = len(attempts)  # the minimum of each part counts
        else:
            others = job.count(ALLOCATED) - len(attempts)
            needed = min(job.min_member - others, len(attempts))
        if needed > 1:
            barrier = GangBarrier((attempt.pod.uid for attempt in attempts), needed, self.waiting_pods.releases)
            for attempt in attempts:
                attempt.barrier = barrier

    def _reserve(self, attempt: Attempt, node_name: str) -> str:
        """Assume a task on its node, with Reserve and Permit; return why that failed, or ""."""
        pod = attempt.queued.pod
        if pending_version(self.scheduling.failure.pods, pod) is None or pod.is_terminating:
            return f"pod {pod.key} was deleted or bound"
        if not self._fits(attempt, node_name):
            return f"pod {pod.key} does not fit on node {node_name} any more"
        placement = Placement(node_name=node_name, evaluated_nodes=1, feasible_nodes=1)
        failure = self.scheduling.reserve(attempt, placement)
        if failure is not None:
            return failure.status.message
        self.texts.forget(pod.uid)
        self.scheduling.activate(attempt)
        return ""

    def _fits(self, attempt: Attempt, node_name: str) -> bool:
        """Return True if a task fits on its node beside the pods there and those nominated by other profiles.

        The pass has decided about all pods of its profile: those that are nominated to the node wait for the room of
        pods that leave, or are bound elsewhere.
        """
        pod, nominator = attempt.queued.pod, self.scheduling.queue.nominator
        own = [info for info in nominator.pods_on(node_name) if info.pod.scheduler_name == pod.scheduler_name]
        for info in own:
            nominator.delete(info.pod)
        try:
            self.scheduling.cache.update_snapshot(self.scheduling.snapshot)
            return fits_on(attempt.profile, attempt.state, pod, self.scheduling.snapshot.nodes, node_name)
        finally:
            for info in own:
                nominator.add(info, NominatingInfo(node_name))


def attributed(decisions: Sequence[Decision]) -> Sequence[Decision]:
    """Return the decisions of a pass; each eviction names the job that has the room at the end.

    A later plan may take what an earlier one promised to a job. The victims of the earlier plan then serve the job that
    took it: it must start in their place, and after a crash their conditions say for whom their room is.
    """
    takers = {
        each.task.job.uid: each.by
        for each in decisions
        if each.kind is DecisionKind.EVICT and _waits(each.task) and each.by is not None
    }

    if not takers:
        return decisions

    def has_room(job: Job) -> bool:
        return is_whole(job, ACTIVE) and job.count(_PLACED_NOW) > 0

    def heir_of(job: Job) -> Job:
        passed = {job.uid}
        while (taker := takers.get(job.uid)) is not None and taker.uid not in passed and not has_room(job):
            passed.add(taker.uid)
            job = taker
        return job

    def with_heir(each: Decision) -> Decision:
        heir = each.by and heir_of(each.by)
        return each if heir is each.by else attrs.evolve(each, by=heir, planner=each.by)

    return [*map(with_heir, decisions)]


def _net(decisions: Sequence[Decision]) -> tuple[Sequence[Decision], int]:
    """Return what is to be carried out, and the number of evictions that are not.

    A pod that waited before the pass may be placed, and evicted by a later action. There is nothing to delete then;
    the last place that it was given counts, if any.
    """
    undone = sum(each.kind is DecisionKind.EVICT and _waits(each.task) for each in decisions)
    if not undone:
        return decisions, 0
    last = {each.task.uid: at for at, each in enumerate(decisions)}
    net = [
        each
        for at, each in enumerate(decisions)
        if not _waits(each.task) or (at == last[each.task.uid] and each.kind is not DecisionKind.EVICT)
    ]
    return net, undone


def _lasting(decisions: Sequence[Decision], paid: Collection[str]) -> Sequence[Decision]:
    """Return the decisions without the promises to a part of a gang, which would only keep others away.

    Pods may have been evicted for that part (`paid`): kube-batch makes room for one task of a gang in each pass. Then
    the room is kept until the others have theirs, or the promise ends.
    """
    return [
        each
        for each in decisions
        if each.kind is not DecisionKind.NOMINATE
        or each.task.job.count(ACTIVE) >= each.task.job.min_member
        or each.task.job.uid in paid
    ]


def _waits(task: Task) -> bool:
    """Return whether the pod of a task had no node when the pass began."""
    return task.pod is not None and not task.pod.node_name
