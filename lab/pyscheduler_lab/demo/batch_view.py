"""The display of the batch demo: the queues of the teams while the demo runs, and a table of the teams at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group
from rich.table import Table

from pyscheduler.cli.demo.trace_view import Display

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.text import Text

    from pyscheduler_lab.audit import Verdict
    from pyscheduler_lab.demo.batch_record import BatchRecord
    from pyscheduler_lab.simulation.queue_plan import Team

__all__ = ["BatchView"]


class BatchView(Display):
    """Shows what a watch of the pods says, not the scheduler's own state."""

    def __init__(self, teams: Sequence[Team]) -> None:
        super().__init__()
        self._teams = teams
        self._leaves = [team for team in teams if all(other.parent != team.name for other in teams)]

    def progress(self, record: BatchRecord, *, jobs: int, seconds: float) -> None:
        """Show the tree; without a terminal, one line with the allocated GPUs and the quota of each team."""
        done = sum(job.is_finished for job in record.jobs.values())
        evictions = sum(team.evictions for team in record.teams.values())
        parts = [
            f"{team.name} {record.teams[team.name].allocated}/{team.quota} +{record.teams[team.name].pending}"
            for team in self._leaves
        ]
        line = f"{seconds:5.1f} s   jobs {done}/{jobs}   evicted {evictions}   GPUs/quota +pending: {'   '.join(parts)}"

        def picture(_: Text) -> RenderableType:
            return Group(self._tree(record), f"{seconds:5.1f} s   {done} of {jobs} jobs finished   {evictions} evicted")

        self.show(line, picture)

    def _tree(self, record: BatchRecord) -> Table:
        table = Table(box=None, pad_edge=False)
        table.add_column("queue")
        for name in ("quota", "allocated", "pending"):
            table.add_column(name, justify="right")
        table.add_column("█ within quota, ▓ borrowed, ░ free quota")
        for team in self._teams:
            below = [record.teams[leaf.name] for leaf in self._leaves if team.name in {leaf.name, leaf.parent}]
            allocated = sum(each.allocated for each in below)
            pending = sum(each.pending for each in below)
            own, borrowed = min(allocated, team.quota), max(allocated - team.quota, 0)
            bar = "█" * (own // 2) + "▓" * (borrowed // 2) + "░" * ((team.quota - own) // 2)
            style = "bold" if not team.parent else "yellow" if borrowed else ""
            name = f"  {team.name}" if team.parent else team.name
            table.add_row(name, str(team.quota), str(allocated), str(pending), bar, style=style)
        return table

    def summary(self, record: BatchRecord, verdict: Verdict, *, seconds: float) -> None:
        """Print waits and shares of the teams, and the counts of the checker's rules."""
        self.close()
        table = Table(box=None, pad_edge=False)
        table.add_column("team")
        headers = (
            "quota",
            "jobs",
            "wait mean",
            "p50",
            "p95",
            "peak GPUs",
            "GPU time",
            "of all",
            "evicted jobs",
            "lost",
        )
        for name in headers:
            table.add_column(name, justify="right")
        total = sum(team.gpu_seconds for team in record.teams.values()) or 1.0
        for leaf in self._leaves:
            team, waits = record.teams[leaf.name], record.waits(leaf.name)
            p50, p95 = np.percentile(waits, [50, 95]) if waits else (0.0, 0.0)
            table.add_row(
                leaf.name,
                str(leaf.quota),
                str(len(waits)),
                f"{np.mean(waits) if waits else 0.0:.1f} s",
                f"{p50:.1f} s",
                f"{p95:.1f} s",
                str(team.peak),
                f"{team.gpu_seconds:.0f} s",
                f"{team.gpu_seconds / total:.0%}",
                str(team.evictions),
                f"{team.lost_gpu_seconds:.0f} s",
            )
        self._console.print(table)
        self.note(f"{len(record.jobs)} jobs in {seconds:.1f} s")
        for row in verdict.table():
            self.note(row)
