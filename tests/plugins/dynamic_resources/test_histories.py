"""Histories of a whole cluster: slices, claims and pods come and go, requests get lost; devices are never given twice.

Looked at is what the API server has: who was given which device, whether the counters and capacities that devices share
are enough for all who have some of them, and whether a pod was ever bound without its devices.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Namespace, Pod, ResourceClaim, ResourceSlice, parse_quantity
from pyscheduler.plugins.dynamic_resources.allocated import AllocatedState
from pyscheduler.plugins.dynamic_resources.plugin import DynamicResources
from pyscheduler.testing import FakeCluster
from tests.plugins.devices import (
    DRIVER,
    add,
    cel,
    claim,
    device,
    device_class,
    request,
    resource_slice,
    taken_twice,
    using,
)

NODES: Final = ["n1", "n2", "n3"]
FIRED: Counter[str] = Counter()
#: Of the counter `slots` that partitions share, and of the memory of the device that can be shared.
SLOTS, MEMORY = 4, parse_quantity("10Gi")
USED: Final = {"quarter": 1, "half": 2, "whole": 4}


def devices(node: str) -> list[dict[str, Any]]:
    """Return the slices of a node: two devices of its own, one for many, and one that can be had in parts."""
    kind = {"kind": {"string": "plain"}}
    mine = [device(f"plain-{number}", attributes=kind) for number in range(2)]
    mine.append(
        device(
            "shared",
            attributes={"kind": {"string": "shared"}},
            allowMultipleAllocations=True,
            capacity={"memory": {"value": "10Gi"}},
        )
    )
    for number, size in enumerate(["quarter", "quarter", "half", "half", "whole"]):
        consumed = {"counterSet": "card", "counters": {"slots": {"value": str(USED[size])}}}
        attributes = {"kind": {"string": size}}
        mine.append(device(f"{size}-{number}", attributes=attributes, consumesCounters=[consumed]))
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "card", "counters": {"slots": {"value": str(SLOTS)}}}]
    card = resource_slice(node, name=f"{node}-card", pool=pool, sharedCounters=counters)
    del card["spec"]["devices"]
    return [resource_slice(node, *mine, name=f"{node}-devices", pool=pool), card]


def demand(rng: Random, name: str) -> dict[str, Any]:
    """Return a claim: for some devices of a kind, for part of one, for the first of two kinds, or for just looking."""

    def of(kind: str) -> dict[str, Any]:
        return {"selectors": [cel(f'device.attributes["{DRIVER}"].kind == "{kind}"')]}

    kind = rng.choice(["plain", "plain", "shared", "shared", "quarter", "half", "whole", "either", "admin"])
    if kind == "either":
        ways = [{"name": each, "deviceClassName": "gpu", **of(each)} for each in ("whole", "plain")]
        return claim(name, {"name": "gpu", "firstAvailable": ways})
    if kind == "admin":
        return claim(name, request(adminAccess=True, **of("plain")))
    if kind == "shared":
        asked = {"requests": {"memory": rng.choice(["3Gi", "4Gi", "6Gi"])}}
        return claim(name, request(capacity=asked, **of("shared")))
    return claim(name, request(count=rng.choice([1, 1, 2]), **of(kind)))


class History:
    """A cluster to which things happen."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.cluster = FakeCluster(seed=rng.getrandbits(16))
        self.framework = self.cluster.framework(seed=rng.getrandbits(16))
        plugin = self.framework.plugin("DynamicResources")
        assert isinstance(plugin, DynamicResources)
        self.ledger = plugin._ledger
        self.number = 0
        add(self.cluster, device_class())
        label = {"resource.kubernetes.io/admin-access": "true"}
        self.cluster.patch(Namespace, "default", {"metadata": {"labels": label}})
        self.offering: set[str] = set()
        for node in NODES:
            self.cluster.add_node(node)
            self.offer(node)

    def offer(self, node: str) -> None:
        """Let the driver of a node report its devices."""
        add(self.cluster, *devices(node))
        self.offering.add(node)

    async def go_on(self) -> None:
        """Let one thing happen."""
        rng = self.rng
        what = rng.choice(["pod", "pod", "pod", "pods", "share", "end", "end", "slices", "fault", "time", "bind"])
        FIRED[what] += 1
        await getattr(self, f"do_{what}")()
        await self.framework.settle()

    async def do_pod(self) -> None:
        """Let a pod come with claims of its own."""
        self.number += 1
        names = [f"c{self.number}-{each}" for each in range(self.rng.choice([1, 1, 2]))]
        add(self.cluster, *(demand(self.rng, name) for name in names))
        self.cluster.add_pod(f"p{self.number}", spec=using(*names))

    async def do_pods(self) -> None:
        """Let several come at once."""
        for _ in range(4):
            await self.do_pod()

    async def do_share(self) -> None:
        """Let a pod come for a claim that is there already."""
        claims = self.cluster.objects(ResourceClaim)
        if claims:
            self.number += 1
            self.cluster.add_pod(f"p{self.number}", spec=using(self.rng.choice(claims).name))

    async def do_end(self) -> None:
        """Let a pod go, with its reservations; a claim that nobody uses any more is given back."""
        pods = self.cluster.pods()
        if not pods:
            return
        gone = self.rng.choice(pods)
        self.cluster.delete_pod(gone.name)
        if self.rng.random() < 0.3:
            await self.framework.settle()
        self.collect()

    def collect(self) -> None:
        """Do what the cluster's own controller does for claims."""
        alive = {pod.uid for pod in self.cluster.pods()}
        for found in self.cluster.objects(ResourceClaim):
            users = [each for each in found.status.reserved_for if each.uid in alive]
            if found.status.allocation is None or len(users) == len(found.status.reserved_for):
                continue
            kept = [{"resource": "pods", "name": each.name, "uid": each.uid} for each in users]
            self.cluster.patch(ResourceClaim, found.name, {"status": {"reservedFor": kept or None}}, status=True)
            if not users:
                FIRED["given back"] += 1
                self.cluster.patch(ResourceClaim, found.name, {"status": {"allocation": None}}, status=True)

    async def do_slices(self) -> None:
        """Let a driver go away, or come back."""
        node = self.rng.choice(NODES)
        if node not in self.offering:
            self.offer(node)
            return
        self.offering.discard(node)
        for each in self.cluster.objects(ResourceSlice):
            if each.spec.node_name == node:
                self.cluster.delete(ResourceSlice, each.name)

    async def do_fault(self) -> None:
        """Let requests for a claim or a binding go wrong."""
        kind = self.rng.choice([{"status": 409}, {"status": 403}, {"lose": "request"}, {"lose": "answer"}])
        where = self.rng.choice(["/resourceclaims/[^/]*$", "/resourceclaims/[^/]*/status$", "/binding$"])
        self.cluster.server.faults.add(Fault(path=where, times=self.rng.choice([1, 1, 3, 8]), **kind))

    async def do_time(self) -> None:
        """Let time pass."""
        for _ in range(self.rng.choice([1, 3, 12])):
            await self.cluster.clock.advance(1)

    async def do_bind(self) -> None:
        """Let so little time pass that writes are under way."""
        await self.cluster.clock.advance(0.01)

    def check(self) -> None:
        """Look at what was given to whom."""
        claims = {found.name: found for found in self.cluster.objects(ResourceClaim)}
        assert not taken_twice(claims.values())
        slots: Counter[tuple[str, str]] = Counter()
        memory: Counter[tuple[str, str]] = Counter()
        for found in claims.values():
            given = found.status.allocation
            for result in given.devices.results if given is not None else ():
                size = result.device.partition("-")[0]
                FIRED[f"given {size}"] += 1
                if result.admin_access:
                    FIRED["for an administrator"] += 1
                    continue
                slots[result.driver, result.pool] += USED.get(size, 0)
                memory[result.driver, result.pool] += sum(map(parse_quantity, result.consumed_capacity.values()))
        assert all(count <= SLOTS for count in slots.values()), slots
        assert all(amount <= MEMORY for amount in memory.values()), memory
        FIRED["full card"] += any(count == SLOTS for count in slots.values())
        for pod in self.cluster.pods():
            if pod.node_name:
                for named in pod.spec.resource_claims:
                    self.check_bound(pod, claims[named.resource_claim_name or ""])

    def check_bound(self, pod: Pod, found: ResourceClaim) -> None:
        """Make sure that a pod that is bound has its devices, on its node, and may use them."""
        given = found.status.allocation
        assert given is not None, found.name
        assert {each.pool for each in given.devices.results} == {pod.node_name}
        assert pod.uid in {each.uid for each in found.status.reserved_for}
        FIRED["bound"] += 1
        FIRED["shared by pods"] += len(found.status.reserved_for) > 1

    def check_account(self) -> None:
        """Make sure, when all is quiet, that the account is that of the API server, and nothing is promised."""
        assert len(self.ledger) == 0
        fresh = AllocatedState()
        for found in self.cluster.objects(ResourceClaim):
            if found.status.allocation is not None:
                fresh.add(found.status.allocation)
        kept = self.ledger.allocated
        assert (kept.devices, kept.shares, kept.capacity) == (fresh.devices, fresh.shares, fresh.capacity)


async def live(rng: Random) -> None:
    """Let a cluster live for a while, check after every step, and let it come to rest."""
    history = History(rng)
    await history.framework.start()
    for _ in range(15):
        await history.go_on()
        history.check()
    history.cluster.server.faults.clear()
    for _ in range(80):
        await history.cluster.clock.advance(1)
    history.check()
    history.check_account()
    waiting = [pod for pod in history.cluster.pods() if not pod.node_name]
    FIRED["waits"] += len(waiting)
    await history.cluster.close()


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(0, 2**16))
def test_no_device_is_given_twice(seed: int) -> None:
    """Whatever happens: not a device, not more of a capacity or counter than there is; and the account is right."""
    asyncio.run(live(Random(seed)))


@pytest.mark.slow
def test_every_rule_has_its_turn() -> None:
    """Among the same histories every time, each rule decides several times."""
    FIRED.clear()
    for seed in range(12):
        asyncio.run(live(Random(seed)))
    rules = {"bound", "waits", "given back", "shared by pods", "full card", "for an administrator", "slices", "fault"}
    rules |= {f"given {each}" for each in ("plain", "shared", "quarter", "half", "whole")}
    assert all(FIRED[rule] >= 3 for rule in rules), FIRED
