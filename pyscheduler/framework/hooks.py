"""The pluggy hook by which a Python package registers its plugins with pyscheduler.

A package registers a class as text (`module:Class`), so that pyscheduler imports only plugins that a profile enables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.interfaces import Plugin

__all__ = ["ENTRY_POINT_GROUP", "PLUGIN_API", "PluginFactory", "PluginRegistry", "hookimpl", "hookspec"]

#: What makes a plugin from its args and its handle. A plugin class is one, and the only kind that can be registered:
#: its name, the extension points it takes part in and the kinds it watches are read from it before it is called.
PluginFactory: TypeAlias = "Callable[[object, Handle], Plugin]"

#: The entry point group, which is also pluggy's project name.
ENTRY_POINT_GROUP: Final = "pyscheduler"

#: The version of the plugin API, as `major.minor`. What can break a plugin raises the major number, an addition
#: the minor one; see docs/reference/compatibility.md.
PLUGIN_API: Final = "1.1"

hookspec: Final = pluggy.HookspecMarker(ENTRY_POINT_GROUP)
hookimpl: Final = pluggy.HookimplMarker(ENTRY_POINT_GROUP)


class PluginRegistry(Protocol):
    """The registry to which a hook adds its plugins."""

    def require_api(self, version: str) -> None:
        """Declare for which version of the plugin API the distribution is written, as `major.minor`.

        Call it first. If `PLUGIN_API` has another major number or a smaller minor one, it raises `PluginError`, and
        the distribution is broken: nothing of it can be enabled, and the message says what to install instead.
        """
        ...

    def add(self, name: str, plugin: str | type[Plugin]) -> None:
        """Offer a plugin under `name`, as `module:Class` or as the class itself.

        Two plugins of one name are both reported by `pyscheduler plugins`, and are fatal when a profile enables it.
        """
        ...

    def add_dialect(self, name: str, row: str, *, claimed_by: str) -> None:
        """Offer a dialect of pod groups, a `pyscheduler.podgroup.Dialect` of that name, as `module:ROW`.

        It is imported when a profile enables the plugin `claimed_by`, as the row says too, and before that is made;
        the row's kinds are watched then, and the permissions for them are that plugin's. Which plugins take part in
        that is told by `PodGroups.claim`: `Coscheduling` does, by default.
        """
        ...

    def add_system(self, name: str, system: str) -> None:
        """Offer a batch system, a `pyscheduler_batch.system.System` as `module:Class`, under the name of its preset.

        It is imported when a profile of the plugin `Batch` chooses the preset.
        """
        ...

    def add_batch(self, name: str, policy: str) -> None:
        """Offer a policy of batch profiles, a `pyscheduler_batch.contract.Policy` as `module:Class`.

        A profile uses it by naming it in a tier of the plugin `Batch`. It is imported then.
        """
        ...

    def add_action(self, name: str, action: str) -> None:
        """Offer an action of batch profiles, a `pyscheduler_batch.contract.Action` as `module:Class`."""
        ...

    def add_queue_dialect(self, name: str, row: str) -> None:
        """Offer a dialect of queues, a `pyscheduler_batch.dialects.QueueDialect` of that name, as `module:ROW`.

        All batch profiles read queues of this dialect, besides those of their presets.
        """
        ...

    def add_grouper(self, name: str, row: str) -> None:
        """Offer the rule of a workload kind, a `pyscheduler_podgrouper.contract.Grouper` as `module:ROW`.

        It is imported when a profile enables the plugin `PodGrouper`, which watches the kind then.
        """
        ...
