"""The plugin class of each extension point, and the methods that a plugin must define for it.

For example, a plugin that inherits `FilterPlugin` must define `filter` or `filter_nodes`.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.interfaces import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from pyscheduler.framework.profile import ExtensionPoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["BASES", "defines", "extension_points_of", "is_columnar", "judges_of", "missing_methods"]

BASES: Final[Mapping[ExtensionPoint, type[Plugin]]] = {
    ExtensionPoint.PRE_ENQUEUE: PreEnqueuePlugin,
    ExtensionPoint.QUEUE_SORT: QueueSortPlugin,
    ExtensionPoint.PRE_FILTER: PreFilterPlugin,
    ExtensionPoint.FILTER: FilterPlugin,
    ExtensionPoint.POST_FILTER: PostFilterPlugin,
    ExtensionPoint.PRE_SCORE: PreScorePlugin,
    ExtensionPoint.SCORE: ScorePlugin,
    ExtensionPoint.RESERVE: ReservePlugin,
    ExtensionPoint.PERMIT: PermitPlugin,
    ExtensionPoint.PRE_BIND: PreBindPlugin,
    ExtensionPoint.BIND: BindPlugin,
    ExtensionPoint.POST_BIND: PostBindPlugin,
    ExtensionPoint.PLACEMENT_GENERATE: PlacementGeneratePlugin,
    ExtensionPoint.PLACEMENT_SCORE: PlacementScorePlugin,
}

#: Groups of methods of which one must be defined, by extension point; mostly the method of its name.
_METHODS: Final[Mapping[ExtensionPoint, Sequence[tuple[str, ...]]]] = {
    **{point: [(point.name.lower(),)] for point in BASES},
    ExtensionPoint.QUEUE_SORT: [("sort_key", "less")],
    ExtensionPoint.FILTER: [("filter", "filter_nodes")],
    ExtensionPoint.SCORE: [("score", "score_nodes")],
    ExtensionPoint.RESERVE: [("reserve",), ("unreserve",)],
    ExtensionPoint.PLACEMENT_GENERATE: [("generate_placements",)],
    ExtensionPoint.PLACEMENT_SCORE: [("score_placement",)],
}


#: The methods of all interfaces.
_KNOWN: Final = frozenset(name for base in BASES.values() for name in dir(base))


def extension_points_of(plugin: type[Plugin]) -> tuple[ExtensionPoint, ...]:
    """Return the extension points that the class takes part in, in the order of a cycle."""
    return tuple(point for point, base in BASES.items() if issubclass(plugin, base))


def defines(plugin: type[Plugin], base: type[Plugin], method: str) -> bool:
    """Return whether the class brings its own `method`, rather than the one that `base` declares."""
    found = getattr(plugin, method, None)
    return found is not None and found is not getattr(base, method, None)


def is_columnar(plugin: type[Plugin], point: ExtensionPoint) -> bool:
    """Return whether the class looks at all nodes at once at `point`, which is FILTER or SCORE."""
    if point is ExtensionPoint.FILTER:
        return defines(plugin, FilterPlugin, "filter_nodes")
    return point is ExtensionPoint.SCORE and defines(plugin, ScorePlugin, "score_nodes")


def judges_of(points: Mapping[ExtensionPoint, Sequence[str]]) -> Sequence[str]:
    """Return the names of the plugins that filter or score nodes, each once."""
    judging = (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)
    return [*dict.fromkeys(name for point in judging for name in points[point])]


def missing_methods(plugin: type[Plugin], point: ExtensionPoint) -> list[str]:
    """Return what the class should define to take part in `point` and does not (`filter or filter_nodes`).

    A method of a similar name is mentioned, because it may be a misspelling.
    """
    base = BASES[point]
    return [
        " or ".join(methods) + _similar(plugin, methods)
        for methods in _METHODS[point]
        if not any(defines(plugin, base, method) for method in methods)
    ]


def _similar(plugin: type[Plugin], methods: Sequence[str]) -> str:
    own = [name for name in vars(plugin) if not name.startswith("_") and name not in _KNOWN]
    close = [found for method in methods for found in difflib.get_close_matches(method, own, n=1, cutoff=0.8)]
    return f"; it defines {close[-1]}, which is never called" if close else ""
