"""A profile with all defaults applied: names, order and weights of plugins."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EnabledPlugin", "ExtensionPoint", "PluginSet", "ProfileSpec"]


class ExtensionPoint(StrEnum):
    """Extension points as configuration files spell them; `metric_label` is how metrics do."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"

    @property
    def metric_label(self) -> str:
        """Return the name in metrics and logs (`PreFilter`)."""
        return self.value[0].upper() + self.value[1:]


@attrs.frozen
class EnabledPlugin:
    """A plugin enabled at an extension point.

    `weight` counts at Score and PlacementScore; 0 means "not given", which is 1. `place` is the position in the list
    of the file, for messages; None if the file does not name the plugin there.
    """

    name: str
    weight: int = 0
    place: int | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen(kw_only=True)
class PluginSet:
    """The plugins of one extension point in a profile: enabled in order, and disabled by name (`*` for all)."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[str, ...] = ()


@attrs.frozen
class WrongArgs:
    """In place of args that cannot be read: what is wrong with them, to be reported with all other mistakes."""

    problems: tuple[str, ...]


@attrs.frozen(kw_only=True)
class ProfileSpec:
    """One profile, defaults merged in. `path` is where messages say that it is (`$.profiles[0]`).

    `args` holds each plugin's args object, already structured, or `WrongArgs`. `percentage_of_nodes_to_score` None: the
    global one. `args_index` has the position of a plugin's entry in `pluginConfig` of the file, for messages.
    """

    scheduler_name: str
    multi_point: PluginSet = PluginSet()
    plugins: Mapping[ExtensionPoint, PluginSet] = attrs.Factory(dict)
    args: Mapping[str, object] = attrs.Factory(dict)
    percentage_of_nodes_to_score: int | None = None
    args_index: Mapping[str, int] = attrs.field(factory=dict, eq=False)
    path: str = attrs.field(
        default=attrs.Factory(lambda self: f"$.profiles['{self.scheduler_name}']", takes_self=True), eq=False
    )
