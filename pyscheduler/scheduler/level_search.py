"""The search for the narrowest set of nodes that can take a group, for example a rack rather than a block of racks.

A plugin divides the nodes into sets, level by level (`PlacementLevels`). First, sets with room for all members are
tried, beginning with the narrowest level. If no set takes all members, the search tries sets of the widest
level with room for the group's minimum.

Differs from Koordinator: a group may start with its minimum.
Source: Koordinator, `coscheduling/core/network_topology_solver.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.group_cycle import GroupOutcome
from pyscheduler.framework.status import Code, Status
from pyscheduler.scheduler.group_placements import ended, most_members, room_of_members

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from pyscheduler.framework.group_placements import PlacementLevels
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.scheduler.group_commit import Decision

__all__ = ["search_levels"]

#: How many sets of a level are tried; of the last level, all are. The room of a set is an upper bound.
_TRIES: Final = 8


async def search_levels(
    decision: Decision, levels: PlacementLevels, nodes: Nodes, simulate: Callable[[Nodes | None], Awaitable[Decision]]
) -> Decision:
    """Return the decision for the narrowest set that takes all members, or for one that takes the minimum.

    `nodes` are those of the snapshot. `simulate` tries the members on some nodes, and returns a new decision.
    """
    members = room_of_members(decision, nodes)
    sums = [_sums_by_set(ids) for ids in levels.levels]
    rooms = [most_members(members, each) for each in sums]
    free = [each(np.sum([kind.places for kind in members], axis=0, dtype=np.int64)) for each in sums]
    best: Decision | None = None
    first: Decision | None = None
    for level, number in _candidates(decision, rooms, free):
        found = await simulate(nodes.take(np.flatnonzero(levels.levels[level] == number)))
        first = first or found
        if found.verdict.outcome is GroupOutcome.ERROR:
            return found
        if found.verdict.outcome is GroupOutcome.SCHEDULED:
            if all(member.is_placed for member in found.members):
                return found
            best = best or found
    if best is not None:
        return best
    text = levels.refusal(len(decision.members), rooms[-1])
    if first is None:
        return ended(decision, Status(Code.UNSCHEDULABLE, text))
    for member in first.members:
        if member.permit is not None:
            member.permit = Status(Code.WAIT, text)
        elif member.status is not None and isinstance(member.status.error, FitError):
            member.status.error.diagnosis.post_filter_message = text
            member.status = Status(member.status.code, error=member.status.error)
    return ended(first, Status(Code.UNSCHEDULABLE, text))


def _candidates(
    decision: Decision, rooms: Sequence[NDArray[np.int64]], free: Sequence[NDArray[np.int64]]
) -> Iterator[tuple[int, int]]:
    """Yield levels and numbers of sets, in the order in which they are tried; set 0 is none.

    `rooms` are how many members each set can take at most, `free` are the places that these sets have in all.
    """
    count = len(decision.members)
    for level, room in enumerate(rooms):
        large = np.flatnonzero(room >= count)
        order = large[np.argsort(free[level][large], kind="stable")]
        is_last = level == len(rooms) - 1
        yield from ((level, int(number)) for number in (order if is_last else order[:_TRIES]))
    groups = {member.group for member in decision.members}
    needed = sum(decision.source.places_missing(group) for group in groups)
    last = rooms[-1]
    order = np.argsort(-last, kind="stable")
    small = [int(number) for number in order if number and needed <= last[number] < count]
    # If no set can be feasible, the members need a reason all the same.
    hopeless = [] if small or (last[1:] >= count).any() else [int(number) for number in order if number][:1]
    yield from ((len(rooms) - 1, number) for number in small or hopeless)


def _sums_by_set(ids: NDArray[np.integer]) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """Return what adds up a column over the nodes of each set: int64[k], by the number of the set."""

    def sums(column: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.bincount(ids, weights=column, minlength=1).astype(np.int64)
        found[0] = 0
        return found

    return sums
