"""`pyscheduler queue` and `kubectl queue`: show batch queues and jobs, and why jobs wait.

kubectl finds the command as the console script `kubectl-queue`. Messages and exit codes are those of kubectl.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

import attrs
import click

from pyscheduler.cli.shared_options import block_option, feature_gates_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyscheduler.cli.queue.model import DialectModel
    from pyscheduler.cli.queue.offline_pass import Profiles
    from pyscheduler.cli.queue.source import Source
    from pyscheduler.cli.queue.view import FairShares

__all__ = ["command", "main"]

_NAME = "kubectl queue"
_DIALECTS = ("kai", "volcano", "kube-batch")


@attrs.frozen(kw_only=True)
class _Options:
    """The options that all subcommands have."""

    kubeconfig: str | None
    context: str | None
    objects: Sequence[str]
    config_file: str | None
    dialect: str | None
    blocked: Sequence[str]
    feature_gates: str

    def check(self) -> None:
        """Raise `UsageError` for options that exclude each other."""
        if self.objects and (self.kubeconfig or self.context):
            raise click.UsageError("--objects cannot be combined with --kubeconfig or --context; choose one source")


def _shared(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the source of the cluster; the function gets them as one parameter, `options`."""

    def wrapped(**given: Any) -> None:
        own = {each.name: given.pop(each.name) for each in attrs.fields(_Options)}
        options = _Options(**own)
        options.check()
        function(options=options, **given)

    wrapped.__doc__ = function.__doc__
    wrapped.__name__ = function.__name__
    # The function's own parameters come first in the help.
    wrapped.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option("--kubeconfig", metavar="FILE", help="Kubeconfig. [default: $KUBECONFIG, ~/.kube/config]"),
        click.option("--context", metavar="NAME", help="Context in the kubeconfig. [default: the current one]"),
        click.option(
            "--objects",
            multiple=True,
            metavar="FILE",
            help="Read the cluster from this file, as `kubectl get ... -A -o yaml` prints it; repeatable.",
        ),
        click.option(
            "--config",
            "config_file",
            metavar="FILE",
            help="Configuration with batch profiles. [default: the preset of each dialect]",
        ),
        click.option("--dialect", type=click.Choice(_DIALECTS), help="Only queues and jobs of this dialect."),
        block_option,
        feature_gates_option,
    ):
        wrapped = option(wrapped)
    return wrapped


@click.group("queue", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Show batch queues of every dialect: quota, fair share, what is allocated, and why jobs wait.

    The cluster is read once, and nothing is written.

    \b
      kubectl queue get
      kubectl queue describe NAME
    """


@command.command("get")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "wide"]), help="Output format.")
@click.option(
    "--resource", default="", metavar="NAME", help="Resource of the amounts. [default: GPUs if there are any, else cpu]"
)
@click.option("--no-headers", is_flag=True, help="Print no header line.")
@_shared
def _get(*, options: _Options, names: Sequence[str], output: str | None, resource: str, no_headers: bool) -> None:
    """List the queues as a tree, or the named queues with those below them."""
    sys.exit(asyncio.run(_answer_get(options, names, output or "", resource, headers=not no_headers)))


@command.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_shared
def _describe(*, options: _Options, names: Sequence[str]) -> None:
    """Show queues with their amounts, warnings and jobs."""
    sys.exit(asyncio.run(_answer_describe(options, names)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; print one line on stderr for each mistake and exit with code 1, as kubectl does."""
    from pyscheduler.cli.podgroup.command import run_like_kubectl

    run_like_kubectl(command, _NAME, arguments)


# --- answering ----------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Cluster:
    """The cluster as it was read, and the batch profiles for it."""

    source: Source
    models: Sequence[DialectModel]
    profiles: Profiles


async def _read(options: _Options, source: Source) -> _Cluster:
    """Read the cluster; print a warning for each kind that may not be listed."""
    from pyscheduler.cli.queue.model import build_models, schedulers_of
    from pyscheduler.cli.queue.offline_pass import profiles_for
    from pyscheduler.cli.queue.reader import read_inventory

    inventory = await read_inventory(source.read)
    for plural in dict.fromkeys(source.unread):
        click.echo(f"Warning: {plural} may not be listed, and count as absent", err=True)
    schedulers = schedulers_of(inventory)
    profiles = profiles_for(
        schedulers, config_file=options.config_file, blocked=options.blocked, feature_gates=options.feature_gates
    )
    served = {name: [own] for name, own in profiles.names.items()}
    models = build_models(inventory, {**schedulers, **served}, trees=profiles.trees)
    shown = [model for model in models if options.dialect in {None, model.name}]
    return _Cluster(source=source, models=shown, profiles=profiles)


async def _fair_shares(cluster: _Cluster) -> FairShares:
    """Return the fair shares; without those that cannot be computed, for which a warning is printed."""
    from pyscheduler.cli.queue.offline_pass import open_offline
    from pyscheduler.framework.errors import ConfigError

    found: dict[str, Mapping[str, Mapping[str, float]]] = {}
    if not cluster.models:
        return found
    try:
        async with open_offline(cluster.source.read, cluster.profiles) as offline:
            for model in cluster.models:
                result = await offline.run(model.name, only_shares=True)
                if result is not None:
                    found[model.name] = result.shares()
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"Warning: fair shares are unknown: {problem}", err=True)
    return found


def _open(options: _Options) -> Any:
    from pyscheduler.cli.queue.source import open_source
    from pyscheduler.telemetry.logs import configure

    configure(verbosity=0, json=False)
    return open_source(kubeconfig=options.kubeconfig, context=options.context, objects=options.objects)


def _report_missing(names: Iterable[str], models: Sequence[DialectModel]) -> int:
    """Report the names that no dialect has, as kubectl does; return the exit code."""
    missing = [name for name in dict.fromkeys(names) if not any(name in model.specs for model in models)]
    for name in missing:
        click.echo(f'Error from server (NotFound): queues "{name}" not found', err=True)
    return int(bool(missing))


async def _answer_get(options: _Options, names: Sequence[str], output: str, resource: str, *, headers: bool) -> int:
    from pyscheduler.cli.podgroup.command import print_data
    from pyscheduler.cli.podgroup.view import list_of
    from pyscheduler.cli.queue import view

    async with _open(options) as source:
        cluster = await _read(options, source)
        shares = await _fair_shares(cluster)
    models = cluster.models
    if output in {"json", "yaml"}:
        items = [view.data_of(model, shares, queue) for model in models for queue, _ in view.tree_of(model, names)]
        print_data(items[0] if len(names) == 1 and len(items) == 1 else list_of(items), output)
        return _report_missing(names, models)
    lines = view.table_lines(models, shares, names=names, resource=resource, wide=output == "wide", headers=headers)
    if any(view.tree_of(model, names) for model in models):
        for line in lines:
            click.echo(line)
    elif not names:
        click.echo("No resources found", err=True)
    if not names:
        for line in view.footer(models):
            click.echo(line)
    return _report_missing(names, models)


async def _answer_describe(options: _Options, names: Sequence[str]) -> int:
    from pyscheduler.cli.queue.describe_view import described

    async with _open(options) as source:
        cluster = await _read(options, source)
        shares = await _fair_shares(cluster)
    models = cluster.models
    found = [(model, name) for name in dict.fromkeys(names) for model in models if name in model.specs]
    for number, (model, name) in enumerate(found):
        if number:
            click.echo("\n")
        for line in described(model, shares, name, reasons={}, now=time.time()):
            click.echo(line)
    return _report_missing(names, models)


if __name__ == "__main__":
    main()
