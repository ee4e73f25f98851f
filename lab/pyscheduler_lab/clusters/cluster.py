"""`Cluster`: the nodes of a simulated cluster, and the text or file from which they were read."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.clusters.forms import EXAMPLE, nodes_of_form, read_watts, uniform, with_watts
from pyscheduler_lab.clusters.node import Node
from pyscheduler_lab.clusters.node_lists import is_openb_nodes, nodes_of_objects, read_openb_nodes
from pyscheduler_lab.data import FOLDER
from pyscheduler_lab.data.objects import is_objects, objects_in
from pyscheduler_lab.data.tables import read_bytes, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["NODE_LISTS", "Cluster"]

NODE_LISTS: Final[Mapping[str, Path]] = {
    "openb": FOLDER / "openb" / "openb_node_list_gpu_node.csv.gz",
    "openb-all": FOLDER / "openb" / "openb_node_list_all_node.csv.gz",
}
"""The node lists that come with the lab, by the name that `--nodes` and `Cluster.read` take.

`openb` is the cluster of the FGD paper, 1,213 nodes with GPUs; `openb-all` has 310 nodes without GPUs in addition.
"""


def _fixed(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(nodes)


@attrs.frozen(kw_only=True)
class Cluster:
    """Nodes; raises `ConfigError` if two have the same name."""

    nodes: Sequence[Node] = attrs.field(converter=_fixed, repr=lambda nodes: f"<{len(nodes)} nodes>")
    #: The text or the path that the nodes were read from; "" for nodes that were made in Python.
    source: str = ""
    #: The SHA-256 of the file as it is; otherwise of the nodes.
    sha256: str = ""

    def __attrs_post_init__(self) -> None:
        twice = [name for name, number in Counter(node.name for node in self.nodes).items() if number > 1]
        if twice:
            raise ConfigError(f"two nodes have the name {twice[0]}", source=self.source or None)
        if not self.sha256:
            text = msgspec.json.encode([node.as_object() for node in self.nodes])
            object.__setattr__(self, "sha256", hashlib.sha256(text).hexdigest())

    @classmethod
    def read(cls, source: str | Path, *, watts: str = "") -> Cluster:
        """Return the nodes of a text such as `4x8gpu:A100,2x4gpu:T4`, of a name in `NODE_LISTS`, or of a file.

        `watts` is the power by GPU model, as in `A100=400+350,*=200+0`. Raises `ConfigError` for anything else.
        """
        nodes, digest = _read(str(source))
        return cls(
            nodes=with_watts(nodes, read_watts(watts)) if watts else nodes,
            source=str(source),
            sha256=digest,
        )

    @classmethod
    def uniform(cls, count: int, *, gpus: int = 8, cpu_milli: int = 96_000, memory_mib: int = 1_048_576) -> Cluster:
        """Return a cluster of equal nodes."""
        return cls(nodes=uniform(count, Node(name="", gpus=gpus, cpu_milli=cpu_milli, memory_mib=memory_mib)))

    @property
    def gpus(self) -> int:
        """Return the number of all GPUs."""
        return sum(node.gpus for node in self.nodes)

    def manifests(self, *, shares_gpus: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the objects of the nodes; with `shares_gpus`, pods may share their GPUs."""
        for node in self.nodes:
            yield node.as_object(shares_gpus=shares_gpus)


def _read(text: str) -> tuple[Sequence[Node], str]:
    """Return the nodes, and the SHA-256 of their file; "" without a file."""
    path = NODE_LISTS.get(text) or Path(text)
    if text not in NODE_LISTS:
        nodes = nodes_of_form(text)
        if nodes is not None:
            return nodes, ""
        if not path.is_file():
            raise ConfigError(
                f'nodes: "{text}" is neither a file nor a shape; give a file such as nodes.yaml, which "kubectl get '
                f'nodes -o yaml" writes, a shape such as {EXAMPLE}, or one of {", ".join(NODE_LISTS)}'
            )
    content, digest = read_bytes(path)
    if is_objects(content):
        found = nodes_of_objects(objects_in(content, str(path)), str(path))
    else:
        table = table_of(content, str(path))
        if not is_openb_nodes(table.columns):
            raise ConfigError("not a list of nodes; give what kubectl get nodes -o yaml prints", source=str(path))
        found = read_openb_nodes(table)
    if not found:
        raise ConfigError("the file has no nodes", source=str(path))
    return found, digest
