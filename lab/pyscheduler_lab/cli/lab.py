"""`pyscheduler lab`: the group of the lab's commands; each is imported when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

__all__ = ["command"]

#: Command: module with a click command named `command`, and one line of help.
_COMMANDS: Final = {
    "whatif": ("pyscheduler_lab.cli.whatif", "Show what a change does to the pods of a cluster's dump."),
}


class _LazyGroup(click.Group):
    """A group that imports a subcommand when it is called, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(_COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group("lab", cls=_LazyGroup)
def command() -> None:
    """Study scheduling without a cluster: in memory and in virtual time."""
