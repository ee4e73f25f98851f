"""Write a report as one HTML file: a table, the data of the charts, and the script that draws them."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.results.columns import COLUMNS
from pyscheduler_lab.results.comparison import estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyscheduler_lab.report.series import Group
    from pyscheduler_lab.results.columns import Column
    from pyscheduler_lab.results.comparison import Estimate

__all__ = ["MOST_BYTES", "RowTexts", "page_of"]


class RowTexts(Protocol):
    """Writes one row of the table; `are_open`: True for each group in which jobs did not finish."""

    def __call__(
        self, found: Sequence[Estimate], column: Column, *, has_seeds: bool, are_open: Sequence[bool]
    ) -> Sequence[str]:
        """Return the texts."""


MOST_BYTES: Final = 2_000_000
"""The largest size of a report in bytes."""

#: Characters that could end the element with the data.
_UNSAFE: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_CHARTS: Final = (
    (
        "waits",
        "Waits",
        "Share of the jobs that waited at most so long. A job waits while it has arrived and does not run.",
    ),
    ("utilisation", "Utilisation", "GPU time of jobs that run, over the GPU time of all nodes."),
    ("waiting", "Waiting jobs", "Mean number of jobs that wait."),
    (
        "fragmentation",
        "Fragmentation",
        "Share of the free GPU time on nodes where a typical worker does not fit.",
    ),
    ("teams", "Teams", "Mean wait of the jobs of each team or queue."),
)
_HEAD: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<link rel="icon" href="data:,">
"""


def page_of(groups: Sequence[Group], *, title: str, texts_of: RowTexts, legend: Callable[..., Iterable[str]]) -> bytes:
    """Return the file; raise `ConfigError` if it would be too large.

    `texts_of` writes the values of a row, and `legend` the lines below the table, as in the terminal.
    """
    text = "".join(_parts(groups, title, texts_of, legend)).encode()
    if len(text) > MOST_BYTES:
        number = sum(len(group.runs) for group in groups)
        raise ConfigError(
            f"the report of {number} runs would have {len(text):,} bytes, more than {MOST_BYTES:,}; give fewer runs"
        )
    return text


def _parts(
    groups: Sequence[Group], title: str, texts_of: RowTexts, legend: Callable[..., Iterable[str]]
) -> Iterator[str]:
    yield _HEAD
    yield f"<title>{escape(title)}</title>\n<style>\n{_resource('page.css')}</style>\n</head>\n<body>\n"
    yield f"<h1>{escape(title)}</h1>\n"
    yield '<nav id="runs" aria-label="Runs; press a button to show or hide a run and its other seeds"></nav>\n'
    yield "<noscript><p>The charts need JavaScript; the table does not.</p></noscript>\n"
    yield "<main>\n"
    for name, heading, caption in _CHARTS:
        yield f'<figure id="{name}"><h2>{heading}</h2><div class="chart"></div>'
        yield f"<figcaption>{escape(caption)}</figcaption></figure>\n"
    yield "</main>\n"
    yield from _table(groups, texts_of, legend)
    runs = [(number, group.name_of(run), run) for number, group in enumerate(groups) for run in group.runs]
    unfinished = [
        (number, (name, str(each.jobs), each.outcome, each.reason, each.message))
        for number, name, run in runs
        for each in run.unfinished
    ]
    head = ("run", "jobs", "outcome", "reason", "message")
    yield from _list("unfinished", "Jobs that did not finish", head, unfinished)
    errors = [
        (number, (name, each.plugin, each.point, str(each.times), each.message))
        for number, name, run in runs
        for each in run.plugin_errors
    ]
    head = ("run", "plugin", "extension point", "errors", "first message")
    yield from _list("plugin-errors", "Errors of plugins", head, errors)
    yield f'<script type="application/json" id="data">{_json(groups)}</script>\n'
    yield f"<script>\n{_resource('page.js')}</script>\n</body>\n</html>\n"


def _table(groups: Sequence[Group], texts_of: RowTexts, legend: Callable[..., Iterable[str]]) -> Iterator[str]:
    numbers = sorted({len(group.runs) for group in groups})
    has_seeds = numbers[-1] > 1
    are_open = [group.has_unfinished for group in groups]
    yield "<h2>All columns</h2>\n"
    if has_seeds:
        yield f"<p>mean of {' or '.join(map(str, numbers))} seeds ± half of the 95 % interval of the mean</p>\n"
    yield '<div class="wide"><table id="columns">\n<thead><tr><th scope="col">column</th>'
    for number, group in enumerate(groups):
        yield f'<th scope="col" data-group="{number}">{escape(group.name)}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for column in COLUMNS:
        found = _estimates(groups, column.name)
        if all(each.mean is None for each in found):
            continue
        yield f'<tr data-column="{column.name}"><th scope="row" title="{escape(column.meaning)}">{column.name}</th>'
        texts = texts_of(found, column, has_seeds=has_seeds, are_open=are_open)
        for number, (each, text) in enumerate(zip(found, texts, strict=True)):
            raw = "" if each.mean is None else repr(each.mean)
            yield f'<td data-group="{number}" data-value="{raw}">{escape(text)}</td>'
        yield "</tr>\n"
    yield "</tbody>\n</table></div>\n"
    marked = numbers[-1] if len(groups) > 1 else 1
    lines = [*legend(seeds=marked, first=groups[0].name, has_unfinished=any(are_open))]
    if lines:
        yield f"<p>{'<br>'.join(map(escape, lines))}</p>\n"


def _estimates(groups: Sequence[Group], column: str) -> list[Estimate]:
    """Return the estimate of each group; a seed that a group lacks has no value."""
    by_seed = [{run.seed: run.cells[column] for run in group.runs} for group in groups]
    seeds = sorted({seed for values in by_seed for seed in values})
    first, *others = ([values.get(seed) for seed in seeds] for values in by_seed)
    return [estimate(first), *(estimate(each, first) for each in others)]


def _list(name: str, heading: str, head: Sequence[str], rows: Sequence[tuple[int, Sequence[str]]]) -> Iterator[str]:
    """Yield a table, whose rows each have the number of their group; nothing without rows."""
    if not rows:
        return
    yield f'<h2>{heading}</h2>\n<div class="wide"><table id="{name}">\n<thead><tr>'
    yield "".join(f'<th scope="col">{each}</th>' for each in head)
    yield "</tr></thead>\n<tbody>\n"
    for number, cells in rows:
        yield f'<tr data-group="{number}">' + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>\n"
    yield "</tbody>\n</table></div>\n"


def _json(groups: Sequence[Group]) -> str:
    text = msgspec.json.encode(groups).decode()
    for character, escaped in _UNSAFE.items():
        text = text.replace(character, escaped)
    return text


def _resource(name: str) -> str:
    return (files("pyscheduler_lab.report") / name).read_text(encoding="utf-8")
