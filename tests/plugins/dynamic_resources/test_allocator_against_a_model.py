"""The allocator against its rules written down once more without any shortcut, over random devices and claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from pyscheduler.api import (
    AllocationResult,
    CapacityRequestPolicy,
    Device,
    DeviceAllocationResult,
    DeviceCapacity,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
    quantity_value,
)
from pyscheduler.plugins.dynamic_resources import search
from pyscheduler.plugins.dynamic_resources.allocated import AllocatedState, DeviceId
from pyscheduler.plugins.dynamic_resources.errors import AllocationError
from tests.plugins.dynamic_resources.offers import (
    DRIVER,
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

MOST: Final = 5
LEFT: Final = 3
NODES: Final = ("node-1", "node-2")
FIRED: Counter[str] = Counter()


# --- draws ---------------------------------------------------------------------------------------


def draw_device(rng: Random, name: str, *, counting: bool, sharing: bool) -> Device:
    """Draw a device; some lack an attribute, some take from counters, some can be shared, where there are such."""
    attributes: dict[str, str | int] = {}
    if rng.random() < 0.98:
        attributes["size"] = rng.choice(["big", "small"])
    if rng.random() < 0.8:
        attributes["numa"] = rng.randrange(3)
    capacity: dict[str, str | DeviceCapacity] = {}
    if rng.random() < 0.4:
        policy = CapacityRequestPolicy(default="1", valid_values=("1", "2"))
        capacity["m"] = DeviceCapacity(value=str(rng.randint(1, 4)), request_policy=rng.choice([None, policy]))
    consumes = {("c", "m"): str(rng.randint(1, 2))} if rng.random() < 0.4 and counting else {}
    return device(
        name,
        attributes=attributes,
        capacity=capacity,
        consumes=consumes,
        taints=["broken:NoSchedule"] if rng.random() < 0.15 else [],
        shareable=rng.random() < 0.3 and sharing,
    )


def draw_slices(rng: Random) -> list[ResourceSlice]:
    """Draw one or two pools for each node; both nodes may have the same."""
    slices: list[ResourceSlice] = []
    shapes: list[list[list[Device]]] = []
    counting, sharing = rng.choice([(True, True), (True, True), (True, False), (False, False)])
    for _ in NODES:
        shape = [
            [draw_device(rng, f"d{at}", counting=counting, sharing=sharing) for at in range(rng.randint(1, 4))]
            for _ in range(rng.randint(1, 2))
        ]
        shapes.append(rng.choice([shape, *shapes]))
    for node, shape in zip(NODES, shapes, strict=True):
        for number, devices in enumerate(shape):
            pool = f"{node}-{number}"
            slices.append(slice_of(*devices, name=f"{pool}-d", pool=pool, node=node, count=2))
            slices.append(slice_of(name=f"{pool}-c", pool=pool, count=2, counters={"c": {"m": str(LEFT)}}))
    return slices


def draw_ask(rng: Random) -> dict[str, object]:
    """Draw what requests and alternatives of them have in common."""
    return {
        "count": rng.choice([0, 1, 1, 1, 2, 2, 3]),
        "where": rng.choice([[], [], [], [], ["big"], ["small"]]),
        "capacity": rng.choice([None, None, {"m": "1"}, {"m": "2"}]),
        "tolerations": rng.choice([[], [DeviceToleration(operator="Exists")]]),
    }


def draw_claim(rng: Random, name: str) -> ResourceClaim:
    """Draw a claim with a constraint at times."""
    requests: list[DeviceRequest] = []
    for number in range(rng.randint(1, 3)):
        if rng.random() < 0.4:
            ways = [either(f"w{at}", **draw_ask(rng)) for at in range(rng.randint(1, 3))]
            requests.append(first_of(f"r{number}", *ways))
        else:
            requests.append(exactly(f"r{number}", admin=rng.random() < 0.15, **draw_ask(rng)))
    constraints = [
        make("numa", *rng.choice([[], ["r0"], ["r0", "r1"], ["r1/w0"]]))
        for make in (matching, distinct)
        if rng.random() < 0.25
    ]
    return claim(*requests, name=name, constraints=constraints)


def draw_state(rng: Random, slices: list[ResourceSlice]) -> AllocatedState:
    """Draw what other pods have already."""
    state = AllocatedState()
    for each in slices:
        for one in each.spec.devices:
            if rng.random() < 0.8:
                continue
            share = "x" if one.allow_multiple_allocations else None
            consumed = {"m": "1"} if share and "m" in one.capacity else {}
            result = DeviceRequestAllocationResult(
                driver=DRIVER, pool=each.spec.pool.name, device=one.name, share_id=share, consumed_capacity=consumed
            )
            state.add(AllocationResult(devices=DeviceAllocationResult(results=(result,))))
    return state


# --- the model -----------------------------------------------------------------------------------


class Ask(NamedTuple):
    """A request or an alternative of it."""

    claim: int
    name: str
    full_name: str
    asked: ExactDeviceRequest | DeviceSubRequest

    @property
    def admin(self) -> bool:
        return isinstance(self.asked, ExactDeviceRequest) and bool(self.asked.admin_access)

    @property
    def takes_all(self) -> bool:
        return self.asked.allocation_mode == "All"


class Use(NamedTuple):
    """A device that is given to a request."""

    ask: Ask
    id: DeviceId
    device: Device


class ModelError(Exception):
    """Says that a device cannot be judged, or must be had and cannot be."""


@attrs.define
class Model:
    """Tries everything in order, and judges each step from all that was done before."""

    claims: list[ResourceClaim]
    offers: list[tuple[DeviceId, Device]]
    state: AllocatedState

    def run(self) -> list[list[str]] | None:
        for number, each in enumerate(self.claims):
            fewest = 0
            for request in each.spec.devices.requests:
                sizes = []
                for ask in asks(number, request):
                    size = ask.asked.count
                    if ask.takes_all:
                        size = sum(1 for offer in self.offers if self.is_asked_for(ask, *offer))
                    sizes.append(size)
                fewest += min(sizes)
            if fewest > MOST:
                raise ModelError("too many")
        found = next(self.solutions(0, 0, ()), None)
        if found is None:
            return None
        return [
            [f"{use.ask.full_name}={use.id.pool}/{use.id.device}" for use in found if use.ask.claim == number]
            for number in range(len(self.claims))
        ]

    def solutions(self, number: int, request: int, done: tuple[Use, ...]) -> Iterator[tuple[Use, ...]]:
        if number == len(self.claims):
            yield done
            return
        requests = self.claims[number].spec.devices.requests
        if request == len(requests):
            yield from self.solutions(number + 1, 0, done)
            return
        for ask in asks(number, requests[request]):
            if ask.takes_all:
                wanted = [offer for offer in self.offers if self.is_asked_for(ask, *offer)]
                if wanted and self.has_room(number, len(wanted), done):
                    yield from self.all_of(ask, wanted, request, done)
            elif self.has_room(number, ask.asked.count, done):
                yield from self.some_of(ask, ask.asked.count, 0, request, done)

    def has_room(self, number: int, more: int, done: tuple[Use, ...]) -> bool:
        fits = sum(use.ask.claim == number for use in done) + more <= MOST
        FIRED["too many for one claim"] += not fits
        return fits

    def all_of(
        self, ask: Ask, wanted: list[tuple[DeviceId, Device]], request: int, done: tuple[Use, ...]
    ) -> Iterator[tuple[Use, ...]]:
        for identity, one in wanted:
            refusal = self.refusal(ask, identity, one, done)
            if refusal == "constraint":
                raise ModelError("cannot add")
            if refusal:
                return
            done = (*done, Use(ask, identity, one))
        FIRED["all devices"] += 1
        yield from self.solutions(ask.claim, request + 1, done)

    def some_of(
        self, ask: Ask, more: int, start: int, request: int, done: tuple[Use, ...]
    ) -> Iterator[tuple[Use, ...]]:
        if not more:
            yield from self.solutions(ask.claim, request + 1, done)
            return
        for at in range(start, len(self.offers)):
            identity, one = self.offers[at]
            if self.refusal(ask, identity, one, done) == "used":
                continue
            if not self.is_asked_for(ask, identity, one):
                continue
            refusal = self.refusal(ask, identity, one, done)
            if refusal:
                FIRED[refusal] += 1
                continue
            yield from self.some_of(ask, more - 1, at + 1, request, (*done, Use(ask, identity, one)))
            FIRED["went back"] += 1

    def is_asked_for(self, ask: Ask, identity: DeviceId, one: Device) -> bool:
        for selector in ask.asked.selectors:
            assert selector.cel is not None
            size = one.attributes.get("size")
            if size is None:
                FIRED["selector failed"] += 1
                raise ModelError("no such key")
            if size.string_value != selector.cel.expression:
                return False
        amount = self.amount(ask, one)
        if amount is None:
            return False
        has = quantity_value(one.capacity["m"].value) if "m" in one.capacity else 0
        return amount + self.before(identity) <= has

    def amount(self, ask: Ask, one: Device) -> int | None:
        asked = quantity_value(ask.asked.capacity.requests["m"]) if ask.asked.capacity is not None else None
        capacity = one.capacity.get("m")
        if capacity is None:
            return 0 if asked is None else None
        if capacity.request_policy is None:
            return quantity_value(capacity.value) if asked is None else asked
        return 1 if asked is None else asked

    def before(self, identity: DeviceId) -> int:
        return self.state.capacity.get(identity, {}).get("m", 0) // 10**9

    def refusal(self, ask: Ask, identity: DeviceId, one: Device, done: tuple[Use, ...]) -> str:
        """Return why a device that is asked for cannot be had after all that was done, or ""."""
        uses = [use for use in done if use.id == identity]
        if not ask.admin and identity in self.state.devices:
            return "used"
        if not one.allow_multiple_allocations and any(not ask.admin or use.ask.claim == ask.claim for use in uses):
            return "used"
        after = (*done, Use(ask, identity, one))
        if one.consumes_counters and not self.counters_hold(identity.pool, after, Use(ask, identity, one), uses):
            return "counters"
        if one.taints and not ask.asked.tolerations:
            return "taint"
        if not self.constraints_hold(ask.claim, after):
            return "constraint"
        if one.allow_multiple_allocations and "m" in one.capacity:
            total = self.before(identity) + sum(
                self.amount(use.ask, one) or 0 for use in (*uses, Use(ask, identity, one))
            )
            if total > quantity_value(one.capacity["m"].value):
                return "capacity"
        return ""

    def counters_hold(self, pool: str, after: tuple[Use, ...], new: Use, uses: list[Use]) -> bool:
        shared = {identity for identity, _ in self.state.shares}
        if new.device.allow_multiple_allocations and (uses or new.id in shared):
            return True
        left = LEFT
        for identity, one in self.offers:
            if identity.pool == pool and (identity in self.state.devices or identity in shared):
                left -= consumption(one)
        paid: set[DeviceId] = set()
        for use in after:
            if use.id.pool != pool or (use.device.allow_multiple_allocations and use.id in paid | shared):
                continue
            paid.add(use.id)
            left -= consumption(use.device)
        return left >= 0

    def constraints_hold(self, number: int, after: tuple[Use, ...]) -> bool:
        for constraint in self.claims[number].spec.devices.constraints:
            values = []
            for use in after:
                names = {use.ask.name, use.ask.full_name}
                if use.ask.claim != number or (constraint.requests and not names & set(constraint.requests)):
                    continue
                values.append(use.device.attributes.get("numa"))
            if None in values:
                return False
            kinds = {value.int_value for value in values if value is not None}
            if constraint.match_attribute and len(kinds) > 1:
                return False
            if constraint.distinct_attribute and len(kinds) < len(values):
                return False
        return True


def consumption(one: Device) -> int:
    """Return what a device takes from the one counter there is."""
    return sum(quantity_value(counter.value) for each in one.consumes_counters for counter in each.counters.values())


def asks(number: int, request: DeviceRequest) -> list[Ask]:
    """Return a request's alternatives."""
    if request.exactly is not None:
        return [Ask(number, request.name, request.name, request.exactly)]
    return [Ask(number, request.name, f"{request.name}/{way.name}", way) for way in request.first_available]


