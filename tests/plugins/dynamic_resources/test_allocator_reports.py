"""What comes with devices that claims get on a node, and what is said where they get none."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from pyscheduler.api import (
    DeviceClaimConfiguration,
    DeviceClassConfiguration,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    ExactDeviceRequest,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueDeviceConfiguration,
    ResourceClaim,
    ResourceSlice,
)
from pyscheduler.plugins.dynamic_resources.errors import AllocationError, AllocationTimeoutError, NodeAllocationError
from pyscheduler.plugins.dynamic_resources.features import Features
from pyscheduler.plugins.dynamic_resources.patience import CyclePatience, StillWorkingError
from tests.plugins.dynamic_resources.offers import (
    CLASSES,
    DRIVER,
    a_node,
    allocator_of,
    claim,
    device,
    either,
    exactly,
    first_of,
    matching,
    shown,
    slice_of,
)
from tests.plugins.dynamic_resources.pools_of_tests import (
    GPUS,
    shared,
)

Claims = Sequence[ResourceClaim]
Slices = Sequence[ResourceSlice]
Answer = list[list[str]] | None


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


class Hurried(CyclePatience):
    """Patience that is over at the first step."""

    def tick(self, steps: int = 1) -> None:
        raise StillWorkingError


def test_a_search_can_be_ended() -> None:
    """What is over time is given up, and can be tried again."""
    allocator = allocator_of([claim(exactly("r", 4))], GPUS)
    with pytest.raises(AllocationTimeoutError, match=r"^filter operation aborted: context deadline exceeded$"):
        allocator.allocate(a_node(), CyclePatience(lambda: True))
    with pytest.raises(StillWorkingError):
        allocator.allocate(a_node(), Hurried())
    assert allocator.can_allocate(a_node(), CyclePatience(lambda: False))


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
