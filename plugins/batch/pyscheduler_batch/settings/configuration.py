"""Read the configuration of the plugin `Batch` from its args, a batch system's file, or an object in the cluster."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kube_objects.durations import parse_duration
from pyscheduler.framework import ConfigError
from pyscheduler_batch.batch_args import BatchArgs, PolicyEntry
from pyscheduler_batch.model.values import mapping_of
from pyscheduler_batch.settings.arguments import checked
from pyscheduler_batch.settings.search_budgets import search_budgets
from pyscheduler_batch.systems import presets as installed_presets
from pyscheduler_batch.usage.settings import usage_settings
from pyscheduler_quota.controller import MODES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pyscheduler_batch.preset import Preset

__all__ = ["ARG_NAMES", "BIND_REQUEST", "batch_args", "preset_of"]

_CLOSED: Final = "disable"
#: The value of `binder` with which BindRequests are written.
BIND_REQUEST: Final = "bindRequest"
_BINDERS: Final = ("api", BIND_REQUEST)
_BUDGETS: Final = ("ignore", "prefer", "respect")
#: Keys that a file may have without an effect here.
_IGNORED: Final = ("kind", "apiVersion", "metadata", "metrics")


def batch_args(
    mapping: Mapping[str, object],
    path: str = "$",
    *,
    more_actions: Collection[str] = (),
    more_policies: Mapping[str, Collection[str] | None] | None = None,
    presets: Mapping[str, Preset] | None = None,
    checks_names: bool = True,
) -> BatchArgs:
    """Return the configuration in the args of `Batch`, or in a file with actions and tiers.

    `path` is where the mapping stands, for messages. `more_actions` and `more_policies` are the names that other
    distributions add, policies with their arguments (None: any), and `presets` are those that may be chosen, by default
    those of all installed systems. A name may have the form `preset/name`. Without `checks_names`, every action and
    policy is known: for a file that is read before the distributions are.

    Raises `ConfigError` with a line for each unknown preset, action and policy, and for parts of the wrong type.
    """
    presets = installed_presets() if presets is None else presets
    return _Reader(mapping, path, more_actions, more_policies or {}, presets, checks_names=checks_names).read()


def preset_of(mapping: Mapping[str, object], presets: Mapping[str, Preset]) -> tuple[str, bool]:
    """Return the preset of a file with actions and tiers, "" for none of these, and whether the file tells.

    A file may fit several systems. Names that only one system has decide, and `preset` always does.
    """
    said = mapping.get("preset")
    if isinstance(said, str) and said:
        return said, True
    candidates = [preset for preset in presets.values() if preset.is_told_by_names]
    for preset in candidates:
        if any(key in mapping for key in preset.file_keys):
            return preset.name, True
    in_doubt = [preset for preset in presets.values() if preset.shared_names]
    used = _names_in(mapping)
    for preset in candidates:
        others = [each for each in (*candidates, *in_doubt) if each is not preset]
        # Without another system here, nothing tells that the names are not those of one that is not installed.
        for names in ("known_actions", "known_policies", "flags") if others else ():
            own = set(getattr(preset, names)).difference(*(getattr(other, names) for other in others))
            if used & own:
                return preset.name, True
    return next((preset.name for preset in in_doubt), ""), False


def _names_in(mapping: Mapping[str, object]) -> set[str]:
    """Return the names of actions, policies and flags in a file, as far as it is well-formed."""
    raw = mapping.get("actions")
    used = {name.strip() for name in raw.split(",")} if isinstance(raw, str) else set()
    if isinstance(raw, list):
        used |= {name for name in raw if isinstance(name, str)}
    tiers = mapping.get("tiers")
    for tier in tiers if isinstance(tiers, list) else ():
        entries = tier.get("plugins") if isinstance(tier, Mapping) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping):
                name = entry.get("name")
                used |= {*map(str, entry), *([name] if isinstance(name, str) else [])}
    return used


class _Reader:
    """Reads one mapping and collects what is wrong with it."""

    def __init__(
        self,
        mapping: Mapping[str, object],
        path: str,
        more_actions: Collection[str],
        more_policies: Mapping[str, Collection[str] | None],
        presets: Mapping[str, Preset],
        *,
        checks_names: bool,
    ) -> None:
        self._presets = presets
        self._checks_names = checks_names
        self._said = mapping
        self._path = path
        self._more_actions = more_actions
        self._more_policies = more_policies
        self._problems: list[str] = []
        self._warnings: list[str] = []
        #: That of the file, as soon as it is known.
        self._preset: Preset
        #: By path of what a shard stands for, the path in the shard.
        self._places: Mapping[str, str] = {}

    def read(self) -> BatchArgs:
        self._choose_preset()
        said = self._with_shard()
        settings: dict[str, object] = {}
        for key, value in said.items():
            reader = _SETTINGS.get(key)
            if reader is not None and value is not None:
                attribute, read = reader
                try:
                    settings[attribute] = read(value)
                except ValueError as error:
                    self._problem(key, str(error))
            elif reader is None and key not in _PARTS and key not in _IGNORED:
                self._warnings.append(f"{self._at(key)} has no effect: {_unknown('key', key, [*_SETTINGS, *_PARTS])}")
        actions = self._actions(said.get("actions"))
        tiers = self._tiers(said.get("tiers"))
        arguments = self._action_arguments(said.get("configurations"))
        self._check_conflicts(tiers, actions, settings)
        if self._problems:
            raise ConfigError(*self._problems)
        settings.setdefault("scheduler_name", self._preset.scheduler_name)
        return BatchArgs(
            preset=self._preset.name,
            actions=actions,
            tiers=tiers,
            action_arguments=arguments,
            warnings=tuple(self._warnings),
            **settings,  # type: ignore[arg-type] # each reader returns the type of its attribute
        )

    def _choose_preset(self) -> None:
        said = self._said.get("preset")
        if said is not None and (not isinstance(said, str) or said not in self._presets):
            self._problem("preset", _unknown("preset", said, self._presets))
            raise ConfigError(*self._problems)
        name, told = preset_of(self._said, self._presets)
        if not told and not (name and (self._said.get("actions") or self._said.get("tiers"))):
            known = ", ".join(self._presets)
            none = "install a distribution with a batch system, such as those of kube-pyscheduler[batch]"
            self._problem("preset", f"a preset is missing; {f'write one of {known}' if known else none}")
            raise ConfigError(*self._problems)
        self._preset = self._presets[name]
        if not told:
            self._warnings.append(f"{self._path}: {self._preset.shared_names}")

    def _with_shard(self) -> Mapping[str, object]:
        """Return the mapping with the parts of an object that stands for a file in the form of that file."""
        spec = self._said.get("shard")
        if spec is None:
            return self._said
        form = self._preset.shard
        if not isinstance(spec, Mapping) or form is None:
            known = {each.name: each.shard for each in self._presets.values() if each.shard is not None}
            whose = f"belongs to preset {' and '.join(known)}, not {self._preset.name}"
            kind = next((each.kind for each in (form, *known.values()) if each is not None), "shard")
            text = "is not a mapping" if form is not None else whose
            self._problem("shard", f"a shard {text}; give the spec of a {kind}")
            return self._said
        settings, notes = form.settings(spec)
        self._warnings += [f"{self._at('shard')}.{note}" for note in notes]
        actions, tiers, problems = form.actions_and_tiers(spec)
        self._problems += [f"{text} @ {self._at('shard')}.{where}" for where, text in problems]
        others = {key: value for key, value in self._said.items() if key != "shard"}
        self._places = {
            path: place for path, place in form.places(spec).items() if path.partition("[")[0] not in others
        }
        return {"actions": actions, "tiers": tiers, **settings, **others}

    # --- actions

    def _actions(self, value: object) -> tuple[str, ...]:
        known = [*self._preset.known_actions, *self._more_actions]
        if value is None or value in ("", []):
            return self._preset.actions
        if isinstance(value, str):
            names: list[object] = [name.strip() for name in value.split(",")]
        elif isinstance(value, list):
            names = [name.strip() if isinstance(name, str) else name for name in value]
        else:
            self._problem("actions", f"expected names with commas between them, or a list, found {_shown(value)}")
            return ()
        if isinstance(value, str) and "" in names:
            self._problem("actions", "a name is missing before or after a comma; remove the comma")
            names = [name for name in names if name != ""]
        for name in names:
            if not isinstance(name, str) or (self._checks_names and self._own(name) not in known):
                self._problem("actions", self._unknown_action(name))
        return tuple(dict.fromkeys(self._own(name) for name in names if isinstance(name, str)))

    def _own(self, name: str) -> str:
        """Return a name without the prefix of the preset."""
        return name.removeprefix(f"{self._preset.name}/")

    def _action_arguments(self, value: object) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, Mapping[str, str]] = {}
        for index, item in enumerate(self._list(value, "configurations")):
            where = f"configurations[{index}]"
            if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
                self._problem(where, "expected a mapping with the name of an action, and its arguments")
                continue
            name = self._own(str(item["name"]))
            known = self._preset.known_actions.get(name)
            if known is None and name not in self._more_actions:
                self._warnings.append(f"{self._at(where)} has no effect: {self._unknown_action(name)}")
                continue
            given = self._texts(item.get("arguments"), f"{where}.arguments")
            if known is None:
                found[name] = given
                continue
            found[name] = {
                key: usable for key, text in given.items() if (usable := self._usable(key, text, where)) is not None
            }
            for each in given:
                if each not in known:
                    self._unknown_argument(f"{where}.arguments", each, known, name)
        return found

    # --- tiers

    def _tiers(self, value: object) -> tuple[tuple[PolicyEntry, ...], ...]:
        tiers = []
        for index, tier in enumerate(self._list(value, "tiers")):
            where = f"tiers[{index}]"
            items: object = tier
            if isinstance(tier, Mapping):
                self._warn_keys(tier, where, ("plugins",))
                items, where = tier.get("plugins"), f"{where}.plugins"
            elif not isinstance(tier, list):
                self._problem(where, f"expected a mapping with plugins, or a list of them, found {_shown(tier)}")
                continue
            entries = enumerate(self._list(items, where))
            tiers.append(tuple(each for at, item in entries for each in self._entry(item, f"{where}[{at}]")))
        return tuple(tiers) or _default_tiers(self._preset)

    def _entry(self, item: object, where: str) -> Iterable[PolicyEntry]:
        if isinstance(item, str):
            item = {"name": item}
        if not isinstance(item, Mapping) or not isinstance(item.get("name"), str) or not item["name"]:
            self._problem(where, f"expected a mapping with the name of a policy, found {_shown(item)}")
            return
        name = self._own(str(item["name"]))
        known = [*self._preset.known_policies, *self._more_policies]
        if name not in known and self._checks_names:
            here = {each.name: each.policies_here for each in self._presets.values()}
            self._problem(f"{where}.name", self._unknown_name("policy", name, here, self._more_policies))
            return
        arguments = self._arguments(name, self._texts(item.get("arguments"), f"{where}.arguments"), where)
        yield PolicyEntry(name=name, arguments=arguments, enabled=self._flags(item, where))

    def _arguments(self, policy: str, given: Mapping[str, str], where: str) -> Mapping[str, str]:
        """Return the arguments of a policy under their own names, with a warning for each unknown one."""
        added = self._more_policies.get(policy, ())
        if added is None:
            return given
        arguments: dict[str, str] = {}
        for key, value in given.items():
            name = self._preset.aliases.get(key, key)
            usable = self._usable(name, value, where, said=key)
            if usable is not None:
                arguments[name] = usable
            if name not in added and not self._preset.knows_argument(policy, name):
                known = [*self._preset.known_policies.get(policy, ()), *added]
                self._unknown_argument(f"{where}.arguments", key, known, policy)
        return arguments

    def _usable(self, name: str, value: str, where: str, *, said: str = "") -> str | None:
        """Return the value of an argument as its policy reads it; None, with a warning, if it cannot be used."""
        usable, wrong = checked(name, value, self._preset.kinds)
        if wrong:
            shown = self._at(f"{where}.arguments.{said or name}")
            self._warnings.append(f"{shown}: {_shown(value)} {wrong}; {usable or 'the default'} counts")
        return usable

    def _flags(self, item: Mapping[str, object], where: str) -> Mapping[str, bool]:
        """Return the flags of an entry; `disableX: true` of old files is `enableX: false`."""
        flags: dict[str, bool] = {}
        for key, value in item.items():
            if key in {"name", "arguments"} or value is None:
                continue
            closed = key.startswith(_CLOSED)
            name = f"enable{key.removeprefix(_CLOSED)}" if closed else key
            if name not in self._preset.flags:
                known = ["name", "arguments", *self._preset.flags]
                self._warnings.append(f"{self._at(where)}.{key} has no effect: {_unknown('key', key, known)}")
            elif not isinstance(value, bool):
                self._problem(f"{where}.{key}", f"expected true or false, found {_shown(value)}")
            else:
                flags[name] = value != closed
        return flags

    def _check_conflicts(
        self,
        tiers: Iterable[Iterable[PolicyEntry]],
        actions: Collection[str],
        settings: Mapping[str, object],
    ) -> None:
        for index, tier in enumerate(tiers):
            entries = {entry.name: entry for entry in tier}
            if "proportion" in entries and "drf" in entries and entries["drf"].enabled.get("enableHierarchy"):
                text = "proportion and drf with enableHierarchy divide the same resources; remove one of them"
                self._problem(f"tiers[{index}]", text)
        depths = settings.get("queue_depth_per_action")
        for action in depths if isinstance(depths, Mapping) else ():
            if action not in actions:
                self._problem("queueDepthPerAction", f'action "{action}" is not among the actions {", ".join(actions)}')

    # --- names

    def _unknown_action(self, name: object) -> str:
        here = {each.name: each.actions_here for each in self._presets.values()}
        return self._unknown_name("action", name, here, self._more_actions)

    def _unknown_name(self, what: str, name: object, here: Mapping[str, Collection[str]], more: Iterable[str]) -> str:
        """Return the sentence about a name that the preset does not have; `here` has by preset those that it offers."""
        others = [preset for preset, names in here.items() if name in names]
        if others:
            return f"{what} {_shown(name)} belongs to preset {' and '.join(others)}, not {self._preset.name}"
        return _unknown(what, name, [*here[self._preset.name], *more])

    # --- parts

    def _texts(self, value: object, where: str) -> dict[str, str]:
        if value is not None and not isinstance(value, Mapping):
            self._problem(where, f"expected a mapping, found {_shown(value)}")
            return {}
        return {key: _text(each) for key, each in mapping_of(value, where, []).items() if each is not None}

    def _list(self, value: object, where: str) -> list[object]:
        if value is None:
            return []
        if isinstance(value, list):
            return value
        self._problem(where, f"expected a list, found {_shown(value)}")
        return []

    def _warn_keys(self, item: Mapping[str, object], where: str, known: Collection[str]) -> None:
        for key in item:
            if key not in known:
                self._warnings.append(f"{self._at(where)}.{key} has no effect: {_unknown('key', key, known)}")

    def _unknown_argument(self, where: str, argument: str, known: Iterable[str], owner: str) -> None:
        text = _unknown("argument", argument, [each.removesuffix("*") for each in known])
        self._warnings.append(f"{self._at(where)} of {owner}: {text}")

    def _problem(self, where: str, text: str) -> None:
        self._problems.append(f"{text} @ {self._at(where)}")

    def _at(self, where: str) -> str:
        """Return the path of a part; that of the shard if the shard stands for it."""
        head, tail = where, ""
        while head and head not in self._places:
            cut = max(head.rfind("."), head.rfind("["), 0)
            head, tail = head[:cut], head[cut:] + tail
        return f"{self._path}.shard.{self._places[head]}{tail}" if head else f"{self._path}.{where}"


def _default_tiers(preset: Preset) -> tuple[tuple[PolicyEntry, ...], ...]:
    return tuple(tuple(_default_entry(text) for text in tier) for tier in preset.tiers)


def _default_entry(text: str) -> PolicyEntry:
    name, *arguments = text.split()
    return PolicyEntry(name=name, arguments=dict(each.split("=", 1) for each in arguments))


# --- values -------------------------------------------------------------------------------------


def _unknown(what: str, name: object, known: Iterable[str]) -> str:
    """Return the sentence about a name that does not exist, with the nearest one that does."""
    names = list(dict.fromkeys(known))
    folded = {each.lower(): each for each in names}
    close = difflib.get_close_matches(str(name).lower(), folded, n=1)
    if close:
        hint = f'did you mean "{folded[close[0]]}"?'
    elif names:
        hint = f"known are {', '.join(names)}"
    else:
        hint = "there are none"
    return f"no {what} is called {_shown(name)}; {hint}"


def _text(value: object) -> str:
    """Return the value of an argument as text: a list or map as JSON, a whole number without a point."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"expected true or false, found {_shown(value)}")


