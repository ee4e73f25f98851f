"""Find the plugin of a failed or slow function, such as an event handler, so that the log can name the plugin."""

from __future__ import annotations

import traceback
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING

from pyscheduler.framework.callables import receiver
from pyscheduler.framework.interfaces import Plugin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["PluginOwners", "owner_of"]


def owner_of(call: object) -> str:
    """Return the name of the plugin whose method this is, or that the function captured; "" if there is none."""
    return next((plugin.name for plugin in _held_by(call)), "")


def _held_by(call: object) -> Iterator[Plugin]:
    """Yield the plugins that a callable holds."""
    if isinstance(call, Plugin):
        yield call
    elif isinstance(call, MethodType):
        yield from _held_by(call.__self__)
    elif isinstance(call, partial):
        for part in (call.func, *call.args, *call.keywords.values()):
            yield from _held_by(part)
    elif isinstance(call, FunctionType):
        for cell in call.__closure__ or ():
            try:
                held = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            if isinstance(held, Plugin):
                yield held


class PluginOwners:
    """Finds the plugin, among those that it knows, whose code failed."""

    def __init__(self) -> None:
        #: By module, the names of the plugins whose classes it defines; by package, those of its modules.
        self._by_module: dict[str, set[str]] = {}

    def add(self, plugins: Mapping[str, Plugin]) -> None:
        """Add the plugins of a profile."""
        for name, plugin in plugins.items():
            module = type(plugin).__module__
            self._by_module.setdefault(module, set()).add(name)
            package = module.partition(".")[0]
            if package not in {module, __name__.partition(".")[0]}:
                self._by_module.setdefault(package, set()).add(name)

    def find(self, error: BaseException, call: object = None) -> str:
        """Return the name of the plugin; "" if nothing says which it is, or two plugins are in question."""
        return owner_of(call) or self._in_traceback(error) or self._of_module(getattr(call, "__module__", None))

    def of_call(self, call: object) -> str:
        """Return the name of the plugin to which a function, method or coroutine belongs; "" if nobody knows."""
        frame = getattr(call, "cr_frame", None)
        if frame is None:
            return owner_of(call) or self._of_module(getattr(call, "__module__", None))
        owner = receiver(frame)
        return owner.name if isinstance(owner, Plugin) else self._of_module(frame.f_globals.get("__name__"))

    def _in_traceback(self, error: BaseException) -> str:
        modules: list[object] = []
        for frame, _ in traceback.walk_tb(error.__traceback__):
            owner = receiver(frame)
            if isinstance(owner, Plugin):
                return owner.name
            modules.append(frame.f_globals.get("__name__"))
        return next((name for module in modules if (name := self._of_module(module))), "")

    def _of_module(self, module: object) -> str:
        for known in (module, module.partition(".")[0]) if isinstance(module, str) else ():
            names = self._by_module.get(known, ())
            if len(names) == 1:
                return next(iter(names))
        return ""
