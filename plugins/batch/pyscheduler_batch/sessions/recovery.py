"""Read from API objects the nominations and evictions of an earlier leader, including interrupted evictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.departures import ends_at
from pyscheduler_batch.model.decisions import Decision, DecisionKind
from pyscheduler_batch.model.sub_groups import is_whole
from pyscheduler_batch.model.tasks import ALLOCATED, TaskState
from pyscheduler_batch.sessions.backoff import BACKOFF_SECONDS
from pyscheduler_batch.sessions.eviction import record_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from pyscheduler_batch.model.tasks import Job
    from pyscheduler_batch.sessions.commitments import Commitments

__all__ = ["TURN_EVERY", "Interrupted", "read_back", "read_interrupted"]

#: Other tasks of the scheduler may run after so many jobs that are only looked at.
TURN_EVERY: Final = 256
_ON_NODES: Final = ALLOCATED | {TaskState.RELEASING}


@attrs.frozen(eq=False)
class Interrupted:
    """The evictions that a crash interrupted."""

    #: By uid of the job that has a promise of the room.
    by_job: dict[str, list[Decision]] = attrs.Factory(dict)
    #: Those that the pass has found to be right, and those that may only end broken gangs.
    resumed: list[Decision] = attrs.Factory(list)
    unfinished: list[Decision] = attrs.Factory(list)


async def read_back(
    commitments: Commitments, jobs: Mapping[str, Job], *, now: float, wall: float, turn: Callable[[], Awaitable[None]]
) -> None:
    """Give the commitments the evictions and promises of an earlier leader; each promise begins anew.

    `wall`: seconds since 1970. `turn` lets other tasks of the scheduler run.

    Nominations come first. A gang of which a part is bound gets the rest of its minimum, on any nodes with room: its
    other bindings may have been lost. But if it is a victim, its other pods were evicted. Jobs whose victims are still
    ending get it in any case.
    """
    by_key = {job.key: job.uid for job in jobs.values()}
    #: By uid of a job that gets room: the seconds until its victims should be gone.
    takers: dict[str, float] = {}
    async for job in _in_turns(jobs, turn):
        leaving = job.pods((TaskState.RELEASING,)) if job.counts[TaskState.RELEASING] else ()
        records = [record for pod in leaving if (record := record_of(pod)) is not None]
        found = {by_key[by] for _, by, _ in records if by in by_key}
        gone_in = max((ends_at(pod, wall) - wall for pod in leaving), default=0.0)
        takers |= {uid: max(gone_in, takers.get(uid, 0.0)) for uid in found - {job.uid}}
        age = math.inf if job.last_eviction is None else wall - job.last_eviction
        if records:
            commitments.found_victim(job.uid, found, now)
        elif age < BACKOFF_SECONDS[1]:
            commitments.found_victim(job.uid, None, now - age)
    further: dict[str, dict[str, str]] = {}
    async for job in _in_turns(jobs, turn):
        if not job.counts[TaskState.PENDING]:
            continue
        names = {pod.uid: pod.status.nominated_node_name for pod in job.pods((TaskState.PENDING,))}
        nodes = {uid: name for uid, name in names.items() if name}
        missing = job.min_member - job.count(ALLOCATED) - len(nodes)
        has_begun = job.count(ALLOCATED) > 0 and not any(map(record_of, job.pods(_ON_NODES)))
        if missing > 0 and (has_begun or job.uid in takers) and not job.sub_groups and not job.min_task_member:
            more = dict.fromkeys([uid for uid in names if uid not in nodes][:missing], "")
            if not nodes:
                further[job.uid] = more
                continue
            nodes |= more
        if nodes:
            commitments.found_promise(job.uid, nodes, now, leaving=takers.get(job.uid, 0.0))
    for uid, more in further.items():
        commitments.found_promise(uid, more, now, leaving=takers.get(uid, 0.0))


async def read_interrupted(
    commitments: Commitments, jobs: Mapping[str, Job], turn: Callable[[], Awaitable[None]]
) -> Interrupted:
    """Return the evictions of which a crash left only the condition.

    An old condition may be left of an eviction that was given up: a job is a victim if one of its pods is on a
    promised node, or if it has lost pods already.
    """
    interrupted = Interrupted()
    by_key = {job.key: job for job in jobs.values()}
    async for job in _in_turns(jobs, turn):
        if not any(map(record_of, job.pods(ALLOCATED) if job.count(ALLOCATED) else ())):
            continue
        found: dict[str, list[Decision]] = {}
        for task in job.tasks.values():
            record = record_of(task.pod) if task.state in ALLOCATED and task.pod is not None else None
            if record is not None and record[1] in by_key:
                action, by, is_moved = record
                eviction = Decision(DecisionKind.EVICT, task, task.node, action, by_key[by], is_moved)
                found.setdefault(by_key[by].uid, []).append(eviction)
        is_broken = not is_whole(job, ALLOCATED)
        for uid, evictions in found.items():
            promise = commitments.promises.get(uid)
            names = {*promise.nodes.values()} - {""} if promise is not None else set()
            nodes = {each.task.pod.node_name for each in evictions if each.task.pod is not None}
            if names and (is_broken or names & nodes):
                interrupted.by_job.setdefault(uid, []).extend(evictions)
            elif is_broken:
                interrupted.unfinished.extend(evictions)
    return interrupted


async def _in_turns(jobs: Mapping[str, Job], turn: Callable[[], Awaitable[None]]) -> AsyncIterator[Job]:
    for at, job in enumerate(jobs.values()):
        if at % TURN_EVERY == 0:
            await turn()
        yield job
