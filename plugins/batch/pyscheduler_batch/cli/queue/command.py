"""`pyscheduler queue` and `kubectl queue`: show batch queues and jobs, and why jobs wait."""

from __future__ import annotations

import asyncio
import functools
import sys
from typing import TYPE_CHECKING, Any

import attrs
import click

from pyscheduler.cli.shared_options import block_option, feature_gates_option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.cli.explain_options import ExplainOptions

__all__ = ["Options", "command", "explain_job", "main"]

_NAME = "kubectl queue"


@attrs.frozen(kw_only=True)
class Options:
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

    @functools.wraps(function)
    def wrapped(**given: Any) -> None:
        own = {each.name: given.pop(each.name) for each in attrs.fields(Options)}
        options = Options(**own)
        options.check()
        function(options=options, **given)

    decorated: Callable[..., None] = wrapped
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
        click.option(
            "--dialect",
            metavar="NAME",
            help="Only queues and jobs of this dialect, which `kubectl queue get` shows beside each queue.",
        ),
        block_option,
        feature_gates_option,
    ):
        decorated = option(decorated)
    return decorated


@click.group("queue", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Show batch queues of every dialect: quota, fair share, what is allocated, and why jobs wait.

    The cluster is read once, and nothing is written. `kubectl queue` and `pyscheduler queue` are the same command.

    \b
      kubectl queue get
      kubectl queue describe NAME
      kubectl queue explain JOB
      kubectl queue whatif -f job.yaml
      kubectl queue simulate -f queues.yaml
    """


@command.command("get", short_help="List queues as a tree.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "wide"]), help="Output format.")
@click.option(
    "--resource",
    default="",
    metavar="NAME",
    help="Resource whose quota, share and use are shown. [default: GPUs if there are any, else cpu]",
)
@click.option("--no-headers", is_flag=True, help="Print no header line.")
@_shared
def _get(*, options: Options, names: Sequence[str], output: str | None, resource: str, no_headers: bool) -> None:
    """List the queues as a tree, or the named queues with those below them."""
    from pyscheduler_batch.cli.queue import answers

    sys.exit(asyncio.run(answers.get(options, names, output or "", resource, headers=not no_headers)))


@command.command("describe", short_help="Show queues with their jobs.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_shared
def _describe(*, options: Options, names: Sequence[str]) -> None:
    """Show queues with their amounts, warnings and jobs."""
    from pyscheduler_batch.cli.queue import answers

    sys.exit(asyncio.run(answers.describe(options, names)))


_OUTPUT = click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Output format.")
_NAMESPACE = click.option(
    "-n", "--namespace", metavar="NAME", help="Namespace of JOB or of FILE. [default: the context's]"
)


@command.command("explain", short_help="Show why a job waits.")
@click.argument("job", metavar="[NAMESPACE/]JOB")
@_NAMESPACE
@_OUTPUT
@_shared
def _explain(*, options: Options, job: str, namespace: str | None, output: str | None) -> None:
    """Show why a job waits: each check, the check that stops it, and the missing amount.

    JOB may also be the name of a pod of the job, or of the workload that owns its group or pods.
    """
    sys.exit(_run_explain(options, job, namespace, output or ""))


@command.command("whatif", short_help="Show whether a job would start now.")
@click.argument("job", metavar="[[NAMESPACE/]JOB]", required=False)
@click.option("-f", "--filename", metavar="FILE", help="Manifests of a new PodGroup and its pods; - reads stdin.")
@_NAMESPACE
@_OUTPUT
@_shared
def _whatif(
    *, options: Options, job: str | None, filename: str | None, namespace: str | None, output: str | None
) -> None:
    """Show whether a job would start now, on which nodes, and which pods would be evicted for it."""
    from pyscheduler_batch.cli.queue import answers

    if bool(job) == bool(filename):
        raise click.UsageError("give either the name of a job or its manifests with --filename")
    sys.exit(asyncio.run(answers.whatif(options, job or "", filename or "", namespace, output or "")))


@command.command("simulate", short_help="Show shares before and after a change.")
@click.option("-f", "--filename", required=True, metavar="FILE", help="Edited or new queues; - reads stdin.")
@_OUTPUT
@_shared
def _simulate(*, options: Options, filename: str, output: str | None) -> None:
    """Show the fair shares before and after a change of queues."""
    from pyscheduler_batch.cli.queue import answers

    sys.exit(asyncio.run(answers.simulate(options, filename, output or "")))


def _run_explain(options: Options, job: str, namespace: str | None, output: str) -> int:
    """Explain a job; return the exit code."""
    from pyscheduler_batch.cli.queue import answers

    return asyncio.run(answers.explain(options, job, namespace, output))


def explain_job(given: ExplainOptions) -> int:
    """Explain a job for `pyscheduler explain job NAME`; return the exit code."""
    if given.filename or given.cases or given.master or given.output == "jsonl":
        raise click.UsageError("job cannot be combined with --filename, --cases, --master or -o jsonl")
    options = Options(
        kubeconfig=given.kubeconfig,
        context=None,
        objects=given.objects,
        config_file=given.config_file,
        dialect=given.dialect,
        blocked=given.blocked,
        feature_gates=given.feature_gates,
    )
    options.check()
    return _run_explain(options, given.pods[1], given.namespace, "json" if given.output == "json" else "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; print one line on stderr for each mistake and exit with code 1, as kubectl does."""
    from pyscheduler.cli.podgroup.command import run_like_kubectl

    run_like_kubectl(command, _NAME, arguments)


if __name__ == "__main__":
    main()
