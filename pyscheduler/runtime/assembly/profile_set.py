"""Build all profiles of a scheduler. They share one queue, so all must have the same QueueSort plugin and args.

Source: kube-scheduler 1.36, `profile.NewMap`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler.framework.profile import ProfileSpec
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.runtime.handle_dependencies import HandleDependencies

__all__ = ["build_profiles", "queue_sort_problems"]


def build_profiles(
    specs: Iterable[ProfileSpec], registry: Registry, services: HandleDependencies
) -> dict[str, Profile]:
    """Return the profiles by name, in the order given; raise `ConfigError` with the mistakes of all of them."""
    problems: list[str] = []
    cause: BaseException | None = None
    profiles: dict[str, Profile] = {}
    for spec in specs:
        name = spec.scheduler_name
        if name in profiles:
            problems.append(f'duplicate profile with scheduler name "{name}" @ {spec.path}')
            continue
        try:
            profiles[name] = Profile.build(spec, registry, services)
        except ConfigError as error:
            problems.extend(error.problems)
            cause = cause or error.__cause__
    problems.extend(queue_sort_problems(profiles))
    if problems:
        raise ConfigError(*problems) from cause
    if not profiles:
        raise ConfigError("at least one profile is required @ $.profiles")
    return profiles


def queue_sort_problems(profiles: Mapping[str, Profile]) -> list[str]:
    """Return how profiles differ from the first in their QueueSort plugin or its args; they share one queue."""
    problems: list[str] = []
    if not profiles:
        return problems
    first = next(iter(profiles.values()))
    wanted = first.queue_sort_name
    for name, profile in profiles.items():
        found = profile.queue_sort_name
        where = f"@ {profile.path}"
        if found != wanted:
            differ = f'different queue sort plugins for profile "{name}": "{found}", first: "{wanted}"'
            problems.append(f"{differ} {where}.plugins.queueSort")
        elif profile.args[found] != first.args[wanted]:
            problems.append(f'different queue sort plugin args for profile "{name}" {where}.pluginConfig')
    return problems
