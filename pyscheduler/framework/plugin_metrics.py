"""Metrics of plugins: counters, gauges and histograms, with the label `profile`.

A plugin makes its metrics in its constructor, through `handle.metrics`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyscheduler.framework.recorder import Recorder

__all__ = [
    "DEFAULT_BUCKETS",
    "CounterMetric",
    "GaugeMetric",
    "HistogramMetric",
    "HistogramValue",
    "MetricFamilies",
    "PluginMetrics",
]

#: Upper bounds of a histogram's buckets in seconds: those of Prometheus' clients.
DEFAULT_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_PROFILE: Final = "profile"
#: Labels that the scheduler or the format sets.
_RESERVED: Final = frozenset({_PROFILE, "le", "quantile"})

_Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
_Labels: TypeAlias = tuple[tuple[str, str], ...]


@attrs.define(eq=False)
class HistogramValue:
    """The measurements of one set of label values.

    `buckets`: how many measurements are in each bucket; the last one has those above all bounds.
    """

    bounds: Sequence[float]
    buckets: list[int]
    sum: float = 0.0

    @property
    def count(self) -> int:
        """Return the number of measurements."""
        return sum(self.buckets)


@attrs.define(kw_only=True, eq=False)
class _Family:
    """One metric of all profiles. Values by label values, in the order of `labels`, the profile last."""

    name: str
    kind: _Kind
    labels: tuple[str, ...]
    bounds: tuple[float, ...] = ()
    numbers: dict[tuple[str, ...], float] = attrs.Factory(dict)
    functions: dict[tuple[str, ...], Callable[[], float]] = attrs.Factory(dict)
    histograms: dict[tuple[str, ...], HistogramValue] = attrs.Factory(dict)

    def key(self, given: Mapping[str, object], profile: str) -> tuple[str, ...]:
        """Return the label values; raise `ValueError` if other labels are given than the family has."""
        if len(given) == len(self.labels):
            try:
                return (*[str(given[label]) for label in self.labels], profile)
            except KeyError:
                pass
        has = f"has the labels {', '.join(self.labels)}" if self.labels else "has no labels"
        raise ValueError(f"metric {self.name} {has}, not {', '.join(given) or 'none'}")

    def pairs(self, key: tuple[str, ...]) -> _Labels:
        return tuple(zip((*self.labels, _PROFILE), key, strict=True))

    def read(self) -> dict[_Labels, float]:
        found = {self.pairs(key): value for key, value in self.numbers.items()}
        found.update({self.pairs(key): float(read()) for key, read in self.functions.items()})
        return found

    def read_histograms(self) -> dict[_Labels, HistogramValue]:
        return {self.pairs(key): value for key, value in self.histograms.items()}


class _Metric:
    """The values of one profile in a family."""

    __slots__ = ("_family", "_profile")

    def __init__(self, family: _Family, profile: str) -> None:
        self._family = family
        self._profile = profile


class CounterMetric(_Metric):
    """A number that only grows."""

    __slots__ = ()

    def __init__(self, family: _Family, profile: str) -> None:
        super().__init__(family, profile)
        if not family.labels:
            family.numbers.setdefault((profile,), 0.0)

    def add(self, amount: float = 1.0, /, **labels: object) -> None:
        """Add to the counter; raise `ValueError` for a negative amount or for labels that it does not have."""
        if not amount >= 0:
            raise ValueError(f"counter {self._family.name} only grows: cannot add {amount}")
        key = self._family.key(labels, self._profile)
        numbers = self._family.numbers
        numbers[key] = numbers.get(key, 0.0) + amount


class GaugeMetric(_Metric):
    """A number that can rise and fall: set by the plugin, or read from a function at each scrape."""

    __slots__ = ()

    def set(self, value: float, /, **labels: object) -> None:
        """Set the value; raise `ValueError` for labels that the gauge does not have."""
        self._family.numbers[self._family.key(labels, self._profile)] = float(value)

    def set_function(self, read: Callable[[], float], /, **labels: object) -> None:
        """Call `read` at each scrape from now on; it must be quick and must not raise."""
        self._family.functions[self._family.key(labels, self._profile)] = read

    def remove(self, **labels: object) -> None:
        """Drop the value of an object that is gone."""
        key = self._family.key(labels, self._profile)
        self._family.numbers.pop(key, None)
        self._family.functions.pop(key, None)


class HistogramMetric(_Metric):
    """Measurements, counted by size."""

    __slots__ = ()

    def record(self, value: float, /, **labels: object) -> None:
        """Record a measurement; raise `ValueError` for labels that the histogram does not have."""
        family = self._family
        key = family.key(labels, self._profile)
        series = family.histograms.get(key)
        if series is None:
            series = family.histograms[key] = HistogramValue(family.bounds, [0] * (len(family.bounds) + 1))
        # A value equal to a bound belongs to the bucket below, as in Prometheus.
        series.buckets[bisect_left(family.bounds, value)] += 1
        series.sum += value


class MetricFamilies:
    """The metrics of the plugins of all profiles; registers each family with the recorder once."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._families: dict[str, _Family] = {}

    def family(
        self, name: str, kind: _Kind, description: str, labels: Sequence[str], bounds: Sequence[float] = ()
    ) -> _Family:
        """Return the family, which is new or equal to what another profile asked for.

        Raises `ValueError` if name or labels are not allowed, or the family exists in another form.
        """
        made = _Family(name=name, kind=kind, labels=tuple(labels), bounds=tuple(map(float, bounds)))
        _check(made)
        known = self._families.get(name)
        if known is not None:
            if (known.kind, known.labels, known.bounds) != (made.kind, made.labels, made.bounds):
                raise ValueError(f"metric {name} exists already as a {known.kind} with other labels or buckets")
            return known
        self._families[name] = made
        if kind == "counter":
            self._recorder.counter(name, made.read, description=description)
        elif kind == "gauge":
            self._recorder.gauge(name, made.read, description=description)
        else:
            self._recorder.histogram(name, made.read_histograms, description=description)
        return made

    def value(self, name: str, labels: Mapping[str, str]) -> float:
        """Return the sum of all values that have these labels; 0 if there is none.

        Of a histogram, `name` is that of a series as in Prometheus: with `_count` or `_sum`. Raises `KeyError` if no
        plugin made the metric, `ValueError` if it does not have these labels.
        """
        family, part = self._families.get(name), ""
        if family is None:
            base, _, part = name.rpartition("_")
            family = self._families.get(base)
        if family is None or (family.kind == "histogram") != (part in {"count", "sum"}):
            known = [
                f"{each.name}_count" if each.kind == "histogram" else each.name for each in self._families.values()
            ]
            raise KeyError(f"no plugin has a metric {name}; there are: {', '.join(sorted(known)) or 'none'}")
        unknown = labels.keys() - {*family.labels, _PROFILE}
        if unknown:
            has = ", ".join((*family.labels, _PROFILE))
            raise ValueError(f"metric {name} has the labels {has}, not {', '.join(sorted(unknown))}")
        wanted = set(labels.items())
        if family.kind != "histogram":
            return sum(value for pairs, value in family.read().items() if wanted <= set(pairs))
        found = [each for pairs, each in family.read_histograms().items() if wanted <= set(pairs)]
        return float(sum(each.count if part == "count" else each.sum for each in found))


