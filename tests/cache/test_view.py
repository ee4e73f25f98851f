"""The nodes of a snapshot as plugins see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pyscheduler.api import Taint
from pyscheduler.framework import Nodes

if TYPE_CHECKING:
    from tests.cache.conftest import World

NODES = 5


def rows(*numbers: int) -> np.ndarray:
    """Return an array of rows."""
    return np.array(numbers, dtype=np.int64)


@pytest.fixture
def nodes(world: World) -> Nodes:
    """Give a view of five nodes, n0 to n4, no two of them alike; n<i> holds i pods."""
    for number in range(NODES):
        world.node(
            f"n{number}",
            allocatable={"cpu": f"{number + 1}", "example.com/gpu": str(number), "pods": str(10 + number)},
            labels={"disk": "ssd"} if number % 2 else {},
            taints=[{"key": "k", "value": str(number), "effect": "NoSchedule"}] if number > 2 else [],
            unschedulable=number == 4,
            images={"app:1": 100} if number in {1, 3} else {},
            status={"declaredFeatures": ["F"]} if number == 0 else {},
        )
        for index in range(number):
            requests = {"cpu": "100m", "example.com/gpu": "1"}
            ports = [8080] if index == 2 else []
            world.bound(f"p{number}-{index}", f"n{number}", requests=requests, host_ports=ports)
    return world.update().nodes


COLUMNS: dict[str, Callable[[Nodes], list[object]]] = {
    "allocatable cpu": lambda view: view.allocatable("cpu").tolist(),
    "allocatable gpu": lambda view: view.allocatable("example.com/gpu").tolist(),
    "allocatable unknown": lambda view: view.allocatable("example.com/unknown").tolist(),
    "allocatable pods": lambda view: view.allocatable("pods").tolist(),
    "requested cpu": lambda view: view.requested("cpu").tolist(),
    "requested gpu": lambda view: view.requested("example.com/gpu").tolist(),
    "requested unknown": lambda view: view.requested("example.com/unknown").tolist(),
    "non-zero cpu": lambda view: view.non_zero_requested("cpu").tolist(),
    "non-zero memory": lambda view: view.non_zero_requested("memory").tolist(),
    "pod counts": lambda view: view.pod_counts().tolist(),
    "allowed pods": lambda view: view.allowed_pods().tolist(),
    "unschedulable": lambda view: view.unschedulable().tolist(),
    "taints": lambda view: [view.taints().sets[number] for number in view.taints().ids],
    "features": lambda view: [view.declared_features().sets[number] for number in view.declared_features().ids],
    "labels": lambda view: [view.labels("disk").values[number] for number in view.labels("disk").ids],
    "absent label": lambda view: [view.labels("none").values[number] for number in view.labels("none").ids],
    "generations": lambda view: view.generations().tolist(),
    "infos": list,
    "items": lambda view: [view[row] for row in range(len(view))],
    "names": lambda view: [view.name(row) for row in range(len(view))],
}

EXPECTED: dict[str, list[object]] = {
    "allocatable cpu": [1000, 2000, 3000, 4000, 5000],
    "allocatable gpu": [0, 1, 2, 3, 4],
    "allocatable unknown": [0] * NODES,
    "allocatable pods": [10, 11, 12, 13, 14],
    "requested cpu": [0, 100, 200, 300, 400],
    "requested gpu": [0, 1, 2, 3, 4],
    "requested unknown": [0] * NODES,
    "non-zero cpu": [0, 100, 200, 300, 400],
    "non-zero memory": [number * 200 * 1024 * 1024 for number in range(NODES)],
    "pod counts": [0, 1, 2, 3, 4],
    "allowed pods": [10, 11, 12, 13, 14],
    "unschedulable": [False] * 4 + [True],
    "taints": [(), (), (), *[(Taint(key="k", value=each, effect="NoSchedule"),) for each in "34"]],
    "features": [frozenset({"F"})] + [frozenset()] * 4,
    "labels": [None, "ssd", None, "ssd", None],
    "absent label": [None] * NODES,
    "names": ["n0", "n1", "n2", "n3", "n4"],
}


@pytest.mark.parametrize("column", EXPECTED)
def test_the_full_view_has_every_column(nodes: Nodes, column: str) -> None:
    """Row i of every column speaks of node i."""
    assert COLUMNS[column](nodes) == EXPECTED[column]


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(rows(), id="none"),
        pytest.param(rows(2), id="one"),
        pytest.param(rows(4, 0, 3), id="another order"),
        pytest.param(rows(0, 1, 2, 3, 4), id="all"),
    ],
)
def test_a_subset_has_the_rows_it_was_taken_of(nodes: Nodes, column: str, chosen: np.ndarray) -> None:
    """Every column of a subset is the full one's at its rows, asked once or again."""
    full = COLUMNS[column](nodes)
    subset = nodes.take(chosen)
    for _ in range(2):
        assert COLUMNS[column](subset) == [full[row] for row in chosen]
    assert len(subset) == len(chosen)


def test_a_subset_of_a_subset_speaks_of_its_own_rows(nodes: Nodes) -> None:
    """`take` counts in rows of the view it is called on."""
    subset = nodes.take(rows(4, 2, 0)).take(rows(2, 0))
    assert [info.name for info in subset] == ["n0", "n4"]
    assert subset.requested("cpu").tolist() == [0, 400]
    assert (subset.index("n4"), subset.index("n2"), subset.index("unknown")) == (1, None, None)


