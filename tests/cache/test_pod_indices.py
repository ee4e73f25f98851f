"""Host ports, claims and affinity terms of pods, by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.cache.pod_indices import RowSet

if TYPE_CHECKING:
    from tests.cache.conftest import World

ANTI_AFFINITY = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
REQUIRED_ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [ANTI_AFFINITY]}}
PREFERRED_ANTI = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": ANTI_AFFINITY}]
    }
}
REQUIRED = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [ANTI_AFFINITY]}}


def port(number: int, ip: str = "", protocol: str = "TCP") -> dict[str, Any]:
    """Return the spec of a pod that wants one host port."""
    wanted = {"containerPort": number, "hostPort": number, "hostIP": ip, "protocol": protocol}
    return {"containers": [{"name": "c", "image": "app", "ports": [wanted]}]}


def claim(name: str) -> dict[str, Any]:
    """Return the spec of a pod that uses one claim."""
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


@pytest.mark.parametrize(
    ("ip", "protocol", "number", "rows"),
    [
        pytest.param("10.0.0.1", "TCP", 80, [0, 2], id="same address, or everywhere"),
        pytest.param("10.0.0.2", "TCP", 80, [1, 2], id="other address, or everywhere"),
        pytest.param("10.0.0.9", "TCP", 80, [2], id="an address that nobody uses"),
        pytest.param("0.0.0.0", "TCP", 80, [0, 1, 2], id="all addresses"),
        pytest.param("10.0.0.1", "UDP", 80, [], id="other protocol"),
        pytest.param("0.0.0.0", "TCP", 81, [], id="other port"),
    ],
)
def test_host_ports_clash_per_address(world: World, ip: str, protocol: str, number: int, rows: list[int]) -> None:
    """A port clashes on one address with itself and with all addresses, and never across protocols."""
    for name, address in (("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "")):
        world.node(name)
        world.bound(f"on-{name}", name, spec=port(80, address))
    world.node("d")
    conflicts = world.update().nodes.host_port_conflicts
    assert conflicts(ip, protocol, number).tolist() == rows
    assert conflicts(ip, protocol, number).tolist() == rows


def test_an_address_is_free_while_another_is_not(world: World) -> None:
    """Users of one port on different addresses of a node come and go independently."""
    world.node("a")
    gone = world.bound("gone", "a", spec=port(80, "10.0.0.1"))
    world.bound("stays", "a", spec=port(80, "10.0.0.2"))
    world.update()
    world.cache.remove_pod(gone.pod)
    conflicts = world.update().nodes.host_port_conflicts
    assert [conflicts(ip, "TCP", 80).tolist() for ip in ("10.0.0.1", "10.0.0.2", "0.0.0.0")] == [[], [0], [0]]


def test_conflicts_are_ascending_and_read_only(world: World) -> None:
    """However the pods came to their nodes, and also where there are none."""
    for number in range(70):
        world.node(f"n{number}")
    for number in (64, 1):
        world.bound(f"p{number}", f"n{number}", spec=port(80))
    conflicts = world.update().nodes.host_port_conflicts
    assert conflicts("0.0.0.0", "TCP", 80).tolist() == [1, 64]
    assert not any(conflicts("0.0.0.0", "TCP", number).flags.writeable for number in (80, 81))


def test_asking_about_many_addresses_leaves_nothing_behind(world: World) -> None:
    """Answers are kept per address in use, and one for all the others."""
    world.node("a")
    world.bound("p", "a", spec=port(80, "10.0.0.1"))
    nodes = world.update().nodes
    for number in range(200):
        nodes.host_port_conflicts(f"10.1.0.{number}", "TCP", 80)
        nodes.host_port_conflicts("10.0.0.1", "TCP", 1000 + number)
    assert sum(len(answers) for answers in world.snapshot._columns.ports._arrays.values()) == 1


@pytest.mark.parametrize(
    ("affinity", "any_terms", "anti_terms"),
    [
        pytest.param(None, [], [], id="none"),
        pytest.param(REQUIRED, ["b"], [], id="required affinity"),
        pytest.param(PREFERRED_ANTI, ["b"], [], id="preferred anti-affinity"),
        pytest.param(REQUIRED_ANTI, ["b"], ["b"], id="required anti-affinity"),
    ],
)
def test_nodes_are_found_by_the_terms_of_their_pods(
    world: World, affinity: dict[str, Any] | None, any_terms: list[str], anti_terms: list[str]
) -> None:
    """Any term puts a node in the first list, a required anti-affinity term in the second as well."""
    world.node("a")
    world.node("b")
    info = world.bound("p", "b", affinity=affinity)
    snapshot = world.update()
    assert [node.name for node in snapshot.nodes_with_affinity_pods] == any_terms
    assert [node.name for node in snapshot.nodes_with_anti_affinity_pods] == anti_terms
    world.cache.remove_pod(info.pod)
    world.update()
    assert not snapshot.nodes_with_affinity_pods
    assert not snapshot.nodes_with_anti_affinity_pods


def test_the_list_of_nodes_is_a_sequence(world: World) -> None:
    """It has a length, items and slices, and follows the snapshot."""
    for name in "abc":
        world.node(name)
        world.bound(f"on-{name}", name, affinity=REQUIRED)
    found = world.update().nodes_with_affinity_pods
    assert len(found) == 3
    assert found[-1].name == "c"
    assert [node.name for node in found[1:]] == ["b", "c"]
    assert found[0] is world.snapshot.get("a")


def test_a_node_that_takes_the_row_of_another_brings_its_entries(world: World) -> None:
    """Ports, claims and terms follow the last node into the row of the one that goes."""
    gone = world.node("gone")
    world.node("stays")
    world.node("last")
    world.update()
    for number, name in enumerate(("gone", "last")):
        spec = {**port(80 + number), **claim(name)}
        world.bound(f"on-{name}", name, spec=spec, affinity=REQUIRED_ANTI)
    assert world.update().nodes.index("last") == 2
    world.cache.remove_node(gone)
    nodes = world.update().nodes
    assert nodes.index("last") == 0
    assert nodes.host_port_conflicts("0.0.0.0", "TCP", 80).tolist() == []
    assert nodes.host_port_conflicts("0.0.0.0", "TCP", 81).tolist() == [0]
    assert [world.snapshot.pvc_in_use(f"default/{name}") for name in ("gone", "last")] == [False, True]
    assert [node.name for node in world.snapshot.nodes_with_anti_affinity_pods] == ["last"]


def test_a_row_set_is_always_in_order() -> None:
    """Rows go in and out in any order and are read in ascending order."""
    rows = RowSet()
    for row in (5, 1, 3, 1):
        rows.put(row, member=True)
    rows.put(3, member=False)
    rows.put(9, member=False)
    rows.move(5, 0)
    rows.move(7, 1)
    assert rows.rows == [0]
    rows.check_invariants([0])
