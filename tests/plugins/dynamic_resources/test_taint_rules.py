"""Rules with which administrators taint devices."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import DeviceTaintRule
from pyscheduler.plugins.dynamic_resources.hints import DEVICE_TAINT_RULES
from pyscheduler.testing import FakeCluster
from tests.plugins.devices import DRIVER, add, claim, device_class, request, resource_slice, using

GATE = "DRADeviceTaintRules=true"
TOLERANT = request(tolerations=[{"operator": "Exists"}])


def rule(name: str = "r", effect: str = "NoSchedule", **selector: str) -> dict[str, Any]:
    """Make a rule for the devices that a selector names."""
    return {
        "apiVersion": DeviceTaintRule.api_version,
        "kind": DeviceTaintRule.kind,
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": {"key": "broken", "effect": effect}},
    }


@pytest.mark.parametrize(
    ("made", "ask", "gates", "node"),
    [
        pytest.param(rule(driver=DRIVER, pool="n1"), request(), GATE, "n2", id="a pool"),
        pytest.param(rule(pool="n1", device="gpu-0"), request(), GATE, "n2", id="a device"),
        pytest.param(rule(driver=DRIVER), request(), GATE, None, id="a driver"),
        pytest.param(rule(), request(), GATE, None, id="all devices"),
        pytest.param(rule(driver="other"), request(count=2), GATE, "n3", id="another driver"),
        pytest.param(rule(effect="None"), request(count=2), GATE, "n3", id="no effect"),
        pytest.param(rule(), TOLERANT, GATE, "n1", id="tolerated"),
        pytest.param(rule(), request(count=2), "", "n3", id="the gate is off"),
    ],
)
async def test_a_rule_keeps_claims_from_devices(
    cluster: FakeCluster, made: dict[str, Any], ask: dict[str, Any], gates: str, node: str | None
) -> None:
    """The devices of a rule are tainted as if their slice said so, if the gate is on."""
    cluster.serve(DEVICE_TAINT_RULES)
    for number, cpu in enumerate(("16", "8", "4"), 1):
        cluster.add_node(f"n{number}", allocatable={"cpu": cpu})
    add(cluster, device_class(), claim("c", ask), resource_slice("n1"), resource_slice("n2"))
    if ask.get("exactly", {}).get("count") == 2:
        add(cluster, resource_slice("n3", "gpu-0", "gpu-1"))
    cluster.add(made, DeviceTaintRule)
    result = await cluster.framework(feature_gates=gates).schedule("p", requests={"cpu": "1"}, spec=using("c"))
    assert result.node == node


async def test_the_end_of_a_rule_brings_pods_back(cluster: FakeCluster) -> None:
    """A rule that comes later counts at once, and pods are retried when it goes."""
    cluster.serve(DEVICE_TAINT_RULES)
    cluster.add_node("n1")
    add(cluster, device_class(), resource_slice(), claim("c"))
    framework = cluster.framework(feature_gates=GATE)
    await framework.start()
    cluster.add(rule(), DeviceTaintRule)
    await framework.settle()
    assert "cannot allocate all claims" in (await framework.schedule("p", spec=using("c"))).message
    cluster.delete(DeviceTaintRule, "r")
    await cluster.clock.advance(15)
    assert framework.result("p").node == "n1"
