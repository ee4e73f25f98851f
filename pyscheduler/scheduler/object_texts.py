"""Pods and nodes in JSON for extenders, as the API server sends them but without `managedFields`.

Extenders may need all fields of an object, but the scheduler decodes only the fields that it reads.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyscheduler.api import Pod, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler.api import KubeObject, Node
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.scheduler.ports import Informer

__all__ = ["ObjectTexts"]

#: The number of nodes after which the loop yields.
_CHUNK: Final = 500
_MANAGED: Final = b'"managedFields"'


class ObjectTexts:
    """The newest text of each object; it may be newer than the object in the snapshot.

    An object without a text here is encoded with the fields that were decoded.
    """

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        #: By uid.
        self._texts: dict[str, bytes] = {}

    def follow_pods(self, pods: Informer[Pod], *, bound: bool) -> None:
        """Keep the texts of pending pods, and with `bound` those of bound pods, too."""

        def keep(item: KubeObject, text: bytes) -> None:
            if isinstance(item, Pod) and item.node_name and not bound:
                self._drop(item)
            else:
                self._keep(item, text)

        pods.keep_texts(keep)
        pods.add_event_handler(on_delete=self._drop)

    def follow_nodes(self, nodes: Informer[Node]) -> None:
        """Keep the texts of nodes."""
        nodes.keep_texts(self._keep)
        nodes.add_event_handler(on_delete=self._drop)

    def text(self, item: KubeObject) -> bytes:
        """Return an object in JSON."""
        text = self._texts.get(item.uid)
        return text if text is not None else encode(item)

    async def nodes(self, nodes: Iterable[NodeInfo]) -> Sequence[bytes]:
        """Return nodes in JSON, in their order."""
        infos = list(nodes)
        texts: list[bytes] = []
        for start in range(0, len(infos), _CHUNK):
            if start:
                await asyncio.sleep(0)
            texts += [self.text(info.node) for info in infos[start : start + _CHUNK] if info.node is not None]
        return texts

    def _keep(self, item: KubeObject, text: bytes) -> None:
        if item.uid:
            self._texts[item.uid] = _without_managed_fields(text)

    def _drop(self, item: KubeObject) -> None:
        self._texts.pop(item.uid, None)


def _without_managed_fields(text: bytes) -> bytes:
    """Return the object without `metadata.managedFields`, which is long and of no use to extenders."""
    if _MANAGED not in text:
        return text
    fields: dict[str, Any] = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    metadata = msgspec.json.decode(fields["metadata"], type=dict[str, msgspec.Raw])
    metadata.pop("managedFields", None)
    return msgspec.json.encode({**fields, "metadata": metadata})
