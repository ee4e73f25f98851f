"""Decode fields of pods and nodes that pyscheduler itself does not read, for plugins that need them.

A plugin declares types in `pod_fields` and `node_fields`, and reads the decoded fields with `handle.fields`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from pyscheduler.api import DecodeError, KubeObject, Node, Pod, decode, encode
from pyscheduler.framework.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler.api import Wire
    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.scheduler.ports import Informer

__all__ = ["ObjectFields"]

F = TypeVar("F", bound="Wire")


class ObjectFields:
    """The newest fields of each object, by declared type and uid."""

    def __init__(self) -> None:
        self._pods: Mapping[type[Wire], dict[str, object]] = {}
        self._nodes: Mapping[type[Wire], dict[str, object]] = {}

    def follow(self, plugins: Iterable[Plugin], *, pods: Informer[Pod], nodes: Informer[Node]) -> None:
        """Keep what these plugins declare; call it before the informers start."""
        plugins = tuple(plugins)
        self._pods = {cls: {} for plugin in plugins for cls in plugin.pod_fields}
        self._nodes = {cls: {} for plugin in plugins for cls in plugin.node_fields}
        _keep(pods, self._pods)
        _keep(nodes, self._nodes)

    def of(self, item: KubeObject, cls: type[F]) -> F:
        """Return the fields of a pod or node; raise `PluginError` for a type that no plugin declares.

        Raises `DecodeError` for fields that cannot be read. An object that the API server does not have is read as far
        as pyscheduler decodes it.
        """
        is_pod = isinstance(item, Pod)
        by_uid = (self._pods if is_pod else self._nodes).get(cls)
        if by_uid is None:
            attribute = "pod_fields" if is_pod else "node_fields"
            raise PluginError(
                f"{cls.__name__} is read but not declared; add it to the plugin's `{attribute}`", plugin=""
            )
        found = by_uid.get(item.uid)
        if found is None:
            found = decode(cls, encode(item))
        if isinstance(found, DecodeError):
            raise found
        return cast("F", found)


def _keep(informer: Informer[Pod] | Informer[Node], kept: Mapping[type[Wire], dict[str, object]]) -> None:
    if not kept:
        return

    def keep(item: KubeObject, text: bytes) -> None:
        for cls, by_uid in kept.items():
            try:
                by_uid[item.uid] = decode(cls, text)
            except DecodeError as error:
                by_uid[item.uid] = error.with_traceback(None)

    def drop(item: KubeObject) -> None:
        for by_uid in kept.values():
            by_uid.pop(item.uid, None)

    informer.keep_texts(keep)
    # Last, so that the handlers of plugins can still read what is going.
    informer.add_event_handler(on_delete=drop, late=True)
