"""`pyscheduler explain --history`: read log files, and show why a pod waited and for how long."""

from __future__ import annotations

import gzip
import sys
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kube_objects.durations import format_duration
from kube_objects.times import parse_time
from pyscheduler.cli.podgroup.view import padded
from pyscheduler.cli.terminal import echo, print_json, printable_cells
from pyscheduler.framework.errors import ConfigError
from pyscheduler.stories.history import History
from pyscheduler.stories.record import DELETED, ENDS, SCHEDULED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyscheduler.cli.explain_options import ExplainOptions
    from pyscheduler.stories.view import RunView, StoryView

__all__ = ["print_stories", "show_history"]

_HEADER: Final = ("SINCE", "LAST", "REASON", "COUNT", "PLUGINS", "NODE", "WOKEN-BY", "MESSAGE")
#: How to get the lines. Without --tail=-1, kubectl prints only the last ten lines of each pod.
_COMMAND: Final = (
    "kubectl --namespace kube-system logs --selector app.kubernetes.io/name=pyscheduler --prefix --timestamps --tail=-1"
)


def show_history(options: ExplainOptions) -> None:
    """Print the stories of the pod in the logs; `-` is standard input. Raises `ConfigError` if there are none."""
    files, output = options.logs, options.output
    if len(options.pods) != 1 or not files:
        raise click.UsageError("give one pod, and with --from the logs: explain --history POD --from FILE")
    if output not in {None, "table", "wide", "json"}:
        raise click.UsageError("--history supports only -o table and -o json")
    namespace, name = options.key_of(options.pods[0])
    history = History(namespace, name)
    for file in files:
        with _opened(file) as lines:
            history.read(line.decode(errors="replace") for line in lines)
    stories = history.stories()
    if not stories:
        raise ConfigError(_nothing(history), source=", ".join(files))
    if history.cut:
        many = f"{history.cut} lines that name {name} are" if history.cut > 1 else f"1 line that names {name} is"
        echo(f"note: {many} incomplete, and left out", err=True)
    if output == "json":
        print_json({"pod": history.pod, "stories": stories})
        return
    print_stories(stories)


def print_stories(stories: Sequence[StoryView]) -> None:
    """Print stories as tables."""
    for number, story in enumerate(stories):
        if number:
            click.echo()
        for line in _lines(story):
            click.echo(line)


@contextmanager
def _opened(file: str) -> Iterator[Iterable[bytes]]:
    """Open a file of logs, which may be compressed; raise `ConfigError` if it cannot be read."""
    try:
        if file == "-":
            yield sys.stdin.buffer
        else:
            with gzip.open(file) if file.endswith(".gz") else Path(file).open("rb") as lines:
                yield lines
    except (OSError, EOFError, zlib.error) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        source = "standard input" if file == "-" else file
        raise ConfigError(f"the logs cannot be read: {why.lower()}", source=source) from error


def _nothing(history: History) -> str:
    """Return why there is no story, and how to get one."""
    counts = (
        f"no story of pod {history.pod} in {history.lines} lines, of which {history.changes} are changes of stories"
    )
    if history.namesakes:
        return f"{counts}; there are stories of {', '.join(sorted(history.namesakes))}"
    return (
        f"{counts}; collect the logs of all replicas with: {_COMMAND}; add --previous for a container that has "
        "restarted; the replicas write these lines at -v=2, or in text logs at --vmodule=decision=2"
    )


def _lines(story: StoryView) -> list[str]:
    """Return a story as a table: a row for each reason, with the message at the end of the row."""
    cells = printable_cells([_HEADER, *map(_row, story.runs)])
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADER))]
    lines = [padded(row, widths) for row in cells]
    if story.omitted:
        lines.insert(1, f"... {story.omitted} older changes are left out")
    verdict = f"Verdict: waits: {story.reason}" if story.pending else f"Verdict: {story.reason}"
    ((title, state),) = printable_cells(
        [(f"pod {story.pod}, uid {story.uid}, profile {story.profile}", f"{verdict}{_duration(story)}")]
    )
    return [title, state, *lines]


def _duration(story: StoryView) -> str:
    """Return how long the pod waited, if its wait has ended, or since when it waits."""
    if story.pending:
        return f", since {_second(story.created or story.first_seen)}{_count(story)}"
    end = next((run for run in story.runs if run.reason in ENDS), None)
    if end is None or end.reason not in {SCHEDULED, DELETED}:  # the wait ended before this story
        return ""
    seconds = max(parse_time(end.first) - parse_time(story.created or story.first_seen), 0.0)
    most = "" if end.count else "at most "  # no replica has seen it
    return f", after a wait of {most}{format_duration(round(seconds, 1))}"


def _count(story: StoryView) -> str:
    """Return how often the present reason was found, and when last."""
    run = next((run for run in reversed(story.runs) if run.reason == story.reason), None)
    if run is None:
        return ""
    times = f"{'at least ' if run.count_is_least else ''}{run.count} time{'' if run.count == 1 else 's'}"
    return f", found {times}, last seen {_second(run.last)}"


def _row(run: RunView) -> tuple[str, ...]:
    woken = ", ".join(f"{event} {count}" for event, count in run.woken_by.items())
    message = run.message
    if run.others or run.others_hidden:
        others = [*run.others, *((f"{run.others_hidden} in other namespaces",) if run.others_hidden else ())]
        message += f" ({'makes room for' if run.reason in ENDS else 'evicts'} {', '.join(others)})"
    return (
        _second(run.first),
        _second(run.last),
        run.reason,
        f"{run.count}+" if run.count_is_least else str(run.count),
        ",".join(run.plugins) or "-",
        run.node or "-",
        woken or "-",
        message.strip() or "-",
    )


def _second(time: str) -> str:
    """Return a time without its fraction."""
    return f"{time.partition('.')[0].removesuffix('Z')}Z" if time else "-"
