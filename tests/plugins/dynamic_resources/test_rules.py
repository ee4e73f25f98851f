"""The smaller rules: which devices are ready, what several ways are worth, how long may be searched."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from pyscheduler.api import ResourceClaim
from pyscheduler.framework import Status
from pyscheduler.plugins.dynamic_resources.choice import score_allocations
from pyscheduler.plugins.dynamic_resources.conditions import (
    DeviceBindingError,
    has_conditions,
    has_timed_out,
    is_ready,
    unready_devices,
)
from pyscheduler.testing import FakeCluster
from tests.plugins.devices import (
    DRIVER,
    add,
    allocation,
    claim,
    device,
    device_class,
    request,
    resource_slice,
    using,
)

SLOW = {"bindingConditions": ["a", "b"], "bindingFailureConditions": ["x"]}


def read(manifest: Any, *devices: Any, **given: Any) -> ResourceClaim:
    """Return a claim that was given devices, of which drivers have reported something."""
    status = {"allocation": given or None, "devices": list(devices)}
    return msgspec.convert({**manifest, "status": status}, ResourceClaim)


def result(name: str = "gpu-0", ask: str = "gpu", **more: Any) -> dict[str, Any]:
    """Return a device that was allocated."""
    return {"request": ask, "driver": DRIVER, "pool": "n1", "device": name, **more}


def reported(name: str = "gpu-0", **conditions: str) -> dict[str, Any]:
    """Return what a driver says of a device: the status of conditions by their type."""
    told = [{"type": each, "status": status, "reason": "R", "message": 'a "b"'} for each, status in conditions.items()]
    return {"driver": DRIVER, "pool": "n1", "device": name, "conditions": told}


def given(*results: Any, **more: Any) -> dict[str, Any]:
    """Return an allocation of these devices."""
    return {"devices": {"results": list(results)}, **more}


@pytest.mark.parametrize(
    ("results", "devices", "ready", "awaited"),
    [
        pytest.param([result()], [], True, "", id="without conditions"),
        pytest.param(
            [result(**SLOW)], [], False, "<driver=gpu.example.com, pool=n1> gpu-0 pending=[a,b]", id="no word"
        ),
        pytest.param(
            [result(**SLOW)],
            [reported(a="True", b="False")],
            False,
            "<driver=gpu.example.com, pool=n1> gpu-0 pending=[b]",
            id="one is missing",
        ),
        pytest.param([result(**SLOW)], [reported(a="True", b="True", x="False")], True, "", id="all are true"),
        pytest.param(
            [result(**SLOW)],
            [reported("gpu-1", a="True", b="True")],
            False,
            "<driver=gpu.example.com, pool=n1> gpu-0 pending=[a,b]",
            id="word of another device",
        ),
        pytest.param(
            [result(**SLOW)],
            [reported(a="True", x="True")],
            'device binding failed: claim=c, reason=R, message="a \\"b\\""',
            "<driver=gpu.example.com, pool=n1> gpu-0 failed=[x] pending=[b]",
            id="failed",
        ),
        pytest.param(
            [result(), result("gpu-1", **SLOW)],
            [reported("gpu-1", a="True", b="True")],
            True,
            "",
            id="one with conditions, one without",
        ),
    ],
)
def test_devices_that_are_ready(results: list[Any], devices: list[Any], ready: bool | str, awaited: str) -> None:
    """Every condition must be true of every device that has some, and no failure."""
    found = read(claim(), *devices, **given(*results))
    assert unready_devices([found]) == awaited
    if isinstance(ready, str):
        with pytest.raises(DeviceBindingError) as caught:
            is_ready(found)
        assert str(caught.value) == ready
    else:
        assert is_ready(found) is ready


@pytest.mark.parametrize(
    ("more", "now", "expected"),
    [
        pytest.param({"allocationTimestamp": "1970-01-01T00:01:00Z"}, 160.0, False, id="just in time"),
        pytest.param({"allocationTimestamp": "1970-01-01T00:01:00Z"}, 160.5, True, id="too late"),
        pytest.param({"allocationTimestamp": "yesterday"}, 1e9, False, id="a time that nobody can read"),
        pytest.param({}, 1e9, False, id="without a time"),
    ],
)
def test_devices_have_their_time(more: dict[str, Any], now: float, expected: bool) -> None:
    """It begins when they were allocated, and is over only for devices with conditions."""
    slow = read(claim(), **given(result(**SLOW), **more))
    assert has_conditions(slow)
    assert has_timed_out(slow, now=now, timeout_seconds=100) is expected
    assert not has_timed_out(read(claim(), **given(result(), **more)), now=now, timeout_seconds=100)
    assert not has_timed_out(read(claim()), now=now, timeout_seconds=100)


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        pytest.param(["r1/w0", "r2/w0"], 16, id="the first ways"),
        pytest.param(["r1/w7", "r2/w7"], 2, id="the last ways"),
        pytest.param(["r1/w1", "r1/w1", "r2/w3"], 12, id="two devices of one way"),
        pytest.param(["r1/w2", "plain"], 6, id="with a request that has one way only"),
        pytest.param(["plain"], 0, id="nothing to choose from"),
    ],
)
def test_what_ways_are_worth(taken: list[str], expected: int) -> None:
    """Eight for the first, one for the eighth, for each request that has several."""
    ways = [{"name": f"w{number}", "deviceClassName": "gpu"} for number in range(8)]
    requests = [{"name": name, "firstAvailable": ways} for name in ("r1", "r2")]
    found = read(claim("c", *requests, request("plain")), **given(*(result(ask=each) for each in taken)))
    assert found.status.allocation is not None
    assert score_allocations([(found, found.status.allocation)]) == expected


async def test_scores_span_the_range(cluster: FakeCluster) -> None:
    """The best node gets 100, the others in proportion."""
    kinds = {"n1": "a", "n2": "b", "n3": "c"}
    for node, kind in kinds.items():
        cluster.add_node(node)
        add(cluster, resource_slice(node, device("gpu-0", attributes={"kind": {"string": kind}})))
    add(cluster, *(device_class(kind, f'device.attributes["{DRIVER}"].kind == "{kind}"') for kind in "abc"))
    ways = [{"name": kind, "deviceClassName": kind} for kind in "abc"]
    add(cluster, claim("c", {"name": "gpu", "firstAvailable": ways}))
    framework = cluster.framework()
    await framework.start()
    pod = cluster.add_pod("p", spec=using("c"), scheduler_name="nobody")
    scores = {node: given["DynamicResources"] for node, given in framework.run_score(pod).items()}
    assert scores == {"n1": 2 * 100, "n2": 2 * 87, "n3": 2 * 75}


async def test_the_search_on_a_node_may_take_too_long(cluster: FakeCluster) -> None:
    """The pod is tried again after a backoff, as time may be all that was missing."""
    cluster.add_node("n1")
    add(cluster, device_class(), resource_slice(), claim())
    framework = cluster.framework(args={"DynamicResources": {"filterTimeout": "1ns"}})
    await framework.start()
    pod = cluster.add_pod("p", spec=using("c"), scheduler_name="nobody")
    clock = cluster.clock
    ticks = iter(np.arange(clock.now(), clock.now() + 1000, 1.0).tolist())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clock, "now", lambda: next(ticks))
        (status,) = framework.run_filter(pod).values()
    assert status is not None
    assert status.is_error
    assert "node n1: timed out trying to allocate devices" in status.message


async def test_a_claim_in_reach_does_not_help_one_that_finds_no_devices(cluster: FakeCluster) -> None:
    """A node is refused for what cannot be allocated before it is for what is out of its reach."""
    cluster.add_node("n1")
    cluster.add_node("n2")
    status = {"allocation": allocation("x", pool="n9")}
    add(cluster, device_class(), resource_slice("n2"), {**claim("far"), "status": status}, claim("near"))
    framework = cluster.framework()
    await framework.start()
    pod = cluster.add_pod("p", spec=using("far", "near"), scheduler_name="nobody")
    assert framework.run_filter(pod) == {
        "n1": Status.unresolvable("cannot allocate all claims").with_plugin("DynamicResources"),
        "n2": Status.unresolvable("resourceclaim not available on the node").with_plugin("DynamicResources"),
    }


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        pytest.param([request(of="")], "request gpu: unsupported request type", id="no class"),
        pytest.param(
            [{"name": "gpu", "firstAvailable": [{"name": "w", "deviceClassName": "none"}]}],
            "request gpu/w: device class none does not exist",
            id="class of a way",
        ),
        pytest.param(
            [{"name": "gpu"}], "resource claim default/c, request gpu: unknown request type", id="a form not known"
        ),
    ],
)
async def test_requests_that_cannot_be_met(cluster: FakeCluster, requests: list[Any], message: str) -> None:
    """They are found before any node is looked at."""
    cluster.add_node("n1")
    framework = cluster.framework()
    await framework.start()
    plugin: Any = framework.plugin("DynamicResources")
    refused = plugin._check_classes(read(claim("c", *requests)))
    assert refused is not None
    assert refused.message == message
