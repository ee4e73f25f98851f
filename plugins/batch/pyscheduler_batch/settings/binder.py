"""The arg `binder` of the plugin `Batch`: with `bindRequest`, the plugin `BindRequest` replaces `DefaultBinder`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.config.types import PluginEntry
from pyscheduler_batch.settings.configuration import BIND_REQUEST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.config.types import PluginConfig, Plugins

__all__ = ["with_binder"]

_BATCH: Final = "Batch"
_DEFAULT: Final = "DefaultBinder"
_PLUGIN: Final = "BindRequest"


def with_binder(plugins: Plugins, configs: Iterable[PluginConfig]) -> Plugins:
    """Return the plugins of a profile, with the Bind plugin that the args of `Batch` name.

    A profile that enables `BindRequest` itself, or has removed `DefaultBinder`, is left as it is.
    """
    args = next((each.raw for each in configs if each.name == _BATCH), None)
    names = [entry.name for _, chosen in plugins.sets() for entry in chosen.enabled]
    if not args or args.get("binder") != BIND_REQUEST or _BATCH not in names or _PLUGIN in names:
        return plugins
    replaced = tuple(PluginEntry(_PLUGIN) if entry.name == _DEFAULT else entry for entry in plugins.multi_point.enabled)
    return attrs.evolve(plugins, multi_point=attrs.evolve(plugins.multi_point, enabled=replaced))
