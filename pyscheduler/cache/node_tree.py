"""Nodes by zone, and the order that takes one node from each zone in turn.

If a scheduling cycle checks only a part of the nodes, this part contains nodes of many zones.

Differs from kube-scheduler: a node that changes its zone gets its new position at once.
Source: kube-scheduler 1.36, `backend/cache/node_tree.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import Node

__all__ = ["NodeTree", "zone_of"]

#: The old names of the labels go first: nodes that still carry them may carry the new ones too.
_ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION_LABELS: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")

Zone = tuple[str, str]


def zone_of(node: Node) -> Zone:
    """Return region and zone of a node, empty where it does not say."""
    return _first(node.labels, _REGION_LABELS), _first(node.labels, _ZONE_LABELS)


class NodeTree:
    """Names of nodes by zone. `version` grows with each change of the order."""

    __slots__ = ("_zone_of", "_zones", "version")

    def __init__(self) -> None:
        self._zones: dict[Zone, dict[str, None]] = {}
        self._zone_of: dict[str, Zone] = {}
        self.version = 0

    def __len__(self) -> int:
        return len(self._zone_of)

    def put(self, node: Node) -> None:
        """Add a node, or move it to its new zone; a node that stays in its zone keeps its place."""
        zone = zone_of(node)
        old = self._zone_of.get(node.name)
        if old == zone:
            return
        if old is not None:
            self.remove(node.name)
        self._zones.setdefault(zone, {})[node.name] = None
        self._zone_of[node.name] = zone
        self.version += 1

    def remove(self, name: str) -> None:
        """Drop a node; unknown names are ignored."""
        zone = self._zone_of.pop(name, None)
        if zone is None:
            return
        names = self._zones[zone]
        del names[name]
        if not names:
            del self._zones[zone]
        self.version += 1

    def order(self) -> list[str]:
        """Return all names: the first of each zone, the second of each zone, and so on."""
        order: list[str] = []
        turns = [iter(names) for names in self._zones.values()]
        while turns:
            left = []
            for names in turns:
                name = next(names, None)
                if name is not None:
                    order.append(name)
                    left.append(names)
            turns = left
        return order

    def check_invariants(self, nodes: Mapping[str, Node]) -> None:
        """Raise AssertionError unless the tree holds exactly `nodes`, each in its zone."""
        assert self._zone_of == {name: zone_of(node) for name, node in nodes.items()}, "nodes or their zones differ"
        placed = {name: zone for zone, names in self._zones.items() for name in names}
        assert placed == self._zone_of, "a node stands in the wrong zone"
        assert all(self._zones.values()), "an empty zone is kept"
        assert len(self.order()) == len(nodes), "the order misses nodes"


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    for key in keys:
        if key in labels:
            return labels[key]
    return ""
