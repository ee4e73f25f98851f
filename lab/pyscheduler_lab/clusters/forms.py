"""Read the options that describe a cluster: the nodes, such as `4x8gpu:A100`, and their electrical power in watts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.clusters.node import Node, Watts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["EXAMPLE", "nodes_of_form", "read_shape", "read_watts", "uniform", "with_watts"]

EXAMPLE: Final = "24x8gpu, 24x8gpu,96cpu,1Ti or 4x8gpu:A100,2x4gpu:T4"
"""Forms for messages."""

_MODEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_SHAPE: Final = (
    rf"(?P<gpus>\d{{1,4}})gpu(?::(?P<model>{_MODEL}))?"
    r"(?:,(?P<cpu>\d{1,5})cpu)?(?:,(?P<memory>\d{1,9})(?P<unit>[GT])i)?"
)
_PART: Final = re.compile(rf"(?P<count>[1-9]\d{{0,4}})(?:x{_SHAPE})?(?:,|$)")
_ONE: Final = re.compile(_SHAPE)
_WATTS: Final = re.compile(rf"(?P<model>{_MODEL}|\*)=(?P<idle>\d{{1,6}}(\.\d+)?)\+(?P<gpu>\d{{1,6}}(\.\d+)?)")
_GIBI: Final = {"G": 1024, "T": 1_048_576}
#: The key of `--watts` for nodes that no other key names.
_OTHERS: Final = "*"


def nodes_of_form(text: str) -> list[Node] | None:
    """Return the nodes of a text such as `4x8gpu:A100,2x4gpu:T4`; None if it has another form."""
    nodes: list[Node] = []
    place = 0
    while place < len(text):
        found = _PART.match(text, place)
        if found is None or (found.end() == len(text) and text.endswith(",")):
            return None
        nodes += uniform(int(found["count"]), _shape(found), first=len(nodes))
        place = found.end()
    return nodes or None


def read_shape(text: str) -> Node:
    """Return a node without a name from a text such as `8gpu:A100,96cpu,1Ti`; raise `ConfigError` for another form."""
    found = _ONE.fullmatch(text)
    if found is None:
        raise ConfigError(f'the shape "{text}" must be like 8gpu, 8gpu:A100 or 8gpu,96cpu,1Ti')
    return _shape(found)


def _shape(found: re.Match[str]) -> Node:
    said: dict[str, Any] = {}
    if found["gpus"]:
        said["gpus"] = int(found["gpus"])
    if found["cpu"]:
        said["cpu_milli"] = int(found["cpu"]) * 1000
    if found["memory"]:
        said["memory_mib"] = int(found["memory"]) * _GIBI[found["unit"]]
    return Node(name="", gpu_model=found["model"] or "", **said)


def uniform(count: int, shape: Node, *, first: int = 0) -> list[Node]:
    """Return equal nodes, which are numbered from `first` on."""
    return [attrs.evolve(shape, name=f"node-{number}") for number in range(first, first + count)]


def read_watts(text: str) -> dict[str, Watts]:
    """Return the power by GPU model from a text such as `A100=400+350,*=200+0`.

    Raises `ConfigError` for another form.
    """
    found: dict[str, Watts] = {}
    for part in text.split(","):
        said = _WATTS.fullmatch(part.strip())
        if said is None or said["model"] in found:
            raise ConfigError(
                f'watts: "{part.strip()}" must be like A100=400+350: watts of an idle node with this GPU model, and '
                "watts more for each busy GPU; * stands for all other nodes, and each model is named once"
            )
        found[said["model"]] = Watts(float(said["idle"]), float(said["gpu"]))
    return found


def with_watts(nodes: Iterable[Node], watts: Mapping[str, Watts]) -> list[Node]:
    """Return the nodes with their power; raise `ConfigError` for a model that no node has."""
    nodes = [*nodes]
    unknown = watts.keys() - {node.gpu_model for node in nodes} - {_OTHERS}
    if unknown:
        models = sorted({node.gpu_model for node in nodes if node.gpu_model})
        raise ConfigError(f"watts: no node has GPUs of model {min(unknown)}; models are {', '.join(models) or 'none'}")
    return [attrs.evolve(node, watts=watts.get(node.gpu_model, watts.get(_OTHERS, node.watts))) for node in nodes]
