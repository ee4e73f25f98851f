"""`kubectl podgroup`: the pod groups of a cluster, whatever dialect they are written in.

The console script is `kubectl-podgroup`, which is how kubectl finds it. It behaves as `kubectl get` and `describe` do:
the same flags, the same words where nothing is found, the same exit codes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import attrs
import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.podgroup.summary import Summary
    from pyscheduler.scheduler.ports import ClusterClient

__all__ = ["cli", "main"]

_NAME = "kubectl podgroup"


@attrs.frozen(kw_only=True)
class _Question:
    """What was asked for."""

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
        """Raise `UsageError` for what does not go together, in kubectl's words."""
        if self.names and self.selector:
            raise click.UsageError("name cannot be provided when a selector is specified")
        if self.names and self.all_namespaces:
            raise click.UsageError("a resource cannot be retrieved by name across all namespaces")


@attrs.frozen(kw_only=True)
class _Cluster:
    """A cluster, and where in it to look; `namespace` "" is everywhere."""

    client: ClusterClient
    namespace: str


def _location_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say where to look, and for what."""
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
                help="Label selector, for the labels of PodGroups, or of pods where there is no PodGroup.",
            ),
            click.option("--kubeconfig", metavar="FILE", help="Kubeconfig. [default: $KUBECONFIG, ~/.kube/config]"),
            click.option("--context", metavar="NAME", help="Context in the kubeconfig. [default: the current one]"),
        )
    ):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Pod groups of every dialect: who is bound, who waits, and why.

    \b
      kubectl podgroup get -A
      kubectl podgroup get --watch
      kubectl podgroup describe NAME
    """


@cli.command("get")
@_location_options
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "wide"]), default=None, help="Form of the output.")
@click.option("-w", "--watch", is_flag=True, help="Go on and show what changes, until Ctrl-C.")
@click.option("--no-headers", is_flag=True, help="Leave out the line of headers.")
def get(output: str | None, watch: bool, no_headers: bool, **options: Any) -> None:
    """List groups, or some of them by name."""
    question = _Question(output=output or "", watch=watch, headers=not no_headers, **options)
    question.check()
    if watch and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # So starts a background job of a shell script; `kubectl get --watch` ends at SIGINT there, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(asyncio.run(_answered(question, _get)))


