"""Print an evaluation as tables: the result, the rejected nodes by reason, and the best nodes by score."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kube_objects.durations import format_duration
from pyscheduler.cli.terminal import printable
from pyscheduler.framework.profile import ExtensionPoint

if TYPE_CHECKING:
    from pyscheduler.cli.explanation import Explanation
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.status import Status
    from pyscheduler.runtime.extension_points.scoring import ScoreOutcome
    from pyscheduler.scheduler.evaluation import Evaluation

__all__ = ["show"]

#: Number of example nodes for each reason.
_EXAMPLES = 3
#: Width in characters if the output is no terminal.
_PLAIN_WIDTH = 160


def show(found: Evaluation | None, explanation: Explanation, *, top: int) -> None:
    """Print an explanation, and a pod's evaluation with its `top` best nodes; a workload has no evaluation."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PLAIN_WIDTH)
    console.print(_text(explanation.subject))
    for line in (*_waits(found), *_verdict(found)) if found is not None else ():
        console.print(_text(line))
    reason = f": {explanation.reason}" if explanation.reason else ""
    console.print(_text(f"Verdict: {explanation.verdict}{reason}"))
    console.print(_steps(explanation))
    if explanation.next:
        console.print(_text(f"Next: {explanation.next}"))
    for table in (_refused(found), _best(found, top)) if found is not None else ():
        if table is not None:
            console.print()
            console.print(table)


def _steps(explanation: Explanation) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("step", "result", "reason", "detail"):
        table.add_column(heading, overflow="fold")
    for step in explanation.steps:
        table.add_row(_text(step.name), step.result, step.reason or "-", _text(step.text))
    return table


def _waits(found: Evaluation) -> list[str]:
    if not found.wait:
        return []
    node_name = found.pod.status.nominated_node_name
    return [f"waits at Permit{f' for {node_name}' if node_name else ''}: {found.wait}"]


def _verdict(found: Evaluation) -> list[str]:
    if found.error is not None:
        return [f"cannot be evaluated: {found.error.message}"]
    if found.pre_enqueue is not None:
        return ["not ready for scheduling", ": ".join(_who(found.pre_enqueue))]
    if found.feasible is None or found.scores is None:
        lines = ["does not fit on any node", found.message]
        nominating = found.post_filter_result.nominating_info if found.post_filter_result is not None else None
        if nominating is not None and nominating.node_name:
            lines.append(f"preemption would nominate {nominating.node_name}{_victims(found, nominating.node_name)}")
        return lines
    totals, name = found.scores.totals, found.best_node
    if found.reserve is not None:
        return [f"rejected at Reserve on {name}", ": ".join(_who(found.reserve))]
    equal = int((totals == totals.max()).sum())
    others = f"one of {equal} nodes with the same score, chosen at random, such as " if equal > 1 else ""
    return [f"would be placed on {others}{name}", *_not_asked(found)]


def _not_asked(found: Evaluation) -> list[str]:
    permitting = found.profile.points[ExtensionPoint.PERMIT]
    return [f"not asked: Permit ({', '.join(permitting)})"] if permitting and not found.wait else []


def _victims(found: Evaluation, node_name: str) -> str:
    """Return the victims on the node, and how many other nodes are as good."""
    best = found.preemption.best if found.preemption is not None else ()
    candidate = next((each for each in best if each.node_name == node_name), None)
    if candidate is None:
        return ""
    text = f" and evict {' '.join(info.pod.key for info in candidate.victims)}"
    if candidate.pdb_violations:
        text += f" ({_counted(candidate.pdb_violations, 'violation')} of disruption budgets)"
    others = len(best) - 1
    return f"{text}; equally good: {_counted(others, 'other node')}" if others else text


def _refused(found: Evaluation) -> Table | None:
    """Return the rejected nodes, grouped by plugin and reason, the largest group first."""
    groups: dict[tuple[str, str], list[str]] = {}
    if found.pre_filter is not None:
        groups[_who(found.pre_filter)] = _names(found.all_nodes)
    elif found.filtered is not None and found.statuses is not None:
        statuses = found.statuses
        for row in np.flatnonzero(~statuses.passed()).tolist():
            status = statuses.status(row)
            assert status is not None
            groups.setdefault(_who(status), []).append(found.filtered.name(row))
        if found.node_names is not None:
            left_out = [name for name in _names(found.all_nodes) if name not in found.node_names]
            if left_out:
                groups.setdefault(("", "excluded by PreFilter"), []).extend(left_out)
    if not groups:
        return None
    table = Table(title="rejected nodes", title_justify="left", box=None, pad_edge=False)
    table.add_column("nodes", justify="right")
    table.add_column("plugin")
    table.add_column("reason", overflow="fold")
    table.add_column("for example", overflow="fold")
    for (plugin, reason), names in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        named = ", ".join(names[:_EXAMPLES]) + (", ..." if len(names) > _EXAMPLES else "")
        table.add_row(str(len(names)), _text(plugin), _text(reason), _text(named))
    return table


def _best(found: Evaluation, top: int) -> Table | None:
    """Return the best nodes with the weighted score of each plugin."""
    if found.feasible is None or found.scores is None:
        return None
    scores: ScoreOutcome = found.scores
    order = np.argsort(-scores.totals, kind="stable")[:top].tolist()
    title = f"best of {_counted(len(found.feasible), 'feasible node')}"
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
    after = status.retry_after_seconds
    retry = f" (retry after {format_duration(max(after, 0.0))})" if after is not None and isfinite(after) else ""
    return status.plugin, status.message + retry


def _names(nodes: Nodes) -> list[str]:
    return [nodes.name(row) for row in range(len(nodes))]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
