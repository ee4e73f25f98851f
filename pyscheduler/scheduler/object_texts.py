"""Pods and nodes in JSON, as extenders are told of them: everything that the API server knows of them.

The scheduler itself decodes only the fields that it reads. For extenders the texts that objects were decoded from are
kept beside them, but for `managedFields`, which kube-scheduler does not send either. A question about all nodes then
costs no more than putting their texts one after the other.
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

#: So many nodes are looked at before the loop turns.
_CHUNK: Final = 500
_MANAGED: Final = b'"managedFields"'


class ObjectTexts:
    """The texts of objects, as the API server told them last: that may be later than what a cycle's snapshot holds.

    An object whose text is not here, because it came some other way, is written with the fields that were decoded.
    """

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        #: By uid.
        self._texts: dict[str, bytes] = {}

    def follow_pods(self, pods: Informer[Pod], *, bound: bool) -> None:
        """Keep the texts of pending pods, and of those that are `bound` where extenders may hear of them as well."""

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
    """Return the object without its longest and least telling field."""
    if _MANAGED not in text:
        return text
    fields: dict[str, Any] = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    metadata = msgspec.json.decode(fields["metadata"], type=dict[str, msgspec.Raw])
    metadata.pop("managedFields", None)
    return msgspec.json.encode({**fields, "metadata": metadata})