@cli.command("describe")
@_location_options
def describe(**options: Any) -> None:
    """Show groups with each of their pods: its node, its state, and what the scheduler said of it last."""
    question = _Question(**options)
    question.check()
    sys.exit(asyncio.run(_answered(question, _describe)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; every mistake is one line on stderr and exit code 1, as with kubectl."""
    from pyscheduler.api.errors import PySchedulerError

    try:
        cli.main(args=list(arguments) if arguments is not None else None, prog_name=_NAME, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except click.UsageError as error:
        click.echo(f"error: {error.format_message()}", err=True)
        where = error.ctx.command_path if error.ctx is not None else _NAME
        click.echo(f"See '{where} --help' for usage.", err=True)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read along (head, less) has seen enough; the interpreter must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except PySchedulerError as error:
        for line in _mistake(error):
            click.echo(line, err=True)
        sys.exit(1)


def _mistake(error: Exception) -> Iterable[str]:
    """Say what went wrong in kubectl's words where it has some."""
    from pyscheduler.cli.mistakes import lines_of
    from pyscheduler.cli.podgroup_reading import said_by_server
    from pyscheduler.framework.errors import APIError, TransportError

    if isinstance(error, APIError):
        return [f"Error from server ({error.reason or error.status}): {said_by_server(error)}"]
    if isinstance(error, TransportError):
        return [f"Unable to connect to the server: {error}"]
    return [f"error: {line}" for line in lines_of(error)]


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)


# --- answering -------------------------------------------------------------------------------------


async def _answered(question: _Question, answer: Callable[[_Question, _Cluster], Any]) -> int:
    """Connect, let `answer` do its work, and return its exit code."""
    import random

    from pyscheduler.api import parse_label_selector
    from pyscheduler.cli.logs import configure
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.cluster.real.startup_check import check_server
    from pyscheduler.framework.clock import LoopClock
    from pyscheduler.framework.recorder import NullRecorder
    from pyscheduler.scheduler.ports import ClientSettings

    configure(verbosity=0, json=False)
    parse_label_selector(question.selector)  # a mistake in it is told before anybody is asked
    credentials = await auth.load(kubeconfig=question.kubeconfig, context=question.context)
    transport = HTTPTransport(credentials)
    settings = ClientSettings(qps=-1)
    client = transport.connect(settings, clock=LoopClock(), rng=random.Random(), recorder=NullRecorder())
    namespace = "" if question.all_namespaces else question.namespace or credentials.namespace
    try:
        await check_server(transport)
        code: int = await answer(question, _Cluster(client=client, namespace=namespace))
        return code
    finally:
        await client.close()


async def _found(question: _Question, cluster: _Cluster) -> tuple[list[Summary], Sequence[ResourceKind], int]:
    """Return the groups that were asked for, what kinds may be listed, and the exit code so far."""
    from pyscheduler.cli.podgroup_reading import read_directory
    from pyscheduler.podgroup.summary import summaries

    directory, kinds = await read_directory(cluster.client, cluster.namespace, _warn)
    found = summaries(directory, selector=question.selector)
    if not question.names:
        return found, kinds, 0
    chosen = [one for name in dict.fromkeys(question.names) for one in found if one.state.id.name == name]
    there = {one.state.id.name for one in chosen}
    return chosen, kinds, int(not there.issuperset(question.names))


def _report_missing(question: _Question, found: Sequence[Summary]) -> None:
    """Tell which names nobody has, after what was found has been shown; as kubectl."""
    there = {one.state.id.name for one in found}
    for name in dict.fromkeys(question.names):
        if name not in there:
            click.echo(f'Error from server (NotFound): podgroups "{name}" not found', err=True)


def _report_nothing(question: _Question, namespace: str) -> None:
    if not question.names:
        where = f" in {namespace} namespace" if namespace else ""
        click.echo(f"No resources found{where}.", err=True)


async def _get(question: _Question, cluster: _Cluster) -> int:
    from pyscheduler.cli import podgroup_view as view

    found, kinds, code = await _found(question, cluster)
    table = view.Table(wide=question.output == "wide", namespaced=question.all_namespaces, headers=question.headers)
    if question.output in {"json", "yaml"}:
        if question.watch:
            _show_each(question, found)
        else:
            _show_data(question, found)
    elif found:
        _show_rows(table, found)
    elif not question.watch:
        _report_nothing(question, cluster.namespace)
    _report_missing(question, found)
    if question.watch and not code:
        from pyscheduler.cli.podgroup_watch import follow

        def show(changed: Sequence[Summary]) -> None:
            if question.output in {"json", "yaml"}:
                _show_each(question, changed)
            else:
                _show_rows(table, changed)

        await follow(
            cluster.client,
            kinds,
            shown=found,
            show=show,
            names=frozenset(question.names),
            selector=question.selector,
        )
    return code


def _show_rows(table: Any, found: Sequence[Summary]) -> None:
    from pyscheduler.cli import podgroup_view as view

    now = time.time()
    rows = [view.row(one, now, wide=table.wide, namespaced=table.namespaced) for one in found]
    for line in table.lines(rows):
        click.echo(line)


def _show_data(question: _Question, found: Sequence[Summary]) -> None:
    from pyscheduler.cli import podgroup_view as view

    items = [view.data_of(one) for one in found]
    if len(question.names) == 1:
        for item in items:
            _print_data(item, question.output)
    elif items or not question.names:
        _print_data(view.list_of(items), question.output)


def _show_each(question: _Question, found: Sequence[Summary]) -> None:
    from pyscheduler.cli import podgroup_view as view

    for number, one in enumerate(found):
        if number and question.output == "yaml":
            click.echo("---")
        _print_data(view.data_of(one), question.output)


def _print_data(data: Any, form: str) -> None:
    if form == "yaml":
        import yaml

        click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)
        return
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(data), indent=4).decode())


async def _describe(question: _Question, cluster: _Cluster) -> int:
    from pyscheduler.cli import podgroup_view as view
    from pyscheduler.cli.podgroup_reading import events_about

    found, _, code = await _found(question, cluster)
    if not found:
        _report_nothing(question, cluster.namespace)
    events = await events_about(cluster.client, cluster.namespace, _warn) if found else ()
    for number, one in enumerate(found):
        if number:
            click.echo("\n")
        for line in view.described(one, events, time.time()):
            click.echo(line)
    _report_missing(question, found)
    return code


if __name__ == "__main__":
    main()
