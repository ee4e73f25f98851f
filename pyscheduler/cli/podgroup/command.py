"""`kubectl podgroup` and `pyscheduler podgroup`: show the pod groups of a cluster, also those of other schedulers."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import attrs
import click

from pyscheduler.cli.shared_options import block_option
from pyscheduler.cli.terminal import echo, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.cli.podgroup.summary import Summary
    from pyscheduler.podgroup import DialectTable
    from pyscheduler.scheduler.ports import ClusterClient

__all__ = ["cli", "command", "main", "print_data", "run_like_kubectl"]

_NAME = "kubectl podgroup"


@attrs.frozen(kw_only=True)
class _Request:
    """The command's arguments and options."""

    names: Sequence[str]
    namespace: str | None
    all_namespaces: bool
    selector: str
    kubeconfig: str | None
    context: str | None
    output: str = ""
    headers: bool = True
    watch: bool = False

    def check(self) -> None:
        """Raise `UsageError` with kubectl's message for arguments that cannot be combined."""
        if self.names and self.selector:
            raise click.UsageError("name cannot be provided when a selector is specified")
        if self.names and self.all_namespaces:
            raise click.UsageError("a resource cannot be retrieved by name across all namespaces")


@attrs.frozen(kw_only=True)
class _Cluster:
    """A connection to a cluster, the namespace to read ("" for all), and the dialects to read."""

    client: ClusterClient
    namespace: str
    table: DialectTable


def _location_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for cluster, namespace and selection."""
    for option in reversed(
        (
            click.argument("names", nargs=-1, metavar="[NAME]..."),
            click.option("-n", "--namespace", metavar="NAME", help="Namespace. [default: the context's]"),
            click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces."),
            click.option(
                "-l",
                "--selector",
                default="",
                metavar="TEXT",
                help="Label selector for PodGroups, or for pods of groups without a PodGroup object.",
            ),
            click.option("--kubeconfig", metavar="FILE", help="Kubeconfig. [default: $KUBECONFIG, ~/.kube/config]"),
            click.option("--context", metavar="NAME", help="Context in the kubeconfig. [default: the current one]"),
        )
    ):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Show pod groups of every dialect: which pods are bound, which wait, and why.

    `kubectl podgroup` and `pyscheduler podgroup` are the same command.

    \b
      kubectl podgroup get -A
      kubectl podgroup get --watch
      kubectl podgroup describe NAME
      kubectl podgroup plan --cases cases.yaml
    """


@cli.command("get")
@_location_options
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "wide"]), default=None, help="Output format.")
@click.option("-w", "--watch", is_flag=True, help="Keep printing the groups that change, until Ctrl-C.")
@click.option("--no-headers", is_flag=True, help="Print no header line.")
def get(output: str | None, watch: bool, no_headers: bool, **options: Any) -> None:
    """List all groups, or the named groups."""
    request = _Request(output=output or "", watch=watch, headers=not no_headers, **options)
    request.check()
    if watch and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell script starts background jobs with SIGINT ignored; `kubectl get --watch` ends at SIGINT there, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(asyncio.run(_answered(request, _get)))


@cli.command("describe", short_help="Show groups with their pods.")
@_location_options
def describe(**options: Any) -> None:
    """Show groups with their pods: node, state, and the scheduler's last message."""
    request = _Request(**options)
    request.check()
    sys.exit(asyncio.run(_answered(request, _describe)))


@cli.command("plan", short_help="Print the groups of PodGrouper for cases.")
@click.option(
    "--cases",
    required=True,
    metavar="FILE",
    help="YAML file with workloads and pods; docs/reference/cli.md has the format.",
)
@click.option("-o", "--output", type=click.Choice(["jsonl"]), default="jsonl", help="Output format. [default: jsonl]")
@block_option
def plan(cases: str, output: str, blocked: Sequence[str]) -> None:  # noqa: ARG001 - there is one format
    """Print the groups that PodGrouper makes for the pods of each case, without a cluster.

    The exit code is 1 if a case cannot be read.
    """
    from pyscheduler.cli.podgroup.plan import print_plans

    sys.exit(print_plans(cases, blocked))


#: `pyscheduler podgroup` is the same command as `kubectl podgroup`.
command = cli


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; print one line on stderr for each mistake and exit with code 1, as kubectl does."""
    run_like_kubectl(cli, _NAME, arguments)


def run_like_kubectl(command: click.Command, name: str, arguments: Sequence[str] | None) -> None:
    """Run a command line; print one line on stderr for each mistake and exit with code 1, as kubectl does."""
    from kube_objects.errors import PySchedulerError
    from pyscheduler.cli.error_output import unwritable_output

    try:
        with unwritable_output():
            command.main(args=list(arguments) if arguments is not None else None, prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except click.UsageError as error:
        click.echo(f"error: {error.format_message()}", err=True)
        where = error.ctx.command_path if error.ctx is not None else name
        click.echo(f"See '{where} --help' for usage.", err=True)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except PySchedulerError as error:
        for line in _mistake(error):
            echo(line, err=True)
        sys.exit(1)


def _mistake(error: Exception) -> Iterable[str]:
    """Return the message for an error, with kubectl's words where kubectl has some."""
    from pyscheduler.cli.error_output import lines_of
    from pyscheduler.cli.podgroup.reader import said_by_server
    from pyscheduler.framework.errors import APIError, TransportError

    if isinstance(error, APIError):
        return [f"Error from server ({error.reason or error.status}): {said_by_server(error)}"]
    if isinstance(error, TransportError):
        return [f"Unable to connect to the server: {error}"]
    return [f"error: {line}" for line in lines_of(error)]


