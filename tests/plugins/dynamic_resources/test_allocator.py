"""Devices that claims get on a node: counts, alternatives and constraints."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pyscheduler.api import (
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from tests.plugins.dynamic_resources.offers import (
    DRIVER,
    OTHER_DRIVER,
    a_node,
    allocator_of,
    claim,
    device,
    distinct,
    either,
    exactly,
    first_of,
    matching,
    shown,
    slice_of,
)
from tests.plugins.dynamic_resources.pools_of_tests import (
    GPUS,
    NUMA,
    SIZES,
    devices,
)

Claims = Sequence[ResourceClaim]
Slices = Sequence[ResourceSlice]
Answer = list[list[str]] | None


@pytest.mark.parametrize(
    ("claims", "slices", "answer"),
    [
        pytest.param([], GPUS, [], id="no claims"),
        pytest.param([claim(exactly("r"))], GPUS, [["r=d0"]], id="the first device comes first"),
        pytest.param([claim(exactly("r"))], [], None, id="no slices"),
        pytest.param([claim(exactly("r"))], [slice_of(device("d"), node="node-2")], None, id="devices of another node"),
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
            [claim(exactly("r", where=["big", "gpu"]))], SIZES, [["r=b"]], id="selectors must all be satisfied"
        ),
        pytest.param([claim(exactly("r", 0, "nic"))], GPUS, None, id="all is at least one"),
        pytest.param(
            [claim(exactly("r", 32))],
            [slice_of(*devices(33))],
            [[f"r=d{index}" for index in range(32)]],
            id="as many devices as a claim can have",
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
    ],
)
def test_alternatives_are_tried_in_their_order(claims: Claims, slices: Slices, answer: Answer) -> None:
    """Of the ways that a request allows, the first with which everything fits is taken."""
    assert shown(allocator_of(claims, slices).allocate(a_node())) == answer


@pytest.mark.parametrize(
    ("constraints", "requests", "answer"),
    [
        pytest.param(
            [matching("numa", "r", "s")],
            [exactly("r"), exactly("s"), exactly("t")],
            ["r=a", "s=d", "t=b"],
            id="of some requests only",
        ),
        pytest.param(
            [matching("numa", "r/two", "s")],
            [first_of("r", either("one", where=["nic"]), either("two")), exactly("s")],
            ["r/two=a", "s=d"],
            id="named by the way that is taken",
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
