"""Connects a directory to the events that plugins' handles give.

A kind whose CRD is absent has no events, and begins to have them when the CRD appears; it need not be watched at all
unless some plugin declares it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.api import Pod
from pyscheduler.framework import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.api import KubeObject
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup.dialects import Dialect
    from pyscheduler.podgroup.directory import GroupDirectory

__all__ = ["Feeder"]


class Feeder:
    """Keeps a directory up to date with all pods, of whatever profile, and with the group objects that are watched."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._heard: set[type[KubeObject]] = set()

    def connect(self, handle: Handle, dialects: Iterable[Dialect]) -> None:
        """Listen to what is not listened to yet; each profile may bring further kinds that are watched."""
        directory = self._directory
        if Pod not in self._heard:
            self._heard.add(Pod)
            handle.lister(Pod).add_event_handler(
                on_add=directory.pod_added, on_update=directory.pod_updated, on_delete=directory.pod_deleted
            )
        for kind in (kind for dialect in dialects for kind in dialect.kinds if kind.type not in self._heard):
            try:
                lister = handle.lister(kind.type)
            except PluginError:
                continue  # No plugin that was made so far watches it.
            self._heard.add(kind.type)
            lister.add_event_handler(
                on_add=directory.object_added, on_update=directory.object_updated, on_delete=directory.object_deleted
            )
