"""Convert the spec of a KAI `SchedulingShard` into a scheduler's configuration: actions, KAI's plugins and settings.

Source: KAI-Scheduler `pkg/apis/kai/v1/schedulingshard_types.go`, `pkg/operator/operands/scheduler`,
`cmd/scheduler/app/options`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler_batch.model.values import go_boolean

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["actions_and_tiers", "places_in_shard", "shard_settings"]

_ACTIONS: Final = {"allocate": 500, "consolidation": 400, "reclaim": 300, "preempt": 200, "stalegangeviction": 100}
_PLUGINS: Final = {
    "predicates": 1900,
    "proportion": 1800,
    "priority": 1700,
    "nodeavailability": 1600,
    "resourcetype": 1500,
    "podaffinity": 1400,
    "elastic": 1300,
    "kubeflow": 1200,
    "ray": 1100,
    "subgrouporder": 1000,
    "taskorder": 900,
    "nominatednode": 800,
    "dynamicresources": 700,
    "minruntime": 600,
    "topology": 500,
    "snapshot": 400,
    "gpupack": 300,
    "gpuspread": 300,
    "nodeplacement": 200,
    "gpusharingorder": 100,
    # Without these two, nothing is ever evicted. They come last, because only their order matters.
    "sg-nodelocalgreedy": 90,
    "sg-multinodegang": 80,
}
#: Flags of KAI's scheduler in `args`: the key of the setting, and the type of its value.
_FLAGS: Final = {
    "scheduler-name": ("schedulerName", str),
    "queue-label-key": ("queueLabel", str),
    "nodepool-label-key": ("nodePoolLabel", str),
    "partition-label-value": ("nodePool", str),
    "max-consolidation-preemptees": ("maxConsolidationVictims", int),
    "allow-consolidating-reclaim": ("consolidatingReclaim", bool),
    "use-scheduling-signatures": ("schedulingSignatures", bool),
    "default-staleness-grace-period": ("stalenessGracePeriod", str),
}
#: Keys of the spec that are settings themselves.
_SETTINGS: Final = {
    "partitionLabelValue": "nodePool",
    "queueDepthPerAction": "queueDepthPerAction",
    "usageDBConfig": "usageDBConfig",
    "scenarioSearchBudgets": "scenarioSearchBudgets",
}
#: By plugin, arguments that other keys of the spec set, and these keys.
_MADE: Final = {
    "nodeplacement": {"gpu": "placementStrategy.gpu", "cpu": "placementStrategy.cpu"},
    "proportion": {"kValue": "kValue"},
    "minruntime": {
        "defaultPreemptMinRuntime": "minRuntime.preemptMinRuntime",
        "defaultReclaimMinRuntime": "minRuntime.reclaimMinRuntime",
    },
}
_PARTS: Final = ("args", "placementStrategy", "minRuntime", "kValue", "plugins", "actions")
_DEPTHS: Final = "queueDepthPerAction"
#: The action that moves pods so that others find room; it runs only where nodes are packed.
_MOVES: Final = "consolidation"
_BINPACK: Final = "binpack"
_SPREAD: Final = "spread"

#: Mistakes: where in the spec, and what is wrong.
Problems = list[tuple[str, str]]


@attrs.define
class _Override:
    """A plugin or an action: whether it runs, and before which others; higher runs first."""

    priority: int
    enabled: bool = True
    arguments: Mapping[str, object] = attrs.Factory(dict)


def shard_settings(shard: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Return the settings of a shard by the keys of `batch_args`, and sentences about what has no effect."""
    notes: list[str] = []
    settings: dict[str, object] = {}
    for key, value in shard.items():
        if key in _SETTINGS and value is not None:
            settings[_SETTINGS[key]] = value
        elif key not in _SETTINGS and key not in _PARTS:
            notes.append(f"{key} has no effect: no key is called {key!r}{_hint(key, [*_SETTINGS, *_PARTS])}")
    flags = shard.get("args")
    for flag, value in flags.items() if isinstance(flags, Mapping) else ():
        known = _FLAGS.get(flag)
        if known is None:
            notes.append(f"args.{flag} has no effect here{_hint(flag, _FLAGS)}")
        elif (read := _flag(value, known[1])) is None:
            notes.append(f"args.{flag}: {value!r} is not usable; the default counts")
        else:
            settings[known[0]] = read
    depths = settings.get(_DEPTHS)
    if isinstance(depths, Mapping) and _MOVES in depths and _is_off_by_spread(shard):
        settings[_DEPTHS] = {action: depth for action, depth in depths.items() if action != _MOVES}
        text = f"the depth of {_MOVES} has no effect, because placementStrategy {_SPREAD} turns this action off"
        notes.append(f"{_DEPTHS}: {text}")
    return settings, notes


def _is_off_by_spread(shard: Mapping[str, object]) -> bool:
    placement = shard.get("placementStrategy")
    spreads = isinstance(placement, Mapping) and _SPREAD in placement.values()
    return spreads and _MOVES not in actions_and_tiers(shard)[0]


