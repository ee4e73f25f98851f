"""Devices that claims get on a node: shared devices, and devices that the node can reach."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pyscheduler.api import (
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceToleration,
    ResourceSlice,
)
from pyscheduler.plugins.dynamic_resources.allocated import AllocatedState
from tests.plugins.dynamic_resources.offers import (
    DRIVER,
    NODE,
    OTHER_DRIVER,
    a_node,
    allocator_of,
    claim,
    device,
    either,
    exactly,
    first_of,
    in_region,
    on_node,
    shown,
    slice_of,
)
from tests.plugins.dynamic_resources.pools_of_tests import (
    NOTHING,
    PARTITIONS,
    STEPS,
    TOLERATE,
    VALUES,
    shared,
    taken,
)

Slices = Sequence[ResourceSlice]


@pytest.mark.parametrize(
    ("requests", "state", "answer"),
    [
        pytest.param([exactly("r")], taken(), ["r=whole"], id="the whole device"),
        pytest.param([exactly("r", 3)], taken(), ["r=half-0", "r=half-1", "r=other"], id="two halves"),
        pytest.param([exactly("r")], taken("half-1"), ["r=half-0"], id="a part is taken"),
        pytest.param([exactly("r")], taken("whole", "half-0"), ["r=other"], id="more than all is taken"),
    ],
)
def test_devices_share_counters(requests: list[DeviceRequest], state: AllocatedState, answer: list[str] | None) -> None:
    """Devices of a pool take from the counters of the pool, and never more than these hold."""
    results = allocator_of([claim(*requests)], PARTITIONS, state).allocate(a_node())
    assert shown(results) == (None if answer is None else [answer])


def test_pools_of_two_drivers_may_have_one_name() -> None:
    """The counters of one are not those of the other."""
    slices = [
        each
        for driver in (DRIVER, OTHER_DRIVER)
        for each in (
            slice_of(
                device("a", consumes={(driver, "m"): "1"}),
                device("b", consumes={(driver, "m"): "1"}),
                driver=driver,
                name=f"{driver}-devices",
                count=2,
            ),
            slice_of(driver=driver, name=f"{driver}-counters", count=2, counters={driver: {"m": "1"}}),
        )
    ]
    two = claim(exactly("r", 2, "any"))
    assert shown(allocator_of([two], slices).allocate(a_node())) == [["r=a", f"r={OTHER_DRIVER}/a"]]
    assert allocator_of([claim(exactly("r", 3, "any"))], slices).allocate(a_node()) is None


def test_counters_are_those_of_all_nodes() -> None:
    """Devices that another node reaches take from the same counters."""
    slices = [
        slice_of(device("a", consumes={("c", "m"): "1"}), count=3),
        slice_of(device("b", consumes={("c", "m"): "1"}), name="slice-2", node="node-2", count=3),
        slice_of(name="counters", count=3, counters={"c": {"m": "1"}}),
    ]
    assert shown(allocator_of([claim(exactly("r"))], slices).allocate(a_node())) == [["r=a"]]
    assert allocator_of([claim(exactly("r"))], slices, taken("b")).allocate(a_node()) is None


@pytest.mark.parametrize(
    ("taints", "tolerations", "free"),
    [
        pytest.param(["broken:NoSchedule"], [], False, id="not scheduled"),
        pytest.param(["broken:NoExecute"], [], False, id="not executed"),
        pytest.param(["broken:None"], [], True, id="no effect"),
        pytest.param(["broken:Unheard"], [], True, id="an effect that is not known"),
        pytest.param(["broken:NoSchedule"], [TOLERATE], True, id="tolerated"),
        pytest.param(["broken:NoExecute"], [TOLERATE], False, id="another effect is tolerated"),
        pytest.param(["broken:NoSchedule", "b:NoSchedule"], [TOLERATE], False, id="one of two is tolerated"),
        pytest.param(["a=b:NoSchedule"], [DeviceToleration(key="a", value="b")], True, id="the value is tolerated"),
        pytest.param(["a=b:NoSchedule"], [DeviceToleration(key="a", value="c")], False, id="another value is"),
        pytest.param(["a=b:NoSchedule"], [DeviceToleration(operator="Exists")], True, id="all is tolerated"),
        pytest.param(["a=b:NoSchedule"], [DeviceToleration(key="a", operator="Gt")], False, id="an unknown operator"),
    ],
)
def test_taints_keep_claims_away(taints: list[str], tolerations: list[DeviceToleration], free: bool) -> None:
    """A tainted device is given to those who tolerate each of its taints, administrators and all-or-nothing alike."""
    slices = [slice_of(device("d", taints=taints))]
    for request in (
        exactly("r", tolerations=tolerations),
        exactly("r", 0, tolerations=tolerations),
        exactly("r", admin=True, tolerations=tolerations),
        first_of("r", either("one", tolerations=tolerations)),
    ):
        results = allocator_of([claim(request)], slices).allocate(a_node())
        assert (results is not None) is free
        if results:
            assert results[0].devices.results[0].tolerations == tuple(tolerations)


@pytest.mark.parametrize(
    ("requests", "slices", "state", "answer"),
    [
        pytest.param([exactly("r", capacity={"n": "1"})], shared(m="2"), taken(), None, id="something else"),
        pytest.param([exactly("r")], shared(m=STEPS), taken(), [("a", {"m": "2Gi"})], id="the default"),
        pytest.param(
            [exactly("r", capacity={"m": "1"})], shared(m=STEPS), taken(), [("a", {"m": "1Gi"})], id="the least"
        ),
        pytest.param(
            [exactly("r", capacity={"m": "4Gi"})], shared(m=STEPS), taken(), [("a", {"m": "5Gi"})], id="the next step"
        ),
        pytest.param([exactly("r", capacity={"m": "9Gi"})], shared(m=STEPS), taken(), None, id="over the range"),
        pytest.param(
            [exactly("r", capacity={"m": "2"})], shared(m=VALUES), taken(), [("a", {"m": "4"})], id="the next value"
        ),
        pytest.param([exactly("r", capacity={"m": "5"})], shared(m=VALUES), taken(), None, id="over the values"),
        pytest.param(
            [exactly("r"), exactly("s")],
            shared(m=NOTHING),
            taken(),
            [("a", {"m": "0"}), ("a", {"m": "0"})],
            id="the default is nothing",
        ),
        pytest.param([exactly("r", capacity={"m": "1"})], shared(m=NOTHING), taken(), None, id="nothing is all"),
        pytest.param(
            [exactly("r", capacity={"m": "1Gi", "n": "1"})],
            shared(m=STEPS, n="3"),
            taken(),
            [("a", {"m": "1Gi", "n": "1"})],
            id="two capacities",
        ),
        pytest.param(
            [exactly("r", capacity={"m": "1Gi"}), exactly("s", capacity={"m": "1Gi"})],
            shared(m=STEPS, n="3"),
            taken(),
            [("a", {"m": "1Gi", "n": "3"}), ("b", {"m": "1Gi", "n": "3"})],
            id="all of the one that is not asked for",
        ),
    ],
)
def test_devices_are_shared_as_long_as_their_capacity_lasts(
    requests: list[DeviceRequest],
    slices: Slices,
    state: AllocatedState,
    answer: list[tuple[str, dict[str, str]]] | None,
) -> None:
    """Each share has an id of its own, and takes what the policy makes of what was asked for."""
    results = allocator_of([claim(*requests)], slices, state).allocate(a_node())
    found = None if results is None else results[0].devices.results
    assert (None if found is None else [(one.device, dict(one.consumed_capacity)) for one in found]) == answer
    assert found is None or len({one.share_id for one in found}) == len(found)


@pytest.mark.parametrize(
    ("asked", "state", "free"),
    [
        pytest.param("2", taken(), True, id="all of it"),
        pytest.param("3", taken(), False, id="more than it has"),
        pytest.param("2", taken("d", share="x", capacity={"m": "1"}), False, id="what an earlier share has"),
    ],
)
def test_a_device_for_one_claim_must_have_what_is_asked_for(asked: str, state: AllocatedState, free: bool) -> None:
    """Its capacity is compared, and nothing of it noted in the result."""
    allocator = allocator_of(
        [claim(exactly("r", capacity={"m": asked}))], [slice_of(device("d", capacity={"m": "2"}))], state
    )
    results = allocator.allocate(a_node())
    assert (results is not None) is free
    if results is not None:
        assert results[0].devices.results == (
            DeviceRequestAllocationResult(request="r", driver=DRIVER, pool="pool-1", device="d"),
        )


@pytest.mark.parametrize(
    ("slices", "found"),
    [
        pytest.param([slice_of(device("d"), all_nodes=True)], None, id="everywhere"),
        pytest.param([slice_of(device("d"))], on_node(), id="one node"),
        pytest.param([slice_of(device("d"), selector=in_region("west"))], in_region("west"), id="some nodes"),
        pytest.param(
            [slice_of(device("d", binds_to_node=True), selector=in_region("west"))], on_node(), id="bound to the node"
        ),
        pytest.param([slice_of(device("d", node_name=NODE), per_device=True)], on_node(), id="the device's node"),
        pytest.param(
            [slice_of(device("d"), selector=in_region("west"), count=2), slice_of(name="b", count=2)],
            in_region("west"),
            id="only slices with devices that were taken count",
        ),
        pytest.param([slice_of(device("d", all_nodes=True), per_device=True)], None, id="every node by device"),
        pytest.param(
            [slice_of(device("d", node_selector=in_region("west")), per_device=True)],
            in_region("west"),
            id="some nodes by device",
        ),
    ],
)
def test_the_result_says_where_the_devices_can_be_used(slices: Slices, found: object) -> None:
    """A claim can be used where its devices can be reached."""
    results = allocator_of([claim(exactly("r"))], slices).allocate(a_node())
    assert results is not None
    assert results[0].node_selector == found


def test_demands_on_the_node_are_joined() -> None:
    """Devices that are reached from different nodes leave the nodes that both are reached from."""
    slices = [
        slice_of(device("a"), selector=in_region("west")),
        slice_of(device("b"), selector=in_region("west"), pool="pool-2", name="s2"),
        slice_of(device("c"), selector=on_node(), pool="pool-3", name="s3"),
    ]
    (result,) = allocator_of([claim(exactly("r", 3))], slices).allocate(a_node()) or ()
    assert result.node_selector is not None
    (term,) = result.node_selector.node_selector_terms
    assert term.match_expressions == in_region("west").node_selector_terms[0].match_expressions
    assert term.match_fields == on_node().node_selector_terms[0].match_fields


@pytest.mark.parametrize(
    "slices",
    [
        pytest.param([slice_of(device("d"), selector=in_region("east"))], id="slice"),
        pytest.param([slice_of(device("d", node_selector=in_region("east")), per_device=True)], id="device"),
        pytest.param(
            [slice_of(device("d", node_name="node-2"), device("e", node_name="node-3"), per_device=True)], id="devices"
        ),
        pytest.param([slice_of(device("d"), node=None)], id="nothing that is known"),
    ],
)
def test_devices_out_of_reach_are_not_allocated(slices: Slices) -> None:
    """A node gets only what slice or device say it reaches."""
    assert allocator_of([claim(exactly("r"))], slices).allocate(a_node()) is None


def test_of_a_slice_whose_devices_say_where_they_are_the_right_one_is_taken() -> None:
    """Devices of other nodes are skipped."""
    slices = [slice_of(device("a", node_name="node-2"), device("b", node_name=NODE), per_device=True)]
    allocator = allocator_of([claim(exactly("r"))], slices)
    assert shown(allocator.allocate(a_node())) == [["r=b"]]
    assert shown(allocator.allocate(a_node("node-2"))) == [["r=a"]]
