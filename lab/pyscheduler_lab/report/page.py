"""Write a report as one HTML file: a table, the data of the charts, and the script that draws them."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.results.columns import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyscheduler_lab.report.series import RunSeries
    from pyscheduler_lab.results.columns import Unit

__all__ = ["MOST_BYTES", "RowTexts", "page_of"]


class RowTexts(Protocol):
    """Writes the values of one row of the table; `bounds`: True for each value that is only a lower bound."""

    def __call__(self, values: Sequence[float | None], unit: Unit, *, bounds: Sequence[bool]) -> Sequence[str]:
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
_BOUND: Final = (
    ">: a lower bound, because jobs that did not finish count until the last event. Completion time (jct), slowdown "
    "and fairness leave these jobs out."
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


def page_of(runs: Sequence[RunSeries], *, title: str, texts_of: RowTexts) -> bytes:
    """Return the file; `texts_of` writes the values of a row. Raises `ConfigError` if it would be too large."""
    text = "".join(_parts(runs, title, texts_of)).encode()
    if len(text) > MOST_BYTES:
        raise ConfigError(
            f"the report of {len(runs)} runs would have {len(text):,} bytes, more than {MOST_BYTES:,}; give fewer runs"
        )
    return text


def _parts(runs: Sequence[RunSeries], title: str, texts_of: RowTexts) -> Iterator[str]:
    yield _HEAD
    yield f"<title>{escape(title)}</title>\n<style>\n{_resource('page.css')}</style>\n</head>\n<body>\n"
    yield f"<h1>{escape(title)}</h1>\n"
    yield '<nav id="runs" aria-label="Runs; press a button to show or hide a run"></nav>\n'
    yield "<noscript><p>The charts need JavaScript; the table does not.</p></noscript>\n"
    yield "<main>\n"
    for name, heading, caption in _CHARTS:
        yield f'<figure id="{name}"><h2>{heading}</h2><div class="chart"></div>'
        yield f"<figcaption>{escape(caption)}</figcaption></figure>\n"
    yield "</main>\n"
    yield from _table(runs, texts_of)
    unfinished = [
        (number, (run.name, str(each.jobs), each.outcome, each.reason, each.message))
        for number, run in enumerate(runs)
        for each in run.unfinished
    ]
    head = ("run", "jobs", "outcome", "reason", "message")
    yield from _list("unfinished", "Jobs that did not finish", head, unfinished)
    errors = [
        (number, (run.name, each.plugin, each.point, str(each.times), each.message))
        for number, run in enumerate(runs)
        for each in run.plugin_errors
    ]
    head = ("run", "plugin", "extension point", "errors", "first message")
    yield from _list("plugin-errors", "Errors of plugins", head, errors)
    yield f'<script type="application/json" id="data">{_json(runs)}</script>\n'
    yield f"<script>\n{_resource('page.js')}</script>\n</body>\n</html>\n"


def _table(runs: Sequence[RunSeries], texts_of: RowTexts) -> Iterator[str]:
    yield '<h2>All columns</h2>\n<div class="wide"><table id="columns">\n<thead><tr><th scope="col">column</th>'
    for number, run in enumerate(runs):
        yield f'<th scope="col" data-run="{number}">{escape(run.name)}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for column in COLUMNS:
        values = [run.cells[column.name] for run in runs]
        if all(value is None for value in values):
            continue
        yield f'<tr data-column="{column.name}"><th scope="row" title="{escape(column.meaning)}">{column.name}</th>'
        texts = texts_of(values, column.unit, bounds=[column.until_end and bool(run.unfinished) for run in runs])
        for number, (value, text) in enumerate(zip(values, texts, strict=True)):
            raw = "" if value is None else repr(value)
            yield f'<td data-run="{number}" data-value="{raw}">{escape(text)}</td>'
        yield "</tr>\n"
    yield "</tbody>\n</table></div>\n"
    if any(run.unfinished for run in runs):
        yield f"<p>{escape(_BOUND)}</p>\n"


def _list(name: str, heading: str, head: Sequence[str], rows: Sequence[tuple[int, Sequence[str]]]) -> Iterator[str]:
    """Yield a table, whose rows each have the number of their run; nothing without rows."""
    if not rows:
        return
    yield f'<h2>{heading}</h2>\n<div class="wide"><table id="{name}">\n<thead><tr>'
    yield "".join(f'<th scope="col">{each}</th>' for each in head)
    yield "</tr></thead>\n<tbody>\n"
    for number, cells in rows:
        yield f'<tr data-run="{number}">' + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>\n"
    yield "</tbody>\n</table></div>\n"


def _json(runs: Sequence[RunSeries]) -> str:
    text = msgspec.json.encode(runs).decode()
    for character, escaped in _UNSAFE.items():
        text = text.replace(character, escaped)
    return text


def _resource(name: str) -> str:
    return (files("pyscheduler_lab.report") / name).read_text(encoding="utf-8")
