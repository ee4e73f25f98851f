"""The configuration of a batch profile, read from any of the forms that its users have.

The forms are the args of the plugin `Batch`; a file with `actions` and `tiers`, of kube-batch, Volcano or KAI; and the
spec of a `SchedulingShard` of KAI. The mappings are those of a YAML reader. A mistake that would change which actions
run, or on which queues, is a `ConfigError`; everything else is a warning with the nearest known name.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from kube_objects.durations import parse_duration
from pyscheduler.framework import ConfigError
from pyscheduler.podgroup.reservation_controller import MODES, WAIT
from pyscheduler_batch.formats.presets import KAI, KUBE_BATCH, PRESETS, VOLCANO, Preset
from pyscheduler_batch.formats.shard import actions_and_tiers, places_in_shard, shard_settings
from pyscheduler_batch.model.values import mapping_of
from pyscheduler_batch.settings.arguments import checked
from pyscheduler_batch.settings.search_budgets import GENERATORS, SearchBudgets, search_budgets
from pyscheduler_batch.settings.usage_settings import UsageSettings, usage_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

__all__ = ["ARG_NAMES", "BIND_REQUEST", "BatchArgs", "PolicyEntry", "batch_args", "preset_of"]


@attrs.frozen(kw_only=True)
class PolicyEntry:
    """A policy in a tier."""

    name: str
    #: As texts; a list or map is JSON.
    arguments: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    #: The flags of the file, such as `enablePreemptable`; a flag that is not there has its default.
    enabled: Mapping[str, bool] = attrs.field(factory=dict, hash=False)


@attrs.frozen(kw_only=True)
class BatchArgs:
    """The configuration of a batch profile, complete with the defaults of its preset."""

    preset: str
    actions: tuple[str, ...]
    tiers: tuple[tuple[PolicyEntry, ...], ...]
    #: Arguments of actions (Volcano's `configurations`), by action.
    action_arguments: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict, hash=False)
    #: The name that the file gives the scheduler, or the name of the preset's system.
    scheduler_name: str = ""
    #: How many jobs of a queue an action looks at; a missing action looks at all (KAI).
    queue_depth_per_action: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    #: At most this many victims of a consolidation; 0: none, -1: any number (KAI).
    max_consolidation_victims: int = 16
    #: Whether pods that find another node do not count as reclaimed (KAI).
    consolidating_reclaim: bool = True
    #: Whether jobs that look alike are tried once per action (KAI).
    scheduling_signatures: bool = True
    #: Seconds that a broken gang may stay, unless its group says otherwise; below 0: for ever (KAI).
    staleness_grace: float = 60.0
    #: How long the searches for victims may take (KAI).
    search_budgets: SearchBudgets = attrs.field(factory=SearchBudgets)
    #: Whether a pod without a group is refused; otherwise it is a job of its own.
    require_group: bool = False
    #: The queue of a job that names none; "" for the default of the job's dialect.
    default_queue: str = ""
    #: The label of pods that names their queue (KAI).
    queue_label: str = "kai.scheduler/queue"
    #: The label of nodes, pods and groups that names their node pool, and the pool of this profile (KAI).
    node_pool_label: str = "kai.scheduler/node-pool"
    node_pool: str = ""
    #: Whether the members of a gang finish PreBind before the first one is bound.
    gang_barrier: bool = True
    #: `api` binds pods itself, `bindRequest` leaves that to a binder of BindRequests.
    binder: str = "api"
    #: `wait`: a job is held until the quotas of its namespace have room for all that its group declares; `none`.
    quota_reservation: str = WAIT
    #: Whether PodDisruptionBudgets protect victims: `ignore`, `prefer` (of equal victims the others go) or `respect`.
    disruption_budgets: str = "prefer"
    #: Where past use of queues is known from; None: shares do not depend on it (KAI).
    usage: UsageSettings | None = None
    #: Sentences for the log about what has no effect.
    warnings: tuple[str, ...] = ()

    def policy(self, name: str) -> PolicyEntry | None:
        """Return the first entry of a policy; None if it is not configured."""
        return next((entry for tier in self.tiers for entry in tier if entry.name == name), None)

    @property
    def has_queue_tree(self) -> bool:
        """Return whether a flag makes a tree of queues that have parents; `drf` reads annotations instead."""
        entries = (entry for tier in self.tiers for entry in tier if entry.name != "drf")
        return any(entry.enabled.get("enableHierarchy", False) for entry in entries)

    @property
    def waits_for_quota(self) -> bool:
        """Return whether jobs are held for lack of quota; Volcano's own policy for it decides if it is there."""
        return self.quota_reservation == WAIT and self.preset != KAI.name and self.policy("resourcequota") is None

    def arguments_of(self, action: str) -> Mapping[str, str]:
        """Return the arguments of an action, together with the settings of KAI's scheduler that its actions read."""
        given = self.action_arguments.get(action, {})
        if self.preset != KAI.name:
            return given
        settings = {
            "maxConsolidationVictims": str(self.max_consolidation_victims),
            "consolidatingReclaim": _text(self.consolidating_reclaim),
            "schedulingSignatures": _text(self.scheduling_signatures),
            "defaultStalenessGracePeriod": str(self.staleness_grace),
            **self.search_budgets.arguments(action),
        }
        if action in self.queue_depth_per_action:
            settings["queueDepth"] = str(self.queue_depth_per_action[action])
        return {**settings, **given}

    def policy_arguments(self, entry: PolicyEntry) -> Mapping[str, str]:
        """Return the arguments of a policy, with the limit of KAI's search where it proposes victims."""
        limits = self.search_budgets.generators
        if self.preset != KAI.name or not (entry.name in GENERATORS or entry.name in limits):
            return entry.arguments
        return {"maxSearchDuration": str(self.search_budgets.generator_seconds(entry.name)), **entry.arguments}