def places_in_shard(shard: Mapping[str, object]) -> dict[str, str]:
    """Return by path of a setting, an action or a policy of the shard the path in its spec that stands for it."""
    places = {setting: key for key, setting in _SETTINGS.items() if key in shard}
    flags, own = shard.get("args"), shard.get("plugins")
    places |= {
        _FLAGS[flag][0]: f"args.{flag}" for flag in (flags if isinstance(flags, Mapping) else ()) if flag in _FLAGS
    }
    places["actions"] = "actions"
    (tier,) = actions_and_tiers(shard)[1]
    for at, entry in enumerate(tier["plugins"]):
        name = entry["name"]
        where, place = f"tiers[0].plugins[{at}]", f"plugins.{name}"
        places |= {where: place, f"{where}.name": place}
        said = own.get(name) if isinstance(own, Mapping) else None
        if not (isinstance(said, Mapping) and isinstance(said.get("arguments"), Mapping)):
            places |= {f"{where}.arguments.{argument}": key for argument, key in _MADE.get(name, {}).items()}
    return places


def actions_and_tiers(
    shard: Mapping[str, object],
) -> tuple[list[str], list[dict[str, list[dict[str, Any]]]], Problems]:
    """Return the actions and the one tier that KAI's operator makes of a shard, and the mistakes in the shard."""
    problems: Problems = []
    placement = _part(shard, "placementStrategy", problems)
    gpu, cpu = (_strategy(placement.get(name), name, problems) for name in ("gpu", "cpu"))
    plugins = {name: _Override(priority) for name, priority in _PLUGINS.items()}
    plugins["gpusharingorder"].enabled = plugins["gpupack"].enabled = gpu == _BINPACK
    plugins["gpuspread"].enabled = gpu != _BINPACK
    plugins["nodeplacement"].arguments = {"gpu": gpu, "cpu": cpu}
    k_value = shard.get("kValue")
    if isinstance(k_value, (int, float)) and not isinstance(k_value, bool):
        plugins["proportion"].arguments = {"kValue": k_value}
    elif k_value is not None:
        problems.append(("kValue", f"expected a number, found {k_value!r}"))
    runtime = _part(shard, "minRuntime", problems)
    plugins["minruntime"].arguments = {
        f"default{key[0].upper()}{key[1:]}": runtime[key]
        for key in ("preemptMinRuntime", "reclaimMinRuntime")
        if runtime.get(key) is not None
    }
    actions = {name: _Override(priority) for name, priority in _ACTIONS.items()}
    actions[_MOVES].enabled = _SPREAD not in {gpu, cpu}
    _override(plugins, shard, "plugins", problems)
    _override(actions, shard, "actions", problems)
    entries = [{"name": name, "arguments": plugins[name].arguments} for name in _in_order(plugins)]
    return _in_order(actions), [{"plugins": entries}], problems


def _in_order(items: Mapping[str, _Override]) -> list[str]:
    enabled = [name for name, item in items.items() if item.enabled]
    return sorted(enabled, key=lambda name: (-items[name].priority, name))


def _override(items: dict[str, _Override], shard: Mapping[str, object], part: str, problems: Problems) -> None:
    """Change the defaults by what the shard says; arguments replace all arguments."""
    for name, said in _part(shard, part, problems).items():
        where = f"{part}.{name}"
        if not isinstance(said, Mapping):
            problems.append((where, f"expected a mapping, found {said!r}"))
            continue
        item = items.setdefault(str(name), _Override(0))
        enabled, priority, arguments = said.get("enabled"), said.get("priority"), said.get("arguments")
        if isinstance(enabled, bool):
            item.enabled = enabled
        elif enabled is not None:
            problems.append((f"{where}.enabled", f"expected true or false, found {enabled!r}"))
        if isinstance(priority, int) and not isinstance(priority, bool):
            item.priority = priority
        elif priority is not None:
            problems.append((f"{where}.priority", f"expected an integer, found {priority!r}"))
        if isinstance(arguments, Mapping):
            item.arguments = arguments
        elif arguments is not None:
            problems.append((f"{where}.arguments", f"expected a mapping, found {arguments!r}"))


def _part(shard: Mapping[str, object], key: str, problems: Problems) -> Mapping[str, object]:
    value = shard.get(key)
    if value is None or isinstance(value, Mapping):
        return value or {}
    problems.append((key, f"expected a mapping, found {value!r}"))
    return {}


def _strategy(value: object, name: str, problems: Problems) -> str:
    if value is None:
        return _BINPACK
    if value in (_BINPACK, _SPREAD):
        return str(value)
    problems.append((f"placementStrategy.{name}", f"expected binpack or spread, found {value!r}"))
    return _BINPACK


def _flag(value: object, kind: type) -> object:
    """Return the value of a flag, which is a text in a shard; None if it cannot be used."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if kind is bool:
        return go_boolean(text)
    if kind is int:
        return int(text) if text.lstrip("-").isdecimal() and len(text) <= 9 and text.count("-") <= 1 else None
    return text


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f'; did you mean "{close[0]}"?' if close else ""
