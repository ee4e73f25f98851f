"""Pods and nodes in JSON, as extenders are told of them.

A node is written once for each state it is in. After that a question about all nodes costs no more than putting the
texts one after the other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pyscheduler.api import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler.api import Node, Pod
    from pyscheduler.framework.node_info import NodeInfo

__all__ = ["WireForms"]

#: So many nodes are written before the loop turns; each takes some 10 us.
_CHUNK: Final = 500


class WireForms:
    """Writes pods and nodes, and remembers what the nodes look like."""

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[Node, bytes]] = {}

    def pod(self, pod: Pod) -> bytes:
        """Return a pod in JSON."""
        return encode(pod)

    async def nodes(self, nodes: Iterable[NodeInfo]) -> Sequence[bytes]:
        """Return nodes in JSON, in their order."""
        infos = list(nodes)
        texts: list[bytes] = []
        for start in range(0, len(infos), _CHUNK):
            if start:
                await asyncio.sleep(0)
            texts += [self._node(info.node) for info in infos[start : start + _CHUNK] if info.node is not None]
        if len(self._nodes) > 2 * len(infos) + _CHUNK:
            # Nodes come and go; what is left behind is written anew where it was wanted after all.
            self._nodes.clear()
        return texts

    def _node(self, node: Node) -> bytes:
        known = self._nodes.get(node.name)
        if known is None or known[0] is not node:
            known = self._nodes[node.name] = (node, encode(node))
        return known[1]
