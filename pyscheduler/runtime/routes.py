"""The GET routes that plugins add to the ports on which the scheduler serves its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pyscheduler.framework.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Routes"]

_Handler: TypeAlias = "Callable[[Mapping[str, str]], object]"


class Routes:
    """Handlers by path and profile, for all profiles of a process."""

    def __init__(self) -> None:
        self._handlers: dict[str, dict[str, _Handler]] = {}

    def add(self, path: str, handler: _Handler, *, profile: str) -> None:
        """Answer `path`; raise `PluginError` where it is no path, or the profile answers it already."""
        if not path.startswith("/"):
            raise PluginError(f"route {path!r} does not begin with a slash", plugin="")
        handlers = self._handlers.setdefault(path, {})
        if profile in handlers:
            raise PluginError(f"route {path} is answered already in profile {profile}", plugin="")
        handlers[profile] = handler

    def paths(self) -> list[str]:
        """Return all paths, sorted."""
        return sorted(self._handlers)

    def answer(self, path: str, query: Mapping[str, str]) -> object:
        """Return what the plugin says: text, or data to be shown as JSON.

        Raises `KeyError` for a path, or a profile, that nobody answers for; lets the handler's exceptions through.
        """
        handler = self.find(path, query)
        if handler is None:
            raise KeyError(path)
        return handler(query)

    def find(self, path: str, query: Mapping[str, str]) -> _Handler | None:
        """Return who answers that path, for the profile that the query names; None where nobody does."""
        handlers: Mapping[str, _Handler] | None = self._handlers.get(path)
        given: dict[str, str] = {}
        if handlers is None:
            handlers, given = self._match(path.split("/"))
        handler = handlers.get(query.get("profile") or next(iter(handlers))) if handlers else None
        if handler is None or not given:
            return handler
        return lambda query: handler({**query, **given})

    def _match(self, segments: Sequence[str]) -> tuple[Mapping[str, _Handler], dict[str, str]]:
        """Return the handlers of the first pattern that fits, and what its braces stand for."""
        for pattern, handlers in self._handlers.items():
            wanted = pattern.split("/")
            if "{" not in pattern or len(wanted) != len(segments):
                continue
            pairs = [(name, text) for name, text in zip(wanted, segments, strict=True) if name != text]
            if all(name.startswith("{") and name.endswith("}") and text for name, text in pairs):
                return handlers, {name[1:-1]: text for name, text in pairs}
        return {}, {}
