"""Read the file of `--failures`: changes of nodes at given times or at random, and node groups that grow and shrink.

Durations are seconds, or texts such as `90s`, `1h30m` and `30d`. Nodes are named by patterns such as `node-1*`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import attrs
import msgspec
import yaml

from kube_objects.durations import parse_duration
from kube_testserver.manifests import UNREADABLE
from pyscheduler.framework.errors import ConfigError, os_error_text
from pyscheduler_lab.clusters.forms import nodes_of_form, read_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler_lab.clusters.cluster import Cluster
    from pyscheduler_lab.clusters.node import Node, Watts

__all__ = ["Change", "Failures", "NodeGroup", "Rate", "read_failures"]

Kind: TypeAlias = Literal["drain", "lose", "remove", "add"]
_Amount: TypeAlias = str | float | int
_Names: TypeAlias = str | list[str]
_DAY_SECONDS: Final = 86400.0
#: As of the cluster autoscaler: `--scale-down-unneeded-time`.
_IDLE: Final = "10m"


@attrs.frozen(kw_only=True)
class Change:
    """A change at a time: `drain`, `lose` or `remove` nodes, or `add` some.

    After `seconds`, drained or lost nodes return; never for None.
    """

    at: float
    kind: Kind
    patterns: Sequence[str] = ()
    nodes: Sequence[Node] = ()
    seconds: float | None = None


@attrs.frozen(kw_only=True)
class Rate:
    """Each of these nodes is drained or lost again and again, after a random time with this mean, for `seconds`."""

    kind: Kind
    patterns: Sequence[str]
    mean: float
    seconds: float


@attrs.frozen(kw_only=True)
class NodeGroup:
    """Equal nodes that are added for pods that wait, after `delay` seconds, and removed after `idle` seconds."""

    name: str
    shape: Node
    least: int
    most: int
    delay: float
    idle: float


@attrs.frozen(kw_only=True)
class Failures:
    """The changes of the nodes of a replay. `seed` is None if the seed of the replay counts."""

    changes: Sequence[Change] = ()
    rates: Sequence[Rate] = ()
    groups: Sequence[NodeGroup] = ()
    seed: int | None = None
    source: str = ""
    sha256: str = ""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all parts of a file: an unknown key is a mistake."""


class _Event(_Strict, frozen=True, kw_only=True):
    at: _Amount
    drain: _Names = ()  # type: ignore[assignment]  # stands for none
    lose: _Names = ()  # type: ignore[assignment]  # same
    remove: _Names = ()  # type: ignore[assignment]  # same
    add: str = ""
    duration: _Amount | None = msgspec.field(name="for", default=None)


class _Rate(_Strict, frozen=True, kw_only=True):
    every: _Amount
    duration: _Amount = msgspec.field(name="for")
    drain: _Names = ()  # type: ignore[assignment]  # stands for none
    lose: _Names = ()  # type: ignore[assignment]  # same


class _Group(_Strict, frozen=True, kw_only=True):
    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$")]
    shape: str
    max: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    min: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    delay: _Amount
    idle: _Amount = _IDLE


class _File(_Strict, frozen=True, kw_only=True):
    seed: int | None = None
    events: list[_Event] = []
    rates: list[_Rate] = []
    groups: list[_Group] = []


def read_failures(path: str | Path, cluster: Cluster) -> Failures:
    """Return the failures in a file; raise `ConfigError` for the first mistake, and for names that no node has."""
    source = str(path)
    try:
        text = Path(path).read_bytes()
        file = msgspec.convert(yaml.safe_load(text) or {}, _File)
    except OSError as error:
        raise ConfigError(os_error_text(error), source=source) from error
    except (msgspec.ValidationError, *UNREADABLE) as error:
        raise ConfigError(" ".join(str(error).split()), source=source) from error
    watts = {node.gpu_model: node.watts for node in cluster.nodes}
    try:
        found = Failures(
            changes=sorted(_changes(file.events, watts), key=lambda each: each.at),
            rates=[_rate(number, each) for number, each in enumerate(file.rates)],
            groups=[_group(number, each, watts) for number, each in enumerate(file.groups)],
            seed=file.seed,
            source=source,
            sha256=hashlib.sha256(text).hexdigest(),
        )
        _check_names(found, cluster)
    except ConfigError as error:
        raise ConfigError(*error.problems, source=source) from error
    return found