@pytest.mark.parametrize("chosen", [rows(0, 1, 2, 3, 4), rows(3, 1, 2)], ids=["all", "some"])
def test_sums_by_domain_are_fresh(nodes: Nodes, chosen: np.ndarray) -> None:
    """Counts are added up over the nodes with each value of a label, those without it included; int64 only."""
    view = nodes.take(chosen)
    for _ in range(2):
        ids, sums = view.labels("disk").ids, view.domain_sums("disk", chosen)
        assert sums.tolist() == [int(chosen[ids == each].sum()) for each in range(len(sums))]
        sums[:] = -1
    with pytest.raises(TypeError, match=r"write counts\.astype\(np\.int64\)"):
        nodes.domain_sums("disk", np.zeros(NODES))


def test_names_are_found_in_the_full_view(nodes: Nodes) -> None:
    """`index` is the inverse of `name`."""
    assert [nodes.index(f"n{number}") for number in range(6)] == [0, 1, 2, 3, 4, None]


def test_images_are_found_by_name(nodes: Nodes) -> None:
    """A subset names its own rows, ascending, but counts the nodes of the whole cluster."""
    image = nodes.image("app:1")
    assert image is not None
    assert (image.rows.tolist(), image.size, image.num_nodes) == ([1, 3], 100, 2)
    part = nodes.take(rows(3, 2)).image("app:1")
    assert part is not None
    assert (part.rows.tolist(), part.size, part.num_nodes) == ([0], 100, 2)
    elsewhere = nodes.take(rows(0)).image("app:1")
    assert elsewhere is not None
    assert elsewhere.rows.tolist() == []
    assert nodes.take(rows(0)).image("other:1") is None


def test_port_conflicts_name_rows_of_the_view(nodes: Nodes) -> None:
    """Rows are ascending positions in the view, whatever order it is in."""
    assert nodes.host_port_conflicts("0.0.0.0", "TCP", 8080).tolist() == [3, 4]
    assert nodes.take(rows(4, 0, 3)).host_port_conflicts("0.0.0.0", "TCP", 8080).tolist() == [0, 2]
    assert nodes.take(rows(4)).host_port_conflicts("0.0.0.0", "TCP", 9090).tolist() == []


def test_the_scoring_minimum_exists_for_cpu_and_memory_only(nodes: Nodes) -> None:
    """Asking for anything else is a mistake of the plugin."""
    for view in (nodes, nodes.take(rows(1))):
        with pytest.raises(KeyError):
            view.non_zero_requested("example.com/gpu")


def test_the_full_view_copies_nothing(nodes: Nodes) -> None:
    """Its arrays are the columns themselves, read-only."""
    assert np.shares_memory(nodes.requested("cpu"), nodes.requested("cpu"))
    for view in (nodes, nodes.take(rows(0, 1))):
        for array in (view.requested("cpu"), view.unschedulable(), view.taints().ids, view.allocatable("unknown")):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_a_subset_gathers_a_column_once(nodes: Nodes) -> None:
    """Ten plugins that ask for one column copy it once."""
    subset = nodes.take(rows(1, 2))
    assert subset.requested("cpu") is subset.requested("cpu")
    assert subset.labels("disk").ids is subset.labels("disk").ids


def test_views_follow_what_happens_to_pods(world: World, nodes: Nodes) -> None:
    """A place changes the full view and any subset, also where a column was gathered before."""
    subset = nodes.take(rows(2, 0))
    assert (subset.requested("cpu").tolist(), nodes.requested("cpu")[0]) == ([200, 0], 0)
    with world.snapshot.undo_at_end():
        world.snapshot.place(world.pod(requests={"cpu": "1"}), "n0")
        assert (subset.requested("cpu").tolist(), nodes.requested("cpu")[0]) == ([200, 1000], 1000)
        assert subset[1].requested.milli_cpu == 1000
        assert subset.requested("cpu") is subset.requested("cpu")
    assert (subset.requested("cpu").tolist(), nodes.requested("cpu")[0]) == ([200, 0], 0)


def test_a_subset_refuses_to_outlive_its_nodes(world: World, nodes: Nodes) -> None:
    """Once a node has left, rows mean other nodes; a stale view says so instead of answering wrongly."""
    subset = nodes.take(rows(2, 0))
    assert subset.requested("cpu").tolist() == [200, 0]
    info = world.snapshot.get("n1")
    assert info is not None
    assert info.node is not None
    world.cache.remove_node(info.node)
    world.update()
    asks: list[Callable[[], object]] = [
        lambda: subset.requested("cpu"),
        lambda: subset[0],
        lambda: subset.index("n0"),
        lambda: list(subset),
        lambda: subset.take(rows(0)),
        lambda: subset.image("app:1"),
        lambda: subset.host_port_conflicts("0.0.0.0", "TCP", 8080),
    ]
    for ask in asks:
        with pytest.raises(RuntimeError, match="take a new one"):
            ask()
    assert len(nodes) == NODES - 1


def test_take_refuses_a_mask(nodes: Nodes) -> None:
    """`take` wants row numbers: a mask raises TypeError, in the view of all nodes and in a part of it."""
    mask = np.array([True, False, True, False, False])
    with pytest.raises(TypeError, match=r"not of bool; write np\.flatnonzero"):
        nodes.take(mask)
    with pytest.raises(TypeError, match=r"not of bool; write np\.flatnonzero"):
        nodes.take(rows(0, 1, 2, 3, 4)).take(mask)
