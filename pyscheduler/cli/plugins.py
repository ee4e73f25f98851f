"""`pyscheduler plugins`: what is installed, from where, at which extension points, with which args."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.runtime.registry import PluginDescription

__all__ = ["command"]


def _args_of(row: PluginDescription) -> str:
    """Return the names of the plugin's args, as configuration files spell them."""
    from pyscheduler.config.fields import fields_of

    if row.args_type is None:
        return ""
    try:
        return ", ".join(fields_of(row.args_type))
    except (NameError, TypeError):
        # A class that cannot be read is a profile's problem, which is told when one gives args.
        return row.args_type.__name__


def _table(rows: Sequence[PluginDescription]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("PLUGIN", "DISTRIBUTION", "VERSION", "EXTENSION POINTS", "ARGS"):
        table.add_column(heading, no_wrap=heading in {"PLUGIN", "VERSION"})
    for row in rows:
        points = ", ".join(row.extension_points) if not row.error else f"cannot be used: {row.error}"
        table.add_row(row.name, row.distribution, row.version, points, _args_of(row))
    console = Console()
    console = Console(width=max(console.width, 160) if not console.is_terminal else None)
    console.print(table)


@click.command("plugins")
@click.option("--config", "config_file", metavar="FILE", help="Show instead what this file's profiles enable.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(config_file: str | None, output: str) -> None:
    """Show the plugins that are installed: name, distribution, version, extension points, args.

    A distribution that cannot be imported is shown with the reason; that matters only to a profile that enables it.
    """
    import msgspec

    from pyscheduler.runtime.discovery import discover

    registry = discover()
    if config_file is not None:
        _enabled(config_file, output)
        return
    rows = registry.describe()
    if output == "json":
        click.echo(msgspec.json.encode([_as_data(row) for row in rows]).decode())
    else:
        _table(rows)


def _as_data(row: PluginDescription) -> dict[str, object]:
    return {
        "name": row.name,
        "distribution": row.distribution,
        "version": row.version,
        "extensionPoints": [str(point) for point in row.extension_points],
        "args": _args_of(row),
        "summary": row.summary,
        "error": row.error,
    }


def _enabled(config_file: str, output: str) -> None:
    import msgspec

    from pyscheduler.cli.offline import offline_scheduler
    from pyscheduler.config.load import load
    from pyscheduler.runtime.discovery import discover

    profiles = offline_scheduler(load(config_file), discover()).profiles
    points = {
        name: {str(point): list(names) for point, names in profile.points.items()} for name, profile in profiles.items()
    }
    if output == "json":
        click.echo(msgspec.json.encode(points).decode())
        return
    for name, found in points.items():
        click.echo(f"profile {name}")
        for point, names in found.items():
            if names:
                click.echo(f"  {point:<12} {', '.join(names)}")
