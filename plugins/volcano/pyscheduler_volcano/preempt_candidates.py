"""The variant of `preempt` that compares nodes by their victims (`enableTopologyAwarePreemption`).

A node is a candidate if evictions there make room for the waiting pod. The candidate whose most important victim has
the lowest priority wins.

Differs from Volcano: a node is no candidate if the queue's limits refuse the pod even after all evictions.
Source: Volcano `actions/preempt` (topologyAwarePreempt), after kube-scheduler's DefaultPreemption.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import attrs
import numpy as np

from pyscheduler_batch.contract import Tasks
from pyscheduler_batch.model.values import go_boolean, time_of
from pyscheduler_volcano.policy import number_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Statement, Task
    from pyscheduler_volcano.evictions import Search
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["CandidateLimits", "preempt_on_best"]

#: Added to each priority, so that one pod more always counts, whatever its priority. Source: Volcano, MaxInt32 + 1.
_LIFT = 1 << 31


@attrs.frozen
class CandidateLimits:
    """The number of candidates that is enough: a percentage of the nodes, within bounds."""

    percentage: int
    least: int
    most: int

    @classmethod
    def of(cls, arguments: Mapping[str, str]) -> Self | None:
        """Return what the arguments of `preempt` say; None if they do not turn this way of preemption on."""
        if not go_boolean(arguments.get("enableTopologyAwarePreemption", "false")):
            return None
        return cls(
            number_argument(arguments, "minCandidateNodesPercentage", 10),
            number_argument(arguments, "minCandidateNodesAbsolute", 1),
            number_argument(arguments, "maxCandidateNodesAbsolute", 100),
        )

    def enough(self, nodes: int) -> int:
        """Return how many candidates are enough among so many nodes."""
        return min(max(nodes * self.percentage // 100, self.least), self.most, nodes)


class _Candidate(NamedTuple):
    """A node, and the tasks to be evicted there, the most important first."""

    node: int
    victims: Sequence[Task]


async def preempt_on_best(
    session: VolcanoSession,
    statement: Statement,
    search: Search,
    rows: NDArray[np.int64],
    hopeful: NDArray[np.bool_],
    limits: CandidateLimits,
) -> bool:
    """Evict tasks of the best candidate and pipeline the task there; return False if there is none.

    `rows`: the nodes that evictions may make acceptable. `hopeful`, bool[N]: those where they could make enough room.
    """
    number = limits.enough(len(rows))
    start = session.rng.randrange(len(rows))
    candidates: list[_Candidate] = []
    for node in np.roll(rows, -start).tolist():
        if len(candidates) >= number:
            break
        if not hopeful[node]:
            continue
        mark = statement.checkpoint()
        victims = _victims(session, statement, search, node)
        statement.rollback(mark)
        if victims:
            candidates.append(_Candidate(node, victims))
        await session.turn_amid(statement)
    if not candidates:
        return False
    best = min(candidates, key=lambda each: _cost(each, session.now))
    for victim in best.victims:
        statement.evict(victim, action=search.action, by=search.claim.job)
    statement.pipeline(search.task, best.node)
    return True


def _cost(candidate: _Candidate, now: float) -> tuple[float, ...]:
    """Return what evictions cost: the priority of the first victim, their sum, their number, the latest start."""
    priorities = [task.priority or 0 for task in candidate.victims]
    highest = max(priorities)
    started = min(_started(task, now) for task in candidate.victims if (task.priority or 0) == highest)
    return priorities[0], sum(each + _LIFT for each in priorities), len(priorities), -started


def _started(task: Task, now: float) -> float:
    """Return when a task began to run, seconds since 1970; a task that did not counts as one that begins now."""
    text = None if task.pod is None else task.pod.status.start_time
    found = None if text is None else time_of(text, "status.startTime", [])
    return now if found is None else found


def _victims(session: VolcanoSession, statement: Statement, search: Search, node: int) -> Sequence[Task]:
    """Return the tasks to be evicted on a node, the most important first; () if it is no candidate.

    The caller undoes what the statement got.
    """
    claim, task = search.claim, search.task
    found = session.books.residents.on(node, search.candidates)
    if not found:
        return ()
    mask = search.victims(claim, Tasks.of(found)).tolist()
    chosen = [victim for victim, is_victim in zip(found, mask, strict=True) if is_victim]
    room = session.nodes.future[node] + sum((victim.request for victim in chosen), np.zeros(len(session.axis)))
    if not session.scale.fits(task.request, room):
        search.refused[node] = True
        session.victims.note_plan(search.action, claim, node, chosen, found)
        return ()
    fits = _fit_test(session, task, node)
    order = session.victims.queue(chosen, claim)
    evicted: list[Task] = []
    is_enough = False
    while len(order) and not is_enough:
        evicted.append(order.pop())
        statement.evict(evicted[-1], action=search.action, by=claim.job)
        is_enough = fits()
    if not is_enough:
        return ()
    victims = []
    for victim in reversed(evicted):
        mark = statement.checkpoint()
        statement.restore(victim)
        if not fits():
            statement.rollback(mark)
            victims.append(victim)
    return victims


def _fit_test(session: VolcanoSession, task: Task, node: int) -> Callable[[], bool]:
    def fits() -> bool:
        return (
            session.gates.allocatable(task)
            and bool(session.scale.fits(task.request, session.nodes.future[node]))
            and bool(session.places.feasible(task)[node])
        )

    return fits
