"""The common parts of `preempt` and `reclaim`: find jobs that lack nodes, and evict pods until a waiting pod fits."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import attrs
import numpy as np

from pyscheduler_batch.contract import Tasks, TaskState
from pyscheduler_volcano.job_facts import is_pending
from pyscheduler_volcano.look_alikes import Backlog
from pyscheduler_volcano.network_topology import has_topology

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Claim, Job, Statement, Task
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["Search", "evict_until", "pending_tasks", "reachable", "starving_jobs"]


def starving_jobs(session: VolcanoSession) -> dict[int, Backlog]:
    """Return by queue the starving ones of the jobs that are enqueued and valid; queues with any such job are there."""
    single, kinds = session.grouped(by_kind=session.plan_log is None)
    starving: dict[int, Backlog] = {}
    for job in single:
        if _is_eligible(session, job):
            backlog = starving.setdefault(job.queue_row, Backlog())
            if session.gates.job_starving(job):
                backlog.single.append(job)
    for kind in kinds:
        first = kind.listed.jobs[0]
        if _is_eligible(session, first):
            backlog = starving.setdefault(first.queue_row, Backlog())
            if session.gates.job_starving(first):
                backlog.kinds.append(kind)
    if kinds:
        for backlog in starving.values():
            backlog.drop_idle()
    return starving


def _is_eligible(session: VolcanoSession, job: Job) -> bool:
    if session.network_topology is not None and has_topology(job):
        return False  # evictions on single nodes would not make room in one HyperNode
    return not is_pending(job) and session.gates.job_valid(job) is None


def pending_tasks(session: VolcanoSession, job: Job) -> deque[Task]:
    """Return the pending tasks of a job in the order of placement."""
    return deque(session.orders.sorted_tasks(task for task in job.tasks.values() if task.state == TaskState.PENDING))


def reachable(session: VolcanoSession, task: Task, candidates: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return bool[N]: the nodes that could hold the task if all candidates (bool[n] of the residents) left them."""
    if not candidates.any():
        return session.places.fits_later(task)
    residents, nodes = session.books.residents, session.nodes
    room = nodes.future + residents.sums(candidates, len(nodes))
    return session.scale.fits(task.request, room)


@attrs.frozen
class Search:
    """A search for room."""

    action: str
    claim: Claim
    #: The task of the claim.
    task: Task
    #: bool[n] of the residents: who may be evicted at all.
    candidates: NDArray[np.bool_]
    #: Returns whom of some candidates the policies let go.
    victims: Callable[[Claim, Tasks], NDArray[np.bool_]]
    #: bool[N]: the nodes whose victims do not hold what the task requests; the search adds to them.
    refused: NDArray[np.bool_]


def evict_until(
    session: VolcanoSession, statement: Statement, search: Search, node: int, fits: Callable[[], bool]
) -> bool:
    """Evict candidates of a node until the task fits, and pipeline it there; undo all and return False otherwise."""
    claim, task = search.claim, search.task
    residents = session.books.residents
    found = residents.on(node, search.candidates)
    chosen: Sequence[Task] = ()
    room = session.nodes.future[node].copy()
    if found:
        mask = search.victims(claim, Tasks.of(found))
        chosen = [victim for victim, is_victim in zip(found, mask.tolist(), strict=True) if is_victim]
        for victim in chosen:
            room += victim.request
    if not session.scale.fits(task.request, room):
        search.refused[node] = True
        session.victims.note_plan(search.action, claim, node, [*chosen], found)
        return False
    start = statement.checkpoint()
    order = session.victims.queue(chosen, claim)
    enough = fits()
    while not enough and len(order):
        statement.evict(order.pop(), action=search.action, by=claim.job)
        enough = fits()
    if not enough:
        statement.rollback(start)
        return False
    statement.pipeline(task, node)
    return True
