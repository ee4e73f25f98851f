"""Make the actions and policies of a configuration. Nothing is imported until a profile uses it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pyscheduler.batch.session import EnabledPolicy, Session
from pyscheduler.framework import ConfigError
from pyscheduler_batch.kai import preset as kai
from pyscheduler_batch.volcano import preset as volcano

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.batch.configuration import BatchArgs, PolicyEntry
    from pyscheduler.batch.contract import Action

__all__ = ["make_actions", "make_tiers", "session_type"]

_ACTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "kai": kai.ACTIONS,
    "volcano": volcano.ACTIONS,
    "kube-batch": volcano.ACTIONS,
}
_POLICIES: Final[Mapping[str, Mapping[str, str]]] = {
    "kai": kai.POLICIES,
    "volcano": volcano.POLICIES,
    "kube-batch": volcano.POLICIES,
}
_SESSIONS: Final[Mapping[str, str]] = {"volcano": volcano.SESSION, "kube-batch": volcano.SESSION}
#: Policies of the systems whose work the profile's own filters do, or that describe what this scheduler always does.
_BUILT_IN: Final = frozenset(
    {
        "predicates",
        "nodeavailability",
        "gpusharingorder",
        "gpupack",
        "resourcetype",
        "subgrouporder",
        "nominatednode",
        "dynamicresources",
        "topology",
        "snapshot",
        "podaffinity",
        "gpuspread",
        "reflectjoborder",
        "sg-nodelocalgreedy",
        "sg-multinodegang",
    }
)


def make_actions(args: BatchArgs) -> list[Action]:
    """Return the actions in order; raise `ConfigError` for one that this version does not have."""
    known = _ACTIONS[args.preset]
    missing = [name for name in args.actions if _bare(name) not in known]
    if missing:
        raise ConfigError(*(f'action "{name}" of the preset "{args.preset}" is not available yet' for name in missing))
    return [_load(known[_bare(name)])(_action_arguments(args, _bare(name))) for name in args.actions]


def make_tiers(args: BatchArgs) -> list[list[EnabledPolicy]]:
    """Return the policies by tier; raise `ConfigError` for one that this version does not have."""
    known = _POLICIES[args.preset]
    problems: list[str] = []

    def make(entry: PolicyEntry) -> list[EnabledPolicy]:
        name = _bare(entry.name)
        if name in known:
            return [EnabledPolicy(_load(known[name])(entry.arguments), entry.enabled)]
        if name not in _BUILT_IN:
            problems.append(f'policy "{entry.name}" of the preset "{args.preset}" is not available yet')
        return []

    tiers = [[made for entry in tier for made in make(entry)] for tier in args.tiers]
    if problems:
        raise ConfigError(*problems)
    return tiers


def session_type(args: BatchArgs) -> type[Session]:
    """Return the class of the preset's sessions."""
    target = _SESSIONS.get(args.preset)
    found: type[Session] = Session if target is None else _load(target)
    return found


def _action_arguments(args: BatchArgs, name: str) -> Mapping[str, str]:
    own = dict(args.action_arguments.get(name, {}))
    if args.preset == "kai":
        own.setdefault("maxConsolidationVictims", str(args.max_consolidation_victims))
        own.setdefault("consolidatingReclaim", str(args.consolidating_reclaim).lower())
        own.setdefault("defaultStalenessGracePeriod", str(args.staleness_grace))
    return own


def _bare(name: str) -> str:
    """Return the name without its preset."""
    return name.rpartition("/")[2]


def _load(target: str) -> Any:
    """Return what `module:Name` names."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