def _warn(text: str) -> None:
    echo(f"Warning: {text}", err=True)


# --- answering -------------------------------------------------------------------------------------


async def _answered(request: _Request, answer: Callable[[_Request, _Cluster], Any]) -> int:
    """Connect, call `answer`, and return its exit code."""
    import random

    from kube_objects.clock import LoopClock
    from pyscheduler.api import parse_label_selector
    from pyscheduler.cli.client_settings import COMMAND_CLIENT
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.cluster.real.startup_check import check_server
    from pyscheduler.framework.recorder import NullRecorder
    from pyscheduler.runtime.assembly.discovery import discover
    from pyscheduler.telemetry.logs import configure

    configure(verbosity=0, json=False)
    parse_label_selector(request.selector)  # report a mistake in the selector before connecting
    credentials = await auth.load(kubeconfig=request.kubeconfig, context=request.context)
    transport = HTTPTransport(credentials)
    client = transport.connect(COMMAND_CLIENT, clock=LoopClock(), rng=random.Random(), recorder=NullRecorder())
    namespace = "" if request.all_namespaces else request.namespace or credentials.namespace
    try:
        await check_server(transport)
        table = discover().dialect_table(_warn)
        code: int = await answer(request, _Cluster(client=client, namespace=namespace, table=table))
        return code
    finally:
        await client.close()


async def _found(request: _Request, cluster: _Cluster) -> tuple[list[Summary], Sequence[ResourceKind], int]:
    """Return the requested groups, the kinds that may be listed, and the exit code so far."""
    from pyscheduler.cli.podgroup.group_facts import fact_readers
    from pyscheduler.cli.podgroup.reader import read_directory
    from pyscheduler.cli.podgroup.summary import summaries

    directory, kinds = await read_directory(cluster.client, cluster.table, cluster.namespace, _warn)
    readers = fact_readers()
    for reader in readers.values():
        await reader.read(cluster.client, directory, cluster.namespace, _warn)
    found = summaries(directory, selector=request.selector, readers=readers, listed=kinds)
    if not request.names:
        return found, kinds, 0
    chosen = [one for name in dict.fromkeys(request.names) for one in found if one.state.id.name == name]
    there = {one.state.id.name for one in chosen}
    return chosen, kinds, int(not there.issuperset(request.names))


def _report_missing(request: _Request, found: Sequence[Summary]) -> None:
    """Report the names that were not found after the groups that were, as kubectl does."""
    there = {one.state.id.name for one in found}
    for name in dict.fromkeys(request.names):
        if name not in there:
            echo(f'Error from server (NotFound): podgroups "{name}" not found', err=True)


def _report_nothing(request: _Request, namespace: str) -> None:
    if not request.names:
        where = f" in {namespace} namespace" if namespace else ""
        click.echo(f"No resources found{where}.", err=True)


async def _get(request: _Request, cluster: _Cluster) -> int:
    from pyscheduler.cli.podgroup import view
    from pyscheduler.cli.podgroup.group_facts import fact_headings

    found, kinds, code = await _found(request, cluster)
    table = view.Table(
        wide=request.output == "wide",
        namespaced=request.all_namespaces,
        headers=request.headers,
        facts=fact_headings(),
    )
    if request.output in {"json", "yaml"}:
        if request.watch:
            _show_each(request, found)
        else:
            _show_data(request, found)
    elif found:
        _show_rows(table, found)
    elif not request.watch:
        _report_nothing(request, cluster.namespace)
    _report_missing(request, found)
    if request.watch and not code:
        from pyscheduler.cli.podgroup.watch import follow

        def show(changed: Sequence[Summary]) -> None:
            if request.output in {"json", "yaml"}:
                _show_each(request, changed)
            else:
                _show_rows(table, changed)

        await follow(
            cluster.client,
            kinds,
            table=cluster.table,
            shown=found,
            show=show,
            names=frozenset(request.names),
            selector=request.selector,
        )
    return code


def _show_rows(table: Any, found: Sequence[Summary]) -> None:
    from pyscheduler.cli.podgroup import view

    now = time.time()
    rows = [view.row(one, now, wide=table.wide, namespaced=table.namespaced) for one in found]
    for line in table.lines(rows):
        echo(line)


def _show_data(request: _Request, found: Sequence[Summary]) -> None:
    from pyscheduler.cli.podgroup import view

    items = [view.data_of(one) for one in found]
    if len(request.names) == 1:
        for item in items:
            print_data(item, request.output)
    elif items or not request.names:
        print_data(view.list_of(items), request.output)


def _show_each(request: _Request, found: Sequence[Summary]) -> None:
    from pyscheduler.cli.podgroup import view

    for number, one in enumerate(found):
        if number and request.output == "yaml":
            click.echo("---")
        print_data(view.data_of(one), request.output)


def print_data(data: Any, form: str) -> None:
    """Print data as `yaml` or `json`."""
    if form == "yaml":
        import yaml

        click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)
        return
    print_json(data, indent=4)


async def _describe(request: _Request, cluster: _Cluster) -> int:
    from pyscheduler.cli.podgroup import view
    from pyscheduler.cli.podgroup.reader import events_about

    found, _, code = await _found(request, cluster)
    if not found:
        _report_nothing(request, cluster.namespace)
    events = await events_about(cluster.client, cluster.table, cluster.namespace, _warn) if found else ()
    for number, one in enumerate(found):
        if number:
            click.echo("\n")
        for line in view.described(one, events, time.time()):
            echo(line)
    _report_missing(request, found)
    return code


if __name__ == "__main__":
    main()
