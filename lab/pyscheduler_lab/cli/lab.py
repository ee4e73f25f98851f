"""`pyscheduler lab`: a group of subcommands; each is imported only when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

__all__ = ["SUBCOMMANDS", "command"]

SUBCOMMANDS: Final = {
    "check": ("pyscheduler_lab.cli.lab_check", "Compare the results of a run with ranges, for CI."),
    "report": ("pyscheduler_lab.cli.lab_report", "Write one HTML file that compares runs."),
    "reproduce": ("pyscheduler_lab.cli.reproduce", "Run a published experiment again, beside its results."),
    "sweep": (
        "pyscheduler_lab.cli.lab_sweep",
        "Compare combinations of profiles, weights, clusters and seeds.",
    ),
    "tune": ("pyscheduler_lab.cli.lab_tune", "Search for better weights of a profile's Score plugins."),
    "verify": ("pyscheduler_lab.cli.lab_verify", "Run bundles again, and compare the results."),
    "whatif": ("pyscheduler_lab.cli.whatif", "Show what a change does to the pods of a cluster's dump."),
}
"""Subcommand: module with a click command named `command`, and one line of help."""


class _Subcommands(click.Group):
    """A group that imports a subcommand when it is called, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        command: click.Command = import_module(SUBCOMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUBCOMMANDS[name][1]) for name in sorted(SUBCOMMANDS)])


@click.group("lab", cls=_Subcommands)
def command() -> None:
    """Study scheduling without a cluster: in memory and in virtual time.

    \b
      pyscheduler lab whatif --objects dump.yaml --remove-node gpu-7
      pyscheduler lab sweep sweep.yaml --out results
      pyscheduler lab verify results
      pyscheduler lab check results --against rules.yaml
    """
