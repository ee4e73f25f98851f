"""`Preset`: the actions and plugins of one batch system, such as KAI, and which of them are enabled by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

__all__ = ["Preset", "Shard", "Tiers"]

Tiers: TypeAlias = list[dict[str, list[dict[str, Any]]]]
"""The tiers of a file, as they are decoded."""

#: Stands for any text in the name of an argument.
_ANY: Final = "*"


@attrs.frozen(kw_only=True)
class Shard:
    """An object of the cluster that stands for a file: its kind and group, and how its spec is read."""

    kind: str
    group: str
    #: The settings by key of the args, and sentences about what has no effect.
    settings: Callable[[Mapping[str, object]], tuple[dict[str, object], list[str]]]
    #: The actions, the tiers, and the mistakes: where in the spec, and what is wrong.
    actions_and_tiers: Callable[[Mapping[str, object]], tuple[list[str], Tiers, list[tuple[str, str]]]]
    #: By path of a setting, an action or a policy, the path in the spec that stands for it.
    places: Callable[[Mapping[str, object]], dict[str, str]]


@attrs.frozen(kw_only=True)
class Preset:
    """One system."""

    name: str
    #: The `schedulerName` of its pods.
    scheduler_name: str
    #: The actions and tiers without a configuration: `name`, or `name key=value ...` with arguments.
    actions: tuple[str, ...]
    tiers: tuple[tuple[str, ...], ...]
    #: The actions that it has, with the arguments that `configurations` may give.
    known_actions: Mapping[str, tuple[str, ...]]
    #: The policies that it has, with their arguments; `*` at the end of one stands for any text.
    known_policies: Mapping[str, tuple[str, ...]]
    #: The flags of a policy in a tier.
    flags: tuple[str, ...]
    #: By pattern of an argument: the kind of its value, as in `arguments.checked`. Others are any text.
    kinds: Mapping[str, str]
    #: The actions and policies of the system that do not exist here.
    missing: frozenset[str] = frozenset()
    #: Whether a file with actions and tiers may be one of this system without saying so, and the keys that only its
    #: files have.
    is_told_by_names: bool = False
    file_keys: tuple[str, ...] = ()
    #: What to say about a file whose names this system shares with others; its preset counts then.
    shared_names: str = ""
    #: The keys of ConfigMaps under which the system keeps its file.
    config_map_keys: tuple[str, ...] = ()
    #: Other names of arguments, and what they are called here.
    aliases: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    #: The objects that a configuration may be written as.
    shard: Shard | None = None

    @property
    def actions_here(self) -> list[str]:
        """Return the names of the actions that exist here."""
        return [name for name in self.known_actions if name not in self.missing]

    @property
    def policies_here(self) -> list[str]:
        """Return the names of the policies that exist here."""
        return [name for name in self.known_policies if name not in self.missing]

    def knows_argument(self, policy: str, argument: str) -> bool:
        """Return whether a policy of this preset has an argument."""
        known = self.known_policies.get(policy, ())
        return any(
            argument == each or (each.endswith(_ANY) and argument.startswith(each.removesuffix(_ANY))) for each in known
        )
