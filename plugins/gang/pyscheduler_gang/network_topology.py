"""Place a gang within one part of the network, as the annotation `network-topology-spec` requires.

A part is, for example, a rack: all nodes with the same value of a label. With `MustGather` for racks, the pods of the
gang run in one rack.

Differs from Koordinator: the plugins of the profile choose the nodes within the part.
Source: Koordinator, `frameworkext/networktopology/tree.go`, `coscheduling/core/network_topology_solver.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import numpy as np

from pyscheduler.api import KubeObject, kind_of
from pyscheduler.framework import PlacementLevels, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import ResourceKind
    from pyscheduler.framework import Handle, Nodes
    from pyscheduler.podgroup import GroupState

__all__ = ["CLUSTER_NETWORK_TOPOLOGIES", "ClusterNetworkTopology", "placement_levels"]

_NAME: Final = "default"
_NODE_LAYER: Final = "NodeTopologyLayer"
_CLUSTER_LAYER: Final = "ClusterTopologyLayer"
_ABSENT: Final = "no cluster network topology"
#: How many parts a message lists.
_LISTED: Final = 10


class ClusterNetworkTopology(KubeObject):
    """ClusterNetworkTopology of Koordinator: the layers of the network."""

    api_version: ClassVar[str] = "scheduling.koordinator.sh/v1alpha1"
    kind: ClassVar[str] = "ClusterNetworkTopology"

    spec: Any = None


CLUSTER_NETWORK_TOPOLOGIES: Final[ResourceKind] = kind_of(
    ClusterNetworkTopology, "clusternetworktopologies", namespaced=False
)


@attrs.frozen
class _Layer:
    name: str
    label_keys: tuple[str, ...]


@attrs.frozen(eq=False)
class _Parts:
    """The parts of a layer: int[n], the number of the part of each node, 0 for none; and the name of a part."""

    layer: str
    ids: NDArray[np.int64]
    name: Callable[[int], str]


def placement_levels(states: Sequence[GroupState], nodes: Nodes, handle: Handle) -> PlacementLevels | Status | None:
    """Return the parts of the network that a gang group may use; None if it names no layer."""
    rules = next((state.group.gather for state in sorted(states, key=lambda each: each.id) if state.group.gather), ())
    if not rules:
        return None
    found = handle.lister(ClusterNetworkTopology).get(_NAME)
    layers = _layers(found.spec) if found is not None else ()
    if not layers:
        return Status.unschedulable(_ABSENT)
    parts = _parts(layers, nodes)
    required = {rule.layer for rule in rules if rule.is_required}
    unknown = required - {each.layer for each in parts}
    if unknown:
        return Status.unschedulable(f"{_ABSENT}: no layer {', '.join(sorted(unknown))}")
    lowest = next((index for index, each in enumerate(parts) if each.layer in required), len(parts) - 1)
    usable = parts[: lowest + 1]
    widest = usable[-1]
    taken = _taken(states, nodes, widest.ids)
    masks = [each.ids if taken is None else np.where(np.isin(widest.ids, taken), each.ids, 0) for each in usable]
    return PlacementLevels(levels=masks, refusal=lambda count, room: _refusal(widest, count, room))


def _layers(spec: Any) -> tuple[_Layer, ...]:
    """Return the layers from the nodes upwards; none if they are no chain."""
    items = spec.get("networkTopologySpec") if isinstance(spec, Mapping) else None
    by_name = {
        each.get("topologyLayer"): each
        for each in (items if isinstance(items, list) else ())
        if isinstance(each, Mapping) and isinstance(each.get("topologyLayer"), str)
    }
    name, found = _NODE_LAYER, []
    while (said := by_name.pop(name, None)) is not None:
        keys = said.get("labelKey")
        found.append(_Layer(name, tuple(str(key) for key in keys) if isinstance(keys, list) else ()))
        parent = said.get("parentTopologyLayer")
        name = parent if isinstance(parent, str) else ""
    return tuple(found)


def _parts(layers: Sequence[_Layer], nodes: Nodes) -> list[_Parts]:
    """Return the parts of each layer, the nodes first and the whole cluster last."""
    own = np.arange(1, len(nodes) + 1)
    found = [_Parts(_NODE_LAYER, own, lambda part: nodes.name(part - 1))]
    is_in_tree = np.ones(len(nodes), dtype=np.bool_)
    for number, layer in enumerate(each for each in layers if each.name not in {_NODE_LAYER, _CLUSTER_LAYER}):
        ids, values = _values(layer.label_keys, nodes)
        if number == 0:
            # A node without a value in the lowest layer is a part of its own there.
            ids = np.where(ids == 0, own + len(values) - 1, ids)
        is_in_tree &= ids > 0
        found.append(_Parts(layer.name, ids, partial(_named, values, nodes)))
    found.append(_Parts(_CLUSTER_LAYER, np.ones_like(own), lambda _part: ""))
    return [attrs.evolve(each, ids=np.where(is_in_tree, each.ids, 0)) for each in found]


def _named(values: Sequence[str | None], nodes: Nodes, part: int) -> str:
    return values[part] or "" if part < len(values) else nodes.name(part - len(values))


def _values(keys: Sequence[str], nodes: Nodes) -> tuple[NDArray[np.int64], Sequence[str | None]]:
    """Return the first value of each node among these labels as a number, 0 for none, and the values by number."""
    columns = [nodes.labels(key) for key in keys]
    if len(columns) == 1:
        return columns[0].ids.astype(np.int64), columns[0].values
    ids = np.zeros(len(nodes), dtype=np.int64)
    values: list[str | None] = [None]
    numbers: dict[str | None, int] = {None: 0, "": 0}
    for column in columns:
        for value in column.values:
            if numbers.setdefault(value, len(values)) == len(values):
                values.append(value)
        own = np.array([numbers[value] for value in column.values], dtype=np.int64)
        ids = np.where(ids == 0, own[column.ids], ids)
    return ids, values


def _taken(states: Iterable[GroupState], nodes: Nodes, ids: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the numbers of the parts where members have nodes; None if no member has one there."""
    members = (pod for state in states for pod in (*state.waiting.values(), *state.bound.values()))
    rows = {row for pod in members if pod.node_name and (row := nodes.index(pod.node_name)) is not None}
    found = np.unique(ids[list(rows)]) if rows else ids[:0]
    found = found[found > 0]
    return found if len(found) else None


def _refusal(parts: _Parts, count: int, room: NDArray[np.int64]) -> str:
    """Return Koordinator's message for a gang that no part has room for."""
    numbers = np.unique(parts.ids[parts.ids > 0]).tolist()
    listed = [f"topology topologyNode {parts.layer}/{parts.name(each)}: {room[each]}" for each in numbers[:_LISTED]]
    if len(numbers) > _LISTED:
        listed.append(f"{len(numbers) - _LISTED} more")
    return (
        f"no candidate topology nodes can accommodate job, desiredOfferSlot: {count}"
        f"{', ' if listed else ''}{';'.join(listed)}"
    )
