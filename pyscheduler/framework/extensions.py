"""Let Python packages extend a plugin: for example, a package can add an action to the plugin `Batch`.

The plugin gets its extensions with `Extensions.of(handle)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.framework.errors import PLUGIN_FAILURES, ConfigError
from pyscheduler.framework.plugin_failures import error_place, error_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.framework.handle import Handle

__all__ = ["EXTENSIONS", "Extensions", "Offer"]

#: The key under which all plugins of a scheduler share the offers.
EXTENSIONS: Final = "pyscheduler/extensions"


@attrs.frozen
class Offer:
    """Something that a distribution offers to a plugin of another, as `module:Name`."""

    distribution: str
    target: str

    def load(self, whose: str, wanted: type) -> Any:  # noqa: ANN401 - a class, or an object of it
        """Import it; raise `ConfigError` with one line if that fails, or if it is no `wanted`."""
        module, _, name = self.target.partition(":")
        where = self._where(whose)
        try:
            found = getattr(import_module(module), name)
        # A module that exits while it is imported must not take the scheduler along.
        except (Exception, SystemExit) as error:
            raise ConfigError(f"{where} cannot be imported: {_told(error)}") from error
        fits = issubclass(found, wanted) if isinstance(found, type) else isinstance(found, wanted)
        if not fits:
            raise ConfigError(f"{where} is not a {wanted.__module__}.{wanted.__qualname__}")
        return found

    def make(self, whose: str, wanted: type, arguments: Mapping[str, str]) -> Any:  # noqa: ANN401 - the same
        """Import a class and make one with these arguments; raise `ConfigError` with one line if that fails."""
        found = self.load(whose, wanted)
        try:
            return found(arguments)
        except ConfigError:
            raise
        except PLUGIN_FAILURES as error:
            place = error_place(error, getattr(found, "__init__", None))
            raise ConfigError(f"{self._where(whose)} cannot be made: {_told(error)}, {place}") from error

    def _where(self, whose: str) -> str:
        return f"{whose} of {self.distribution} ({self.target})"


def _told(error: BaseException) -> str:
    """Return an error on one line; of an import that failed, the text says enough."""
    return " ".join(str(error).split()) if isinstance(error, (ImportError, AttributeError)) else error_text(error)


@attrs.frozen
class Extensions:
    """The offers of all distributions, by name."""

    systems: Mapping[str, Offer] = attrs.field(factory=dict)
    policies: Mapping[str, Offer] = attrs.field(factory=dict)
    actions: Mapping[str, Offer] = attrs.field(factory=dict)
    queue_dialects: Mapping[str, Offer] = attrs.field(factory=dict)
    groupers: Mapping[str, Offer] = attrs.field(factory=dict)

    @classmethod
    def of(cls, handle: Handle) -> Extensions:
        """Return the offers of the scheduler that `handle` belongs to."""
        return handle.shared(EXTENSIONS, cls)
