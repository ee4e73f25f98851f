"""The columns: rows come, move and go, and everything kept per row goes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyscheduler.cache.columns import Columns
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.cache.view import NodeView
from pyscheduler.framework import NodeInfo, PodInfo
from pyscheduler.testing.builders import make_node, make_pod

if TYPE_CHECKING:
    from tests.cache.conftest import World

Look = Callable[[Snapshot], dict[str, object]]


def info_of(name: str, num_pods: int = 0, **keywords: object) -> NodeInfo:
    """Make a NodeInfo with some pods."""
    pods = [PodInfo.of(make_pod(f"{name}-{number}", requests={"cpu": "1"})) for number in range(num_pods)]
    return NodeInfo.of(make_node(name, **keywords), pods)


def filled(*infos: NodeInfo) -> Columns:
    """Make columns of some nodes."""
    columns = Columns()
    for info in infos:
        columns.put(info)
    columns.check_invariants()
    return columns


def test_a_node_that_comes_is_appended() -> None:
    """Rows are given out in the order of arrival; a node that is known keeps its row."""
    columns = filled(info_of("a"), info_of("b", 1))
    columns.put(info_of("a", 2))
    assert columns.index == {"a": 0, "b": 1}
    assert columns.usage.view[1, :2].tolist() == [2, 1]
    columns.check_invariants()


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        pytest.param("a", ["c", "b"], id="first"),
        pytest.param("b", ["a", "c"], id="middle"),
        pytest.param("c", ["a", "b"], id="last"),
    ],
)
def test_the_last_node_takes_the_row_of_one_that_goes(gone: str, left: list[str]) -> None:
    """Rows stay compact, and only one node moves."""
    columns = filled(info_of("a", 1), info_of("b", 2), info_of("c", 3))
    version, moves = columns.version, columns.moves
    columns.remove(gone)
    assert [info.name for info in columns.infos] == left
    assert columns.moves > moves
    assert columns.version > version
    columns.check_invariants()


def test_there_is_room_for_any_number_of_nodes() -> None:
    """The arrays grow, and what was there stays."""
    columns = filled(*(info_of(f"n{number}", number % 3, unschedulable=number % 2 == 1) for number in range(300)))
    assert columns.usage.view[1, :300].tolist() == [number % 3 for number in range(300)]
    assert columns.unschedulable().tolist() == [number % 2 == 1 for number in range(300)]
    assert NodeView(columns).requested("example.com/unknown").tolist() == [0] * 300


def test_a_row_can_be_emptied_and_filled_again() -> None:
    """The last node goes and others come; nothing of it shows in them."""
    taint = {"key": "k", "effect": "NoSchedule"}
    columns = filled(info_of("a", 3, taints=[taint], labels={"x": "y"}, status={"declaredFeatures": ["F"]}))
    columns.remove("a")
    columns.check_invariants()
    assert (len(columns.taints), len(columns.features)) == (0, 0)
    columns.put(info_of("b"))
    columns.check_invariants()
    assert columns.usage.view[1, 0] == 0


def test_an_update_without_news_touches_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does one after a change that another update has brought over already."""
    world.node("a")
    world.assumed("p", "a")
    version = world.update()._columns.version
    monkeypatch.setattr(Columns, "put", None)
    world.update()
    assert world.snapshot._columns.version == version


def test_absurd_amounts_do_not_stop_an_update(world: World) -> None:
    """A sum beyond 64 bits wraps, as in kube-scheduler, and the next pod is scheduled all the same."""
    world.node("a")
    for name in "pqr":
        world.bound(name, "a", requests={"memory": "8Ei"})
    assert world.update().nodes.requested("memory")[0] < 2**63


def test_what_comes_and_goes_leaves_nothing_behind(world: World, raw: Look) -> None:
    """After any number of nodes with values of their own the arrays and interners are as large as before."""
    world.node("stays", labels={"x": "y"})
    world.update().nodes.labels("x")
    world.snapshot.nodes.labels("kubernetes.io/hostname")
    for number in range(200):
        name = f"n{number}"
        node = world.node(
            name,
            labels={"x": name, f"key-{number}": ""},
            taints=[{"key": name, "effect": "NoSchedule"}],
            images={f"{name}:1": 1},
            allocatable={f"example.com/{name}": "1"},
            status={"declaredFeatures": [name]},
        )
        pod = world.bound(f"p{number}", name, requests={f"example.com/{name}": "1"}, host_ports=[1000 + number])
        world.update().nodes.labels(f"key-{number}")
        world.cache.remove_pod(pod.pod)
        world.cache.remove_node(node)
        world.update()
    columns = world.snapshot._columns
    assert all(len(interner.values) <= 3 for interner in (columns.taints, columns.features))
    assert all(len(table.scalars) <= 8 for table in (columns.usage, columns.offered))
    left = raw(world.snapshot)
    assert (left["keys"], left["images"], left["ports"]) == ({"x": 1, "kubernetes.io/hostname": 1}, {}, {})
    assert set(columns.labels._columns) == {"x", "kubernetes.io/hostname"}
