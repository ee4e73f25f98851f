"""Convert the profiles of a configuration to the form that the runtime needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs

from pyscheduler.config.decode import Mistakes, decode_args
from pyscheduler.config.fields import fields_of
from pyscheduler.config.problems import Path, Problem, path_text
from pyscheduler.config.types import Configuration, PluginSet, SchedulerProfile
from pyscheduler.framework import profile as runtime
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.in_tree_args import IN_TREE_ARGS

__all__ = ["profiles"]


def profiles(
    config: Configuration, args_types: Callable[[str], type | None], *, keep_wrong: bool = False
) -> list[runtime.ProfileSpec]:
    """Return the profiles of `config`; raise `ConfigError` with every mistake in args.

    With `keep_wrong`, mistakes do not raise but stand in place of the args, so that the runtime reports them with its
    own. `args_types` returns the args class of a plugin that is not kube-scheduler's own, or None if the plugin has no
    args or is unknown. Args of such a plugin stay a mapping, which the runtime checks.
    """
    problems: list[Problem] = []
    specs = [_spec(("profiles", index), profile, args_types, problems) for index, profile in enumerate(config.profiles)]
    if problems and not keep_wrong:
        raise ConfigError(*map(str, problems), source=config.source)
    return specs


def _spec(
    path: Path, profile: SchedulerProfile, args_types: Callable[[str], type | None], problems: list[Problem]
) -> runtime.ProfileSpec:
    plugins = profile.plugins
    return runtime.ProfileSpec(
        scheduler_name=profile.scheduler_name,
        multi_point=_plugin_set(plugins.multi_point),
        plugins={
            point: _plugin_set(getattr(plugins, point.name.lower()))
            for point in runtime.ExtensionPoint
            if getattr(plugins, point.name.lower()) != PluginSet()
        },
        args=dict(_args(path, profile, args_types, problems)),
        args_index={entry.name: index for index, entry in enumerate(profile.plugin_config)},
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
        path=path_text(path),
    )


def _plugin_set(chosen: PluginSet) -> runtime.PluginSet:
    return runtime.PluginSet(
        enabled=tuple(runtime.EnabledPlugin(entry.name, entry.weight, entry.place) for entry in chosen.enabled),
        disabled=tuple(entry.name for entry in chosen.disabled),
    )


def _args(
    path: Path, profile: SchedulerProfile, args_types: Callable[[str], type | None], problems: list[Problem]
) -> Iterator[tuple[str, object]]:
    """Yield the args of every plugin that is configured, or enabled with default args."""
    configured = {config.name: index for index, config in enumerate(profile.plugin_config)}
    enabled = {entry.name: None for _, chosen in profile.plugins.sets() for entry in chosen.enabled}
    for name in {**configured, **enabled}:
        index = configured.get(name)
        config = profile.plugin_config[index] if index is not None else None
        # Args of a plugin that is not enabled have no effect, so its class is not imported.
        kind = args_types(name) if name in enabled and name not in IN_TREE_ARGS else None
        if kind is None:
            if config is not None and config.args is not None:
                yield name, config.args
            continue
        try:
            yield name, _structured(name, config.raw if config is not None else None, kind)
        except Mistakes as mistakes:
            found = [_placed(problem, name, path, index) for problem in mistakes.problems]
            problems += found
            yield name, runtime.WrongArgs(tuple(map(str, found)))


def _placed(problem: Problem, name: str, path: Path, index: int | None) -> Problem:
    """Return a problem of args with its path in the file; `index` in `pluginConfig`, None where it has no args."""
    if index is not None:
        named = Problem(problem.path, f'plugin "{name}": {problem.message}')
        return named.under(*path, "pluginConfig", index, "args")
    if not problem.path:
        return Problem((*path, "pluginConfig"), f'plugin "{name}": {problem.message}')
    text = f'plugin "{name}" needs args: {problem.message} at {".".join(map(str, problem.path))}'
    return Problem((*path, "pluginConfig"), text)


def _structured(name: str, raw: Mapping[str, object] | None, kind: type) -> object:
    if not (isinstance(kind, type) and attrs.has(kind)):
        found = kind.__name__ if isinstance(kind, type) else repr(kind)
        text = f"args_type is {found}, which is no attrs class; set a class with @attrs.frozen"
        raise Mistakes([Problem((), text)])
    try:
        fields_of(kind)
    except NameError as error:
        text = f"args_type {kind.__name__} cannot be read: {error}; import it outside TYPE_CHECKING"
        raise Mistakes([Problem((), text)]) from error
    return decode_args(name, raw, kind)
