"""`pyscheduler plugins`: list the installed plugins, or the plugins of a profile. With `--check`, test one plugin."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

import click

from pyscheduler.cli.shared_options import block_option, objects_option
from pyscheduler.cli.wrapped_text import WIDTH, echo_wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyscheduler.runtime.assembly.registry import Distribution, PluginDescription, Registry
    from pyscheduler.runtime.profile import Profile

__all__ = ["command"]

#: What the extensions of a distribution are part of.
_PART_OF: Final = {
    "system": "of batch profiles",
    "policy": "of batch profiles",
    "action": "of batch profiles",
    "queue dialect": "of batch profiles",
    "grouper": "of PodGrouper",
}


@click.command("plugins")
@click.option("--config", "config_file", metavar="FILE", help="List the plugins that the profiles of this file enable.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@click.option("--check", "checked", metavar="NAME", help="Run the plugin on random clusters, and show what it costs.")
@click.option(
    "--histories", type=click.IntRange(min=1), default=100, show_default=True, help="With --check: how many clusters."
)
@click.option("--seed", type=int, default=0, show_default=True, help="With --check: chooses the random clusters.")
@objects_option("With --check: manifest of objects that each cluster has. Repeatable.")
@block_option
def command(
    config_file: str | None,
    output: str,
    checked: str | None,
    histories: int,
    seed: int,
    objects: tuple[str, ...],
    blocked: tuple[str, ...],
) -> None:
    """List the installed plugins with distribution, version, extension points and args.

    A distribution that cannot be imported is listed with the reason. Only profiles that enable its plugins fail.
    With --config, the command also shows whether each profile has an equivalence cache (it reuses the answers of
    plugins for equal pods). If a profile has none, the command names the plugin that prevents it.

    With --check, the command runs the checks of the test kit (`check_plugin`) on a plugin, with the default plugins or
    in the profile of --config. It shows the CPU time per pod at three sizes of cluster. It exits with code 1 if a check
    fails, and prints the shortest history that shows the failure.

    \b
    Examples:
      # List the installed plugins.
      pyscheduler plugins
      # List the plugins of a profile.
      pyscheduler plugins --config configs/default.yaml
      # Check a plugin.
      pyscheduler plugins --check Coscheduling --config configs/coscheduling.yaml
    """
    from pyscheduler.runtime.assembly.discovery import discover

    if checked is not None:
        from pyscheduler.cli.plugin_check import check_installed
        from pyscheduler.framework.errors import ConfigError

        if blocked:
            raise ConfigError("--check runs with all installed plugins; leave out --block")
        check_installed(
            checked, config_file=config_file, objects=objects, histories=histories, seed=seed, output=output
        )
        return
    if objects:
        raise click.UsageError("--objects is for --check; add --check NAME")
    registry = discover(blocked=blocked)
    if config_file is not None:
        _show_enabled(config_file, registry, output)
    elif output == "json":
        _show_json({"distributions": [_distribution_data(each) for each in registry.distributions],
                    "plugins": [_plugin_data(row) for row in registry.describe()]})  # fmt: skip
    else:
        _show_installed(registry)


def _args_of(row: PluginDescription) -> list[str]:
    """Return the names of the plugin's args, as in configuration files."""
    from pyscheduler.config.fields import fields_of

    if row.args_type is None:
        return list(row.arg_names)
    try:
        return list(fields_of(row.args_type))
    except (NameError, TypeError, AttributeError):
        # A class that cannot be read is an error only for a profile that gives args for it.
        return [getattr(row.args_type, "__name__", repr(row.args_type))]


# Text


def _show_installed(registry: Registry) -> None:
    rows = registry.describe()
    width = max((len(row.name) for row in rows), default=0)
    for number, distribution in enumerate(registry.distributions):
        if number:
            click.echo()
        echo_wrapped(f"{distribution} ({distribution.entry_point})", indent=0)
        state = ["blocked"] if distribution.blocked else [f"broken: {error}" for error in distribution.errors]
        for line in state:
            echo_wrapped(line, indent=2)
        mine = [row for row in rows if (row.distribution, row.version) == (distribution.name, distribution.version)]
        for row in mine:
            if row.name in distribution.plugins:
                _show_plugin(row, width)
        for name, plugin in distribution.dialects.items():
            echo_wrapped(f'dialect "{name}" of pod groups, for {plugin}', indent=2)
        for what, names in distribution.extensions.items():
            for name in names:
                echo_wrapped(f'{what} "{name}" {_PART_OF[what]}', indent=2)


def _show_plugin(row: PluginDescription, width: int) -> None:
    what = f"cannot be used: {row.error}" if row.error else ", ".join(row.extension_points)
    echo_wrapped(f"{row.name:<{width}}  {what}", indent=2, hanging=width + 4)
    args = _args_of(row)
    if args:
        echo_wrapped(f"args: {', '.join(args)}", indent=width + 4, hanging=width + 10)


# JSON


def _show_json(data: object) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(data)).decode())


def _distribution_data(distribution: Distribution) -> Mapping[str, object]:
    return {
        "name": distribution.name,
        "version": distribution.version,
        "entryPoint": distribution.entry_point,
        "dialects": distribution.dialects,
        "extensions": distribution.extensions,
        "blocked": distribution.blocked,
        "errors": distribution.errors,
    }


def _plugin_data(row: PluginDescription) -> Mapping[str, object]:
    return {
        "name": row.name,
        "distribution": row.distribution,
        "version": row.version,
        "target": row.target,
        "extensionPoints": [str(point) for point in row.extension_points],
        "args": _args_of(row),
        "summary": row.summary,
        "error": row.error,
    }


# What a file enables


def _show_enabled(config_file: str, registry: Registry, output: str) -> None:
    from pyscheduler.cli.offline_scheduler import offline_scheduler
    from pyscheduler.config.load import load
    from pyscheduler.config.problems import found_in

    config = load(config_file)
    with found_in(config_file):
        profiles = offline_scheduler(config, registry).profiles
    points = {
        name: {str(point): list(names) for point, names in profile.points.items() if names}
        for name, profile in profiles.items()
    }
    if output == "json":
        _show_json({name: {**points[name], "equivalenceCache": _cache_data(profiles[name])} for name in points})
        return
    for number, (name, found) in enumerate(points.items()):
        if number:
            click.echo()
        for line in _enabled_lines(name, found):
            click.echo(line)
        _show_cache(profiles[name])


def _cache_data(profile: Profile) -> Mapping[str, object]:
    return {
        "enabled": profile.equivalence_cache is not None,
        "obstacles": [{"plugin": each.plugin, "reason": each.reason} for each in profile.cache_obstacles],
    }


def _show_cache(profile: Profile) -> None:
    click.echo(f"  equivalence cache: {'on' if profile.equivalence_cache is not None else 'off'}")
    for each in profile.cache_obstacles:
        whom = each.plugin if each.disables else f"not for {each.plugin}"
        echo_wrapped(f"{whom}: {each.reason}", indent=4, hanging=6)


def _enabled_lines(profile: str, found: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield f"profile {profile}"
    width = max(map(len, found), default=0)
    for point, names in found.items():
        first, *rest = textwrap.wrap(", ".join(names), WIDTH - width - 4)
        yield f"  {point:<{width}}  {first}"
        yield from (" " * (width + 4) + line for line in rest)
