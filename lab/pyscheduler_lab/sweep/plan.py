"""The file of a sweep. A sweep runs each combination of the file's traces, clusters, profiles, weights and seeds."""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import contextmanager
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import attrs
import msgspec

from pyscheduler.config.yaml_text import read
from pyscheduler.framework.errors import ConfigError, os_error_text
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.clusters.cluster import NODE_LISTS
from pyscheduler_lab.results.runs import Workload, policy_of, read_workload
from pyscheduler_lab.results.settings import RunSettings
from pyscheduler_lab.simulation.policies import POLICIES, score_weights_of, weighted
from pyscheduler_lab.traces import Trace
from pyscheduler_lab.traces.catalog import TRACES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Cell", "Place", "Plan", "label_of", "mistakes_in", "read_plan", "workload_of"]

#: Keys with an example each, for messages.
_AXES: Final = {
    "traces": "[philly]",
    "clusters": "[24x8gpu, 20x8gpu]",
    "profiles": "[default, binpack, mine.yaml]",
    "seeds": "10",
    "weights": "{NodeResourcesFit: [1, 5]}",
}
_NEEDED: Final = ("traces", "clusters", "profiles")
#: What the cells of a sweep set themselves.
_OF_CELLS: Final = {"trace", "nodes", "policy", "seed", "weights"}
_SETTINGS: Final = tuple(name for name in RunSettings.__struct_fields__ if name not in _OF_CELLS)
#: Settings that an entry of `traces` may have.
_OF_TRACES: Final = ("trace", "vc", "merge_vcs", "shape", "jobs", "trace_columns")
_MOST_SEEDS: Final = 1000
#: Maximum length of a name of a folder, in bytes.
_LONGEST: Final = 255
#: The largest weight of a search.
_LARGEST: Final = 1000
#: The number of traces, and of workloads, that a process keeps.
_KEPT: Final = 4

_read_trace: Final = lru_cache(_KEPT)(Trace.read)

