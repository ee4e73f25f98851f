"""Make the queue's sort key from the method `sort_key` or `less` of a QueueSort plugin."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.framework.interfaces import QueueSortPlugin
from pyscheduler.framework.status import Status
from pyscheduler.queue.heap import LiveKey
from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod
from pyscheduler.runtime.extension_points.points import defines

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls

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

    forms = _Forms()

    def sort_key(info: QueuedPodInfo) -> object:
        answer = calls.run(method, info.pod, info)
        if isinstance(answer, tuple):
            unlike = forms.unlike(answer)
            if unlike is None:
                return answer
            calls.failed(method, info.pod, TypeError(f"the key cannot be compared with earlier ones: {unlike}"))
            return _Last(info)
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


class _Forms:
    """The types in the keys of one plugin, place by place: any two keys that were let in can be compared."""

    __slots__ = ("_kinds", "_known")

    def __init__(self) -> None:
        #: The types of flat keys that were let in; as a rule there are one or two, and nothing else is looked at.
        self._known: set[tuple[type, ...]] = set()
        #: What stands at each place, by its path: the first key decides, later ones may be longer.
        self._kinds: dict[tuple[int, ...], type] = {}

    def unlike(self, key: tuple[object, ...]) -> str | None:
        """Return what of a key is unlike all before it; None where it can be compared with them."""
        form = tuple(map(type, key))
        if form in self._known:
            return None
        found: dict[tuple[int, ...], type] = {}
        unlike = self._compare(key, (), found)
        if unlike is None:
            self._kinds |= found
            if tuple not in found.values():
                self._known.add(form)
        return unlike

    def _compare(
        self, key: tuple[object, ...], path: tuple[int, ...], found: dict[tuple[int, ...], type]
    ) -> str | None:
        for place, part in enumerate(key):
            here = (*path, place)
            kind = _kind_of(part)
            before = self._kinds.get(here, kind)
            where = "".join(f"[{index}]" for index in here)
            if kind is not before:
                return f"{kind.__name__} at {where}, where others have {before.__name__}"
            found[here] = kind
            if isinstance(part, tuple):
                unlike = self._compare(part, here, found)
                if unlike is not None:
                    return unlike
            elif part is not None and not _has_order(part):
                return f"{kind.__name__} at {where} has no order"
        return None


def _kind_of(part: object) -> type:
    """Return the type that stands for all that can be compared with `part`."""
    for kind in (str, tuple):
        if isinstance(part, kind):
            return kind
    return Real if isinstance(part, Real) else type(part)


def _has_order(part: Any) -> bool:
    try:
        part < part  # noqa: B015, PLR0124 - whether it raises is all
    except PLUGIN_FAILURES:
        return False
    return True


class _Compared(LiveKey):
    """The key of a pod whose plugin defines `less`."""

    __slots__ = ("_calls", "_info", "_method")

    def __init__(self, info: QueuedPodInfo, method: PluginMethod, calls: PluginCalls) -> None:
        self._info = info
        self._method = method
        self._calls = calls

    def __eq__(self, other: object) -> bool:
        # Who checks the queue makes a pod's key once more, and it is to be the same.
        return isinstance(other, _Compared) and self._info is other._info

    __hash__ = None  # type: ignore[assignment]  # what it compares with may change

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Last) and self._info is other._info

    __hash__ = None  # type: ignore[assignment]  # likewise

    def __lt__(self, other: object) -> bool:
        return isinstance(other, _Last) and _by_priority(self._info) < _by_priority(other._info)

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, _Last) or _by_priority(self._info) > _by_priority(other._info)


def _by_priority(info: QueuedPodInfo) -> tuple[int, float]:
    return (-info.pod.priority, info.enqueued_at)
