"""Create the actions and policies that are named in the configuration of the plugin `Batch`.

An action is a step of a scheduling round, such as `allocate`. A policy answers questions that actions ask, for example
which of two jobs is placed first.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING

from pyscheduler.framework import ConfigError
from pyscheduler_batch.contract import Action, Policy
from pyscheduler_batch.model.policy_checks import action_problems, role_problems, with_checks
from pyscheduler_batch.model.session import EnabledPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.framework.extensions import Extensions
    from pyscheduler_batch.batch_args import BatchArgs, PolicyEntry
    from pyscheduler_batch.model.session import Session
    from pyscheduler_batch.system import System

__all__ = ["make_actions", "make_tiers", "session_type"]


def make_actions(args: BatchArgs, system: type[System], extensions: Extensions | None = None) -> list[Action]:
    """Return the actions in order; raise `ConfigError` for one that nobody offers."""
    known, offers = system.actions, {} if extensions is None else extensions.actions
    made: list[Action] = []
    problems: list[str] = []
    for name in args.actions:
        if name in known:
            made.append(resolve_name(known[name])(system.action_arguments(args, name)))
        elif name in offers:
            offered = offers[name].load(f'action "{name}"', Action)
            wrong = _wrong_name(f'action "{name}"', name, offered) + action_problems(f'action "{name}"', offered)
            wrong += _unknown_arguments(f'action "{name}"', args.action_arguments.get(name, {}), offered)
            problems += wrong
            if not wrong:
                made.append(offers[name].make(f'action "{name}"', Action, system.action_arguments(args, name)))
        else:
            problems.append(f'action "{name}" of the preset "{args.preset}" is not available; remove it')
    if problems:
        raise ConfigError(*problems)
    return made


def make_tiers(
    args: BatchArgs, system: type[System], extensions: Extensions | None = None
) -> list[list[EnabledPolicy]]:
    """Return the policies by tier; raise `ConfigError` for one that nobody offers."""
    known, offers = system.policies, {} if extensions is None else extensions.policies
    problems: list[str] = []

    def make(entry: PolicyEntry) -> list[EnabledPolicy]:
        name = entry.name
        if name in known:
            return [EnabledPolicy(resolve_name(known[name])(system.policy_arguments(args, entry)), entry.enabled)]
        if name in offers:
            offered = offers[name].load(f'policy "{name}"', Policy)
            wrong = _wrong_name(f'policy "{name}"', name, offered) + role_problems(f'policy "{name}"', offered)
            wrong += _unknown_arguments(f'policy "{name}"', entry.arguments, offered)
            problems.extend(wrong)
            if wrong:
                return []
            policy = offers[name].make(f'policy "{name}"', Policy, system.policy_arguments(args, entry))
            return [EnabledPolicy(with_checks(policy), entry.enabled)]
        problems.append(f'policy "{name}" of the preset "{args.preset}" is not available; remove it')
        return []

    tiers = [[made for entry in tier for made in make(entry)] for tier in args.tiers]
    if any(name in system.actions for name in args.actions):
        problems += [
            f'the actions of the preset "{args.preset}" need the policy "{name}"; enable it'
            for name in system.needed_policies
            if args.policy(name) is None
        ]
    if problems:
        raise ConfigError(*problems)
    return tiers


def session_type(system: type[System]) -> type[Session]:
    """Return the class of a system's sessions."""
    found: type[Session] = resolve_name(system.session)
    return found


def _wrong_name(whose: str, name: str, made: type[Policy | Action]) -> list[str]:
    """Return a sentence if the class of another distribution has not the name under which it is offered."""
    own = getattr(made, "name", None)
    return [] if own == name else [f"{whose}: {made.__qualname__}.name is {own!r}; write name = {name!r}"]


def _unknown_arguments(whose: str, given: Iterable[str], made: type[Policy | Action]) -> list[str]:
    """Return a sentence about each argument that a policy or action of another distribution does not have."""
    known = made.argument_names
    if known is None:
        return []
    names = f"its arguments are {', '.join(sorted(known))}" if known else "it has no arguments"
    return [f'{whose} has no argument "{each}"; {names}' for each in given if each not in known]
