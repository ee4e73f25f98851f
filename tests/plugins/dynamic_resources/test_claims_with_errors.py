"""Claims whose selectors end in an error: what their pods cost, and when they are retried."""

from __future__ import annotations

import gc
from collections import Counter
from types import FrameType, TracebackType

import pytest

from pyscheduler.plugins.dynamic_resources import long_work
from pyscheduler.plugins.dynamic_resources.allocator import Allocator
from pyscheduler.plugins.dynamic_resources.choice import Choice
from pyscheduler.plugins.dynamic_resources.search import Search
from pyscheduler.testing import FakeCluster
from tests.plugins.devices import DRIVER, add, cel, claim, device, device_class, request, resource_slice, using
from tests.plugins.dynamic_resources.test_long_work import turns_until, work_of

#: Fails on each device, after some hundred rounds; the number makes the expression another one.
NO_ATTRIBUTE = "lists.range(300 + {number}).all(x, x >= 0) && device.attributes['{driver}'].nosuch == device.driver"
KEPT = (Allocator, Choice, Search, TracebackType, FrameType)


def kept() -> Counter[str]:
    """Count what searches and errors leave behind, without the help of the collector."""
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, KEPT))


def typos(cluster: FakeCluster, number: int) -> None:
    """Add nodes that share some devices, and pods whose claims ask for an attribute that no device has."""
    for node in range(3):
        cluster.add_node(f"n{node}")
    devices = [device(f"gpu-{each}", attributes={"uuid": {"string": str(each)}}) for each in range(100)]
    add(cluster, device_class(), resource_slice("", *devices, allNodes=True))
    for each in range(number):
        expression = NO_ATTRIBUTE.format(number=each, driver=DRIVER)
        add(cluster, claim(f"c{each}", request(selectors=[cel(expression)])))
        cluster.add_pod(f"p{each}", spec=using(f"c{each}"))


@pytest.mark.parametrize("pauses", [10_000, 1], ids=["within a cycle", "beside the scheduler"])
async def test_errors_keep_no_searches(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, pauses: int) -> None:
    """With the collector off, as many pods as you like leave nothing behind but a text each."""
    monkeypatch.setattr(long_work, "PAUSES_PER_CYCLE", pauses)
    framework = cluster.framework()
    await framework.start()
    gc.collect()
    gc.disable()
    try:
        before = kept()
        typos(cluster, 12)
        await turns_until(lambda: all("nosuch" in framework.result(f"p{each}").message for each in range(12)))
        await cluster.clock.advance(30)
        after = kept()
    finally:
        gc.enable()
    assert len(work_of(framework)) == (12 if pauses == 1 else 0)
    assert after - before == Counter()


async def test_a_pod_whose_search_fails_backs_off_as_others_do(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not go back to "still being looked for", though other pods get devices all the time."""
    monkeypatch.setattr(long_work, "PAUSES_PER_CYCLE", 1)
    framework = cluster.framework()
    await framework.start()
    typos(cluster, 1)
    await turns_until(lambda: "nosuch" in framework.result("p0").message)
    seen = []
    for number in range(60):
        add(cluster, claim(f"other{number}"))
        cluster.add_pod(f"other{number}", spec=using(f"other{number}"))
        await cluster.clock.advance(1)
        seen.append(framework.result("p0").message)
    assert all("nosuch" in message for message in seen)
    events = [each for each in cluster.events("FailedScheduling") if each["regarding"]["name"] == "p0"]
    assert sum((each.get("series") or {}).get("count", 1) for each in events) < 12
