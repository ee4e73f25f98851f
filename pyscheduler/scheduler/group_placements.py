"""The search for the best placement of a group; a placement is a set of nodes, such as a rack, for the whole group.

PlacementGenerate plugins propose placements. A feasible placement with the highest score is used.

Differs from kube-scheduler: placements that are too small, or cannot get the highest score, are skipped.
Source: kube-scheduler 1.36, `podGroupSchedulingPlacementAlgorithm`, `findBestPlacement`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.group_cycle import GroupOutcome, GroupVerdict
from pyscheduler.framework.group_placements import GroupAssignments, GroupInfo, GroupPlacement, PlacementTable
from pyscheduler.framework.in_tree_args import NodeResourcesFitArgs
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.framework.status import Code, Status
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.podgroup import GroupId
from pyscheduler.runtime.placement import feasible_nodes
from pyscheduler.scheduler.room import places_by_node

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Hashable, Iterable

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.cache import Cache
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.group_commit import Decision
    from pyscheduler.scheduler.in_tree_groups import InTreeGroups

__all__ = ["MemberRoom", "PlacementSearch", "ended", "most_members", "room_of_members"]

_FIT: Final = "NodeResourcesFit"
_FEASIBLE: Final = frozenset({GroupOutcome.SCHEDULED, GroupOutcome.WAITING_ON_PREEMPTION})


@attrs.define(eq=False)
class _Tried:
    """A feasible placement, and the decision about the group in it."""

    placement: GroupPlacement
    decision: Decision

    @property
    def assignments(self) -> GroupAssignments:
        return GroupAssignments(
            self.placement, [each.attempt.queued.pod for each in self.decision.members if each.is_placed]
        )


@attrs.define(kw_only=True)
class PlacementSearch:
    """Searches the placements of Kubernetes' own groups."""

    groups: InTreeGroups
    cache: Cache
    rng: random.Random

    def serves(self, source: object) -> bool:
        """Return True if the groups of a source have placements."""
        return source is self.groups

    def refused(self, decision: Decision) -> Status | None:
        """Return why a group of these does not fit on all nodes, which are its only placement."""
        return _infeasible(decision, 1).status if self.serves(decision.source) else decision.status

    async def run(
        self, decision: Decision, nodes: Nodes, simulate: Callable[[Nodes | None], Awaitable[Decision]]
    ) -> Decision:
        """Return the decision for the best placement; `decision` itself, with its verdict, if none was tried.

        `nodes` are those of the snapshot. `simulate` tries the members on some nodes (None: on all), and returns a new
        decision.
        """
        state, profile = CycleState(), decision.profile
        group = self._info(decision)
        if group is None:
            return await simulate(None)
        found = profile.group_placing.generate(state, group, nodes)
        if isinstance(found, Status):
            return ended(decision, found)
        if len(found) == 1 and found[0].nodes is nodes:
            only = await simulate(None)
            return only if only.verdict.outcome is not GroupOutcome.UNSCHEDULABLE else _infeasible(only, 1)
        table = PlacementTable(nodes, found)
        counts = most_members(room_of_members(decision, nodes), table.sums)
        return await self._best(decision, _Candidates(state, group, table, counts), simulate)

    def _info(self, decision: Decision) -> GroupInfo | None:
        """Return the group of a decision; None if it is not one of Kubernetes' own."""
        group = decision.members[0].group
        if not isinstance(group, GroupId):
            return None
        placed = {}
        for pod in self.groups.all_members(group):
            known = self.cache.get_pod(pod.uid)
            if known is not None:
                placed[pod.key] = known.pod.node_name
        return GroupInfo(
            namespace=group.namespace,
            name=group.name,
            pods=[member.attempt.queued.pod for member in decision.members],
            placed=placed,
        )

    async def _best(
        self, decision: Decision, candidates: _Candidates, simulate: Callable[[Nodes | None], Awaitable[Decision]]
    ) -> Decision:
        """Try the placements that can win, the most promising ones first; return the best decision."""
        table, profile = candidates.table, decision.profile
        needed = self._needed(decision)
        order = [*range(len(table))]
        self.rng.shuffle(order)
        bounds = profile.group_placing.bounds(candidates.state, candidates.group, table, candidates.counts)
        key = candidates.counts if bounds is None else bounds
        order.sort(key=lambda index: int(key[index]), reverse=True)
        hopeful = [index for index in order if candidates.counts[index] >= needed]
        # If none can be feasible, the members need a reason all the same.
        first: Decision | None = None
        tried: list[_Tried] = []
        won = -1
        for index in hopeful or [max(order, key=lambda each: int(candidates.counts[each]))]:
            if bounds is not None and bounds[index] <= won:
                break
            found = await simulate(table.placements[index].nodes)
            first = first or found
            if found.verdict.outcome is GroupOutcome.ERROR:
                return found
            if found.verdict.outcome not in _FEASIBLE:
                continue
            tried.append(_Tried(table.placements[index], found))
            if bounds is not None and all(member.is_placed for member in found.members):
                scores = profile.group_placing.score(candidates.state, candidates.group, [tried[-1].assignments])
                won = won if isinstance(scores, Status) else max(won, int(scores[0]))
        if not tried:
            assert first is not None, "one placement at least is tried"
            return _infeasible(first, len(table))
        if len(tried) == 1:
            return tried[0].decision
        scores = profile.group_placing.score(candidates.state, candidates.group, [each.assignments for each in tried])
        return ended(decision, scores) if isinstance(scores, Status) else tried[int(scores.argmax())].decision

    def _needed(self, decision: Decision) -> int:
        """Return how many members a feasible placement takes at least."""
        if decision.source.name not in decision.profile.plugins:
            return 1
        return max(1, self.groups.places_missing(decision.members[0].group))


