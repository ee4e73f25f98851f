"""Nominations: what a statement says of a pod outweighs the queue, and can be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import PodInfo
from pyscheduler.framework.changed_keys import ChangedKeys
from pyscheduler.testing.builders import make_node, make_pod

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import NominatingInfo
    from tests.cache.conftest import World


class Promises:
    """A nominator with fixed nominations."""

    def __init__(self, by_node: dict[str, list[PodInfo]]) -> None:
        self.by_node = by_node
        self.changed: ChangedKeys[str] = ChangedKeys()

    def pods_on(self, node_name: str) -> Sequence[PodInfo]:
        return self.by_node.get(node_name, [])

    @property
    def nodes(self) -> Collection[str]:
        return self.by_node.keys()

    def node_of(self, uid: str) -> str:
        return next((name for name, pods in self.by_node.items() for pod in pods if pod.pod.uid == uid), "")

    def add(self, info: PodInfo, nominating: NominatingInfo | None = None) -> None:
        raise AssertionError("a snapshot reads nominations, it makes none in the queue")

    def delete(self, pod: Pod) -> None:
        raise AssertionError("a snapshot reads nominations")

    def update(self, old: Pod, new: PodInfo) -> None:
        raise AssertionError("a snapshot reads nominations")


FIRST, SECOND, THIRD = (PodInfo.of(make_pod(name)) for name in ("first", "second", "third"))


@pytest.fixture
def snapshot(world: World) -> Snapshot:
    """Give a snapshot of nodes a and b; the queue has nominated two pods to a."""
    for name in ("a", "b"):
        world.cache.add_node(make_node(name))
    world.snapshot = Snapshot(nominator=Promises({"a": [FIRST, SECOND]}))
    return world.update()


def nominated(snapshot: Snapshot) -> dict[str, list[str]]:
    """Return the names of nominated pods by node, as the snapshot says."""
    found = {name: [info.pod.name for info in snapshot.nominated_pods(name)] for name in ("a", "b")}
    assert {name for name, pods in found.items() if pods} <= set(snapshot.nominated_nodes)
    return found


def test_the_queue_is_heard_where_statements_are_silent(snapshot: Snapshot) -> None:
    """Without a statement the snapshot says what the nominator says; without a nominator, nothing."""
    assert nominated(snapshot) == {"a": ["first", "second"], "b": []}
    assert set(snapshot.nominated_nodes) == {"a"}
    bare = Snapshot()
    assert (list(bare.nominated_pods("a")), list(bare.nominated_nodes)) == ([], [])


def test_a_statement_adds_and_moves_nominations(snapshot: Snapshot) -> None:
    """A pod that is nominated again is nominated to the new node only."""
    checkpoint = snapshot.checkpoint()
    snapshot.nominate(THIRD, "a")
    snapshot.nominate(FIRST, "b")
    assert nominated(snapshot) == {"a": ["second", "third"], "b": ["first"]}
    snapshot.nominate(THIRD, "b")
    assert nominated(snapshot) == {"a": ["second"], "b": ["first", "third"]}
    snapshot.rollback(checkpoint)
    assert nominated(snapshot) == {"a": ["first", "second"], "b": []}


def test_a_placed_pod_needs_its_nomination_no_more(snapshot: Snapshot) -> None:
    """Otherwise it would count twice."""
    with snapshot.undo_at_end():
        snapshot.place(FIRST, "b")
        snapshot.nominate(THIRD, "b")
        snapshot.place(THIRD, "b")
        assert nominated(snapshot) == {"a": ["second"], "b": []}
    assert nominated(snapshot) == {"a": ["first", "second"], "b": []}


def test_nominations_are_undone_level_by_level(snapshot: Snapshot) -> None:
    """An inner rollback leaves the nominations of the outer statement."""
    outer = snapshot.checkpoint()
    snapshot.nominate(THIRD, "a")
    inner = snapshot.checkpoint()
    snapshot.nominate(THIRD, "b")
    snapshot.nominate(SECOND, "b")
    snapshot.rollback(inner)
    assert nominated(snapshot) == {"a": ["first", "second", "third"], "b": []}
    snapshot.nominate(SECOND, "b")
    assert nominated(snapshot) == {"a": ["first", "third"], "b": ["second"]}
    snapshot.rollback(outer)
    assert nominated(snapshot) == {"a": ["first", "second"], "b": []}


def test_an_undone_nomination_is_where_it_was_among_others(snapshot: Snapshot) -> None:
    """Filters meet nominated pods in the order of their nominations, also after a rollback."""
    outer = snapshot.checkpoint()
    for info in (FIRST, SECOND, THIRD):
        snapshot.nominate(info, "b")
    with snapshot.undo_at_end():
        snapshot.nominate(FIRST, "a")
        snapshot.place(SECOND, "a")
        snapshot.nominate(THIRD, "b")
        assert nominated(snapshot) == {"a": ["first"], "b": ["third"]}
    assert nominated(snapshot) == {"a": [], "b": ["first", "second", "third"]}
    snapshot.nominate(FIRST, "a")
    assert nominated(snapshot) == {"a": ["first"], "b": ["second", "third"]}
    snapshot.rollback(outer)
