"""Reasons why a profile does not reuse the answers of some or all plugins for equal pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.interfaces import SignPlugin
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.framework.reuse import Reuse
from pyscheduler.runtime.extension_points.points import is_columnar, judges_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.runtime.assembly.profile_builder import Assembly

__all__ = ["Obstacle", "find_obstacles"]


@attrs.frozen
class Obstacle:
    """A plugin, or `extenders`, that keeps answers from being cached.

    `disables`: the profile has no equivalence cache. Otherwise only this plugin is called for every pod.
    """

    plugin: str
    reason: str
    disables: bool


def find_obstacles(assembly: Assembly, *, has_extenders: bool) -> Sequence[Obstacle]:
    """Return the obstacles of a profile; none where all plugins that declare `reuse` are cached."""
    found = [Obstacle("extenders", "are called for every pod", disables=True)] if has_extenders else []
    filters = assembly.points[ExtensionPoint.FILTER]
    for name in judges_of(assembly.points):
        kind = type(assembly.plugins[name])
        if not issubclass(kind, SignPlugin):
            found.append(Obstacle(name, "judges nodes and does not inherit SignPlugin", disables=True))
        if name in filters and not is_columnar(kind, ExtensionPoint.FILTER):
            found.append(Obstacle(name, "filters one node at a time (filter, not filter_nodes)", disables=True))
        base = _promising_base(kind)
        if base is not None:
            reason = f"is a subclass of {base.__name__} and does not declare reuse itself"
            found.append(Obstacle(name, reason, disables=False))
    return found


def _promising_base(kind: type[Plugin]) -> type | None:
    """Return the base class that declares `reuse` where the class itself does not."""
    if "reuse" in vars(kind):
        return None
    return next((base for base in kind.__mro__ if vars(base).get("reuse", Reuse.NEVER) is not Reuse.NEVER), None)
