"""Which devices claims get on a node: the allocator's rules, one by one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from pyscheduler.api import (
    AllocationResult,
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Device,
    DeviceAllocationResult,
    DeviceCapacity,
    DeviceClaimConfiguration,
    DeviceClassConfiguration,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceToleration,
    ExactDeviceRequest,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueDeviceConfiguration,
    ResourceClaim,
    ResourceSlice,
)
from pyscheduler.plugins.dynamic_resources.allocated import AllocatedState
from pyscheduler.plugins.dynamic_resources.errors import AllocationError, AllocationTimeoutError, NodeAllocationError
from pyscheduler.plugins.dynamic_resources.features import Features
from tests.plugins.dynamic_resources.offers import (
    CLASSES,
    DRIVER,
    NODE,
    OTHER_DRIVER,
    a_node,
    allocator_of,
    claim,
    device,
    distinct,
    either,
    exactly,
    first_of,
    in_region,
    matching,
    on_node,
    shown,
    slice_of,
)

Claims = Sequence[ResourceClaim]
Slices = Sequence[ResourceSlice]
Answer = list[list[str]] | None


def devices(count: int) -> list[Device]:
    """Return devices that differ in nothing but their names."""
    return [device(f"d{index}") for index in range(count)]


def taken(*names: str, share: str | None = None, capacity: dict[str, str] | None = None) -> AllocatedState:
    """Return a state in which devices of the usual pool are taken."""
    state = AllocatedState()
    results = tuple(
        DeviceRequestAllocationResult(
            driver=DRIVER, pool="pool-1", device=name, share_id=share, consumed_capacity=capacity or {}
        )
        for name in names
    )
    state.add(AllocationResult(devices=DeviceAllocationResult(results=results)))
    return state


GPUS = [slice_of(*devices(4))]
SIZES = [
    slice_of(
        device("a", attributes={"size": "small"}),
        device("b", attributes={"size": "big"}),
    )
]
TOLERATE = DeviceToleration(key="broken", operator="Exists", effect="NoSchedule")
PARTITIONS = [
    slice_of(
        device("whole", consumes={("gpu-0", "memory"): "8Gi"}),
        device("half-0", consumes={("gpu-0", "memory"): "4Gi"}),
        device("half-1", consumes={("gpu-0", "memory"): "4Gi"}),
        device("other"),
        count=2,
    ),
    slice_of(name="counters", count=2, counters={"gpu-0": {"memory": "8Gi"}}),
]
NUMA = [
    slice_of(
        device("a", attributes={"numa": 0}),
        device("b", attributes={"numa": 1}),
        device("c", attributes={"numa": 1}),
        device("d", attributes={"numa": 0}),
    )
]


def shared(**capacity: str | DeviceCapacity) -> list[ResourceSlice]:
    """Return two devices that several claims may have."""
    return [slice_of(*[device(name, shareable=True, capacity=capacity) for name in ("a", "b")])]


STEPS = DeviceCapacity(
    value="10Gi",
    request_policy=CapacityRequestPolicy(
        default="2Gi", valid_range=CapacityRequestPolicyRange(min="1Gi", max="8Gi", step="2Gi")
    ),
)
VALUES = DeviceCapacity(value="10", request_policy=CapacityRequestPolicy(default="1", valid_values=("1", "4")))

NOTHING = DeviceCapacity(value="1", request_policy=CapacityRequestPolicy(default="0", valid_values=("0",)))


@pytest.mark.parametrize(
    ("claims", "slices", "answer"),
    [
        pytest.param([], GPUS, [], id="no claims"),
        pytest.param([claim(exactly("r"))], GPUS, [["r=d0"]], id="the first device comes first"),
        pytest.param([claim(exactly("r"))], [], None, id="no slices"),
        pytest.param([claim(exactly("r"))], [slice_of(device("d"), node="node-2")], None, id="devices of another node"),
        pytest.param([claim(exactly("r", 5))], GPUS, None, id="too few devices"),
        pytest.param([claim(exactly("r", class_name="nic"))], GPUS, None, id="devices of another class"),
        pytest.param(
            [claim(exactly("r", 3))],
            [
                slice_of(device("x"), name="slice-2", count=2),
                slice_of(device("b"), device("a"), name="slice-1", count=2),
            ],
            [["r=b", "r=a", "r=x"]],
            id="slices by name, devices as listed",
        ),
        pytest.param(
            [claim(exactly("r", 3, "any"))],
            [
                slice_of(device("x"), pool="pool-3"),
                slice_of(device("x"), pool="pool-2", driver=OTHER_DRIVER),
                slice_of(device("x"), pool="pool-2", name="s2"),
            ],
            [["r=pool-2/x", "r=pool-3/x", f"r={OTHER_DRIVER}/pool-2/x"]],
            id="pools by driver and name",
        ),
        pytest.param(
            [claim(exactly("r", 2))],
            [
                slice_of(device("slow", binding_conditions=("ready",))),
                slice_of(device("x"), pool="pool-2", name="s2"),
            ],
            [["r=pool-2/x", "r=slow"]],
            id="devices that have to get ready come last",
        ),
        pytest.param(
            [claim(exactly("any"), exactly("big", where=["big"]))],
            SIZES,
            [["any=a", "big=b"]],
            id="small and big",
        ),
        pytest.param(
            [claim(exactly("any"), exactly("small", where=["small"]))],
            SIZES,
            [["any=b", "small=a"]],
            id="what an earlier request could do without goes to a later one",
        ),
        pytest.param(
            [claim(exactly("any"), name="one"), claim(exactly("small", where=["small"]), name="two")],
            SIZES,
            [["any=b"], ["small=a"]],
            id="and to a later claim",
        ),
        pytest.param(
            [claim(exactly("r", where=["big", "gpu"]))], SIZES, [["r=b"]], id="selectors must all be satisfied"
        ),
        pytest.param([claim(exactly("r", 0))], GPUS, [["r=d0", "r=d1", "r=d2", "r=d3"]], id="all devices"),
        pytest.param([claim(exactly("r", 0, "nic"))], GPUS, None, id="all is at least one"),
        pytest.param([claim(exactly("all", 0), exactly("r"))], GPUS, None, id="all leaves nothing"),
        pytest.param([claim(exactly("r"), exactly("all", 0))], GPUS, None, id="all cannot do without what is gone"),
        pytest.param(
            [claim(exactly("all", 0, where=["big"]), exactly("r"))],
            SIZES,
            [["all=b", "r=a"]],
            id="all that the selectors match",
        ),
        pytest.param(
            [claim(exactly("r"), exactly("all", 0, where=["small"]))],
            SIZES,
            [["r=b", "all=a"]],
            id="all after something that can take another device",
        ),
        pytest.param(
            [claim(exactly("r", 32))],
            [slice_of(*devices(33))],
            [[f"r=d{index}" for index in range(32)]],
            id="as many devices as a claim can have",
        ),
        pytest.param(
            [claim(exactly("r", admin=True), exactly("s", admin=True))],
            GPUS,
            [["r=d0", "s=d1"]],
            id="an administrator's requests of one claim do not share",
        ),
        pytest.param(
            [claim(exactly("r", admin=True), name="one"), claim(exactly("s", admin=True), name="two")],
            GPUS,
            [["r=d0"], ["s=d0"]],
            id="an administrator's claims share",
        ),
        pytest.param(
            [claim(exactly("r", admin=True), name="one"), claim(exactly("s"), name="two")],
            GPUS,
            [["r=d0"], ["s=d1"]],
            id="others do not share with an administrator in the same pod",
        ),
        pytest.param(
            [claim(exactly("r"), name="one"), claim(exactly("s", admin=True), name="two")],
            GPUS,
            [["r=d0"], ["s=d0"]],
            id="but an administrator with others",
        ),
    ],
)
def test_devices_are_found(claims: Claims, slices: Slices, answer: Answer) -> None:
    """The first solution in the order of requests and devices is taken; without one there is none."""
    assert shown(allocator_of(claims, slices).allocate(a_node())) == answer


@pytest.mark.parametrize(
    ("claims", "slices", "answer"),
    [
        pytest.param(
            [claim(first_of("r", either("nic", 1, "nic"), either("gpu")))], GPUS, [["r/gpu=d0"]], id="the second way"
        ),
        pytest.param(
            [claim(first_of("r", either("four", 4), either("gpu")))],
            GPUS,
            [["r/four=d0", "r/four=d1", "r/four=d2", "r/four=d3"]],
            id="the first way",
        ),
        pytest.param([claim(first_of("r", either("a", 5), either("b", 6)))], GPUS, None, id="no way"),
        pytest.param(
            [claim(first_of("r", either("four", 4), either("two", 2)), exactly("s"))],
            GPUS,
            [["r/two=d0", "r/two=d1", "s=d2"]],
            id="a later request makes an earlier one take the second way",
        ),
        pytest.param(
            [claim(first_of("r", either("all", 0), either("one")), exactly("s"))],
            GPUS,
            [["r/one=d0", "s=d1"]],
            id="all as a way",
        ),
        pytest.param(
            [claim(first_of("r", either("many", 500, "nic"), either("one")))],
            GPUS,
            [["r/one=d0"]],
            id="a way with more devices than a claim can have is not taken",
        ),
        pytest.param(
            [
                claim(
                    first_of("r", either("a", 32), either("b", 16)),
                    first_of("s", either("a", 32), either("b", 16)),
                )
            ],
            [slice_of(*devices(64))],
            [[f"r/b=d{index}" for index in range(16)] + [f"s/b=d{index}" for index in range(16, 32)]],
            id="ways that fit into one claim together",
        ),
        pytest.param(
            [
                claim(first_of("r", either("four", 4), either("one")), name="one"),
                claim(exactly("s"), name="two"),
            ],
            GPUS,
            [["r/one=d0"], ["s=d1"]],
            id="another claim makes an earlier one take the second way",
        ),
    ],
)
def test_alternatives_are_tried_in_their_order(claims: Claims, slices: Slices, answer: Answer) -> None:
    """Of the ways that a request allows, the first with which everything fits is taken."""
    assert shown(allocator_of(claims, slices).allocate(a_node())) == answer


@pytest.mark.parametrize(
    ("constraints", "requests", "answer"),
    [
        pytest.param([matching("numa")], [exactly("r", 2)], ["r=a", "r=d"], id="one value"),
        pytest.param([matching("numa")], [exactly("r", 3)], None, id="too few with one value"),
        pytest.param([distinct("numa")], [exactly("r", 2)], ["r=a", "r=b"], id="different values"),
        pytest.param([distinct("numa")], [exactly("r", 3)], None, id="too few different values"),
        pytest.param(
            [distinct("numa")], [exactly("r"), exactly("s"), exactly("t")], None, id="too few over several requests"
        ),
        pytest.param(
            [matching("numa", "r", "s")],
            [exactly("r"), exactly("s"), exactly("t")],
            ["r=a", "s=d", "t=b"],
            id="of some requests only",
        ),
        pytest.param([matching("size")], [exactly("r")], None, id="an attribute that is not there"),
        pytest.param([distinct("size")], [exactly("r")], None, id="nor to differ in"),
        pytest.param(
            [matching("numa"), distinct("numa", "r", "t")],
            [exactly("r"), exactly("s")],
            ["r=a", "s=d"],
            id="two constraints",
        ),
        pytest.param(
            [matching("numa", "r/two", "s")],
            [first_of("r", either("one", where=["nic"]), either("two")), exactly("s")],
            ["r/two=a", "s=d"],
            id="named by the way that is taken",
        ),
        pytest.param(
            [matching("numa", "r/one", "s")],
            [first_of("r", either("one", where=["nic"]), either("two")), exactly("s")],
            ["r/two=a", "s=b"],
            id="named by a way that is not taken",
        ),
        pytest.param(
            [distinct("numa", "r", "s")],
            [first_of("r", either("one"), either("two")), exactly("s")],
            ["r/one=a", "s=b"],
            id="named by the request that has the ways",
        ),
    ],
)
def test_constraints_hold_over_the_devices_of_a_claim(
    constraints: list[DeviceConstraint], requests: list[DeviceRequest], answer: list[str] | None
) -> None:
    """Devices have one value of an attribute in common, or no two of them have; whoever lacks it is out."""
    results = allocator_of([claim(*requests, constraints=constraints)], NUMA).allocate(a_node())
    assert shown(results) == (None if answer is None else [answer])


@pytest.mark.parametrize(
    ("one", "other", "match", "differ"),
    [
        pytest.param("x", "x", True, False, id="texts"),
        pytest.param(1, 1, True, False, id="numbers"),
        pytest.param(True, True, True, False, id="truths"),
        pytest.param("v1.0.0", "v1.0.0", True, False, id="versions"),
        pytest.param("1.0.0", "v1.0.0", False, True, id="text and version"),
        pytest.param(1, True, False, True, id="number and truth"),
        pytest.param(("x",), ("x",), False, False, id="lists"),
        pytest.param(("x",), "x", False, True, id="list and text"),
    ],
)
def test_values_are_equal_within_their_type(
    one: str | int | tuple[str, ...], other: str | int | tuple[str, ...], match: bool, differ: bool
) -> None:
    """Values of different types differ; lists of values neither match nor differ, but may come first."""
    slices = [slice_of(device("a", attributes={"x": one}), device("b", attributes={"x": other}))]
    for constraint, expected in ((matching("x"), match), (distinct("x"), differ)):
        allocator = allocator_of([claim(exactly("r", 2), constraints=[constraint])], slices)
        assert allocator.can_allocate(a_node()) is expected


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("x", True, id="of the driver's domain by its short name"),
        pytest.param(f"{DRIVER}/x", True, id="by its full name"),
        pytest.param("example.com/x", False, id="of another domain"),
    ],
)
def test_attributes_are_looked_up_by_their_full_name(name: str, found: bool) -> None:
    """A constraint names domain and attribute; devices leave out the domain where it is their driver."""
    slices = [slice_of(device("a", attributes={name: 1}))]
    assert allocator_of([claim(exactly("r"), constraints=[matching("x")])], slices).can_allocate(a_node()) is found


@pytest.mark.parametrize(
    ("requests", "state", "answer"),
    [
        pytest.param([exactly("r", 2)], taken("d0", "d2"), ["r=d1", "r=d3"], id="what is taken is left out"),
        pytest.param([exactly("r", 0)], taken("d1"), None, id="all includes what is taken"),
        pytest.param(
            [exactly("r", 0, admin=True)],
            taken("d1"),
            ["r=d0", "r=d1", "r=d2", "r=d3"],
            id="which an administrator may have",
        ),
        pytest.param([exactly("r", 2, admin=True)], taken("d0"), ["r=d0", "r=d1"], id="some for an administrator"),
        pytest.param(
            [first_of("r", either("all", 0), either("one"))], taken("d0"), ["r/one=d1"], id="all, or else one"
        ),
    ],
)
def test_taken_devices(requests: list[DeviceRequest], state: AllocatedState, answer: list[str] | None) -> None:
    """Devices that claims have are not given to others, administrators excepted."""
    results = allocator_of([claim(*requests)], GPUS, state).allocate(a_node())
    assert shown(results) == (None if answer is None else [answer])


@pytest.mark.parametrize(
    ("requests", "state", "answer"),
    [
        pytest.param([exactly("r")], taken(), ["r=whole"], id="the whole device"),
        pytest.param([exactly("r", 2)], taken(), ["r=whole", "r=other"], id="what does without counters is left"),
        pytest.param([exactly("r", 3)], taken(), ["r=half-0", "r=half-1", "r=other"], id="two halves"),
        pytest.param([exactly("r", 4)], taken(), None, id="not more than there is"),
        pytest.param([exactly("r")], taken("half-1"), ["r=half-0"], id="a part is taken"),
        pytest.param([exactly("r")], taken("whole"), ["r=other"], id="all is taken"),
        pytest.param([exactly("r")], taken("whole", "half-0"), ["r=other"], id="more than all is taken"),
        pytest.param([exactly("r"), exactly("s"), exactly("t")], taken(), ["r=half-0", "s=half-1", "t=other"], id="3"),
        pytest.param(
            [first_of("r", either("three", 3), either("one")), exactly("s")],
            taken("half-0"),
            ["r/one=half-1", "s=other"],
            id="ways",
        ),
    ],
)
def test_devices_share_counters(requests: list[DeviceRequest], state: AllocatedState, answer: list[str] | None) -> None:
    """Devices of a pool take from the counters of the pool, and never more than these hold."""
    results = allocator_of([claim(*requests)], PARTITIONS, state).allocate(a_node())
    assert shown(results) == (None if answer is None else [answer])


def test_counters_of_a_refused_device_are_left_to_others() -> None:
    """A device that is tainted, or that a constraint refuses, takes nothing from the counters."""
    slices = [
        slice_of(
            device("sick", consumes={("c", "m"): "1"}, taints=["broken:NoSchedule"], attributes={"x": 1}),
            device("odd", consumes={("c", "m"): "1"}),
            device("well", consumes={("c", "m"): "1"}, attributes={"x": 1}),
            count=2,
        ),
        slice_of(name="counters", count=2, counters={"c": {"m": "1"}}),
    ]
    results = allocator_of([claim(exactly("r"), constraints=[matching("x")])], slices).allocate(a_node())
    assert shown(results) == [["r=well"]]


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
        pytest.param(
            [exactly("r", 2)], shared(), taken(), [("a", {}), ("b", {})], id="a request gets different devices"
        ),
        pytest.param(
            [exactly("r"), exactly("s")], shared(), taken(), [("a", {}), ("a", {})], id="without capacity, no end"
        ),
        pytest.param(
            [exactly("r"), exactly("s")],
            shared(m="2"),
            taken(),
            [("a", {"m": "2"}), ("b", {"m": "2"})],
            id="who asks for nothing gets it all",
        ),
        pytest.param(
            [exactly(name, capacity={"m": "1"}) for name in "rst"],
            shared(m="2"),
            taken(),
            [("a", {"m": "1"}), ("a", {"m": "1"}), ("b", {"m": "1"})],
            id="until it is used up",
        ),
        pytest.param(
            [exactly("r", capacity={"m": "2"})],
            shared(m="2"),
            taken("a", share="x", capacity={"m": "1"}),
            [("b", {"m": "2"})],
            id="what is left",
        ),
        pytest.param([exactly("r", capacity={"m": "3"})], shared(m="2"), taken(), None, id="more than there is"),
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
        pytest.param([exactly("r")], shared(m="2"), taken("a", "b"), None, id="taken as a whole"),
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
        pytest.param(
            [first_of("r", either("w", capacity={"m": "4"}), either("v", capacity={"m": "2"}))],
            shared(m="2"),
            taken(),
            [("a", {"m": "2"})],
            id="the second way",
        ),
        pytest.param(
            [exactly("r"), exactly("all", 0, capacity={"m": "1"})],
            shared(m=DeviceCapacity(value="2", request_policy=CapacityRequestPolicy(default="1"))),
            taken(),
            [("a", {"m": "1"}), ("a", {"m": "1"}), ("b", {"m": "1"})],
            id="all besides another",
        ),
        pytest.param(
            [exactly("r", 0, capacity={"m": "2"})],
            shared(m="2"),
            taken("a", share="x", capacity={"m": "1"}),
            [("b", {"m": "2"})],
            id="all that have enough",
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


def test_shares_of_a_device_pay_its_counters_once() -> None:
    """The first share of a partition takes from the counters, those after it do not."""
    slices = [
        slice_of(
            device("a", shareable=True, consumes={("c", "m"): "1"}, capacity={"m": "4"}),
            device("b", shareable=True, consumes={("c", "m"): "1"}, capacity={"m": "4"}),
            count=2,
        ),
        slice_of(name="counters", count=2, counters={"c": {"m": "1"}}),
    ]
    two = claim(*[exactly(name, capacity={"m": "2"}) for name in "rs"])
    assert shown(allocator_of([two], slices).allocate(a_node())) == [["r=a", "s=a"]]
    state = taken("b", share="x", capacity={"m": "1"})
    assert shown(allocator_of([claim(exactly("r", capacity={"m": "2"}))], slices, state).allocate(a_node())) == [
        ["r=b"]
    ]
    assert allocator_of([two], slices, state).allocate(a_node()) is None


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


def configured(name: str) -> OpaqueDeviceConfiguration:
    """Return parameters that can be told apart."""
    return OpaqueDeviceConfiguration(driver=DRIVER, parameters={"name": name})


def test_configuration_of_classes_comes_once_and_before_the_claims() -> None:
    """Classes say for which requests; what the claim says of ways that were not taken is left out."""
    gpu = msgspec.structs.replace(
        CLASSES["gpu"],
        spec=DeviceClassSpec(
            selectors=CLASSES["gpu"].spec.selectors, config=(DeviceClassConfiguration(opaque=configured("class")),)
        ),
    )
    made = claim(exactly("r"), exactly("s"), first_of("t", either("nic", 1, "nic"), either("gpu")))
    own = tuple(
        DeviceClaimConfiguration(requests=requests, opaque=configured("/".join(requests)))
        for requests in ((), ("r",), ("t",), ("t/nic",), ("t/gpu",), ("r", "s"))
    )
    made = msgspec.structs.replace(
        made, spec=msgspec.structs.replace(made.spec, devices=msgspec.structs.replace(made.spec.devices, config=own))
    )
    (result,) = allocator_of([made], GPUS, classes={**CLASSES, "gpu": gpu}).allocate(a_node()) or ()
    assert [(one.source, one.requests) for one in result.devices.config] == [
        ("FromClass", ("r", "s", "t/gpu")),
        ("FromClaim", ()),
        ("FromClaim", ("r",)),
        ("FromClaim", ("t",)),
        ("FromClaim", ("t/gpu",)),
        ("FromClaim", ("r", "s")),
        ("FromClaim", ("r", "s")),
    ]
    assert result.devices.config[0].opaque == configured("class")


def test_what_a_device_needs_before_it_can_be_used_is_noted() -> None:
    """The binding conditions of a device go into the result."""
    slices = [slice_of(device("d", binding_conditions=("ready",), binding_failure_conditions=("dead",)))]
    (result,) = allocator_of([claim(exactly("r", admin=True))], slices).allocate(a_node()) or ()
    assert result.devices.results == (
        DeviceRequestAllocationResult(
            request="r",
            driver=DRIVER,
            pool="pool-1",
            device="d",
            admin_access=True,
            binding_conditions=("ready",),
            binding_failure_conditions=("dead",),
        ),
    )


@pytest.mark.parametrize(
    ("made", "message"),
    [
        pytest.param(
            claim(exactly("r", class_name="")),
            "claim default/claim, request r: missing device class name (unsupported request type?)",
            id="no class",
        ),
        pytest.param(
            claim(exactly("r", class_name="tpu")),
            'claim default/claim, request r: could not retrieve device class tpu: deviceclass.resource.k8s.io "tpu" '
            "not found",
            id="a class that is not there",
        ),
        pytest.param(
            claim(DeviceRequest(name="r")),
            "claim default/claim, request r: empty request (unsupported request type?)",
            id="neither form of a request",
        ),
        pytest.param(
            claim(DeviceRequest(name="r", exactly=ExactDeviceRequest(device_class_name="gpu", allocation_mode="Some"))),
            "claim default/claim, request r: unsupported count mode Some",
            id="mode",
        ),
        pytest.param(
            claim(
                DeviceRequest(
                    name="r", exactly=ExactDeviceRequest(device_class_name="gpu", selectors=(DeviceSelector(),))
                )
            ),
            "claim default/claim, request r, selector #0: CEL expression empty (unsupported selector type?)",
            id="selector",
        ),
        pytest.param(
            claim(exactly("r"), constraints=[DeviceConstraint()]),
            "claim default/claim, constraint #0: empty constraint (unsupported constraint type?)",
            id="constraint",
        ),
        pytest.param(
            claim(exactly("r", capacity={"m": "many"})),
            "claim default/claim, request r: quantity 'many' is malformed; write it like 500m, 2, 1.5Gi or 1e3",
            id="quantity",
        ),
        pytest.param(
            claim(exactly("r", 33)),
            "claim default/claim: number of requested devices 33 exceeds the claim limit of 32",
            id="too many devices",
        ),
        pytest.param(
            claim(exactly("r", 20), exactly("s", 20)),
            "claim default/claim: number of requested devices 40 exceeds the claim limit of 32",
            id="too many devices together",
        ),
        pytest.param(
            claim(exactly("r", where=["any", "nonsense"])),
            "claim default/claim: selector #1: CEL compile error: nonsense",
            id="expression",
        ),
        pytest.param(
            claim(exactly("r", 0, where=["big"])),
            "claim default/claim: selector #0: CEL runtime error: no such key: size",
            id="evaluation",
        ),
        pytest.param(
            claim(exactly("r", 0), constraints=[matching("x")]),
            f"claim default/claim, request r: cannot add device {DRIVER}/pool-1/d0 because a claim constraint would "
            "not be satisfied",
            id="all that must match",
        ),
    ],
)
def test_what_is_wrong_with_a_claim_is_reported(made: ResourceClaim, message: str) -> None:
    """Other nodes are not tried, as the claim is at fault, or its class."""
    allocator = allocator_of([made], GPUS)
    for _ in range(2):
        with pytest.raises(AllocationError) as raised:
            allocator.allocate(a_node())
        assert str(raised.value) == message


def test_a_class_with_a_broken_selector_is_named() -> None:
    """The message says that it is the class."""
    broken = msgspec.structs.replace(
        CLASSES["gpu"],
        spec=DeviceClassSpec(selectors=exactly("r", where=["?"]).exactly.selectors),
    )
    with pytest.raises(AllocationError, match=r"^class gpu: selector #0: CEL compile error: \?$"):
        allocator_of([claim(exactly("r"))], GPUS, classes={"gpu": broken}).allocate(a_node())


def test_devices_after_the_last_one_needed_are_not_asked() -> None:
    """A device on which an expression fails does no harm while it is not needed."""
    slices = [slice_of(device("a", attributes={"size": "big"}), device("b"))]
    allocator = allocator_of([claim(exactly("r", where=["big"]))], slices)
    assert shown(allocator.allocate(a_node())) == [["r=a"]]
    with pytest.raises(AllocationError, match="no such key: size"):
        allocator_of([claim(exactly("r", 2, where=["big"]))], slices).allocate(a_node())


@pytest.mark.parametrize(
    ("slices", "answer"),
    [
        pytest.param([slice_of(device("d"), count=2)], None, id="a slice is missing"),
        pytest.param(
            [slice_of(device("d"), count=2), slice_of(device("e"), count=2, name="s2", node="node-2")],
            [["r=d"]],
            id="a slice is another node's",
        ),
        pytest.param(
            [slice_of(device("d"), count=2), slice_of(device("e"), count=2, name="s2", node="node-2", generation=2)],
            None,
            id="the other node has a newer one",
        ),
        pytest.param(
            [slice_of(device("d")), slice_of(device("e"), name="s2", generation=2)], [["r=e"]], id="a newer one"
        ),
        pytest.param(
            [slice_of(device("e"), name="s2", generation=2), slice_of(device("d"))], [["r=e"]], id="an older one"
        ),
        pytest.param(
            [slice_of(device("d"), count=2), slice_of(device("e"), pool="pool-2", name="s2")],
            [["r=pool-2/e"]],
            id="another pool is whole",
        ),
        pytest.param(
            [slice_of(device("d"), device("d")), slice_of(device("e"), pool="pool-2", name="s2")],
            [["r=pool-2/e"]],
            id="another pool is valid",
        ),
    ],
)
def test_only_whole_pools_are_allocated_from(slices: Slices, answer: Answer) -> None:
    """Of the newest generation all slices must be there, and be in order."""
    assert shown(allocator_of([claim(exactly("r"))], slices).allocate(a_node())) == answer


@pytest.mark.parametrize(
    "slices",
    [
        pytest.param([slice_of(device("d"), device("d"))], id="two devices of one name"),
        pytest.param(
            [slice_of(device("d", consumes={("c", "m"): "1"}))],
            id="no such counter set",
        ),
        pytest.param(
            [
                slice_of(device("d", consumes={("c", "m"): "1"}), count=2),
                slice_of(name="s2", count=2, counters={"c": {"n": "1"}}),
            ],
            id="no such counter",
        ),
        pytest.param(
            [
                slice_of(device("d"), count=3),
                slice_of(name="s2", count=3, counters={"c": {"n": "1"}}),
                slice_of(name="s3", count=3, counters={"c": {"n": "1"}}),
            ],
            id="two counter sets of one name",
        ),
        pytest.param(
            [
                slice_of(device("d"), count=2),
                slice_of(device("e", consumes={("c", "m"): "1"}), name="s2", count=2, node="node-2"),
            ],
            id="a device of another node",
        ),
        pytest.param([slice_of(device("d", capacity={"m": "much"}))], id="a quantity"),
    ],
)
def test_an_invalid_pool_is_reported_when_nothing_else_helps(slices: Slices) -> None:
    """Other nodes may have better ones; a request for all devices cannot be satisfied anywhere."""
    with pytest.raises(NodeAllocationError, match=r"^invalid resource pools were encountered$"):
        allocator_of([claim(exactly("r"))], slices).allocate(a_node())
    with pytest.raises(AllocationError, match=r"resource pool gpu\.example\.com/pool-1 is currently invalid$"):
        allocator_of([claim(exactly("r", 0))], slices).allocate(a_node())


def test_all_devices_wait_for_whole_pools() -> None:
    """While a pool is being published, nobody knows what all is."""
    allocator = allocator_of([claim(exactly("r", 0))], [slice_of(device("d"), count=2)])
    with pytest.raises(AllocationError) as raised:
        allocator.allocate(a_node())
    assert str(raised.value) == (
        "claim default/claim, request r: asks for all devices, but resource pool gpu.example.com/pool-1 is currently "
        "being updated"
    )


def test_an_unreadable_node_selector_is_reported() -> None:
    """The message names the slice."""
    broken = NodeSelectorRequirement(key="region", operator="Unheard")
    selector = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(broken,)),))
    with pytest.raises(AllocationError, match="failed to perform node selection for slice slice-1: failed to parse"):
        allocator_of([claim(exactly("r"))], [slice_of(device("d"), selector=selector)]).allocate(a_node())
    with pytest.raises(AllocationError, match="failed to perform node selection for device d in slice slice-1"):
        allocator_of([claim(exactly("r"))], [slice_of(device("d", node_selector=selector), per_device=True)]).allocate(
            a_node()
        )


def test_a_search_can_be_ended() -> None:
    """What is over time is given up, and can be tried again."""
    allocator = allocator_of([claim(exactly("r", 4))], GPUS)
    with pytest.raises(AllocationTimeoutError, match=r"^filter operation aborted: context deadline exceeded$"):
        allocator.allocate(a_node(), lambda: True)
    assert allocator.can_allocate(a_node(), lambda: False)


@pytest.mark.parametrize(
    ("feature", "requests", "slices", "answer"),
    [
        pytest.param(
            "device_taints",
            [exactly("r")],
            [slice_of(device("d", taints=["broken:NoSchedule"]))],
            [["r=d"]],
            id="taints mean nothing",
        ),
        pytest.param(
            "binding_conditions",
            [exactly("r", 0)],
            [slice_of(device("slow", binding_conditions=("ready",)), device("quick"))],
            [["r=quick"]],
            id="devices that have to get ready are left alone",
        ),
        pytest.param(
            "consumable_capacity",
            [exactly("r"), exactly("s")],
            shared(m="2"),
            [["r=a", "s=b"]],
            id="devices are for one claim at a time",
        ),
        pytest.param(
            "partitionable_devices",
            [exactly("r")],
            [slice_of(device("a", consumes={("c", "m"): "1"}), device("b"))],
            [["r=b"]],
            id="devices that take from counters are left alone",
        ),
        pytest.param(
            "partitionable_devices",
            [exactly("r", 0)],
            [slice_of(device("a", consumes={("c", "m"): "1"}), device("b"))],
            None,
            id="but count among all",
        ),
        pytest.param(
            "partitionable_devices",
            [exactly("r")],
            [slice_of(device("a", all_nodes=True), per_device=True)],
            None,
            id="slices that leave it to devices where they are, too",
        ),
    ],
)
def test_what_is_turned_off_is_not_taken_part_in(
    feature: str, requests: list[DeviceRequest], slices: Slices, answer: Answer
) -> None:
    """With a feature gate off, devices that need it are as if they were not there, or as if they did not."""
    allocator = allocator_of([claim(*requests)], slices, features=Features(**{feature: False}))
    results = allocator.allocate(a_node())
    assert shown(results) == answer
    assert all(one.share_id is None for result in results or () for one in result.devices.results)


def test_capacity_cannot_be_asked_for_where_that_is_turned_off() -> None:
    """The message names the gate."""
    for request, what in (
        (exactly("r", capacity={"m": "1"}), "request r"),
        (first_of("r", either("w", capacity={"m": "1"})), "subrequest w"),
    ):
        with pytest.raises(AllocationError) as raised:
            allocator_of([claim(request)], GPUS, features=Features(consumable_capacity=False)).allocate(a_node())
        assert str(raised.value) == (
            f"claim default/claim, {what}: has capacity requests, but the DRAConsumableCapacity feature is disabled"
        )


def test_features_follow_the_gates() -> None:
    """Each gate turns off what it is for; what devices need to get ready has two."""
    gates = dict.fromkeys(
        (
            "DRAConsumableCapacity",
            "DRADeviceBindingConditions",
            "DRADeviceTaints",
            "DRAPartitionableDevices",
            "DRAResourceClaimDeviceStatus",
        ),
        True,
    )
    assert Features.of(gates) == Features()
    for gate, feature in (
        ("DRAConsumableCapacity", "consumable_capacity"),
        ("DRADeviceBindingConditions", "binding_conditions"),
        ("DRADeviceTaints", "device_taints"),
        ("DRAPartitionableDevices", "partitionable_devices"),
        ("DRAResourceClaimDeviceStatus", "binding_conditions"),
    ):
        assert Features.of({**gates, gate: False}) == Features(**{feature: False})
