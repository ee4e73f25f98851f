"""After each scheduling round, report changed jobs in the statuses of groups and queues, in Events and in metrics."""

from __future__ import annotations

import random
import uuid
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import Pod
from pyscheduler_batch.model.tasks import TaskState
from pyscheduler_batch.queue_problems import queue_problem
from pyscheduler_batch.status.metrics import shares_of
from pyscheduler_batch.status.queues import sums_of
from pyscheduler_batch.status.reports import JobFacts, pod_note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import KubeObject
    from pyscheduler.framework import Handle
    from pyscheduler_batch.model.session import Session
    from pyscheduler_batch.model.tasks import Job, Task
    from pyscheduler_batch.status.queues import JobSums
    from pyscheduler_batch.status.statuses import Statuses
    from pyscheduler_batch.system import System

__all__ = ["StatusReporter"]

#: Other tasks of the scheduler may run after so many jobs that did not change.
_TURN_EVERY: Final = 256


@attrs.frozen
class _Mark:
    """The inputs of the last report of a job."""

    job: Job
    changes: int
    phase: str
    reasons: Mapping[str, str] | None


class StatusReporter:
    """Reports the passes of one profile."""

    def __init__(self, handle: Handle, statuses: Statuses, system: System) -> None:
        self._handle = handle
        self._statuses = statuses
        self._system = system
        self._says = system.reports
        self._pods = handle.lister(Pod)
        #: By uid of a job: what it was when it was reported last.
        self._marks: dict[str, _Mark] = {}
        #: By uid of a job, the nodes that its pods were promised last, by uid of the pod.
        self._pipelined: dict[str, dict[str, str]] = {}

    async def pass_ended(self, session: Session, waiting: Mapping[str, str]) -> None:
        """Report the jobs that changed; the session still has the state that the pass came to."""
        session_id = ""
        is_changed = False
        marks, reasons = self._marks, session.reasons
        for at, (uid, job) in enumerate(session.jobs.items()):
            if at % _TURN_EVERY == 0:
                await session.turn()
            mark = marks.get(uid)
            # A job is built anew if its description, its pods or its queue changed. A pass that did not try the job
            # has no reasons; the last ones hold. No function call: most jobs did not change.
            if (
                mark is not None
                and mark.job is job
                and mark.changes == job.changes
                and mark.phase == job.phase
                and ((why := reasons.get(uid)) is None or why == mark.reasons)
            ):
                continue
            if mark is not None and mark.job is job and mark.changes == job.changes and job.look_alike is not None:
                # Only the reasons changed, and there is no group to which they are reported.
                marks[uid] = _Mark(job, job.changes, job.phase, reasons.get(uid))
                continue
            session_id = session_id or _session_id(self._handle.profile_name, session.now)
            sums = sums_of(job, session.axis, self._holds_node)
            is_changed = self._statuses.book.put(self._book_key(uid), sums) or is_changed
            await session.turn()
            self._report(job, session, sums, session_id, waiting.get(job.key, ""))
            # The report may have moved the job to another phase.
            marks[uid] = _Mark(job, job.changes, job.phase, reasons.get(uid))
            await session.turn()
        if len(marks) != len(session.jobs):
            for uid in marks.keys() - session.jobs.keys():
                self._forget(uid)
                is_changed = True
        await self._statuses.settle(session.jobs.keys(), session.turn)
        self._statuses.metrics.shares = shares_of(session)
        if is_changed:
            self._statuses.queues_changed()

    def _forget(self, uid: str) -> None:
        """Take a job out that has no pods any more."""
        self._statuses.book.put(self._book_key(uid), None)
        self._pipelined.pop(uid, None)
        namespace, _, name = self._marks.pop(uid).job.key.partition("/")
        self._statuses.loosen(namespace, name)

    def evicted(self, job: Job, *, action: str, by: Job | None, tasks: Sequence[Task]) -> None:
        """Record the events of an eviction."""
        # The original may name a pod twice in one plan; it is evicted once.
        tasks = [*{task.uid: task for task in tasks}.values()]
        self._statuses.metrics.evicted[action] += len(tasks)
        events = self._handle.event_recorder
        pods = [task.pod for task in tasks if task.pod is not None]
        group = self._group_object(job)
        regarding = group if group is not None else next(iter(pods), None)
        if regarding is None:
            return
        facts = f"action={action}" + ("" if by is None else f" by={by.key}") + f" pods={len(tasks)}"
        note = f"{self._says.evict_note(job, tasks, action=action, by=by)} ({facts})"
        events.event(regarding, type="Normal", reason="Evict", action="Evicting", note=note)
        if self._says.tells_evictions:
            job.last_eviction = self._handle.clock.wall()
            for pod in pods:
                events.event(pod, type="Warning", reason="Evict", action="Evicting", note=pod_note(action))

    def _report(self, job: Job, session: Session, sums: JobSums, session_id: str, reasons: str) -> None:
        group = self._group_object(job)
        if group is None:
            return
        recorded = JobFacts(
            problem=queue_problem(job, session.queues),
            sums=sums.sums,
            reasons=reasons if session.reasons.get(job.uid) else "",
            session_id=session_id,
            node_pool=self._system.pool.shown_name,
        )
        self._statuses.report(group, self._says.of_job(job, session, recorded))
        if self._says.tells_promises:
            self._tell_pipelined(job, session)

    def _tell_pipelined(self, job: Job, session: Session) -> None:
        """Record on each pod that it waits for resources of a node, once for each node."""
        before = self._pipelined.pop(job.uid, {})
        if not job.counts[TaskState.PIPELINED]:
            return
        promised = {
            task.uid: (task, session.nodes.names[task.node])
            for task in job.tasks.values()
            if task.state == TaskState.PIPELINED
        }
        for uid, (task, node) in promised.items():
            if before.get(uid) != node and task.pod is not None:
                note = f"Pod {task.key} was pipelined to node {node}"
                self._handle.event_recorder.event(
                    task.pod, type="Normal", reason="Pipelined", action="Scheduling", note=note
                )
        self._pipelined[job.uid] = {uid: node for uid, (_, node) in promised.items()}

    def _group_object(self, job: Job) -> KubeObject | None:
        """Return the object of the job's group; None for a job that is a pod without a group."""
        namespace, _, name = job.key.partition("/")
        state = self._statuses.group(namespace, name)
        item = None if state is None else state.object
        return item if item is not None and item.uid == job.uid else None

    def _holds_node(self, pod: Pod) -> bool:
        """Return whether the API server knows the pod to be on a node, and is not deleting it."""
        known = self._pods.get(pod.name, pod.namespace)
        return known is not None and known.uid == pod.uid and bool(known.node_name) and not known.is_terminating

    def _book_key(self, uid: str) -> str:
        return f"{self._handle.profile_name}/{uid}"


def _session_id(profile: str, now: float) -> str:
    """Return an id for a pass, of the form of a UUID; the same for the same pass, so that runs can be repeated."""
    bits = random.Random(f"{profile}/{now!r}").getrandbits(128)
    return str(uuid.UUID(int=bits, version=4))
