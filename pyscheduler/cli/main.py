"""The `pyscheduler` command.

Other Python packages can add subcommands (see `added_commands`).
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["cli", "main"]

#: Command: module and one line of help. The help is here, so that the list of commands imports no command.
_COMMANDS: Final = {
    "run": ("pyscheduler.cli.run", "Schedule pods on a cluster."),
    "demo": ("pyscheduler.cli.demo.trace_demo", "Schedule the recorded pods of a production cluster."),
    "cluster": ("pyscheduler.cli.cluster", "Serve an embedded API server for kubectl and other clients."),
    "explain": ("pyscheduler.cli.explain", "Show where a pod would be placed, or why no node fits."),
    "podgroup": ("pyscheduler.cli.podgroup.command", "Show pod groups, and plan those of workloads."),
    "plugins": ("pyscheduler.cli.plugins", "List the installed plugins, or those of a profile."),
    "bench": ("pyscheduler.cli.bench", "Measure a profile on a simulated cluster."),
    "new": ("pyscheduler.cli.new.command", "Write the files of a new plugin."),
    "config": ("pyscheduler.cli.config", "Check a configuration and print it with all defaults."),
}
_NAME: Final = "pyscheduler"
#: The exit code after Ctrl-C, as of a program that SIGINT ends.
_INTERRUPTED: Final = 130
#: Commands that were part of this distribution, and the extra that they come with now.
_OF_EXTRAS: Final = {
    **dict.fromkeys(("simulate", "demo-gang", "demo-batch"), "lab"),
    **dict.fromkeys(("binder", "queue"), "batch"),
    "webhook": "quota",
}


def _all_commands() -> dict[str, tuple[str, str]]:
    """Return module and help of each command by name: our own, then those of other distributions."""
    from pyscheduler.cli.added_commands import added

    return _COMMANDS | {name: entry for name, entry in added("COMMANDS").items() if name not in _COMMANDS}


class _LazyGroup(click.Group):
    """A group that imports a subcommand when it is called, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_all_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, _ = _COMMANDS.get(cmd_name) or _all_commands().get(cmd_name) or (None, None)
        if module is None:
            if extra := _OF_EXTRAS.get(cmd_name):
                ctx.fail(f"No such command {cmd_name!r}. Install it with: pip install 'kube-pyscheduler[{extra}]'")
            return None
        command = import_module(module).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _all_commands().items()])


def _version(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value and not ctx.resilient_parsing:
        from pyscheduler.serving.version import version_text

        click.echo(version_text(value))
        ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    type=click.Choice(["true", "raw"]),
    is_flag=False,
    flag_value="true",
    is_eager=True,
    expose_value=False,
    callback=_version,
    metavar="[raw]",
    help="Show the version and exit; 'raw' shows every field.",
)
def cli() -> None:
    """kube-scheduler's scheduling framework in Python.

    pyscheduler runs beside kube-scheduler. It schedules the pods whose schedulerName names one of its profiles.

    \b
      pyscheduler demo                                  see it work, without a cluster
      pyscheduler config --config profile.yaml          check a configuration file
      pyscheduler run --kubeconfig ~/.kube/config       schedule pods on a cluster
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; print one line on stderr for each mistake and exit with code 1.

    A mistake in the arguments has the exit code 2, and Ctrl-C has 130.
    """
    from pyscheduler.cli.error_output import exits_after_mistakes, unusable_input, unwritable_output

    # Imports and large inputs create many objects and little garbage: by default, looking for it takes a tenth of the
    # time of a start.
    gc.set_threshold(20_000, *gc.get_threshold()[1:])
    try:
        with exits_after_mistakes(1), unusable_input(), unwritable_output():
            args = list(arguments) if arguments is not None else None
            # A command exits by itself; --help and --version return the code.
            sys.exit(cli.main(args=args, prog_name=_NAME, standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        click.echo(f"error: {_one_line(error)}", err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(_INTERRUPTED)


def _one_line(error: click.ClickException) -> str:
    """Return the mistake in one line; the option comes first, and the command whose --help describes it last."""
    text = error.format_message()
    if type(error) is click.BadParameter and error.param is not None:
        # A subclass has no message of its own.
        is_option = isinstance(error.param, click.Option)
        name = "/".join(error.param.opts) if is_option else error.param.human_readable_name
        text = f"{name}: {error.message}"
    text = " ".join(text.split()).removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f'{text}; run "{context.command_path} --help" for help' if context is not None else text
