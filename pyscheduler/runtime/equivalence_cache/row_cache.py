"""Base class of the filter cache and the score cache, which keep plugin results for a node until the node changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.cache.changes import Changes
    from pyscheduler.cache.view import NodeView
    from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod

__all__ = ["COUNTED", "FEW_ROWS", "KNOWN_BYTES", "MAX_KNOWN", "CallPlugin", "RowCache"]

#: Up to so many rows are looked up one by one.
FEW_ROWS: Final = 16
#: Amounts whose answers are cached, and about how many bytes each takes.
MAX_KNOWN: Final = 512
KNOWN_BYTES: Final = 320
#: So many new ones are worth counting the bytes again.
COUNTED: Final = 64

#: Calls a plugin with nodes, or with scores, in the cycle of some pod.
CallPlugin: TypeAlias = "Callable[[PluginMethod, object], object]"


class RowCache(ABC):
    """Answers of plugins by row of a node view."""

    def __init__(self) -> None:
        #: Up to where the change log was followed.
        self._epoch = self._position = self._node_version = -1
        #: Grows when the size is another.
        self.growth = 0

    def sync(self, call: CallPlugin, nodes: NodeView) -> bool:
        """Bring everything up to date with `nodes`; return False where a plugin's answer cannot be cached."""
        log = nodes.changes
        if self._epoch == log.epoch and self._position == log.position:
            return True
        changes = log.since(self._position) if self._epoch == log.epoch else None
        if changes is None or 2 * len(changes.rows) > len(nodes):
            done = self._begin(call, nodes)
        else:
            done = self._update(call, nodes, changes, node_changed=self._node_version != log.node_version)
        self._epoch, self._position, self._node_version = log.epoch, log.position, log.node_version
        return done

    @abstractmethod
    def _begin(self, call: CallPlugin, nodes: NodeView) -> bool:
        """Call the plugins for all nodes."""

    @abstractmethod
    def _update(self, call: CallPlugin, nodes: NodeView, changes: Changes, *, node_changed: bool) -> bool:
        """Call the plugins for the rows that changed; `node_changed`: some node object did, not only pods."""
