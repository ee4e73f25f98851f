"""Volcano's HyperNodes: named sets of nodes in tiers, a tree whose root has all nodes.

Sources: Volcano `staging/.../topology/v1alpha1`, `pkg/scheduler/api/hyper_node_info.go`, and the root that
`framework/session.go` adds (`addClusterTopHyperNode`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import numpy as np

from pyscheduler.api import KubeObject, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from pyscheduler.framework import LabelColumn

__all__ = ["HYPER_NODES", "HyperNode", "HyperNodeTree"]

#: The name of the root.
TOP: Final = "<cluster-top-hypernode>"


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

    @classmethod
    def of(
        cls, items: Iterable[HyperNode], names: Sequence[str], labels: Callable[[str], LabelColumn]
    ) -> HyperNodeTree:
        """Return the tree over the nodes `names`. HyperNodes in a cycle have what is below the cycle.

        A member that several HyperNodes name belongs to the first by name.
        """
        specs = {item.name: item.spec if isinstance(item.spec, Mapping) else {} for item in items}
        order = sorted(specs)
        index = {name: at for at, name in enumerate(order)}
        parents = np.full(len(order) + 1, len(order), dtype=np.int64)
        parents[-1] = -1
        own: NDArray[np.bool_] = np.zeros((len(order) + 1, len(names)), dtype=np.bool_)
        own[-1] = True
        children: dict[int, list[int]] = {}
        for at, name in enumerate(order):
            for selector, is_node in _members(specs[name]):
                if is_node:
                    own[at] |= _selected(selector, names, labels)
                    continue
                child = index.get(_exact_name(selector), at)
                if child != at and parents[child] == len(order):
                    parents[child] = at
                    children.setdefault(at, []).append(child)

        def fill(at: int, above: frozenset[int]) -> None:
            for child in children.get(at, ()):
                if child not in above:
                    fill(child, above | {child})
                    own[at] |= own[child]

        for at in range(len(order)):
            fill(at, frozenset((at,)))
        tiers = [_tier(specs[name]) for name in order]
        top = max([0, *tiers]) + 1
        tier_names = {text: tier for name, tier in zip(order, tiers, strict=True) if (text := _text(specs[name]))}
        return cls((*order, TOP), np.array([*tiers, top], dtype=np.int64), parents, own, tier_names)

    def path(self, at: int) -> list[int]:
        """Return a HyperNode and those above it, up to the root; each once, also in a cycle."""
        found: list[int] = []
        while at >= 0 and at not in found:
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


def _tier(spec: Mapping[str, Any]) -> int:
    tier = spec.get("tier")
    return tier if isinstance(tier, int) and not isinstance(tier, bool) else 0


def _text(spec: Mapping[str, Any]) -> str:
    name = spec.get("tierName")
    return name if isinstance(name, str) else ""


def _members(spec: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], bool]]:
    """Return the selectors of the members, and whether each selects nodes; entries without sense are left out."""
    said = spec.get("members")
    found = []
    for each in said if isinstance(said, Sequence) and not isinstance(said, str) else ():
        if isinstance(each, Mapping) and isinstance(each.get("selector"), Mapping):
            kind = each.get("type")
            if kind in {"Node", "HyperNode"}:
                found.append((each["selector"], kind == "Node"))
    return found


def _exact_name(selector: Mapping[str, Any]) -> str:
    exact = selector.get("exactMatch")
    name = exact.get("name") if isinstance(exact, Mapping) else None
    return name if isinstance(name, str) else ""


def _selected(
    selector: Mapping[str, Any], names: Sequence[str], labels: Callable[[str], LabelColumn]
) -> NDArray[np.bool_]:
    """Return bool[N]: the nodes that a selector selects; a pattern need not match the whole name."""
    exact = _exact_name(selector)
    if exact:
        return np.array([name == exact for name in names], dtype=np.bool_)
    regex = selector.get("regexMatch")
    if isinstance(regex, Mapping) and isinstance(regex.get("pattern"), str):
        try:
            pattern = re.compile(regex["pattern"])
        except re.error:
            return np.zeros(len(names), dtype=np.bool_)
        return np.array([pattern.search(name) is not None for name in names], dtype=np.bool_)
    said = selector.get("labelMatch")
    wanted = said if isinstance(said, Mapping) else {}
    pairs = wanted.get("matchLabels")
    conditions: list[tuple[Any, str, tuple[Any, ...]]] = [
        (key, "In", (value,)) for key, value in (pairs.items() if isinstance(pairs, Mapping) else ())
    ]
    expressions = wanted.get("matchExpressions")
    listed = expressions if isinstance(expressions, Sequence) and not isinstance(expressions, str) else ()
    conditions.extend(
        (each.get("key"), str(each.get("operator")), tuple(each.get("values") or ()))
        for each in listed
        if isinstance(each, Mapping)
    )
    if not conditions:
        return np.zeros(len(names), dtype=np.bool_)
    found = np.ones(len(names), dtype=np.bool_)
    for key, operator, values in conditions:
        column = labels(str(key))
        has = column.ids > 0
        among = np.isin(column.ids, [column.id_of(str(value)) for value in values])
        found &= {"In": among, "NotIn": ~among, "Exists": has, "DoesNotExist": ~has}.get(operator, ~has & has)
    return found
