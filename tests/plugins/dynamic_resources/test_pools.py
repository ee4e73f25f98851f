"""The inventory of devices: what nodes share, and what outlives a change."""

from __future__ import annotations

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from pyscheduler.api import ResourceSlice, parse_quantity
from pyscheduler.plugins.dynamic_resources.allocated import AllocatedState
from pyscheduler.plugins.dynamic_resources.allocator import Allocator
from pyscheduler.plugins.dynamic_resources.capacity import Amount
from pyscheduler.plugins.dynamic_resources.errors import AllocationError
from pyscheduler.plugins.dynamic_resources.patience import CyclePatience
from pyscheduler.plugins.dynamic_resources.pools import Inventory
from tests.plugins.dynamic_resources.offers import (
    CLASSES,
    OTHER_DRIVER,
    NamedSelectors,
    a_node,
    allocator_of,
    claim,
    device,
    exactly,
    in_region,
    shown,
    slice_of,
)

NODES = ("node-1", "node-2", "node-3")


def a_slice(node: str, *names: str, generation: int = 1, count: int = 1) -> ResourceSlice:
    """Return the slice of a node's own pool."""
    return slice_of(*map(device, names), name=f"of-{node}", pool=node, node=node, generation=generation, count=count)


def found(inventory: Inventory, node: str) -> list[str]:
    """Return the names of the devices that a node is offered."""
    return [each.id.device for each, _ in inventory.offer_to(a_node(node)).candidates]


def test_what_did_not_change_is_kept() -> None:
    """A new slice of one node leaves what is known of the others; what is shared by several does not."""
    selectors = NamedSelectors()
    slices = [a_slice(node, "a", "b") for node in NODES]
    first = Inventory(slices, selectors)
    offers = {node: first.offer_to(a_node(node)) for node in NODES}
    second = Inventory([a_slice("node-1", "c"), *slices[1:]], selectors, previous=first)
    assert found(second, "node-1") == ["c"]
    assert [second.offer_to(a_node(node)) is offers[node] for node in NODES] == [False, True, True]
    everywhere = slice_of(device("x"), name="everywhere", driver=OTHER_DRIVER, all_nodes=True)
    third = Inventory([*slices, everywhere], selectors, previous=second)
    assert [found(third, node) for node in NODES] == [["a", "b", "x"]] * 3
    fourth = Inventory(slices[1:], selectors, previous=third)
    assert [found(fourth, node) for node in NODES] == [[], ["a", "b"], ["a", "b"]]


def test_a_pool_over_several_nodes_changes_for_all_of_them() -> None:
    """When one node's part of a pool gets a new generation, the parts of the others are outdated."""
    selectors = NamedSelectors()
    slices = [slice_of(device(node), name=node, node=node, count=2) for node in NODES[:2]]
    first = Inventory(slices, selectors)
    assert [found(first, node) for node in NODES] == [["node-1"], ["node-2"], []]
    newer = slice_of(device("new"), name="node-1", node="node-1", count=2, generation=2)
    second = Inventory([newer, slices[1]], selectors, previous=first)
    assert [found(second, node) for node in NODES] == [[], [], []]
    assert second.offer_to(a_node("node-1")).bad_pool is not None


def test_counters_matter_to_nodes_without_their_devices_only_where_they_are_out_of_order() -> None:
    """A pool with counters that is not whole is every node's; a whole one only of those who reach its devices."""
    selectors = NamedSelectors()
    devices = slice_of(device("d", consumes={("c", "m"): "1"}), count=2)
    counters = slice_of(name="counters", count=2, counters={"c": {"m": "1"}})
    broken = Inventory([counters], selectors)
    assert [broken.offer_to(a_node(node)).bad_pool is None for node in NODES] == [False] * 3
    whole = Inventory([counters, devices], selectors, previous=broken)
    assert [len(whole.offer_to(a_node(node)).pools) for node in NODES] == [1, 0, 0]
    again = Inventory([counters], selectors, previous=whole)
    assert [again.offer_to(a_node(node)).bad_pool is None for node in NODES] == [False] * 3


