"""Try to place a group that has sub-groups with minimums of their own.

For example, a group needs two of its three sub-groups, and each sub-group needs four pods. First, the trial places four
pods of one sub-group and four of another. If a sub-group finds nodes for fewer than four pods, none of its pods is
placed, and the next sub-group is tried. If two have their minimum, the trial also tries the third, and then the
group's remaining pods.

Source: KAI-Scheduler, `allocation_info.go` and `subgrouporder`.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Sequence

    from pyscheduler.framework.group_cycle import MemberTree
    from pyscheduler.runtime.statement import Statement
    from pyscheduler.scheduler.group_commit import Member

__all__ = ["SubGroupTrial", "TrialOverError"]

#: So many parts are named in one message.
_NAMED = 4


class TrialOverError(Exception):
    """An error of a member ended the trial."""


@attrs.define(eq=False, kw_only=True)
class _Part:
    """A part of the group in the trial."""

    name: str
    minimum: int
    children: list[_Part]
    #: The members without a node of a part without children, in order; and those that were not tried.
    members: list[Member]
    waiting: deque[Member]
    #: How many of its members have a node, and had one at most in this trial.
    placed: int
    most: int
    #: Whether it holds a member that did not fit in an earlier order.
    is_hard: bool
    has_failed: bool = False

    @property
    def has(self) -> int:
        """Return how many members with a node, or children with their minimum, it has."""
        return sum(child.has_minimum() for child in self.children) if self.children else self.placed

    def has_minimum(self) -> bool:
        return self.has >= self.minimum

    @property
    def had_minimum(self) -> bool:
        """Return True if it had its minimum at any time of the trial."""
        if self.children:
            return sum(child.had_minimum for child in self.children) >= self.minimum
        return self.most >= self.minimum

    def missing(self) -> float:
        """Return how many members must get a node for its minimum; infinity if it has too few."""
        if self.children:
            return sum(sorted([child.missing() for child in self.children])[: self.minimum])
        needed = max(self.minimum - self.placed, 0)
        return needed if needed <= len(self.waiting) else inf

    def key(self) -> tuple[bool, bool, float, str]:
        """Return the key that orders it among its siblings."""
        return (not self.is_hard, self.minimum == 0, self.missing(), self.name)

    def leaves(self) -> Iterable[_Part]:
        """Yield the parts without children, itself or below."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


class SubGroupTrial:
    """Places the members of one group, part by part, within a statement.

    `attempt` tries one member and returns whether it has a node; it raises `TrialOverError` to end the trial.
    `undone` is called after members gave their nodes back. `hard` are the UIDs of members that did not fit in an
    earlier order.
    """

    def __init__(
        self,
        group: Hashable,
        tree: MemberTree,
        members: Sequence[Member],
        statement: Statement,
        *,
        attempt: Callable[[Member], Awaitable[bool]],
        undone: Callable[[], object],
        hard: Collection[str] = (),
    ) -> None:
        self._group = group
        self._statement = statement
        self._attempt = attempt
        self._undone = undone
        self._hard = hard
        self._position = {member: index for index, member in enumerate(members)}
        #: By UID, the members that no part names.
        self._rest = {member.uid: member for member in members}
        self._root = self._part(tree)
        #: The members with a node, in order, with their part.
        self._log: list[tuple[_Part, Member]] = []

    def _part(self, tree: MemberTree) -> _Part:
        own = sorted([self._rest.pop(uid) for uid in tree.members if uid in self._rest], key=self._position.__getitem__)
        children = [self._part(child) for child in tree.children]
        is_hard = any(child.is_hard for child in children) or any(member.uid in self._hard for member in own)
        return _Part(
            name=tree.name,
            minimum=tree.minimum,
            children=children,
            members=own,
            waiting=deque(own),
            placed=tree.placed,
            most=tree.placed,
            is_hard=is_hard,
        )

    async def run(self) -> None:
        """Try the members; say of each that was not tried, or gave its node back, which part is short."""
        if await self._place_minimum(self._root):
            await self._place_more(self._root)
            for member in self._rest.values():
                await self._attempt(member)
        else:
            _set_back(self._rest.values(), self._text(self._root))
        self._explain(self._root)

    async def _place_minimum(self, part: _Part) -> bool:
        """Place the minimum of a part, or nothing of it; return whether it has its minimum."""
        if part.has_minimum() or part.has_failed:
            return part.has_minimum()
        if part.missing() == inf:
            part.has_failed = True
            return False
        mark, checkpoint = len(self._log), self._statement.checkpoint()
        if part.children:
            for child in sorted(part.children, key=_Part.key):
                await self._place_minimum(child)
                if part.has_minimum() or sum(not each.has_failed for each in part.children) < part.minimum:
                    break
        else:
            await self._place_members(part, part.minimum - part.placed)
        if part.has_minimum():
            self._statement.keep(checkpoint)
            return True
        part.has_failed = True
        self._statement.rollback(checkpoint)
        for owner, member in self._log[mark:]:
            owner.placed -= 1
            member.take_back()
        del self._log[mark:]
        self._undone()
        return False

    async def _place_members(self, part: _Part, count: int) -> None:
        """Place so many members of a part; stop when too few are left."""
        while 0 < count <= len(part.waiting):
            if await self._try_next(part):
                count -= 1

    async def _try_next(self, part: _Part) -> bool:
        member = part.waiting.popleft()
        if not await self._attempt(member):
            return False
        self._log.append((part, member))
        part.placed += 1
        part.most = max(part.most, part.placed)
        return True

    async def _place_more(self, part: _Part) -> None:
        """Place what a part with its minimum does not need."""
        if not part.children:
            while part.waiting:
                await self._try_next(part)
            return
        children = sorted(part.children, key=lambda child: (child.has_minimum(), child.key()))
        for child in children:
            await self._place_minimum(child)
        for child in children:
            if child.has_minimum():
                await self._place_more(child)

    # Messages

    def _explain(self, part: _Part) -> None:
        """Give the members of parts without their minimum the reason why they have no node."""
        if part.has_minimum():
            for child in part.children:
                self._explain(child)
            return
        text = self._text(part)
        for leaf in part.leaves():
            _set_back(leaf.members, text)

    def _text(self, part: _Part) -> str:
        """Return which parts are short."""
        while len(part.children) == 1 and part.children[0].children:
            part = part.children[0]
        whose = f'sub-group "{part.name}" of podGroup {self._group}' if part.name else f"podGroup {self._group}"
        if not part.children:
            return f"{whose} has nodes for {part.most} of {part.minimum} pods"
        short = [leaf for leaf in part.leaves() if leaf.most < leaf.minimum]
        named = [f'"{leaf.name}" {leaf.most}/{leaf.minimum}' for leaf in short[:_NAMED]]
        if len(short) > _NAMED:
            named.append(f"{len(short) - _NAMED} more")
        complete = sum(child.had_minimum for child in part.children)
        needed = f"{whose} has nodes for {complete} of {part.minimum} sub-groups"
        return f"{needed}, short: {', '.join(named)}" if named else needed


def _set_back(members: Iterable[Member], text: str) -> None:
    for member in members:
        if not member.is_placed and member.status is None:
            member.set_back = text
