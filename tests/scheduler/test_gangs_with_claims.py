"""Gangs whose members wait at Permit and have resource claims."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyscheduler.podgroup import DIALECTS, DialectTable
from pyscheduler.testing import FakeCluster, FakeFramework

#: By plugin: the QueueSort plugin, the dialect, and more entries of pluginConfig.
PLUGINS = {
    "Coscheduling": ("Coscheduling", "sigs", []),
    "Gang": ("GangSort", "koordinator", [{"name": "GangSort", "args": {"order": "gang"}}]),
}


def start(cluster: FakeCluster, plugin: str, *, members: int, devices: int, claims: list[str]) -> FakeFramework:
    """Return a scheduler with a gang of which member i uses claim i, or the last one, and devices for all nodes."""
    sort, dialect, config = PLUGINS[plugin]
    kind = DialectTable(DIALECTS).named(dialect).kinds[0]
    cluster.serve(kind)
    text = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": -1},
        "profiles": [
            {
                "schedulerName": "pyscheduler",
                "plugins": {
                    "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": sort}]},
                    "multiPoint": {"enabled": [{"name": plugin}]},
                },
                "pluginConfig": config,
            }
        ],
    }
    for number in range(members):
        cluster.add_node(f"n{number}", allocatable={"cpu": "1"})
    add(cluster, "resource.k8s.io/v1", "DeviceClass", "net", {})
    slices = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "allNodes": True}
    add(cluster, "resource.k8s.io/v1", "ResourceSlice", "s", {**slices, "devices": device_names(devices)})
    request = {"name": "r", "exactly": {"deviceClassName": "net"}}
    for claim in claims:
        add(cluster, "resource.k8s.io/v1", "ResourceClaim", claim, {"devices": {"requests": [request]}}, "default")
    framework = cluster.framework(config=json.dumps(text))
    add(cluster, kind.api_version, "PodGroup", "g", {"minMember": members}, "default")
    label = DialectTable(DIALECTS).named(dialect).keys[0].name
    for number in range(members):
        spec = {"resourceClaims": [{"name": "r", "resourceClaimName": claims[min(number, len(claims) - 1)]}]}
        cluster.add_pod(f"g-{number}", requests={"cpu": "1"}, labels={label: "g"}, spec=spec)
    return framework


def device_names(count: int) -> list[dict[str, Any]]:
    """Return so many devices."""
    return [{"name": f"d{number}"} for number in range(count)]


def add(cluster: FakeCluster, version: str, kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> None:
    """Create an object."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    cluster.server.add({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})


def states(framework: FakeFramework, members: int) -> list[bool]:
    """Return for each member whether it is bound."""
    return [framework.result(f"g-{number}").bound for number in range(members)]


@pytest.mark.parametrize("plugin", PLUGINS)
async def test_members_share_a_claim_without_devices(cluster: FakeCluster, plugin: str) -> None:
    """The first member that waits at Permit reserves the devices; the others use the same ones."""
    framework = start(cluster, plugin, members=3, devices=1, claims=["c"])
    await framework.settle()
    await cluster.clock.advance(5)
    assert states(framework, 3) == [True, True, True]


@pytest.mark.parametrize("plugin", PLUGINS)
async def test_a_gang_that_lacks_devices_makes_few_attempts(cluster: FakeCluster, plugin: str) -> None:
    """The device that a member gives back is no news for its gang; one that comes is."""
    framework = start(cluster, plugin, members=2, devices=1, claims=["c0", "c1"])
    await framework.settle()
    await cluster.clock.advance(120)
    attempts = framework.scheduler.cycles
    assert attempts <= 20
    slices = {"driver": "d", "pool": {"name": "p2", "generation": 1, "resourceSliceCount": 1}, "allNodes": True}
    add(cluster, "resource.k8s.io/v1", "ResourceSlice", "s2", {**slices, "devices": device_names(1)})
    await cluster.clock.advance(70)
    assert states(framework, 2) == [True, True]
