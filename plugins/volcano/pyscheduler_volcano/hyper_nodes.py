"""Read Volcano's HyperNodes, which are named sets of nodes, and build a tree of them.

Sources: Volcano `staging/.../topology/v1alpha1`, `pkg/scheduler/api/hyper_node_info.go`, `framework/session.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import numpy as np

from pyscheduler.api import KubeObject, kind_of
from pyscheduler_batch.model.values import Warnings, integer, items_of, mapping_of, text_of, warn
from pyscheduler_volcano.name_patterns import PatternError, matching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from pyscheduler.framework import LabelColumn

__all__ = ["HYPER_NODES", "HyperNode", "HyperNodeTree"]

#: The name of the root.
TOP: Final = "<cluster-top-hypernode>"
#: A HyperNode is at most so many levels below the root.
_DEEPEST: Final = 64
#: Policies compute something for each tier from the lowest to the highest.
_MOST_TIERS: Final = 1000
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


class HyperNode(KubeObject):
    """HyperNode of Volcano: its tier, and its members, which are nodes or HyperNodes."""

    api_version: ClassVar[str] = "topology.volcano.sh/v1alpha1"
    kind: ClassVar[str] = "HyperNode"

    spec: Any = None


HYPER_NODES: Final = kind_of(HyperNode, "hypernodes", namespaced=False)


@attrs.frozen(eq=False)
class HyperNodeTree:
    """H HyperNodes of N nodes; the last one is the root."""

    names: tuple[str, ...]
    #: int64[H]: the tier of each; that of the root is above all others.
    tiers: NDArray[np.int64]
    #: int64[H]: the HyperNode that has it as a member; that of the root is -1.
    parents: NDArray[np.int64]
    #: bool[H, N]: the nodes of each, those of its members included.
    members: NDArray[np.bool_]
    #: The tier of each name of a tier.
    tier_names: Mapping[str, int]

    #: A sentence about each HyperNode with values that do not count.
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, items: Iterable[HyperNode], names: Sequence[str], labels: Callable[[str], LabelColumn]
    ) -> HyperNodeTree:
        """Return the tree over the nodes `names`. HyperNodes in a cycle have what is below the cycle.

        A member that several HyperNodes name belongs to the first by name. One with a value that cannot be used selects
        nothing.
        """
        by_name = {item.name: item for item in items}
        order = sorted(by_name)
        index = {name: at for at, name in enumerate(order)}
        names = (*names,)
        rows = {name: row for row, name in enumerate(names)}
        parents = np.full(len(order) + 1, len(order), dtype=np.int64)
        parents[-1] = -1
        own: NDArray[np.bool_] = np.zeros((len(order) + 1, len(names)), dtype=np.bool_)
        own[-1] = True
        tiers: list[int] = []
        tier_names: dict[str, int] = {}
        said: dict[str, Warnings] = {}
        for at, name in enumerate(order):
            warnings = said[name] = []
            spec = mapping_of(by_name[name].spec, "spec", warnings)
            tiers.append(_tier(spec, warnings))
            if text := text_of(spec.get("tierName"), "spec.tierName", warnings):
                tier_names[text] = tiers[at]
            for where, selector, is_node in _members(spec, warnings):
                exact = _exact_name(selector)
                if is_node and exact:
                    if exact in rows:
                        own[at, rows[exact]] = True
                elif is_node:
                    own[at] |= _selected(selector, where, warnings, names, labels)
                elif (child := index.get(exact, at)) != at and parents[child] == len(order):
                    parents[child] = at
        tree = cls((*order, TOP), np.array([*tiers, max([0, *tiers]) + 1], dtype=np.int64), parents, own, tier_names)
        if deep := tree._cut():
            said[deep].append(f"it is more than {_DEEPEST} levels below the top; remove levels")
        tree._fill()
        return attrs.evolve(tree, warnings=tuple(_sentence(name, found) for name, found in said.items() if found))

    def _cut(self) -> str:
        """Take HyperNodes that are too deep out of the one above; return the name of the first, "" for none."""
        first = ""
        for at, name in enumerate(self.names[:-1]):
            if len(self.path(at)) > _DEEPEST + 1:
                self.parents[at] = len(self.names) - 1
                first = first or name
        return first

    def _fill(self) -> None:
        """Give each HyperNode the nodes of those below it."""
        direct = self.members.copy()
        for at in range(len(self.names) - 1):
            for above in self.path(at)[1:]:
                self.members[above] |= direct[at]

    def path(self, at: int) -> list[int]:
        """Return a HyperNode and those above it, up to the root; each once, also in a cycle."""
        found: list[int] = []
        while at >= 0 and at not in found and len(found) <= _DEEPEST + 1:
            found.append(at)
            at = int(self.parents[at])
        return found

    def common(self, first: int, second: int) -> int:
        """Return the lowest HyperNode that is on the paths of both."""
        above = self.path(first)
        return next((at for at in self.path(second) if at in above), len(self.names) - 1)

    def lowest_of(self) -> NDArray[np.int64]:
        """Return int64[N]: the HyperNode of the lowest tier that has each node; -1 for none but the root."""
        found: NDArray[np.int64] = np.full(self.members.shape[1], -1, dtype=np.int64)
        for at in np.argsort(-self.tiers[:-1], kind="stable").tolist():
            found[self.members[at]] = at
        return found

    def around(self, rows: Sequence[int]) -> int:
        """Return the lowest HyperNode that has all of these nodes; -1 without nodes."""
        if not rows:
            return -1
        lowest = self.lowest_of()
        found = -1
        for at in {int(lowest[row]) for row in rows}:
            at = at if at >= 0 else len(self.names) - 1
            found = at if found < 0 else self.common(found, at)
        return found


def _sentence(name: str, found: Sequence[str]) -> str:
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"HyperNode {name}: {found[0]}{more}"


def _tier(spec: Mapping[str, object], warnings: Warnings) -> int:
    tier = spec.get("tier")
    return 0 if tier is None else integer(tier, "spec.tier", warnings, default=0, least=-_MOST_TIERS, most=_MOST_TIERS)


def _members(spec: Mapping[str, object], warnings: Warnings) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Yield where each member is, its selector, and whether that selects nodes."""
    for number, item in enumerate(items_of(spec.get("members"), "spec.members", warnings)):
        where = f"spec.members[{number}]"
        said = mapping_of(item, where, warnings)
        kind = said.get("type")
        if kind in ("Node", "HyperNode"):
            yield where, mapping_of(said.get("selector"), f"{where}.selector", warnings), kind == "Node"
        elif said:
            warn(warnings, f"{where}.type", kind, "is neither Node nor HyperNode; the member does not count")