def _changes(events: Iterable[_Event], watts: dict[str, Watts | None]) -> list[Change]:
    found = []
    added = 0
    for number, event in enumerate(events):
        where = f"events[{number}]"
        kinds = [kind for kind in ("drain", "lose", "remove", "add") if getattr(event, kind)]
        if len(kinds) != 1:
            raise ConfigError(f"{where}: name one of drain, lose, remove and add")
        (kind,) = kinds
        if event.duration is not None and kind in ("remove", "add"):
            raise ConfigError(f"{where}.for: has no effect on {kind}")
        nodes: list[Node] = []
        if event.add:
            made = nodes_of_form(event.add)
            if made is None:
                raise ConfigError(f'{where}.add: "{event.add}" must be like 2x8gpu:A100')
            nodes = [
                attrs.evolve(node, name=f"added-{number}", watts=watts.get(node.gpu_model))
                for number, node in enumerate(made, added)
            ]
            added += len(nodes)
        seconds = None if event.duration is None else _seconds(event.duration, f"{where}.for")
        patterns = () if kind == "add" else _patterns(getattr(event, kind))
        at = _seconds(event.at, f"{where}.at")
        found.append(Change(at=at, kind=kind, patterns=patterns, nodes=nodes, seconds=seconds))  # type: ignore[arg-type]  # one of the kinds
    return found


def _rate(number: int, rate: _Rate) -> Rate:
    where = f"rates[{number}]"
    kinds = [kind for kind in ("drain", "lose") if getattr(rate, kind)]
    if len(kinds) != 1:
        raise ConfigError(f"{where}: name one of drain and lose")
    mean = _seconds(rate.every, f"{where}.every")
    if mean < 1:
        raise ConfigError(f"{where}.every: must be at least a second")
    patterns = _patterns(getattr(rate, kinds[0]))
    seconds = _seconds(rate.duration, f"{where}.for")
    return Rate(kind=kinds[0], patterns=patterns, mean=mean, seconds=seconds)  # type: ignore[arg-type]  # one of the kinds


def _group(number: int, group: _Group, watts: dict[str, Watts | None]) -> NodeGroup:
    where = f"groups[{number}]"
    if group.min > group.max:
        raise ConfigError(f"{where}.min: must be at most max ({group.max})")
    shape = read_shape(group.shape)
    return NodeGroup(
        name=group.name,
        shape=attrs.evolve(shape, watts=watts.get(shape.gpu_model)),
        least=group.min,
        most=group.max,
        delay=_seconds(group.delay, f"{where}.delay"),
        idle=_seconds(group.idle, f"{where}.idle"),
    )


def _patterns(names: _Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _seconds(amount: _Amount, where: str) -> float:
    try:
        if not isinstance(amount, str):
            seconds = float(amount)
        elif amount.endswith("d"):
            seconds = float(amount[:-1]) * _DAY_SECONDS
        else:
            seconds = parse_duration(amount)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e10:
        raise ConfigError(f"{where}: {amount!r} must be seconds, or a duration such as 90s, 1h30m or 30d")
    return seconds


def _check_names(failures: Failures, cluster: Cluster) -> None:
    """Raise `ConfigError` for a pattern that matches no node, and for a name that two nodes would have."""
    names = [node.name for node in cluster.nodes]
    names += [node.name for change in failures.changes for node in change.nodes]
    names += [f"{group.name}-{number}" for group in failures.groups for number in range(group.most)]
    twice = [name for name, number in Counter(names).items() if number > 1]
    if twice:
        raise ConfigError(f"two nodes would have the name {twice[0]}; choose another name of the group")
    named: list[Change | Rate] = [*failures.changes, *failures.rates]
    for each in named:
        for pattern in each.patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ConfigError(f'{each.kind}: no node matches "{pattern}"')
