"""The choice among nodes of equal score."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.runtime.tie_break import TieBreak, Ties
from pyscheduler.testing import make_node


class Nodes:
    """A cache whose nodes come and go, and its snapshot."""

    def __init__(self, *names: str) -> None:
        self.cache, self.snapshot = Cache(), Snapshot()
        self.made = {name: make_node(name) for name in names}
        for node in self.made.values():
            self.cache.add_node(node)
        self.cache.update_snapshot(self.snapshot)

    def replace(self, old: str, new: str) -> None:
        """Remove a node and add another one, which takes its row."""
        self.cache.remove_node(self.made[old])
        self.cache.add_node(make_node(new))
        self.cache.update_snapshot(self.snapshot)

    def chosen(self, tie_break: TieBreak, *names: str) -> str:
        """Return the choice among these nodes of a part of the snapshot."""
        view = self.snapshot.nodes
        part = view.take(np.array(sorted(view.index(name) or 0 for name in names)))
        return part.name(tie_break.choose(np.arange(len(names)), part, view))

    def order(self, tie_break: TieBreak) -> list[str]:
        """Return all nodes, the preferred one first."""
        view = self.snapshot.nodes
        return [view.name(int(place)) for place in tie_break.order(view.rows, view)[::-1]]


@pytest.mark.parametrize(("ties", "expected"), [("first", "a"), ("last", "d")])
def test_choice_by_name_ignores_the_order_of_rows(ties: Ties, expected: str) -> None:
    """The first or last name is chosen, also after a node took the row of another node."""
    nodes = Nodes("c", "b", "z")
    tie_break = TieBreak(random.Random(0), ties)
    assert nodes.chosen(tie_break, "c", "b") == {"first": "b", "last": "c"}[ties]
    nodes.replace("z", "a")
    nodes.replace("b", "d")
    assert nodes.chosen(tie_break, "a", "c", "d") == expected
    assert nodes.order(tie_break) == sorted("acd", reverse=ties == "last")


def test_random_choice_repeats_with_its_seed() -> None:
    """Every node is chosen at times; the same seed chooses the same nodes."""
    nodes = Nodes("a", "b", "c")

    def choices() -> list[str]:
        tie_break = TieBreak(random.Random(7))
        return [nodes.chosen(tie_break, "a", "b", "c") for _ in range(20)]

    first = choices()
    assert set(first) == {"a", "b", "c"}
    assert choices() == first
