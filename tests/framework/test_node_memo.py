"""NodeMemo: a rule about a node's pods, worked out once per state of the node."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import NodeInfo, PodInfo
from pyscheduler.framework.node_memo import NodeMemo
from pyscheduler.testing.builders import make_node, make_pod


def cluster(size: int) -> tuple[Cache, Snapshot]:
    """Make a cache with nodes, and its snapshot."""
    cache, snapshot = Cache(), Snapshot()
    for number in range(size):
        cache.add_node(make_node(f"n{number}"))
    cache.update_snapshot(snapshot)
    return cache, snapshot


class Counting:
    """How many pods a node has; remembers which nodes were looked at."""

    def __init__(self, rule: Callable[[NodeInfo], int] = lambda node: len(node.pods)) -> None:
        self.rule = rule
        self.asked: list[str] = []
        self.forgotten: list[int] = []
        self.memo: NodeMemo[int] = NodeMemo(self, self.forgotten.append)

    def __call__(self, node: NodeInfo) -> int:
        self.asked.append(node.name)
        return self.rule(node)

    def values(self, snapshot: Snapshot, rows: list[int] | None = None) -> list[int]:
        """Return the values of all nodes, or of some rows."""
        nodes = snapshot.nodes if rows is None else snapshot.nodes.take(np.array(rows, dtype=np.int64))
        return [self.memo.values[number] for number in self.memo.ids(nodes).tolist()]


def test_only_nodes_that_changed_are_looked_at() -> None:
    """Asked again, nothing is worked out; a pod that comes costs its node, equal values share an id."""
    cache, snapshot = cluster(5)
    counting = Counting()
    assert counting.values(snapshot) == [0] * 5
    assert len(counting.memo.values) == 1
    counting.asked.clear()
    counting.values(snapshot)
    counting.values(snapshot, [3, 1])
    assert counting.asked == []
    cache.add_pod(PodInfo.of(make_pod("p", node_name="n2")))
    cache.update_snapshot(snapshot)
    assert sum(counting.values(snapshot)) == 1
    assert counting.asked == ["n2"]


def test_a_what_if_is_another_state_and_the_first_comes_back() -> None:
    """A rollback finds what was known before."""
    _, snapshot = cluster(3)
    counting = Counting()
    counting.values(snapshot)
    with snapshot.undo_at_end():
        snapshot.place(PodInfo.of(make_pod("p")), "n0")
        assert sorted(counting.values(snapshot)) == [0, 0, 1]
    counting.asked.clear()
    assert counting.values(snapshot) == [0, 0, 0]
    assert counting.asked == []


def test_what_is_discarded_is_worked_out_again() -> None:
    """For the generations named, and for all after `clear`; whoever keeps notes is told."""
    _, snapshot = cluster(3)
    factor = [1]
    counting = Counting(lambda node: factor[0] * (1 + len(node.name)))
    assert counting.values(snapshot) == [3, 3, 3]
    factor[0] = 10
    generation = int(snapshot.nodes.generations()[1])
    counting.memo.discard([generation, -1])
    assert counting.forgotten == [generation]
    assert counting.values(snapshot) == [3, 30, 3]
    counting.memo.clear()
    assert len(counting.memo) == 0
    assert counting.values(snapshot) == [30, 30, 30]


@pytest.mark.slow
def test_states_that_are_over_do_not_pile_up() -> None:
    """Thousands of pods come to few nodes; little more than the nodes' present states is kept."""
    cache, snapshot = cluster(4)
    counting = Counting()
    for number in range(3000):
        cache.add_pod(PodInfo.of(make_pod(f"p{number}", node_name=f"n{number % 4}")))
        cache.update_snapshot(snapshot)
        counting.values(snapshot)
    assert len(counting.memo) <= 2 * 4 + 1024 + 4
    assert len(counting.memo.values) <= 2 * 4 + 1024 + 4
    assert len(counting.forgotten) + len(counting.memo) >= 3000
    assert counting.values(snapshot) == [750] * 4


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_answers_are_those_of_looking_at_each_node(rng: Random) -> None:
    """Whatever comes and goes, for all nodes and for some in any order, in what-ifs and after them."""
    cache, snapshot = cluster(4)
    counting = Counting()
    placed: list[PodInfo] = []

    def check() -> None:
        rows = rng.sample(range(len(snapshot.nodes)), rng.randrange(1, len(snapshot.nodes) + 1))
        assert counting.values(snapshot, rows) == [len(snapshot.nodes[row].pods) for row in rows]
        assert counting.values(snapshot) == [len(info.pods) for info in snapshot.nodes]

    for step in range(12):
        if placed and rng.random() < 0.4:
            cache.remove_pod(placed.pop().pod)
        elif rng.random() < 0.1:
            cache.add_node(make_node(f"m{step}"))
        else:
            placed.append(PodInfo.of(make_pod(f"p{step}", node_name=f"n{rng.randrange(4)}")))
            cache.add_pod(placed[-1])
        cache.update_snapshot(snapshot)
        check()
        with snapshot.undo_at_end():
            snapshot.place(PodInfo.of(make_pod("imagined")), f"n{rng.randrange(4)}")
            check()
        check()
