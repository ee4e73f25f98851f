"""Record, for each user, which permissions allowed requests, and which requests were refused.

A test can run a program under a role, and then find the permissions that the program never needed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kube_testserver.access.rules import Cell, Rule

__all__ = ["RoleName", "RuleSource", "Usage"]


@attrs.frozen(cache_hash=True)
class RoleName:
    """A Role or ClusterRole; the namespace is empty for the latter."""

    kind: str
    namespace: str
    name: str


@attrs.frozen(cache_hash=True)
class RuleSource:
    """Where a rule came from: the binding, the role that it refers to, and the rule's place in that role."""

    binding: RoleName
    role: RoleName
    index: int


class Usage:
    """Per user name, how often each part of a rule allowed something, and what was refused."""

    def __init__(self) -> None:
        self._allowed: defaultdict[str, Counter[tuple[RuleSource, Cell]]] = defaultdict(Counter)
        self._refused: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def allowed(self, user: str, source: RuleSource, cell: Cell) -> None:
        """Note that a rule allowed something."""
        self._allowed[user][source, cell] += 1

    def refused(self, user: str, message: str) -> None:
        """Note that something was refused, in the words of the refusal."""
        self._refused[user][message] += 1

    def refusals(self, user: str | None = None) -> dict[str, int]:
        """Return the refusals of a user (None: of everybody), with how often each came."""
        users = self._refused if user is None else (user,)
        total: Counter[str] = Counter()
        for one in users:
            total.update(self._refused.get(one, {}))
        return dict(total)

    def unused(self, role: RoleName, rules: Sequence[Rule]) -> Iterator[tuple[int, Cell]]:
        """Yield each part of a role's rules that allowed nothing, with the rule's index."""
        used = {(source.index, cell) for uses in self._allowed.values() for source, cell in uses if source.role == role}
        for index, rule in enumerate(rules):
            yield from ((index, cell) for cell in rule.cells if (index, cell) not in used)

    def as_document(self) -> dict[str, Any]:
        """Return the record as plain JSON: a list of uses and one of refusals, in a stable order."""
        uses = [
            {
                "user": user,
                "binding": attrs.asdict(source.binding),
                "role": attrs.asdict(source.role),
                "rule": source.index,
                "what": str(cell),
                "times": times,
            }
            for user, counted in self._allowed.items()
            for (source, cell), times in counted.items()
        ]
        refused = [
            {"user": user, "message": message, "times": times}
            for user, counted in self._refused.items()
            for message, times in counted.items()
        ]
        uses.sort(key=lambda use: (use["user"], str(use["binding"]), use["rule"], use["what"]))
        refused.sort(key=lambda one: (one["user"], one["message"]))
        return {"allowed": uses, "refused": refused}