def _string(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"expected a string, found {_shown(value)}")


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= -1:
        return value
    raise ValueError(f"expected a number of -1 or more, found {_shown(value)}")


def _seconds(value: object) -> float:
    """Return a duration in seconds: a Go duration, or a number of seconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    try:
        return parse_duration(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(f"expected a duration such as 90s, found {_shown(value)}") from None


def _quota_reservation(value: object) -> str:
    if isinstance(value, str) and value in MODES:
        return value
    raise ValueError(_unknown("quotaReservation", value, MODES))


def _binder(value: object) -> str:
    if isinstance(value, str) and value in _BINDERS:
        return value
    raise ValueError(_unknown("binder", value, _BINDERS))


def _disruption_budgets(value: object) -> str:
    if isinstance(value, str) and value in _BUDGETS:
        return value
    raise ValueError(_unknown("disruptionBudgets", value, _BUDGETS))


def _depths(value: object) -> Mapping[str, int]:
    if isinstance(value, Mapping) and all(
        isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in value.values()
    ):
        return {str(key): each for key, each in value.items()}
    raise ValueError(f"expected numbers of 0 or more by action, found {_shown(value)}")


#: Keys that the reader handles itself.
_PARTS: Final = ("preset", "actions", "tiers", "configurations", "shard")

#: By key: the attribute of `BatchArgs`, and what reads the value or raises `ValueError`.
_SETTINGS: Final[Mapping[str, tuple[str, Callable[[object], object]]]] = {
    "schedulerName": ("scheduler_name", _string),
    "queueDepthPerAction": ("queue_depth_per_action", _depths),
    "maxConsolidationVictims": ("max_consolidation_victims", _count),
    "consolidatingReclaim": ("consolidating_reclaim", _boolean),
    "schedulingSignatures": ("scheduling_signatures", _boolean),
    "stalenessGracePeriod": ("staleness_grace", _seconds),
    "requireGroup": ("require_group", _boolean),
    "defaultQueue": ("default_queue", _string),
    "queueLabel": ("queue_label", _string),
    "nodePoolLabel": ("node_pool_label", _string),
    "nodePool": ("node_pool", _string),
    "gangBarrier": ("gang_barrier", _boolean),
    "binder": ("binder", _binder),
    "quotaReservation": ("quota_reservation", _quota_reservation),
    "disruptionBudgets": ("disruption_budgets", _disruption_budgets),
    "usageDBConfig": ("usage", usage_settings),
    "scenarioSearchBudgets": ("search_budgets", search_budgets),
}

ARG_NAMES: Final = (*_PARTS, *_SETTINGS)
"""The keys of the args of a batch profile."""
