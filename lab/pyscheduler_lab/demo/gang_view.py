"""The display of the gang demo: gangs and GPUs while the demo runs, and a table at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.columns import Columns
from rich.console import Group
from rich.text import Text

from pyscheduler.cli.demo.trace_view import Display

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pyscheduler_lab.demo.gang_record import GangRecord, Judge, Verdict

__all__ = ["GangView"]

_STYLES: Final = {"waits": "dim", "partial": "bold red", "runs": "bold green", "done": "blue"}


class GangView(Display):
    """Shows the record of the watch, not the scheduler's own state."""

    def progress(self, judge: Judge, *, seconds: float) -> None:
        """Show the current state."""
        gangs = list(judge.gangs.items())
        words = [_word(gang) for _, gang in gangs]
        used, there = sum(judge.used.values()), sum(judge.capacity.values())
        line = (
            f"{seconds:5.1f} s   gangs: {words.count('done'):>2} done {words.count('runs'):>2} running "
            f"{words.count('waits'):>2} waiting   GPUs: {used:>3} of {there}"
        )

        def picture(text: Text) -> RenderableType:
            cells = [_cell(name, gang, word) for (name, gang), word in zip(gangs, words, strict=True)]
            nodes = [_node(name, judge.used[name], room) for name, room in judge.capacity.items()]
            return Group(Columns(cells, equal=True), Text(), Columns(nodes, equal=True), Text(), text)

        self.show(line, picture)

    def summary(self, verdict: Verdict, *, seconds: float, busy: float, attempts: int) -> None:
        """Print the table; `busy` is the share of GPU time that was used."""
        rows = [
            ("gangs", f"{verdict.gangs}"),
            ("pods bound", f"{verdict.pods}"),
            ("time", f"{seconds:.1f} s"),
            ("GPU time used", f"{busy:.0%}"),
            ("scheduling attempts", f"{attempts}"),
        ]
        if verdict.bursts_seconds:
            longest = max(verdict.bursts_seconds) * 1000
            rows.append(("first to last binding of a gang", f"{longest:.0f} ms at most"))
        self.tabulate(rows)


def _word(gang: GangRecord) -> str:
    if gang.is_finished:
        return "done"
    if gang.is_partial:
        return "partial"
    return "runs" if gang.bound else "waits"


def _cell(name: str, gang: GangRecord, word: str) -> Text:
    return Text(f"{name} {gang.running:>2}/{gang.minimum:<2} {word:<7}", style=_STYLES[word])


def _node(name: str, used: int, room: int) -> Text:
    return Text(f"{name} {'█' * used}{'░' * (room - used)}")
