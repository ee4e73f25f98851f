"""The trial of a group with parts: whole parts or nothing of them, and never less than there is room for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from hypothesis import given, strategies as st

from pyscheduler.framework import MemberTree, Status
from pyscheduler.scheduler.sub_group_trial import SubGroupTrial


class Pod:
    """A member of a trial; `size` is what it needs."""

    def __init__(self, uid: str, size: int = 1) -> None:
        self.uid = uid
        self.size = size
        self.is_placed = False
        self.status: Status | None = None
        self.set_back = ""

    def take_back(self) -> None:
        self.is_placed = False


class Room:
    """One node, and a statement over it."""

    def __init__(self, size: int) -> None:
        self.free = size
        self.marks: list[int] = []
        self.tried: list[str] = []
        self.undone = 0

    def checkpoint(self) -> int:
        self.marks.append(self.free)
        return len(self.marks) - 1

    def keep(self, mark: int) -> None:
        assert mark == len(self.marks) - 1
        self.marks.pop()

    def rollback(self, mark: int) -> None:
        self.free = self.marks[mark]
        del self.marks[mark:]

    async def attempt(self, member: Any) -> bool:
        self.tried.append(member.uid)
        member.is_placed = member.size <= self.free
        if member.is_placed:
            self.free -= member.size
        else:
            member.status = Status.unschedulable("Insufficient cpu")
        return bool(member.is_placed)

    def note_undone(self) -> None:
        self.undone += 1


def run(tree: MemberTree, pods: list[Pod], room: Room, hard: frozenset[str] = frozenset()) -> set[str]:
    """Run a trial; return the UIDs of the members with a node."""
    trial = SubGroupTrial(
        "default/g",
        tree,
        cast("Any", pods),
        cast("Any", room),
        attempt=room.attempt,
        undone=room.note_undone,
        hard=hard,
    )
    asyncio.run(trial.run())
    return {pod.uid for pod in pods if pod.is_placed}


def leaf(name: str, minimum: int, pods: list[Pod], *, placed: int = 0) -> MemberTree:
    """Return a part with these members."""
    return MemberTree(name=name, minimum=minimum, members=frozenset(pod.uid for pod in pods), placed=placed)


SHAPES = st.recursive(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 2)),
    lambda inner: st.tuples(st.integers(0, 3), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=5,
)


def built(shape: Any, pods: list[Pod]) -> MemberTree:
    """Return the tree of a shape: a minimum, members and placed ones; or a minimum and children."""
    if len(shape) == 2:
        children = tuple(built(child, pods) for child in shape[1])
        return MemberTree(name=f"branch{len(pods)}", minimum=min(shape[0], len(children)), children=children)
    minimum, count, placed = shape
    own = [Pod(f"p{len(pods) + number}") for number in range(count)]
    pods += own
    return leaf(f"leaf{len(pods)}", minimum, own, placed=placed)


def fewest(tree: MemberTree) -> float:
    """Return how many members must get a node for the minimum; infinity if there are too few."""
    if not tree.children:
        needed = max(tree.minimum - tree.placed, 0)
        return needed if needed <= len(tree.members) else float("inf")
    return sum(sorted(map(fewest, tree.children))[: tree.minimum])


def is_whole(tree: MemberTree, placed: set[str]) -> bool:
    """Return True if no member got a node in a part without its minimum."""
    if complete(tree, placed):
        return all(is_whole(child, placed) for child in tree.children)
    return not any(placed & below.members for below in leaves(tree))


def complete(tree: MemberTree, placed: set[str]) -> bool:
    """Return True if a part has its minimum."""
    if not tree.children:
        return tree.placed + len(tree.members & placed) >= tree.minimum
    return sum(complete(child, placed) for child in tree.children) >= tree.minimum


def leaves(tree: MemberTree) -> list[MemberTree]:
    """Return the parts without children."""
    return [tree] if not tree.children else [found for child in tree.children for found in leaves(child)]


@given(SHAPES, st.integers(0, 12), st.integers(0, 2))
def test_equal_members_start_exactly_if_the_parts_that_are_tried_fit(shape: Any, size: int, strays: int) -> None:
    """No part is placed in part, messages name why members have no node, and room is not wasted on what fails."""
    pods: list[Pod] = []
    tree = built(shape, pods)
    pods += [Pod(f"stray{number}") for number in range(strays)]
    room = Room(size)
    placed = run(tree, pods, room)
    assert not room.marks
    assert room.free == size - len(placed)
    assert is_whole(tree, placed)
    assert complete(tree, placed) == (fewest(tree) <= size)
    if not complete(tree, placed):
        assert not placed
    for pod in pods:
        assert pod.is_placed or pod.status is not None or pod.set_back


def test_a_part_that_fails_gives_its_room_to_a_sibling() -> None:
    """The large part fails after one pod; the two small ones get the room."""
    large, small, other = (
        [Pod(f"{name}{number}", size) for number in range(2)] for name, size in (("a", 3), ("b", 1), ("c", 1))
    )
    parts = (leaf("a", 2, large), leaf("b", 2, small), leaf("c", 2, other))
    room = Room(4)
    placed = run(MemberTree(minimum=2, children=parts), [*large, *small, *other], room)
    assert placed == {"b0", "b1", "c0", "c1"}
    assert room.undone == 1
    assert large[0].set_back == 'sub-group "a" of podGroup default/g has nodes for 1 of 2 pods'


def test_hard_parts_come_first_in_a_second_order() -> None:
    """Without a hint, the parts come by name; a part that failed before is tried first."""
    first, second = [Pod("a0")], [Pod("b0")]
    tree = MemberTree(minimum=2, children=(leaf("a", 1, first), leaf("b", 1, second)))
    room = Room(2)
    run(tree, [*first, *second], room)
    assert room.tried == ["a0", "b0"]
    room = Room(2)
    run(tree, [*first, *second], room, hard=frozenset({"b0"}))
    assert room.tried == ["b0", "a0"]


def test_parts_with_too_few_members_cost_no_attempt() -> None:
    """A part that cannot have its minimum is not tried, nor is anything else if it is required."""
    few, enough = [Pod("a0")], [Pod("b0")]
    tree = MemberTree(minimum=2, children=(leaf("a", 2, few), leaf("b", 1, enough)))
    room = Room(9)
    assert run(tree, [*few, *enough], room) == set()
    assert room.tried == []
    assert enough[0].set_back == 'podGroup default/g has nodes for 0 of 2 sub-groups, short: "a" 0/2, "b" 0/1'


def test_members_beyond_the_minimum_of_one_part_wait_for_the_minimum_of_others() -> None:
    """Two parts get their minimum of one before either gets more."""
    many, one = [Pod(f"a{number}") for number in range(5)], [Pod("b0")]
    tree = MemberTree(minimum=2, children=(leaf("a", 1, many), leaf("b", 1, one)))
    assert run(tree, [*many, *one], Room(3)) == {"a0", "a1", "b0"}
