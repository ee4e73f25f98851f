"""Read nodes from files: node lists of Alibaba's trace openb, and what `kubectl get nodes -o yaml` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_objects.errors import QuantityError
from kube_objects.quantity import quantity_milli, quantity_value
from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.clusters.node import GPU, MODEL_LABEL, Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler_lab.data.tables import Table

__all__ = ["is_openb_nodes", "nodes_of_objects", "read_openb_nodes"]

_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_MEBI: Final = 1 << 20
#: Fields of an object that a server writes; a new server writes its own.
_SERVER_FIELDS: Final = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "ownerReferences"}
)
_KEPT_STATUS: Final = ("capacity", "allocatable", "conditions", "images", "nodeInfo", "volumesAttached", "addresses")


def is_openb_nodes(columns: Sequence[str]) -> bool:
    """Return True for a node list of openb."""
    return "sn" in columns and "cpu_milli" in columns


def read_openb_nodes(table: Table) -> list[Node]:
    """Return the nodes of a list; raise `ConfigError` for a wrong value."""
    table.require(_COLUMNS, "a list of nodes")
    return [
        Node(
            name=row.text("sn"),
            gpus=row.whole("gpu"),
            cpu_milli=row.whole("cpu_milli"),
            memory_mib=row.whole("memory_mib"),
            gpu_model=row.text("model"),
        )
        for row in table.rows
    ]


def nodes_of_objects(objects: Iterable[dict[str, Any]], source: str) -> list[Node]:
    """Return the nodes among objects, as they are, without the fields that only a server writes."""
    return [_node(each, source) for each in objects if each.get("kind") == "Node"]


def _node(found: dict[str, Any], source: str) -> Node:
    metadata = {key: value for key, value in found["metadata"].items() if key not in _SERVER_FIELDS}
    status = {key: value for key, value in (found.get("status") or {}).items() if key in _KEPT_STATUS}
    name = metadata.get("name", "")
    room = status.get("allocatable") or status.get("capacity") or {}
    try:
        cpu, memory = quantity_milli(room["cpu"]), quantity_value(room["memory"])
        gpus = quantity_value(room.get(GPU, 0))
    except (KeyError, QuantityError) as error:
        why = f"has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
        raise ConfigError(f"node {name}: status.allocatable: {why}", source=source) from error
    spec = {key: value for key, value in (found.get("spec") or {}).items() if key in ("taints", "unschedulable")}
    return Node(
        name=name,
        gpus=gpus,
        cpu_milli=cpu,
        memory_mib=memory // _MEBI,
        gpu_model=(metadata.get("labels") or {}).get(MODEL_LABEL, ""),
        manifest={"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status},
    )