#: Three names of one argument of `proportion`: KAI's own, without its misspelling, and that of its user guide.
_MULTIPLIERS: Final = (
    "relcaimerSaturationMultiplier",
    "reclaimerSaturationMultiplier",
    "reclaimerUtilizationMultiplier",
)
_CLOSED: Final = "disable"
#: The value of `binder` with which KAI's BindRequests are written.
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
    more_presets: Mapping[str, Preset] | None = None,
    checks_names: bool = True,
) -> BatchArgs:
    """Return the configuration in the args of `Batch`, or in a file with actions and tiers.

    `path` is where the mapping stands, for messages. `more_actions` and `more_policies` are the names that other
    distributions add, policies with their arguments (None: any), and `more_presets` are those of other systems; only
    `preset` chooses these. A name may have the form `preset/name`. Without `checks_names`, every action and policy is
    known: for a file that is read before the distributions are.

    Raises `ConfigError` with a line for each unknown preset, action and policy, and for parts of the wrong type.
    """
    presets = {**PRESETS, **(more_presets or {})}
    return _Reader(mapping, path, more_actions, more_policies or {}, presets, checks_names=checks_names).read()


def preset_of(mapping: Mapping[str, object]) -> tuple[str, bool]:
    """Return the preset of a file with actions and tiers, and whether the file tells.

    A file of kube-batch could also be one of Volcano. Names that only one system has decide, and `preset` always does.
    """
    said = mapping.get("preset")
    if isinstance(said, str) and said:
        return said, True
    if any(key in mapping for key in ("queueDepthPerAction", "usageDBConfig", "scenarioSearchBudgets", "shard")):
        return KAI.name, True
    if "configurations" in mapping or "metrics" in mapping:
        return VOLCANO.name, True
    used = _names_in(mapping)
    for preset in (KAI, VOLCANO):
        others = [each for each in PRESETS.values() if each is not preset]
        for names in ("known_actions", "known_policies", "flags"):
            own = set(getattr(preset, names)).difference(*(getattr(other, names) for other in others))
            if used & own:
                return preset.name, True
    return KUBE_BATCH.name, False


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
        self._preset = KAI
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
        name, told = preset_of(self._said)
        if not told and not (self._said.get("actions") or self._said.get("tiers")):
            self._problem("preset", f"a preset is missing; write one of {', '.join(self._presets)}")
            raise ConfigError(*self._problems)
        if not told:
            text = (
                'kube-batch and Volcano both have these names; kube-batch counts, write "preset: volcano" for Volcano'
            )
            self._warnings.append(f"{self._path}: {text}")
        self._preset = self._presets[name]

    def _with_shard(self) -> Mapping[str, object]:
        """Return the mapping with the parts of a shard of KAI in the form of a file."""
        shard = self._said.get("shard")
        if shard is None:
            return self._said
        if not isinstance(shard, Mapping) or self._preset is not KAI:
            text = "is not a mapping" if self._preset is KAI else f"belongs to preset kai, not {self._preset.name}"
            self._problem("shard", f"a shard {text}; give the spec of a SchedulingShard")
            return self._said
        settings, notes = shard_settings(shard)
        self._warnings += [f"{self._at('shard')}.{note}" for note in notes]
        actions, tiers, problems = actions_and_tiers(shard)
        self._problems += [f"{text} @ {self._at('shard')}.{where}" for where, text in problems]
        others = {key: value for key, value in self._said.items() if key != "shard"}
        self._places = {
            path: place for path, place in places_in_shard(shard).items() if path.partition("[")[0] not in others
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
            name = _MULTIPLIERS[0] if self._preset is KAI and key in _MULTIPLIERS else key
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
        """Return the flags of an entry; `disableX: true` of KAI and of old files is `enableX: false`."""
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
        here = {each.name: each.actions_here for each in PRESETS.values()}
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
