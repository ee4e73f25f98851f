"""Compute the effective configuration, with all defaults, for `/configz` and `pyscheduler config`.

Source: kube-scheduler 1.36, `LogOrWriteConfig`, `NewFramework`, `buildExtenders` and `NewHTTPExtender`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from pyscheduler.config.forms import expanded
from pyscheduler.config.types import EXTENDER_TIMEOUT_SECONDS, Configuration, PluginConfig, SchedulerProfile
from pyscheduler.framework.in_tree_args import IN_TREE_ARGS, NodeResourcesFitArgs

__all__ = ["completed", "with_args"]

_FIT: Final = "NodeResourcesFit"


def completed(configuration: Configuration) -> Configuration:
    """Return `configuration` with the args that its profiles use: those of enabled plugins, by name.

    Extenders have their effective timeout.
    """
    ignored = tuple(
        resource.name
        for extender in configuration.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    profiles = tuple(_completed(profile, ignored) for profile in configuration.profiles)
    extenders = tuple(
        attrs.evolve(extender, http_timeout_seconds=extender.http_timeout_seconds or EXTENDER_TIMEOUT_SECONDS)
        for extender in configuration.extenders
    )
    return attrs.evolve(configuration, profiles=profiles, extenders=extenders)


def with_args(configuration: Configuration, made: Mapping[str, Mapping[str, object]]) -> Configuration:
    """Return `configuration` with the args of plugins that are not kube-scheduler's, their defaults included.

    `made`: by `schedulerName`, the args with which each plugin was made. Only those with an attrs class are known.
    """
    profiles = tuple(
        attrs.evolve(profile, plugin_config=(*_filled_in(profile, made.get(profile.scheduler_name, {})),))
        for profile in configuration.profiles
    )
    return attrs.evolve(configuration, profiles=profiles)


def _filled_in(profile: SchedulerProfile, made: Mapping[str, object]) -> Iterator[PluginConfig]:
    known = {name: args for name, args in made.items() if name not in IN_TREE_ARGS and attrs.has(type(args))}
    for config in profile.plugin_config:
        in_full = expanded(config)
        yield attrs.evolve(in_full, args=known.pop(config.name, in_full.args))
    for name, args in known.items():
        yield PluginConfig(name=name, args=args)


def _completed(profile: SchedulerProfile, ignored: tuple[str, ...]) -> SchedulerProfile:
    enabled = {entry.name for _, chosen in profile.plugins.sets() for entry in chosen.enabled}
    configs = [config for config in profile.plugin_config if config.name in enabled and config.args is not None]
    if ignored:
        configs = [_ignoring(config, ignored) for config in configs]
    return attrs.evolve(profile, plugin_config=tuple(sorted(configs, key=lambda config: config.name)))


def _ignoring(config: PluginConfig, ignored: tuple[str, ...]) -> PluginConfig:
    if config.name != _FIT or not isinstance(config.args, NodeResourcesFitArgs):
        return config
    return attrs.evolve(config, args=attrs.evolve(config.args, ignored_resources=ignored))
