"""What the gang demo shows: every gang and every GPU while they fight, and a table at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pyscheduler.cli.demo_gang_record import GangRecord, Judge, Verdict

__all__ = ["GangView"]

_PLAIN_EVERY_SECONDS: Final = 2.0
_STYLES: Final = {"waits": "dim", "partial": "bold red", "runs": "bold green", "done": "blue"}


class GangView:
    """The terminal, or plain lines where there is none: it shows the record, not what the scheduler thinks."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console = Console(highlight=False, width=160)
        self._live: Live | None = None
        self._printed = 0.0

    def note(self, text: str) -> None:
        """Print one line."""
        self._console.print(text)

    def progress(self, judge: Judge, *, seconds: float) -> None:
        """Show where it is."""
        gangs = list(judge.gangs.items())
        words = [_word(gang) for _, gang in gangs]
        used, there = sum(judge.used.values()), sum(judge.capacity.values())
        line = (
            f"{seconds:5.1f} s   gangs: {words.count('done'):>2} done {words.count('runs'):>2} running "
            f"{words.count('waits'):>2} waiting   GPUs: {used:>3} of {there}"
        )
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            cells = [_cell(name, gang, word) for (name, gang), word in zip(gangs, words, strict=True)]
            nodes = [_node(name, judge.used[name], room) for name, room in judge.capacity.items()]
            picture = Group(Columns(cells, equal=True), Text(), Columns(nodes, equal=True), Text(), Text(line))
            self._live.update(picture, refresh=True)
        elif time.monotonic() - self._printed >= _PLAIN_EVERY_SECONDS:
            self._printed = time.monotonic()
            self._console.print(line)

    def close(self) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def summary(self, verdict: Verdict, *, seconds: float, busy: float, attempts: int) -> None:
        """Print the table; `busy` is the share of GPU time that was used."""
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_column()
        table.add_column()
        table.add_row("gangs", f"{verdict.gangs}")
        table.add_row("pods bound", f"{verdict.pods}")
        table.add_row("time", f"{seconds:.1f} s")
        table.add_row("GPU time used", f"{busy:.0%}")
        table.add_row("scheduling attempts", f"{attempts}")
        if verdict.bursts_seconds:
            longest = max(verdict.bursts_seconds) * 1000
            table.add_row("first to last binding of a gang", f"{longest:.0f} ms at most")
        self._console.print(table)


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
