"""Expand a profile's configuration into the order of plugins at each extension point.

`multiPoint` enables a plugin at all its extension points. The configuration of a single extension point can change the
order there, add plugins, or leave out plugins of `multiPoint`.

Source: kube-scheduler 1.36, `updatePluginList`, `expandMultiPointPlugins`, `getValidScoreWeights`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework.callables import is_foreign
from pyscheduler.framework.profile import ExtensionPoint, PluginSet
from pyscheduler.framework.status import MAX_SCORE, MAX_TOTAL_SCORE
from pyscheduler.runtime.extension_points.points import BASES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.framework.profile import EnabledPlugin, ProfileSpec

__all__ = ["enabled_names", "expand", "partial_plugins", "score_weights"]

_ALL = "*"


def enabled_names(spec: ProfileSpec) -> Mapping[str, list[str]]:
    """Return the plugins that the profile enables anywhere, with the places (`score.enabled[0]`) that name each."""
    places: dict[str, list[str]] = {}
    for place, enabled in _places(spec):
        places.setdefault(enabled.name, []).append(_place(place, enabled))
    return places


def _places(spec: ProfileSpec) -> Iterator[tuple[str, EnabledPlugin]]:
    # multiPoint first: it holds the defaults, so plugins are made and described in a familiar order.
    for enabled in spec.multi_point.enabled:
        yield "multiPoint", enabled
    for point in ExtensionPoint:
        for enabled in _set_of(spec, point).enabled:
            yield point.value, enabled


def _place(place: str, enabled: EnabledPlugin, position: int | None = None) -> str:
    """Return the path of an entry as the file counts; `position` in the merged list if the file does not have it."""
    index = position if enabled.place is None else enabled.place
    return place if index is None else f"{place}.enabled[{index}]"


def _set_of(spec: ProfileSpec, point: ExtensionPoint) -> PluginSet:
    return spec.plugins.get(point) or PluginSet()


def expand(
    spec: ProfileSpec, classes: Mapping[str, type[Plugin]], problems: list[str], *, path: str
) -> dict[ExtensionPoint, tuple[str, ...]]:
    """Return the plugins of each extension point in order; what is wrong is added to `problems`.

    Plugins missing in `classes` are passed over: whoever loaded them has reported them.
    """
    return {point: _expand_point(spec, point, classes, problems, path) for point in ExtensionPoint}


def _expand_point(
    spec: ProfileSpec, point: ExtensionPoint, classes: Mapping[str, type[Plugin]], problems: list[str], path: str
) -> tuple[str, ...]:
    base = BASES[point]
    own = _set_of(spec, point)
    named: list[str] = []
    for position, enabled in enumerate(own.enabled):
        where = f"@ {path}.plugins.{_place(point.value, enabled, position)}"
        name = enabled.name
        if name in named:
            problems.append(f'plugin "{name}" already registered as "{base.__name__}" {where}')
        elif name in classes and not issubclass(classes[name], base):
            problems.append(f'plugin "{name}" does not extend {base.__name__} plugin {where}')
        elif name in classes:
            named.append(name)
    if _ALL in own.disabled:
        return tuple(named)
    expanded: list[str] = []
    overrides: set[str] = set()
    for position, enabled in enumerate(spec.multi_point.enabled):
        name = enabled.name
        if name not in classes or not issubclass(classes[name], base) or name in own.disabled:
            continue
        if name in named:
            overrides.add(name)
        elif name in expanded:
            where = f"@ {path}.plugins.{_place('multiPoint', enabled, position)}"
            problem = f'plugin "{name}" already registered as "{base.__name__}" {where}'
            problems.append(problem)
        else:
            expanded.append(name)
    # First the plugins that are named at the point and at multiPoint, last those that only the point names.
    return (
        *(name for name in named if name in overrides),
        *expanded,
        *(name for name in named if name not in overrides),
    )


def partial_plugins(
    spec: ProfileSpec, points: Mapping[ExtensionPoint, Sequence[str]], classes: Mapping[str, type[Plugin]]
) -> Iterator[str]:
    """Yield a sentence about each plugin of another distribution that the profile enables at some of its points only.

    A plugin that multiPoint enables, or that the profile disables at a point, is meant as it is.
    """
    everywhere = {enabled.name for enabled in spec.multi_point.enabled}
    for name, plugin in classes.items():
        if name in everywhere or not is_foreign(plugin):
            continue
        missing = [
            point.value
            for point, names in points.items()
            if issubclass(plugin, BASES[point])
            and name not in names
            and {_ALL, name}.isdisjoint(_set_of(spec, point).disabled)
        ]
        if missing:
            remedy = "enable it at multiPoint, which means all of its extension points"
            yield f'Plugin "{name}" also defines {", ".join(missing)}, where the profile does not enable it; {remedy}'


def score_weights(
    spec: ProfileSpec,
    classes: Mapping[str, type[Plugin]],
    problems: list[str],
    *,
    path: str,
    point: ExtensionPoint = ExtensionPoint.SCORE,
) -> dict[str, int]:
    """Return the weight of each plugin of `point`: that given there, else that at multiPoint, else 1.

    `point` is SCORE or PLACEMENT_SCORE.
    """
    base, kind = BASES[point], point.metric_label
    weights: dict[str, int] = {}
    total = 0
    sets = ((point.value, _set_of(spec, point)), ("multiPoint", spec.multi_point))
    for place, plugin_set in sets:
        for position, enabled in enumerate(plugin_set.enabled):
            name = enabled.name
            if name in weights or name not in classes or not issubclass(classes[name], base):
                continue
            where = f"@ {path}.plugins.{_place(place, enabled, position)}.weight"
            if enabled.weight < 0:
                problems.append(f'score plugin "{name}" has weight {enabled.weight}; it must be positive {where}')
            weights[name] = enabled.weight or 1
            total += weights[name] * MAX_SCORE
            if total > MAX_TOTAL_SCORE:
                problems.append(f"score plugins: total score of {kind} plugins could overflow {where}")
                return weights
    return weights
