"""`pyscheduler explain`: show where a pod would be placed, or why no node fits, without writing anything."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from pyscheduler.cli.explain_options import ExplainOptions
from pyscheduler.cli.shared_options import block_option, feature_gates_option
from pyscheduler.cli.terminal import echo, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.cli.explanation import Answer

__all__ = ["command"]

#: A name may begin with the kind, as for kubectl.
_POD_KINDS: Final = ("pod/", "pods/", "po/")
#: The words of `explain job NAME`, and the first of them.
_SUBJECT_WORDS: Final = 2
_JOB: Final = "job"
#: The exit code if a pod's condition says something else than the evaluation.
_CONTRADICTION: Final = 3


@click.command("explain")
@click.argument("pods", metavar="[POD | KIND/NAME]... | job JOB", nargs=-1)
@click.option("-f", "--filename", metavar="FILE", help="Manifest of the pod; - reads standard input.")
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="Namespace of the pods that name none. [default: the context's; for a cluster or logs in files, `default`]",
)
@click.option(
    "--objects",
    multiple=True,
    metavar="FILE",
    help="Read the cluster from this file, as `kubectl get nodes,pods -A -o yaml` prints it; repeatable.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Read the cluster from the API server of this kubeconfig. [default: as for `run`]",
)
@click.option("--master", metavar="URL", help="Address of the API server; overrides the kubeconfig's.")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="Configuration file with the profiles. [default: the leader's configuration, or else the default profile]",
)
@click.option(
    "--scheduler",
    envvar="PYSCHEDULER_URL",
    metavar="URL",
    help="HTTPS port of the scheduler that leads, for its configuration and the pod's story. "
    "[default: $PYSCHEDULER_URL, or the holder of the lease]",
)
@click.option(
    "--lease",
    envvar="PYSCHEDULER_LEASE",
    metavar="NAMESPACE/NAME",
    help="Lease by which the scheduler that leads is found; of a Helm release RELEASE-pyscheduler in its namespace. "
    "[default: $PYSCHEDULER_LEASE, or that of --config, or kube-system/pyscheduler]",
)
@click.option(
    "--scheduler-ca",
    metavar="FILE",
    help="Authority of the scheduler's certificate. [default: none; on localhost, the certificate is not verified]",
)
@click.option(
    "--cases",
    metavar="FILE",
    help="Evaluate the pods and clusters of this file, one JSON object per line; the file may be .gz. "
    "docs/reference/cli.md has the format.",
)
@click.option(
    "--workers", type=click.IntRange(1), metavar="N", help="Number of processes for --cases. [default: one per CPU]"
)
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Number of best nodes to show.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "jsonl"]),
    help="Output format; wide also lists the rejected nodes, and the whole story. [default: table; jsonl with --cases]",
)
@click.option("--dialect", metavar="NAME", help="With job: only jobs of this dialect, as in `pyscheduler queue`.")
@click.option("--history", is_flag=True, help="Show why the pod waited, from the logs of all replicas; needs --from.")
@click.option(
    "--from",
    "logs",
    multiple=True,
    metavar="FILE",
    help="With --history: logs of the scheduler, which may be .gz; - reads standard input; repeatable.",
)
@click.option("--traceback", is_flag=True, help="Show the traceback of each exception that a plugin raises.")
@block_option
@feature_gates_option
def command(**options: Any) -> None:
    """Show on which node a pod would be placed, and why the other nodes were rejected.

    Give the names of existing pods, or the manifest of a new pod. The command reads the cluster once, from an API
    server or from files. It binds nothing and writes nothing. It evaluates every node, regardless of
    percentageOfNodesToScore, and shows the scores of every plugin.

    \b
    Examples:
      # A pending pod.
      pyscheduler explain --kubeconfig ~/.kube/config web/frontend-0
      # Several pods at once, and the whole story of each.
      pyscheduler explain -n web -o wide frontend-0 frontend-1
      # A workload: why its pods were not created, or why the first of them waits.
      pyscheduler explain -n web deployment/frontend
      # A new pod.
      pyscheduler explain -f pod.yaml
      # A new pod on a cluster in a file.
      pyscheduler explain -f pod.yaml --objects cluster.yaml -o json
      # Why a pod waited yesterday.
      kubectl -n kube-system logs -l app.kubernetes.io/name=pyscheduler --prefix --tail=-1 > logs.txt
      pyscheduler explain --history web/frontend-0 --from logs.txt
      # Why a job of a batch profile waits, as `kubectl queue explain` shows it.
      pyscheduler explain job training/resnet
    """
    given = ExplainOptions(**options)
    words = given.pods
    given = attrs.evolve(
        given, pods=[name.partition("/")[2] if name.lower().startswith(_POD_KINDS) else name for name in words]
    )
    if given.history:
        from pyscheduler.cli.history import show_history

        show_history(given)
        return
    if given.logs:
        raise click.UsageError("--from is for --history; add it, or remove --from")
    if words and (target := _subject_target(words[0])):
        sys.exit(_explain_subject(given, target))
    _check(given)
    if given.cases is not None:
        sys.exit(_explain_cases(given.cases, given.workers))
    from pyscheduler.cli.error_output import print_mistakes
    from pyscheduler.cli.explain_pods import explain_pods

    answers = asyncio.run(explain_pods(given))
    _show(answers.found, answers.notes, given.output or "table", given.top)
    for mistake in answers.mistakes:
        print_mistakes(mistake)
    if answers.mistakes:
        sys.exit(1)
    if any(each.explanation is not None and each.explanation.contradicts for each in answers.found):
        sys.exit(_CONTRADICTION)


def _check(given: ExplainOptions) -> None:
    """Raise `UsageError` for arguments that cannot be combined."""
    if given.dialect is not None:
        raise click.UsageError("--dialect is for jobs; write job [NAMESPACE/]JOB, or remove it")
    if given.cases is not None:
        if given.pods or given.filename or given.objects:
            raise click.UsageError("--cases contains its own pods and clusters; remove POD, --filename and --objects")
        if given.output not in {None, "jsonl"}:
            raise click.UsageError("--cases supports only -o jsonl")
        return
    if bool(given.pods) == bool(given.filename):
        raise click.UsageError("give either names of pods or a manifest with --filename")
    if given.objects and (given.kubeconfig or given.master):
        raise click.UsageError(
            "--objects cannot be combined with --kubeconfig or --master; choose one source of the cluster"
        )


def _subject_target(word: str) -> str:
    """Return which function explains what a word names, such as a job; "" for any other word."""
    from pyscheduler.cli.added_commands import added

    target = str(added("SUBJECTS").get(word, ""))
    if not target and word == _JOB:
        raise click.UsageError(
            "jobs are explained by a distribution; install it: pip install 'kube-pyscheduler[batch]'"
        )
    return target


def _explain_subject(given: ExplainOptions, target: str) -> int:
    """Explain what a distribution knows how to explain, such as a job; return the exit code."""
    from importlib import import_module

    if len(given.pods) != _SUBJECT_WORDS:
        word = given.pods[0]
        raise click.UsageError(f"give the word {word} and one name; a pod of the name {word} is pod/{word}")
    module, _, name = target.partition(":")
    found: int = getattr(import_module(module), name)(given)
    return found


def _show(found: Sequence[Answer], notes: Sequence[str], output: str, top: int) -> None:
    for note in dict.fromkeys(notes):
        first, *traceback = note.split("\n")
        for line in (f"note: {first}", *(f"  {line}" for line in traceback)):
            echo(line, err=True)
    if output in {"table", "wide"}:
        from pyscheduler.cli.explain_view import show

        for number, each in enumerate(found):
            if number:
                click.echo()
            show(each, top=top, wide=output == "wide")
        return
    from pyscheduler.cli.explain_json import explain_json

    data = [explain_json(each) for each in found]
    if output == "jsonl":
        import msgspec

        for one in data:
            echo(msgspec.json.encode(one).decode())
    elif data:
        print_json(data[0] if len(data) == 1 else data)


def _explain_cases(file: str, workers: int | None) -> int:
    """Print one answer for each line of the file; return the exit code, 1 if a case could not be evaluated."""
    import msgspec

    from pyscheduler.cli.case_file import answer_file
    from pyscheduler.cli.error_output import print_line

    failed = False
    for answer in answer_file(file, workers=workers):
        failed = failed or bool(answer.error)
        print_line(msgspec.json.encode(answer))
    return int(failed)
