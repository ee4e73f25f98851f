"""What `explain` prints for people: the verdict, the nodes by the reason that refused them, the best ones by score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.status import Status
    from pyscheduler.runtime.scoring import ScoreOutcome
    from pyscheduler.scheduler.evaluation import Evaluation

__all__ = ["show"]

#: So many nodes are named for one reason.
_EXAMPLES = 3
#: Width where there is no terminal.
_PLAIN_WIDTH = 160


def show(found: Evaluation, *, top: int) -> None:
    """Print one pod's evaluation, the `top` best nodes among it."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PLAIN_WIDTH)
    pod = found.pod
    console.print(Text(f"pod {pod.key}, profile {found.profile.name}, {_counted(len(found.all_nodes), 'node')}"))
    for line in _verdict(found):
        console.print(Text(line))
    for table in (_refused(found), _best(found, top)):
        if table is not None:
            console.print()
            console.print(table)


def _verdict(found: Evaluation) -> list[str]:
    if found.error is not None:
        return [f"cannot be told: {found.error.message}"]
    if found.pre_enqueue is not None:
        return ["may not be scheduled yet", f"{found.pre_enqueue.plugin}: {found.pre_enqueue.message}"]
    if found.feasible is None or found.scores is None:
        lines = ["fits nowhere", found.message]
        nominating = found.post_filter_result.nominating_info if found.post_filter_result is not None else None
        if nominating is not None and nominating.node_name:
            lines.append(f"preemption would make room on {nominating.node_name}{_victims(found, nominating.node_name)}")
        return lines
    totals = found.scores.totals
    best = np.flatnonzero(totals == totals.max())
    name = found.feasible.name(int(best[0]))
    if len(best) == 1:
        return [f"would go to {name}"]
    return [f"would go to {name} or another of {len(best)} nodes with the same score, drawn at random"]


def _victims(found: Evaluation, node_name: str) -> str:
    """Return who would have to go, and how many other nodes would do as well."""
    best = found.preemption.best if found.preemption is not None else ()
    candidate = next((each for each in best if each.node_name == node_name), None)
    if candidate is None:
        return ""
    text = f", evicting {' '.join(info.pod.key for info in candidate.victims)}"
    if candidate.pdb_violations:
        text += f" ({_counted(candidate.pdb_violations, 'violation')} of disruption budgets)"
    others = len(best) - 1
    return f"{text}; {_counted(others, 'other node')} would do as well" if others else text


def _refused(found: Evaluation) -> Table | None:
    """Return the nodes that cannot take the pod, grouped by plugin and reason, the largest group first."""
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
                groups.setdefault(("", "left out by PreFilter"), []).extend(left_out)
    if not groups:
        return None
    table = Table(title="nodes that cannot take it", title_justify="left", box=None, pad_edge=False)
    table.add_column("nodes", justify="right")
    table.add_column("plugin")
    table.add_column("reason", overflow="fold")
    table.add_column("for example", overflow="fold")
    for (plugin, reason), names in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        named = ", ".join(names[:_EXAMPLES]) + (", ..." if len(names) > _EXAMPLES else "")
        table.add_row(str(len(names)), Text(plugin), Text(reason), Text(named))
    return table


def _best(found: Evaluation, top: int) -> Table | None:
    """Return the best nodes with what each plugin gave them, weight included."""
    if found.feasible is None or found.scores is None:
        return None
    scores: ScoreOutcome = found.scores
    order = np.argsort(-scores.totals, kind="stable")[:top].tolist()
    title = f"best of {_counted(len(found.feasible), 'node')} that can"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("node", overflow="fold")
    table.add_column("score", justify="right")
    plugins = [name for name, one in scores.by_plugin.items() if one.normalized.any()]
    for name in plugins:
        table.add_column(name, justify="right", overflow="fold")
    for row in order:
        parts = [str(int(scores.by_plugin[name].weighted[row])) for name in plugins]
        table.add_row(Text(found.feasible.name(row)), str(int(scores.totals[row])), *parts)
    return table


def _who(status: Status) -> tuple[str, str]:
    return status.plugin, status.message


def _names(nodes: Nodes) -> list[str]:
    return [nodes.name(row) for row in range(len(nodes))]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
