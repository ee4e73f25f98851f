"""The kubelet's own arithmetic: amounts, demands, and the sums of a node, against plain counting."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kube_objects.quantity import quantity_milli, quantity_value
from kube_testserver.controllers.node_admission import NodeRoom, amount_of, demand_of


@pytest.mark.parametrize(
    ("text", "resource", "amount"),
    [
        pytest.param("1", "cpu", 1000, id="whole"),
        pytest.param("100m", "cpu", 100, id="milli"),
        pytest.param("1m", "memory", 1, id="rounded up"),
        pytest.param("1.5Gi", "memory", 1610612736, id="binary"),
        pytest.param("1e3", "memory", 1000, id="exponent"),
        pytest.param("2E", "memory", 2 * 10**18, id="exa"),
        pytest.param(".5", "cpu", 500, id="no leading digit"),
        pytest.param("5.", "memory", 5, id="no trailing digit"),
        pytest.param(3, "memory", 3, id="number"),
        pytest.param("1n", "cpu", 1, id="nano"),
        pytest.param("-1", "memory", -1, id="negative"),
        pytest.param("lots", "memory", 0, id="none"),
    ],
)
def test_amounts(text: Any, resource: str, amount: int) -> None:
    """Quantities are exact and rounded up; CPU in thousandths."""
    assert amount_of(text, resource) == amount


@given(st.from_regex(r"[0-9]{1,6}(\.[0-9]{1,4})?(m|k|Ki|M|Mi|G|Gi|e[0-9])?", fullmatch=True))
def test_amounts_agree_with_the_other_reading(text: str) -> None:
    """Two independent readings of a quantity come to the same."""
    assert amount_of(text, "memory") == quantity_value(text)
    assert amount_of(text, "cpu") == quantity_milli(text)


def container(cpu: str, *, always: bool = False) -> dict[str, Any]:
    """Return a container that asks for CPU."""
    made: dict[str, Any] = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {**made, "restartPolicy": "Always"} if always else made


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [container("1"), container("2")]}, 3000, id="side by side"),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("4"), container("2")]}, 4000, id="init"
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("2", always=True), container("3")]},
            5000,
            id="init beside a sidecar",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3"), container("2", always=True)]},
            3000,
            id="sidecar after init",
        ),
        pytest.param({"containers": [container("1")], "overhead": {"cpu": "10m"}}, 1010, id="overhead"),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"cpu": "7"}}}, 7000, id="of the pod as a whole"
        ),
        pytest.param({"containers": [{"name": "c"}]}, 0, id="nothing"),
    ],
)
def test_demands(spec: Any, cpu: int) -> None:
    """What a pod takes is the most it needs at any time."""
    assert demand_of({"metadata": {"name": "p"}, "spec": spec}).amounts.get("cpu", 0) == cpu


def test_ports_of_sidecars_count() -> None:
    """Ports of what keeps running are taken, those of other init containers are not."""
    port = {"containerPort": 1, "hostPort": 80, "protocol": "UDP"}
    init = [{**container("0"), "ports": [port]}, {**container("0", always=True), "ports": [{**port, "hostPort": 81}]}]
    demand = demand_of({"spec": {"initContainers": init, "containers": [container("0")]}})
    assert demand.ports == (("0.0.0.0", "UDP", 81),)


def test_resources_a_node_does_not_know_are_not_its_own() -> None:
    """An extended resource that the node does not list is somebody else's to count; a native one is missing."""
    room = NodeRoom({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9"}}})
    asking = {"containers": [{"resources": {"requests": {"example.com/x": "1"}}}]}
    assert room.admit("a", {"spec": asking}) is None
    refused = room.admit("b", {"spec": {"containers": [{"resources": {"requests": {"hugepages-2Mi": "1"}}}]}})
    assert refused is not None
    assert refused.reason == "OutOfhugepages-2Mi"


def test_a_room_counts_as_plain_counting_does() -> None:
    """Over any sequence of arrivals and departures a node takes in exactly what a fresh count says would fit."""
    fired: Counter[str] = Counter()
    step = st.tuples(st.integers(0, 9), st.sampled_from(["in", "in", "out"]), st.integers(0, 5), st.integers(0, 3))

    @given(st.lists(step, min_size=20, max_size=40))
    def play(steps: list[tuple[int, str, int, int]]) -> None:
        room = NodeRoom({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "pods": "4"}}})
        held: dict[str, tuple[int, int]] = {}
        for number, what, cpu, port in steps:
            uid = str(number)
            if what == "out":
                room.release(uid)
                held.pop(uid, None)
                continue
            if uid in held:
                continue
            ports = [{"containerPort": 1, "hostPort": port}] if port else []
            pod = {"spec": {"containers": [{**container(str(cpu)), "ports": ports}]}}
            refused = room.admit(uid, pod)
            taken = {other for _, other in held.values() if other}
            expected = (
                "OutOfpods"
                if len(held) == 4
                else "OutOfcpu"
                if cpu and sum(amount for amount, _ in held.values()) + cpu > 8
                else "NodePorts"
                if port in taken
                else "fits"
            )
            assert (refused.reason if refused is not None else "fits") == expected
            fired[expected] += 1
            if refused is None:
                held[uid] = (cpu, port)
            room.check_invariants()

    play()
    assert all(fired[rule] > 0 for rule in ("OutOfpods", "OutOfcpu", "NodePorts", "fits")), fired
