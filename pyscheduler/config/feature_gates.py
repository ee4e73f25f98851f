"""Parse `--feature-gates A=true,B=false` as kube-scheduler 1.36 does."""

from __future__ import annotations

import difflib
import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyscheduler.config.known_gates import DEPENDENCIES, GATES, NO_EFFECT, NOT_IMPLEMENTED
from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["default_gates", "parse", "stage_of", "warnings_of"]

_SOURCE: Final = "--feature-gates"
_STAGES: Final = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
#: Optional prefix of a gate: `kube:GangScheduling=true`.
_COMPONENT: Final = "kube"


@functools.cache
def default_gates() -> Mapping[str, bool]:
    """Return every gate at its default."""
    return MappingProxyType({**dict.fromkeys(_STAGES, False), **{name: gate.default for name, gate in GATES.items()}})


def stage_of(name: str) -> str:
    """Return the stage of a gate for `kubernetes_feature_enabled`; "" for a GA gate."""
    stage = _STAGES[name] if name in _STAGES else GATES[name].stage
    return "" if stage == "GA" else stage


def parse(text: str) -> Mapping[str, bool]:
    """Return every gate as set by `text`; raise `ConfigError` with every mistake."""
    problems: list[str] = []
    named = _read(text, problems)
    for name, value in named.items():
        gate = GATES.get(name)
        if gate is None and name not in _STAGES:
            problems.append(_unrecognized(name))
        elif gate is not None and gate.locked and value != gate.default:
            locked = str(gate.default).lower()
            problems.append(f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {locked}")
    if problems:
        raise ConfigError(*problems, source=_SOURCE)
    gates = _set(named)
    for name, needed in DEPENDENCIES.items():
        off = [other for other in needed if not gates[other]]
        if gates[name] and off:
            problems.append(f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]")
    if problems:
        raise ConfigError(*problems, source=_SOURCE)
    return MappingProxyType({**gates, **dict.fromkeys(NOT_IMPLEMENTED, False)})


def warnings_of(text: str) -> Sequence[str]:
    """Return a line about gates in `text` without effect, else no line; `parse` must accept `text`."""
    named = _read(text, [])
    gates = _set(named)
    missing = sorted(name for name in NOT_IMPLEMENTED if gates[name] and name not in named)
    warnings = [
        f"{_SOURCE}: {name} is not implemented and stays off: {why}"
        for name, why in NOT_IMPLEMENTED.items()
        if named.get(name)
    ]
    if missing:
        stages = " and ".join(stage for stage in _STAGES if named.get(stage))
        warnings.append(f"{_SOURCE}: features that are not implemented stay off with {stages}: {', '.join(missing)}")
    vain = {name: why for name, (value, why) in NO_EFFECT.items() if gates[name] is value}
    return [*warnings, *(f"{_SOURCE}: {name}={str(gates[name]).lower()} has no effect: {vain[name]}" for name in vain)]


def _set(named: Mapping[str, bool]) -> dict[str, bool]:
    """Return every gate, given those that are set by stage or by name."""
    gates = dict(default_gates())
    for special, stage in _STAGES.items():
        if special in named:
            gates |= {name: named[special] for name, gate in GATES.items() if gate.stage == stage}
    return gates | dict(named)


def _read(text: str, problems: list[str]) -> dict[str, bool]:
    """Return the gates that `text` names; of a repeated name, the last value is used."""
    named: dict[str, bool] = {}
    prefixed: set[bool] = set()
    for part in text.split(","):
        if not part.strip():
            continue
        name, equals, value = (each.strip() for each in part.partition("="))
        component, colon, bare = name.rpartition(":")
        if colon and component != _COMPONENT:
            problems.append(f"component not registered: {component}")
            continue
        prefixed.add(bool(colon))
        if not equals:
            problems.append(f"missing bool value for {bare}")
        elif value not in _BOOLEANS:
            problems.append(f"invalid value of {bare}={value}, expected true or false")
        else:
            named[bare] = _BOOLEANS[value]
    if len(prefixed) > 1:
        problems.append("set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use")
    return named


def _unrecognized(name: str) -> str:
    close = difflib.get_close_matches(name, GATES, n=1)
    hint = f", did you mean {close[0]}?" if close else ""
    return f"unrecognized feature gate: {name}{hint}"