def test_a_node_that_moves_is_offered_something_else() -> None:
    """What was found for a node holds for its labels."""
    inventory = Inventory([slice_of(device("d"), selector=in_region("west"))], NamedSelectors())
    assert [len(inventory.offer_to(a_node(region=region)).candidates) for region in ("west", "east", "west")] == [
        1,
        0,
        1,
    ]


def test_equal_nodes_are_worked_out_once() -> None:
    """Selectors are asked once for all nodes with devices alike, and again where one of them is taken."""
    selectors = NamedSelectors()
    slices = [a_slice(node, "a", "b") for node in NODES]
    state = AllocatedState()
    allocator = Allocator([claim(exactly("r"))], state, CLASSES.get, Inventory(slices, selectors), selectors)
    assert shown(allocator.allocate(a_node("node-1"))) == [["r=node-1/a"]]
    asked = selectors.asked
    assert shown(allocator.allocate(a_node("node-2"))) == [["r=node-2/a"]]
    assert selectors.asked == asked


def test_what_nodes_look_like_is_known_to_the_next_pod() -> None:
    """Devices that differ in what nobody asks for are looked at once, and not again by a pod with the same request."""
    selectors = NamedSelectors()
    slices = [
        slice_of(device("a", attributes={"uuid": node}), name=node, pool=node, node=node, generation=1)
        for node in NODES
    ]
    inventory = Inventory(slices, selectors)
    asked = []
    for name in ("one", "two"):
        allocator = Allocator([claim(exactly("r"), name=name)], AllocatedState(), CLASSES.get, inventory, selectors)
        assert [shown(allocator.allocate(a_node(node))) for node in NODES] == [[[f"r={node}/a"]] for node in NODES]
        asked.append(selectors.asked)
    assert asked == [len(NODES), len(NODES) + 1]


@pytest.mark.slow
def test_a_search_may_be_deep() -> None:
    """The number of devices is not bounded by how deep Python calls may nest."""
    claims = [claim(exactly("r", 32), name=f"claim-{number}") for number in range(40)]
    slices = [slice_of(*[device(f"d{number}") for number in range(40 * 32)])]
    results = allocator_of(claims, slices).allocate(a_node())
    assert results is not None
    assert len({one.device for result in results for one in result.devices.results}) == 40 * 32


@pytest.mark.parametrize(
    "attributes",
    [pytest.param([0] * 24, id="alike"), pytest.param(list(range(24)), id="all different")],
)
def test_a_search_without_hope_ends_soon(attributes: list[int]) -> None:
    """That devices can stand for each other is noticed before each choice of some was tried."""
    slices = [slice_of(*[device(f"d{at}", attributes={"numa": value}) for at, value in enumerate(attributes)])]
    claims = [claim(exactly("r", 12), name="one"), claim(exactly("s", 13), name="two")]
    steps = iter(range(2000))
    assert not allocator_of(claims, slices).can_allocate(a_node(), CyclePatience(lambda: next(steps, -1) < 0))


def test_a_malformed_selector_of_a_device_is_reported() -> None:
    """Even if another device of the slice is reached."""
    selector = in_region("x")
    requirement = msgspec.structs.replace(selector.node_selector_terms[0].match_expressions[0], operator="Unheard")
    term = msgspec.structs.replace(selector.node_selector_terms[0], match_expressions=(requirement,))
    broken = msgspec.structs.replace(selector, node_selector_terms=(term,))
    slices = [slice_of(device("a", all_nodes=True), device("b", node_selector=broken), per_device=True)]
    with pytest.raises(AllocationError, match="failed to parse node selector"):
        Inventory(slices, NamedSelectors()).offer_to(a_node())


@given(st.integers(0, 2**60))
def test_whole_amounts_are_written_with_the_largest_binary_suffix(value: int) -> None:
    """The text reads as the amount, and no larger suffix would do."""
    amount = Amount.of_whole(value)
    assert parse_quantity(amount.raw) == amount.nanos == value * 10**9
    digits = str(amount.raw).rstrip("KMGTPEi")
    assert not value or int(digits) % 1024 or str(amount.raw).endswith("Ei")
