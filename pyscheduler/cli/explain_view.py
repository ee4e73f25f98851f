"""Print an answer of `explain` on the terminal: the reason, the table of steps, and the nodes with the best scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pyscheduler.cli.explanation import names_of
from pyscheduler.cli.history import print_stories
from pyscheduler.cli.terminal import printable
from pyscheduler.scheduler.nearest_miss import said

if TYPE_CHECKING:
    from pyscheduler.cli.explanation import Answer, Explanation
    from pyscheduler.framework.status import Status
    from pyscheduler.runtime.extension_points.scoring import ScoreOutcome
    from pyscheduler.scheduler.evaluation import Evaluation

__all__ = ["show"]

#: Width in characters if the output is no terminal.
_PLAIN_WIDTH = 160


def show(answer: Answer, *, top: int, wide: bool = False) -> None:
    """Print an answer: the explanation, and the `top` best nodes for a pod; the stories if nothing was evaluated.

    With `wide`, also the rejected nodes by reason, and the stories.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PLAIN_WIDTH)
    explanation, found = answer.explanation, answer.evaluation
    if explanation is None:
        print_stories(answer.stories)
        return
    reason = f": {explanation.reason}" if explanation.reason else ""
    console.print(_text(explanation.subject))
    console.print(_text(f"Verdict: {explanation.verdict}{reason}"))
    console.print(_steps(explanation))
    if explanation.next:
        console.print(_text(f"Next: {explanation.next}"))
    tables = (_refused(found) if wide else None, _best(found, top)) if found is not None else ()
    for table in tables:
        if table is not None:
            console.print()
            console.print(table)
    # Without an evaluation, the steps have the last reason only.
    if answer.stories and (wide or (found is None and sum(len(story.runs) for story in answer.stories) > 1)):
        click.echo()
        print_stories(answer.stories)


def _steps(explanation: Explanation) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("step", "result", "reason", "detail"):
        table.add_column(heading, overflow="fold")
    for step in explanation.steps:
        table.add_row(_text(step.name), step.result, step.reason or "-", _text(step.text))
    return table


def _refused(found: Evaluation) -> Table | None:
    """Return the rejected nodes, grouped by plugin and reason, the largest group first."""
    groups: dict[tuple[str, str], list[str]] = {}
    if found.pre_filter is not None:
        groups[_who(found.pre_filter)] = names_of(found.all_nodes)
    elif found.filtered is not None and found.statuses is not None:
        statuses = found.statuses
        for row in np.flatnonzero(~statuses.passed()).tolist():
            status = statuses.status(row)
            assert status is not None
            groups.setdefault(_who(status), []).append(found.filtered.name(row))
        if found.node_names is not None:
            left_out = [name for name in names_of(found.all_nodes) if name not in found.node_names]
            if left_out:
                groups.setdefault(("", "excluded by PreFilter"), []).extend(left_out)
    if not groups:
        return None
    table = Table(title="rejected nodes", title_justify="left", box=None, pad_edge=False)
    table.add_column("nodes", justify="right")
    table.add_column("plugin")
    table.add_column("reason", overflow="fold")
    table.add_column("names", overflow="fold")
    for (plugin, reason), names in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        table.add_row(str(len(names)), _text(plugin), _text(reason), _text(", ".join(names)))
    return table


def _best(found: Evaluation, top: int) -> Table | None:
    """Return the best nodes with the weighted score of each plugin."""
    if found.feasible is None or found.scores is None:
        return None
    scores: ScoreOutcome = found.scores
    order = np.argsort(-scores.totals, kind="stable")[:top].tolist()
    count = len(found.feasible)
    title = f"best of {count} feasible node{'s' if count != 1 else ''}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("node", overflow="fold")
    table.add_column("score", justify="right")
    plugins = [name for name, one in scores.by_plugin.items() if one.normalized.any()]
    for name in plugins:
        table.add_column(name, justify="right", overflow="fold")
    for row in order:
        parts = [str(int(scores.by_plugin[name].weighted[row])) for name in plugins]
        table.add_row(_text(found.feasible.name(row)), str(int(scores.totals[row])), *parts)
    return table


def _text(text: str) -> Text:
    """Return a text from objects without markup and control characters."""
    return Text(printable(text))


def _who(status: Status) -> tuple[str, str]:
    return status.plugin, said(status)