def outcome(run: object) -> object:
    """Return what a run returned, or that it failed, and how."""
    assert callable(run)
    try:
        return run()
    except ModelError as error:
        return f"error: {error}"
    except AllocationError as error:
        text = str(error)
        known = {"exceeds the claim limit": "too many", "no such key": "no such key", "cannot add device": "cannot add"}
        return next((f"error: {short}" for part, short in known.items() if part in text), text)


@settings(max_examples=max(125, 4 * settings.default.max_examples))
@given(st.integers(0, 2**32))
def check_one(seed: int) -> None:
    """Compare allocator and model on both nodes."""
    rng = Random(seed)
    slices = draw_slices(rng)
    claims = [draw_claim(rng, f"claim-{number}") for number in range(rng.randint(1, 2))]
    state = draw_state(rng, slices)
    allocator = allocator_of(claims, slices, state)
    for name in NODES:
        offers = [
            (DeviceId(each.spec.driver, each.spec.pool.name, one.name), one)
            for each in slices
            if each.spec.node_name == name
            for one in each.spec.devices
        ]
        expected = outcome(Model(claims, offers, state).run)
        node = a_node(name)
        found = outcome(lambda node=node: shown(allocator.allocate(node)))
        assert found == expected
        FIRED["error" if isinstance(expected, str) else "none" if expected is None else "found"] += 1


@pytest.mark.slow
def test_the_allocator_finds_what_trying_everything_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first solution is the same, or there is none, or the same is wrong: shortcuts change nothing."""
    FIRED.clear()
    monkeypatch.setattr(search, "MOST_DEVICES", MOST)
    check_one()
    print(dict(FIRED))  # noqa: T201 - for whoever changes the draws
    rules = ("found", "none", "error", "all devices", "went back", "too many for one claim", "selector failed")
    assert all(FIRED[rule] for rule in (*rules, "counters", "taint", "constraint", "capacity"))
