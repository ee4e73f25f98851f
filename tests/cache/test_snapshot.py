"""The snapshot: it follows the cache, and statements on it leave no trace once rolled back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.testing.builders import make_node

if TYPE_CHECKING:
    from tests.cache.conftest import World

Raw = Callable[[Snapshot], dict[str, object]]

ZONE = "topology.kubernetes.io/zone"


def pods_on(snapshot: Snapshot, name: str) -> list[str]:
    """Return the names of the pods on a node, from its NodeInfo, after a look at the count in the column."""
    info = snapshot.get(name)
    row = snapshot.nodes.index(name)
    assert info is not None
    assert row is not None
    assert snapshot.nodes.pod_counts()[row] == len(info.pods)
    return [pod.pod.name for pod in info.pods]


@pytest.fixture
def snapshot(world: World) -> Snapshot:
    """Give a snapshot of nodes a and b with pod `old` on a."""
    world.node("a")
    world.node("b")
    world.bound("old", "a", requests={"cpu": "1"})
    return world.update()


def test_an_empty_snapshot_answers() -> None:
    """Before the first update there are no nodes, and nothing breaks."""
    snapshot = Snapshot()
    assert (len(snapshot.nodes), snapshot.get("a"), snapshot.order().tolist()) == (0, None, [])
    assert snapshot.nodes.requested("cpu").tolist() == []
    snapshot.check_invariants()


def test_the_view_of_all_nodes_is_one_object(snapshot: Snapshot) -> None:
    """Callers compare it by identity to know whether they look at everything."""
    assert snapshot.nodes is snapshot.nodes


def test_names_stand_in_the_order_of_the_rows(world: World, snapshot: Snapshot) -> None:
    """The name of a row is that of its node, also after another node took the row of a deleted one."""
    world.node("c")
    world.update()
    assert [*snapshot.names_by_row] == [node.name for node in snapshot.nodes] == ["a", "b", "c"]
    world.cache.remove_node(make_node("a"))
    world.update()
    assert [*snapshot.names_by_row] == [node.name for node in snapshot.nodes] == ["c", "b"]


def test_the_cache_moves_on_and_the_snapshot_stands_still(world: World, snapshot: Snapshot) -> None:
    """Only an update shows what happened in the cache."""
    world.assumed("new", "b")
    assert pods_on(snapshot, "b") == []
    world.update()
    assert pods_on(snapshot, "b") == ["new"]


def test_a_rollback_uses_up_the_checkpoints_within(world: World, snapshot: Snapshot) -> None:
    """A checkpoint and all made after it are used up at once, and using one again is an error."""
    outer, inner = snapshot.checkpoint(), snapshot.checkpoint()
    snapshot.place(world.pod("new"), "b")
    snapshot.rollback(outer)
    for checkpoint in (inner, outer):
        with pytest.raises(ValueError, match="is used up"):
            snapshot.rollback(checkpoint)


def test_changes_are_undone_at_the_end_of_a_block_that_fails(world: World, snapshot: Snapshot, raw: Raw) -> None:
    """The rollback happens when the block ends in an exception, too."""
    before = raw(snapshot)

    def ask() -> None:
        with snapshot.undo_at_end():
            snapshot.place(world.pod("new"), "b")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask()
    assert raw(snapshot) == before


def test_the_old_name_of_undo_at_end_warns(world: World, snapshot: Snapshot, raw: Raw) -> None:
    """`what_if` still works in this version."""
    before = raw(snapshot)
    with pytest.warns(DeprecationWarning, match="undo_at_end"), snapshot.what_if():
        snapshot.place(world.pod("new"), "b")
    assert raw(snapshot) == before


@pytest.mark.parametrize(
    ("change", "pod", "node"),
    [
        pytest.param(Snapshot.place, "new", "c", id="place on an unknown node"),
        pytest.param(Snapshot.evict, "old", "c", id="evict from an unknown node"),
        pytest.param(Snapshot.evict, "new", "a", id="evict an unknown pod"),
    ],
)
def test_what_is_not_here_cannot_be_changed(
    world: World, snapshot: Snapshot, raw: Raw, change: Callable[..., None], pod: str, node: str
) -> None:
    """Unknown nodes and pods raise KeyError and leave everything as it is."""
    before = raw(snapshot)
    with snapshot.undo_at_end(), pytest.raises(KeyError):
        change(snapshot, world.pod(pod), node)
    assert raw(snapshot) == before


def test_no_update_while_a_statement_is_open(world: World, snapshot: Snapshot) -> None:
    """The rollback would put back a state that the update has overtaken."""
    checkpoint = snapshot.checkpoint()
    world.assumed("new", "b")
    with pytest.raises(RuntimeError, match="roll it back"):
        world.update()
    assert pods_on(snapshot, "b") == []
    snapshot.rollback(checkpoint)
    world.update()
    assert pods_on(snapshot, "b") == ["new"]


@pytest.mark.parametrize("change", [Snapshot.place, Snapshot.evict, Snapshot.nominate])
def test_changes_need_an_open_checkpoint(
    world: World, snapshot: Snapshot, raw: Raw, change: Callable[..., None]
) -> None:
    """Nothing could undo them."""
    before = raw(snapshot)
    with pytest.raises(RuntimeError, match="only within a statement"):
        change(snapshot, world.pod("old"), "a")
    assert raw(snapshot) == before


def test_a_kept_checkpoint_is_undone_with_the_one_before(world: World, snapshot: Snapshot, raw: Raw) -> None:
    """Changes after a checkpoint that is given up stay until the outer rollback, which restores everything."""
    before = raw(snapshot)
    outer = snapshot.checkpoint()
    for name in ("c", "d"):
        inner = snapshot.checkpoint()
        snapshot.place(world.pod(name), "b")
        snapshot.keep(inner)
    snapshot.check_invariants()
    assert pods_on(snapshot, "b") == ["c", "d"]
    with pytest.raises(ValueError, match="used up"):
        snapshot.rollback(inner)
    snapshot.rollback(outer)
    assert raw(snapshot) == before


def test_the_order_takes_one_node_of_each_zone_in_turn(world: World) -> None:
    """Rows in zone order, worked out when asked, and anew when a node came, went or changed its zone."""

    def order() -> list[str]:
        return [world.snapshot.nodes.name(row) for row in world.snapshot.order()]

    for name, zone in (("a", "1"), ("b", "1"), ("c", "2")):
        world.node(name, labels={ZONE: zone})
    world.update()
    assert order() == ["a", "c", "b"]
    world.cache.update_node(None, make_node("c", labels={ZONE: "1"}))
    world.update()
    assert order() == ["a", "b", "c"]
    world.cache.remove_node(make_node("a"))
    world.update()
    assert order() == ["b", "c"]
    world.bound("p", "b")
    kept = world.update().order()
    assert kept is world.snapshot.order()
    assert not kept.flags.writeable


def test_the_order_has_every_row_once_even_if_the_cache_moved_on(world: World, snapshot: Snapshot) -> None:
    """Asked late, it leaves out nodes that came since the update, and has those that went at the end."""
    world.cache.remove_node(make_node("a"))
    world.node("c")
    assert [snapshot.nodes.name(row) for row in snapshot.order()] == ["b", "a"]
    world.update()
    assert [snapshot.nodes.name(row) for row in snapshot.order()] == ["b", "c"]
