"""Count the members of each sub-group by state. A sub-group is a part of a group, and has its own minimum of pods."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.group_cycle import MemberTree
from pyscheduler.podgroup.sub_groups import cut_off, least, missing, shortage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.podgroup.sub_groups import SubGroup, SubGroupTree

__all__ = ["ASSIGNED", "LIVING", "SubGroupCounts"]

ASSIGNED: Final = ("waiting", "bound")
"""The places of members with a node, in memory or in the API."""

LIVING: Final = ("pending", *ASSIGNED)
"""The places of living members."""

_GATED: Final = "gated"
_NOTHING: Final[Mapping[str, object]] = {}


class SubGroupCounts:
    """The members of one group by sub-group, for each of its trees."""

    __slots__ = ("_answers", "_least", "_leaves", "_sums", "_trees", "_trial")

    def __init__(self, trees: Sequence[SubGroupTree]) -> None:
        self._trees = trees
        self._least = max(least(tree.root) for tree in trees)
        #: By uid of a member, the names of its sub-groups, one for each tree.
        self._leaves: dict[str, tuple[str, ...]] = {}
        self._sums: dict[str, list[Counter[str]]] = {}
        #: Answers since the last change.
        self._answers: dict[object, object] = {}
        #: The members with a node in a trial, as counted last: the trial's map, its size, its last member, the sums.
        self._trial: tuple[Mapping[str, object], int, str, list[Counter[str]]] | None = None

    # --- changes

    def put(self, pod: Pod, place: str, *, is_gated: bool) -> None:
        """Count a member in a place."""
        leaves = self._leaves[pod.uid] = tuple([tree.naming.leaf(pod) for tree in self._trees])
        self._add(leaves, place, 1)
        if is_gated:
            self._add(leaves, _GATED, 1)

    def take(self, uid: str, place: str, *, is_gated: bool) -> None:
        """Do not count a member in a place any more."""
        leaves = self._leaves.pop(uid)
        self._add(leaves, place, -1)
        if is_gated:
            self._add(leaves, _GATED, -1)

    def move(self, uid: str, before: str, after: str) -> None:
        """Count a member in another place."""
        self._add(self._leaves[uid], before, -1)
        self._add(self._leaves[uid], after, 1)

    def _add(self, leaves: Sequence[str], place: str, change: int) -> None:
        self._answers.clear()
        self._trial = None
        sums = self._sums.get(place)
        if sums is None:
            sums = self._sums[place] = [Counter() for _ in self._trees]
        for counts, leaf in zip(sums, leaves, strict=True):
            counts[leaf] += change
            if not counts[leaf]:
                del counts[leaf]

    # --- questions

    def sums(self) -> Mapping[str, Sequence[Mapping[str, int]]]:
        """Return for each place how many members each sub-group has, for each tree; for tests."""
        return {place: counts for place, counts in self._sums.items() if any(counts)}

    def leaf(self, uid: str) -> str:
        """Return the name of a member's sub-group in the first tree; "" if it names none, or is no member."""
        return self._leaves.get(uid, ("",))[0]

    def is_stray(self, uid: str) -> bool:
        """Return True if a member names no sub-group although it must, or one that does not exist."""
        leaves = self._leaves.get(uid)
        if leaves is None or not self._trees[0].is_closed:
            return False
        return leaves[0] not in self._known()

    def _known(self) -> frozenset[str]:
        found = self._answers.get("known")
        if found is None:
            found = self._answers["known"] = frozenset(node.name for node in _with_members(self._trees[0].root))
        assert isinstance(found, frozenset)
        return found

    def lacking_members(self, *, without_gated: bool = False) -> str:
        """Return which sub-groups have too few living members for the minimum of the group; "" if enough exist."""
        key = "lacking", without_gated
        found = self._answers.get(key)
        if found is None:
            sums = self._sum(LIVING)
            if without_gated:
                for counts, gated in zip(sums, self._sums.get(_GATED, ()), strict=False):
                    counts.subtract(gated)
            found = self._answers[key] = self._shortage(sums)
        assert isinstance(found, str)
        return found

    def has_minimum(self, placed: Mapping[str, object] = _NOTHING) -> bool:
        """Return True if the members with a node are the minimum; `placed` has those with a node in a trial."""
        count = len(placed) + sum(sum(self._sums[place][0].values()) for place in ASSIGNED if place in self._sums)
        return count >= self._least and not self.missing(placed)

    def missing(self, placed: Mapping[str, object] = _NOTHING) -> int:
        """Return how many more members need a node at least; `placed` has the members with a node in a trial."""
        sums = self._with(placed)
        return max(missing(root, counts) for root, counts in zip(self._roots(sums), sums, strict=True))

    def without_minimum(self) -> frozenset[str]:
        """Return the sub-groups of the first tree whose members with a node must wait for others."""
        found = self._answers.get("cut off")
        if found is None:
            sums = self._with(_NOTHING)
            found = self._answers["cut off"] = cut_off(self._roots(sums)[0], sums[0])
        assert isinstance(found, frozenset)
        return found

    def shortage(self, placed: Mapping[str, object] = _NOTHING) -> str:
        """Return which sub-groups lack members with a node, such as `decode 2/4`; "" if the group has its minimum."""
        return self._shortage(self._with(placed))

    def leaves(self, of: Iterable[str]) -> Sequence[tuple[str, int, int]]:
        """Return for each sub-group with members its name, how many of `of` (UIDs) it has, and how many it needs."""
        members = [self._leaves[uid] for uid in of if uid in self._leaves]
        found: list[tuple[str, int, int]] = []
        for index, (tree, living) in enumerate(zip(self._trees, self._sum(LIVING), strict=True)):
            counts = Counter(leaves[index] for leaves in members)
            parts = _with_members(tree.root.with_leaves(living))
            found += [(node.name, counts[node.name], node.needed) for node in parts]
        return found

    def spare(self, uid: str) -> int | None:
        """Return how many members with a node the sub-group of a member has beyond its minimum.

        None if the sub-group has no minimum, or less than it. The least counts if trees differ.
        """
        assigned, found = self._sum(ASSIGNED), []
        for tree, counts, leaf in zip(self._trees, assigned, self._leaves.get(uid, ()), strict=False):
            parts = _with_members(tree.root.with_leaves(counts))
            needed = next((node.needed for node in parts if node.name == leaf), 0)
            if 0 < needed <= counts[leaf]:
                found.append(counts[leaf] - needed)
        return min(found, default=None)

    def member_tree(self, pending: Collection[str]) -> MemberTree:
        """Return the first tree for a trial; `pending` are the UIDs of the members without a node."""
        waiting: dict[str, list[str]] = {}
        for uid in pending:
            waiting.setdefault(self.leaf(uid), []).append(uid)
        sums = self._sum(ASSIGNED)[0]

        def build(node: SubGroup) -> MemberTree:
            if node.is_branch:
                return MemberTree(name=node.name, minimum=node.needed, children=tuple(map(build, node.children)))
            members = frozenset(waiting.get(node.name, ()))
            return MemberTree(name=node.name, minimum=node.needed, members=members, placed=sums[node.name])

        return build(self._trees[0].root.with_leaves([*waiting, *sums]))

    # --- inside

    def _sum(self, places: Iterable[str]) -> list[Counter[str]]:
        total: list[Counter[str]] = [Counter() for _ in self._trees]
        for place in places:
            for into, counts in zip(total, self._sums.get(place, ()), strict=False):
                into.update(counts)
        return total

    def _with(self, placed: Mapping[str, object]) -> list[Counter[str]]:
        """Return the members with a node, counting those of a trial; members are added to a trial one by one."""
        known = self._trial
        if isinstance(placed, dict) and known is not None and known[0] is placed and len(placed) == known[1] + 1:
            newest = reversed(placed)
            last = next(newest)
            if next(newest, "") == known[2]:
                for counts, leaf in zip(known[3], self._leaves.get(last, ()), strict=False):
                    counts[leaf] += 1
                self._trial = (placed, len(placed), last, known[3])
                return known[3]
        sums = self._sum(ASSIGNED)
        last = ""
        for last in placed:
            for counts, leaf in zip(sums, self._leaves.get(last, ()), strict=False):
                counts[leaf] += 1
        self._trial = (placed, len(placed), last, sums)
        return sums

    def _roots(self, sums: Sequence[Mapping[str, int]]) -> Sequence[SubGroup]:
        return [tree.root.with_leaves(counts) for tree, counts in zip(self._trees, sums, strict=True)]

    def _shortage(self, sums: Sequence[Mapping[str, int]]) -> str:
        texts = [shortage(root, counts) for root, counts in zip(self._roots(sums), sums, strict=True)]
        return "; ".join(filter(None, texts))


def _with_members(node: SubGroup) -> Iterable[SubGroup]:
    if not node.is_branch:
        yield node
    for child in node.children:
        yield from _with_members(child)