@attrs.frozen(eq=False)
class PluginMetrics:
    """Makes the metrics of one plugin of one profile: `handle.metrics`.

    Begin each name with the name of your distribution. `labels` names the labels; each use of the metric gives their
    values. The scheduler adds the label `profile`. All three methods raise `ValueError` if a name or a label is not
    allowed, or if the metric exists in another form.
    """

    _families: MetricFamilies
    _profile: str

    def counter(self, name: str, description: str, *, labels: Sequence[str] = ()) -> CounterMetric:
        """Return a counter; its name ends in `_total`."""
        return CounterMetric(self._families.family(name, "counter", description, labels), self._profile)

    def gauge(self, name: str, description: str, *, labels: Sequence[str] = ()) -> GaugeMetric:
        """Return a gauge."""
        return GaugeMetric(self._families.family(name, "gauge", description, labels), self._profile)

    def histogram(
        self, name: str, description: str, *, labels: Sequence[str] = (), buckets: Sequence[float] = DEFAULT_BUCKETS
    ) -> HistogramMetric:
        """Return a histogram; `buckets` are the upper bounds of its buckets, ascending."""
        return HistogramMetric(self._families.family(name, "histogram", description, labels, buckets), self._profile)


def _check(family: _Family) -> None:
    """Raise `ValueError` for a name, labels or buckets that Prometheus cannot show."""
    name, labels, bounds = family.name, family.labels, family.bounds
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a metric: use letters, digits and underscores")
    if (family.kind == "counter") != name.endswith("_total"):
        raise ValueError(f"metric {name}: the names of counters end in _total, and no other names do")
    wrong = [label for label in labels if not _NAME.fullmatch(label) or label in _RESERVED]
    if wrong or len(set(labels)) < len(labels):
        raise ValueError(f"metric {name}: the labels {', '.join(labels)} must differ, and none is {sorted(_RESERVED)}")
    if list(bounds) != sorted(set(bounds)) or not all(map(math.isfinite, bounds)):
        raise ValueError(f"metric {name}: the bounds of buckets must be finite and ascending")
