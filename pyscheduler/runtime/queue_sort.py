"""QueueSort made into a key function, whichever of its two forms a plugin defines.

The queue orders pods by a key. A plugin's `sort_key` is one already; its `less(a, b)` becomes one whose comparisons ask
the plugin. A plugin that fails must not take the queue along: where `sort_key` fails the pod sorts behind all others,
where `less` fails the two pods are in the order of their priority, then of their coming.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework.interfaces import QueueSortPlugin
from pyscheduler.framework.status import Status
from pyscheduler.queue.heap import LiveKey
from pyscheduler.runtime.extension_points import defines
from pyscheduler.runtime.plugin_calls import PluginMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.runtime.plugin_calls import PluginCalls

__all__ = ["make_adjacency_key", "make_sort_key"]


def make_sort_key(name: str, plugin: Plugin, calls: PluginCalls) -> Callable[[QueuedPodInfo], object]:
    """Return the key function of the QueueSort plugin called `name`; its keys can be compared with each other."""
    by_key = defines(type(plugin), QueueSortPlugin, "sort_key")
    method = PluginMethod(
        plugin=name,
        point="QueueSort",
        call=getattr(plugin, "sort_key" if by_key else "less"),
        running=f'running QueueSort plugin "{name}"',
    )
    if not by_key:
        return lambda info: _Compared(info, method, calls)

    def sort_key(info: QueuedPodInfo) -> object:
        answer = calls.run(method, info.pod, info)
        if isinstance(answer, tuple):
            return answer
        if not isinstance(answer, Status):
            calls.wrong_type(method, info.pod, answer, "a tuple")
        return _Last(info)

    return sort_key


def make_adjacency_key(
    name: str, plugin: Plugin, calls: PluginCalls
) -> Callable[[QueuedPodInfo], Hashable | None] | None:
    """Return what tells the group with which a pod leaves activeQ; None where the QueueSort plugin has no groups.

    A pod whose group cannot be told goes alone.
    """
    if not defines(type(plugin), QueueSortPlugin, "adjacency_key"):
        return None
    method = PluginMethod(
        plugin=name,
        point="QueueSort",
        call=getattr(plugin, "adjacency_key"),  # noqa: B009 - not every plugin at QueueSort inherits it
        running=f'running QueueSort plugin "{name}"',
    )

    def adjacency_key(info: QueuedPodInfo) -> Hashable | None:
        answer = calls.run(method, info.pod, info)
        if isinstance(answer, Status):
            return None
        try:
            hash(answer)
        except TypeError:
            calls.wrong_type(method, info.pod, answer, "something hashable")
            return None
        return answer

    return adjacency_key


class _Compared(LiveKey):
    """The key of a pod whose plugin defines `less`."""

    __slots__ = ("_calls", "_info", "_method")

    def __init__(self, info: QueuedPodInfo, method: PluginMethod, calls: PluginCalls) -> None:
        self._info = info
        self._method = method
        self._calls = calls

    def __lt__(self, other: _Compared) -> bool:
        answer = self._calls.run(self._method, self._info.pod, self._info, other._info)
        if isinstance(answer, bool):
            return answer
        if not isinstance(answer, Status):
            self._calls.wrong_type(self._method, self._info.pod, answer, "a bool")
        return _by_priority(self._info) < _by_priority(other._info)


class _Last:
    """The key of a pod whose key could not be made: greater than every other key."""

    __slots__ = ("_info",)

    def __init__(self, info: QueuedPodInfo) -> None:
        self._info = info

    def __lt__(self, other: object) -> bool:
        return isinstance(other, _Last) and _by_priority(self._info) < _by_priority(other._info)

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, _Last) or _by_priority(self._info) > _by_priority(other._info)


def _by_priority(info: QueuedPodInfo) -> tuple[int, float]:
    return (-info.pod.priority, info.enqueued_at)