@attrs.frozen(eq=False)
class _Candidates:
    """The placements of a group, and how many members each can take at most (int64[k])."""

    state: CycleState
    group: GroupInfo
    table: PlacementTable
    counts: NDArray[np.int64]


def _infeasible(decision: Decision, count: int) -> Decision:
    """Return the decision about the first placement, changed to say that none of `count` placements is feasible."""
    assert decision.status is not None, "an infeasible group has a status"
    text = f"0/{count} placements are available, first placement status: {decision.status.message}"
    return ended(decision, Status(Code.UNSCHEDULABLE, text))


def ended(decision: Decision, status: Status) -> Decision:
    """End a decision with a rejection or an error of the group as a whole."""
    decision.status = status
    outcome = GroupOutcome.UNSCHEDULABLE if status.is_rejected else GroupOutcome.ERROR
    decision.verdict = GroupVerdict(outcome, status.message)
    return decision


@attrs.frozen(eq=False)
class MemberRoom:
    """Members that are alike, and how many of them each node can take at most: int64[n]."""

    count: int
    places: NDArray[np.int64]


def room_of_members(decision: Decision, nodes: Nodes) -> list[MemberRoom]:
    """Return how many members of each kind each node can take at most, by filters and by amounts.

    The filters do not count if one of them counts pods across nodes: a member may then fit later on a node where it
    does not fit now. Nor do they count if pods are nominated, because a nomination ends when the pod is placed.
    """
    profile = decision.profile
    has_nominated = bool(profile.snapshot.nominated_nodes)
    kinds: dict[Hashable, tuple[PodInfo, NDArray[np.bool_] | None, int]] = {}
    last: PodInfo | None = None
    passed: NDArray[np.bool_] | None = None
    for member in decision.members:
        info = member.attempt.queued.pod_info
        # No filter can tell members apart that differ only in their names.
        if not has_nominated and (
            last is None or last.pod.spec != info.pod.spec or last.pod.metadata.labels != info.pod.metadata.labels
        ):
            passed = _passed(profile, info.pod, nodes)
        last = info
        shape = (info.requests.milli_cpu, info.requests.memory, info.requests.ephemeral_storage)
        scalars = tuple(sorted(info.requests.scalars.items()))
        kind = (shape, scalars, None if passed is None else np.packbits(passed).tobytes())
        kinds[kind] = (info, passed, kinds[kind][2] + 1 if kind in kinds else 1)
    counts_amounts = _counts_amounts(profile)
    found = []
    for info, passed, count in kinds.values():
        places = places_by_node(nodes, info) if counts_amounts else np.full(len(nodes), count, dtype=np.int64)
        places = np.clip(places, 0, count)
        found.append(MemberRoom(count, places if passed is None else places * passed))
    return found


def most_members(
    room: Iterable[MemberRoom], sums: Callable[[NDArray[np.int64]], NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Return int64[k]: how many members each of k sets of nodes can take at most; `sums` adds up a column by set."""
    total, *others = [np.minimum(sums(each.places), each.count) for each in room]
    for other in others:
        total += other
    return total


def _passed(profile: Profile, pod: Pod, nodes: Nodes) -> NDArray[np.bool_] | None:
    """Return bool[n]: the nodes that the filters accept; None if more nodes may be accepted later."""
    state = CycleState(Trial(TrialKind.QUESTION))
    rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    try:
        rows = feasible_nodes(profile, state, pod, nodes).rows
    except PluginError:
        return None  # the attempt reports the error
    except FitError:
        pass
    if profile.counts_across_nodes(state):
        return None
    passed = np.zeros(len(nodes), dtype=np.bool_)
    passed[rows] = True
    return passed


def _counts_amounts(profile: Profile) -> bool:
    """Return True if a node takes no more pods than its amounts allow, of all resources."""
    if _FIT not in profile.points[ExtensionPoint.FILTER]:
        return False
    args = profile.args.get(_FIT)
    return isinstance(args, NodeResourcesFitArgs) and not (args.ignored_resources or args.ignored_resource_groups)