def _exact_name(selector: Mapping[str, Any]) -> str:
    exact = selector.get("exactMatch")
    name = exact.get("name") if isinstance(exact, Mapping) else None
    return name if isinstance(name, str) else ""


def _selected(
    selector: Mapping[str, Any],
    where: str,
    warnings: Warnings,
    names: tuple[str, ...],
    labels: Callable[[str], LabelColumn],
) -> NDArray[np.bool_]:
    """Return bool[N]: the nodes that a pattern or labels select; a pattern need not match the whole name."""
    regex = selector.get("regexMatch")
    pattern = regex.get("pattern") if isinstance(regex, Mapping) else None
    if isinstance(pattern, str):
        try:
            return matching(pattern, names)
        except PatternError as error:
            where = f"{where}.selector.regexMatch.pattern"
            warn(warnings, where, pattern, f"cannot be used: {error}; it selects no node")
            return np.zeros(len(names), dtype=np.bool_)
    wrong: Warnings = []
    where = f"{where}.selector.labelMatch"
    wanted = mapping_of(selector.get("labelMatch"), where, wrong)
    conditions: list[tuple[str, object, Sequence[object]]] = [
        (key, "In", (value,))
        for key, value in mapping_of(wanted.get("matchLabels"), f"{where}.matchLabels", wrong).items()
    ]
    where = f"{where}.matchExpressions"
    for number, item in enumerate(items_of(wanted.get("matchExpressions"), where, wrong)):
        at = f"{where}[{number}]"
        said = mapping_of(item, at, wrong)
        operator = said.get("operator")
        if operator not in _OPERATORS:
            warn(wrong, f"{at}.operator", operator, f"is none of {', '.join(_OPERATORS)}; the member selects no node")
        values = items_of(said.get("values"), f"{at}.values", wrong)
        conditions.append((text_of(said.get("key"), f"{at}.key", wrong), operator, values))
    warnings += wrong
    if wrong or not conditions:
        return np.zeros(len(names), dtype=np.bool_)
    found = np.ones(len(names), dtype=np.bool_)
    for key, operator, values in conditions:
        column = labels(key)
        has = column.ids > 0
        among = np.isin(column.ids, [column.id_of(str(value)) for value in values])
        found &= {"In": among, "NotIn": ~among, "Exists": has, "DoesNotExist": ~has}[str(operator)]
    return found