_Weight: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class _Range(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The weights of a search."""

    min: Annotated[int, msgspec.Meta(ge=1, le=_LARGEST)]
    max: Annotated[int, msgspec.Meta(ge=1, le=_LARGEST)]


class _Axes(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of the file whose combinations are the cells."""

    traces: str | dict[str, Any] | list[str | dict[str, Any]]
    clusters: str | list[str]
    profiles: str | list[str]
    seeds: int | list[int] = 1
    weights: dict[str, Any] = {}


@attrs.frozen(kw_only=True)
class Place:
    """A trace on a cluster. `settings` are those of its cells, without profile, weights and seed."""

    trace: str
    cluster: str
    settings: RunSettings
    #: What the reader of the trace left out.
    notes: Sequence[str] = ()


@attrs.frozen(kw_only=True)
class Cell:
    """One run of a sweep."""

    place: Place
    settings: RunSettings

    @property
    def variant(self) -> str:
        """The profile and its weights, as in `default,NodeResourcesFit=5`."""
        weights = self.settings.weights.items()
        return ",".join([label_of(self.settings.policy), *(f"{plugin}={weight}" for plugin, weight in weights)])

    @property
    def name(self) -> str:
        """The path of the bundle in the folder of the sweep."""
        return f"{self.place.trace}/{self.place.cluster}/{self.variant}/seed-{self.settings.seed}"


@attrs.frozen(kw_only=True)
class Plan:
    """A file of a sweep that has no mistakes."""

    source: str
    text: bytes
    places: Sequence[Place]
    profiles: Sequence[str]
    seeds: Sequence[int]
    #: Weights to combine, by plugin.
    weights: Mapping[str, Sequence[int]]
    #: The weights of the Score plugins of each profile.
    scores: Mapping[str, Mapping[str, int]]
    #: Keys that are not of sweeps, for the caller.
    rest: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def notes(self) -> Sequence[str]:
        """Notes about jobs and columns that the readers of the traces left out."""
        return [*dict.fromkeys(note for place in self.places for note in place.notes)]

    def cells(self) -> list[Cell]:
        """Return all cells: by place, profile, weights and seed."""
        return [
            cell
            for place in self.places
            for profile in self.profiles
            for weights in self._combinations(profile)
            for cell in self.cells_of(place, profile, weights)
        ]

    def cells_of(self, place: Place, profile: str, weights: Mapping[str, int], seeds: Sequence[int] = ()) -> list[Cell]:
        """Return the cells of a profile with these weights, one for each seed."""
        chosen = {"policy": profile, "weights": dict(weights)}
        return [
            Cell(place=place, settings=msgspec.structs.replace(place.settings, seed=seed, **chosen))
            for seed in seeds or self.seeds
        ]

    def _combinations(self, profile: str) -> Iterator[dict[str, int]]:
        """Yield the weights of a profile; a plugin that it does not score with has none."""
        plugins = [plugin for plugin in self.weights if plugin in self.scores[profile]]
        for values in product(*(self.weights[plugin] for plugin in plugins)):
            yield dict(zip(plugins, values, strict=True))


def read_plan(path: str, *, more: Sequence[str] = ()) -> Plan:
    """Return the plan in a file; raise `ConfigError` for a mistake.

    With `more`, it is the file of a search, which has these keys, too. Weights are then ranges. Traces and clusters are
    read again, because their files may have changed since the last plan of this process.
    """
    _read_trace.cache_clear()
    _workload.cache_clear()
    text, root = _read(path)
    with mistakes_in(path):
        known = (*_AXES, *more, *_SETTINGS)
        for key in root:
            if key not in known:
                raise ConfigError(f'unknown key "{key}"; known are {", ".join(known)}')
        for key in _NEEDED:
            if not root.get(key):
                raise ConfigError(f"{key} is missing; write for example {key}: {_AXES[key]}")
        axes = msgspec.convert({key: root[key] for key in _AXES if key in root}, _Axes)
        folder = Path(path).parent
        shared = {"fidelity": "decisions"} | {key: root[key] for key in _SETTINGS if key in root}
        if shared.get("failures"):
            shared["failures"] = _local(shared["failures"], folder)
        places = [*_places(axes, shared, folder)]
        profiles = [name if name in POLICIES else _local(name, folder) for name in _texts(axes.profiles)]
        _once("profiles", map(label_of, profiles))
        if isinstance(axes.seeds, int) and not 1 <= axes.seeds <= _MOST_SEEDS:
            raise ConfigError(f"seeds: {axes.seeds} is not from 1 to {_MOST_SEEDS}; write a number of seeds, or a list")
        seeds = [*range(axes.seeds)] if isinstance(axes.seeds, int) else axes.seeds
        _once("seeds", map(str, seeds))
        weights = {plugin: _weights(plugin, values, is_search=bool(more)) for plugin, values in axes.weights.items()}
        scores = {}
        for number, profile in enumerate(profiles):
            with _at(f"profiles[{number}]"):
                scores[profile] = _scores(places[0].settings, profile, weights)
        for plugin in weights:
            if not any(plugin in each for each in scores.values()):
                names = dict.fromkeys(name for each in scores.values() for name in each)
                text_of = f"no profile scores with this plugin; there are {', '.join(names) or 'none'}"
                raise ConfigError(f"weights.{plugin}: {text_of}")
        plan = Plan(
            source=path,
            text=text,
            places=places,
            profiles=profiles,
            seeds=seeds,
            weights=weights,
            scores=scores,
            rest={key: root[key] for key in more if key in root},
        )
        for cell in [] if more else plan.cells():
            part = max(cell.name.split("/"), key=len)
            if len(part) > _LONGEST:
                raise ConfigError(f"the folder of results would have too long a name: {part}; shorten it")
    return plan


def workload_of(settings: RunSettings) -> Workload:
    """Return the jobs and nodes of a cell; a process reads them once for all profiles, weights and seeds."""
    return _workload(msgspec.json.encode(msgspec.structs.replace(settings, policy="", weights={}, seed=0)))


@lru_cache(_KEPT)
def _workload(settings: bytes) -> Workload:
    return read_workload(msgspec.json.decode(settings, type=RunSettings), read_trace=_read_trace)


def label_of(text: str) -> str:
    """Return a trace, cluster or profile as a part of a path: of a file, its name without the ending."""
    is_file = os.path.exists(text)  # noqa: PTH110 - False for a text that is too long for a path
    name = Path(text).name.partition(".")[0] if is_file else text
    return re.sub(r"[^A-Za-z0-9.,=_+-]", "-", name)


def _read(path: str) -> tuple[bytes, dict[str, Any]]:
    try:
        text = Path(path).read_bytes()
        document = read(text.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(os_error_text(error), source=path) from error
    except UnicodeDecodeError as error:
        raise ConfigError("not UTF-8 text", source=path) from error
    except ConfigError as error:
        raise ConfigError(*error.problems, source=path) from error
    if document.problems:
        raise ConfigError(*map(str, document.problems), source=path)
    if not isinstance(document.root, dict):
        example = "; ".join(f"{key}: {_AXES[key]}" for key in _NEEDED)
        raise ConfigError(f"must have keys; write for example {example}", source=path)
    return text, document.root


@contextmanager
def mistakes_in(path: str) -> Iterator[None]:
    """Add the file to mistakes in the block, and turn values of a wrong type into mistakes."""
    try:
        yield
    except msgspec.ValidationError as error:
        raise ConfigError(_mistake(error), source=path) from error
    except ConfigError as error:
        text = f" ({error.source})" if error.source else ""
        raise ConfigError(*(problem + text for problem in error.problems), source=path) from error


def _mistake(error: msgspec.ValidationError, key: str = "") -> str:
    """Return a mistake in the value of a key of the file, or in the whole file, with its place first."""
    what, _, where = str(error).partition(" - at `$")
    place = (key + where.removesuffix("`")).removeprefix(".")
    return f"{place}: {what}" if place else what


@contextmanager
def _at(key: str) -> Iterator[None]:
    """Begin mistakes with the key of the file."""
    try:
        yield
    except msgspec.ValidationError as error:
        raise ConfigError(_mistake(error, key)) from error
    except ConfigError as error:
        raise ConfigError(*(f"{key}: {problem}" for problem in error.problems), source=error.source) from error


def _weights(plugin: str, values: object, *, is_search: bool) -> Sequence[int]:
    """Return the weights of a plugin in increasing order for a search, otherwise in the order of the file."""
    try:
        if is_search:
            found = msgspec.convert(values, _Range)
            if found.min >= found.max:
                raise ConfigError(f"weights.{plugin}: min must be less than max")
            return range(found.min, found.max + 1)
        weights = msgspec.convert(values, list[_Weight])
        _once(f"weights.{plugin}", map(str, weights))
        return weights
    except msgspec.ValidationError as error:
        raise ConfigError(_mistake(error, f"weights.{plugin}")) from error


def _texts(value: str | Sequence[str]) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


def _local(text: str, folder: Path) -> str:
    """Return the path of a file beside the file of the sweep; any other text as it is."""
    return str(folder / text) if isinstance(text, str) and (folder / text).exists() else text


def _once(key: str, names: Iterator[str]) -> None:
    counts = Counter(names)
    if not counts:
        raise ConfigError(f"{key}: the list is empty")
    name, number = counts.most_common(1)[0]
    if number > 1:
        raise ConfigError(
            f'{key}: two entries have the name "{name}"; results are kept by name, so rename or remove one'
        )


def _places(axes: _Axes, shared: Mapping[str, Any], folder: Path) -> Iterator[Place]:
    clusters = [name if name in NODE_LISTS else _local(name, folder) for name in _texts(axes.clusters)]
    _once("clusters", map(label_of, clusters))
    for number, nodes in enumerate(clusters):
        with _at(f"clusters[{number}]"):
            Cluster.read(nodes, watts=str(shared.get("watts", "")))
    msgspec.convert({**shared, "trace": "", "nodes": "", "policy": ""}, RunSettings)  # mistakes beside the traces
    entries = axes.traces if isinstance(axes.traces, list) else [axes.traces]
    traces = [{"trace": each} if isinstance(each, str) else each for each in entries]
    for number, entry in enumerate(traces):
        wrong = [key for key in entry if key not in _OF_TRACES]
        if wrong or not isinstance(entry.get("trace"), str):
            text = f"must be a trace, or have the keys {', '.join(_OF_TRACES)}, as in {{trace: philly, vc: vc1}}"
            raise ConfigError(f"traces[{number}]: {text}")
        if entry["trace"] not in TRACES:
            traces[number] = entry | {"trace": _local(entry["trace"], folder)}
    labels = [
        label_of("-".join([label_of(each["trace"]), *(str(each[key]) for key in ("vc", "jobs") if key in each)]))
        for each in traces
    ]
    _once("traces", iter(labels))
    for number, (label, entry) in enumerate(zip(labels, traces, strict=True)):
        for nodes in clusters:
            chosen = {**shared, **entry, "nodes": nodes, "policy": ""}
            with _at(f"traces[{number}]"):
                settings = msgspec.convert(chosen, RunSettings)
                workload = workload_of(settings)
            notes = [f"{label}: {note}: {count}" for note, count in workload.notes.items()]
            yield Place(trace=label, cluster=label_of(nodes), settings=settings, notes=notes)


def _scores(settings: RunSettings, profile: str, weights: Mapping[str, Sequence[int]]) -> Mapping[str, int]:
    """Return the weights of the Score plugins of a profile; check that the profile loads with the largest weights."""
    policy = policy_of(msgspec.structs.replace(settings, policy=profile))
    found = score_weights_of(policy, blocked=settings.blocked)
    largest = {plugin: max(values) for plugin, values in weights.items() if plugin in found and values}
    score_weights_of(weighted(policy, largest), blocked=settings.blocked)
    return found
