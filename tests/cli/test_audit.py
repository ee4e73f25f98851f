"""The demo's checker: it must find what a broken scheduler would leave behind."""

from __future__ import annotations

import ast
import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.cli.demo import audit as audit_module, device_audit
from pyscheduler.cli.demo.audit import GPU_PARTS, Report, audit
from pyscheduler.testing import node_manifest, pod_manifest

Audit = Callable[..., Awaitable[Report]]


@pytest.fixture
async def audited() -> AsyncIterator[Audit]:
    """Return what audits a cluster of the given objects, over HTTP."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1))
    server = cluster.server()
    await server.start()

    async def run(*objects: dict[str, Any]) -> Report:
        for obj in objects:
            put = cluster.add if obj["kind"] == "Event" else cluster.plant
            put(obj)
        return await asyncio.to_thread(audit, server.url)

    yield run
    await server.stop()


def node(name: str, cpu: str = "4", **keywords: Any) -> dict[str, Any]:
    """Return a node of 4 CPUs."""
    return node_manifest(name, allocatable={"cpu": cpu, **keywords.pop("allocatable", {})}, **keywords)


def pod(name: str, cpu: str = "1", *, where: str = "", why: str = "", **keywords: Any) -> dict[str, Any]:
    """Return a pod, bound to `where`, or pending with the message `why`."""
    manifest = pod_manifest(name, requests={"cpu": cpu}, node_name=where, **keywords)
    manifest["metadata"]["uid"] = f"uid-{name}"
    if why:
        manifest["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "message": why}]}
    return manifest


def told(name: str, where: str, number: int = 1) -> dict[str, Any]:
    """Return an event that says where a pod went."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{number}", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "pyscheduler",
        "reportingInstance": "host",
        "action": "Binding",
        "type": "Normal",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "namespace": "default", "name": name, "uid": f"uid-{name}"},
        "note": f"Successfully assigned default/{name} to {where}",
    }


NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."

GPUS = {"allocatable": {"nvidia.com/gpu": "2"}, "labels": {"nvidia.com/gpu.memory": "1000"}}


def part(name: str, amount: int, *, where: str = "", device: str = "", why: str = "") -> dict[str, Any]:
    """Return a pod that shares a device, or waits for a part of one."""
    labels = {"runai-gpu-group": device} if device else {}
    return pod(name, where=where, why=why, labels=labels, annotations={"gpu-memory": str(amount)})


def holder(device: str, where: str = "n") -> dict[str, Any]:
    """Return the pod that holds a shared device."""
    manifest = pod_manifest(f"hold-{device}", node_name=where, requests={"nvidia.com/gpu": "1"})
    manifest["metadata"] |= {
        "namespace": "device-reservations",
        "uid": f"uid-{device}",
        "labels": {"runai-gpu-group": device},
    }
    return manifest


SHARED = [
    pytest.param([holder("d"), part("a", 400, where="n", device="d"), told("a", "n")], [], id="a part"),
    pytest.param(
        [holder("d"), *(part(name, 600, where="n", device="d") for name in "ab")],
        ["device d of node n is overcommitted by 200"],
        id="too much of a device",
    ),
    pytest.param(
        [part("a", 600, where="n", device="d")],
        ["device d of node n is shared, and no pod reserves it"],
        id="no pod holds the device",
    ),
    pytest.param(
        [holder(""), part("a", 600, where="n")], ["pod a shares a device of node n, and none is named"], id="no device"
    ),
    pytest.param(
        [
            holder("d"),
            holder("e"),
            *(part(name, 600, where="n", device=name) for name in "de"),
            part("b", 500, why="x"),
        ],
        [],
        id="no device has room, although both together have",
    ),
    pytest.param(
        [
            holder("d"),
            holder("e"),
            *(part(name, 600, where="n", device=name) for name in "de"),
            part("b", 400, why="x"),
        ],
        ["pod default/b is pending but fits node n"],
        id="a device has room",
    ),
    pytest.param(
        [holder("d"), part("d", 600, where="n", device="d"), part("b", 500, why="x")],
        ["pod default/b is pending but fits node n"],
        id="a whole device is free",
    ),
    pytest.param([part("b", 1001, why="x")], [], id="more than a device"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("objects", "problems"), SHARED)
async def test_devices_are_counted_one_by_one(
    audited: Audit, objects: list[dict[str, Any]], problems: list[str]
) -> None:
    """The checker reads which device a pod has; the pods that hold devices are not counted as pods."""
    report = await audited(node("n", **GPUS), *objects)
    assert report.problems == problems
    shared = [each for each in objects if "gpu-memory" in each["metadata"].get("annotations", {})]
    assert report.bound + report.pending == len(shared)
    assert report.capacity[GPU_PARTS] == 2000


CASES = [
    pytest.param([node("n"), pod("a", where="n"), told("a", "n")], [], id="all is well"),
    pytest.param([node("n"), pod("a", "4", where="n"), pod("b", why=NO_ROOM)], [], id="full"),
    pytest.param(
        [node("n"), pod("a", "3", where="n"), pod("b", "1500m", where="n")],
        ["node n is overcommitted: cpu by 1/2"],
        id="overcommitted",
    ),
    pytest.param(
        [node("n", allocatable={"pods": "1"}), pod("a", where="n"), pod("b", where="n")],
        ["node n is overcommitted: pods by 1"],
        id="too many pods",
    ),
    pytest.param(
        [node("n"), node("m"), pod("a", where="n"), told("a", "n"), told("a", "m", 2)],
        ["pod default/a was bound 2 times: n, m"],
        id="bound twice",
    ),
    pytest.param(
        [node("n"), node("m"), pod("a", where="n"), told("a", "m")],
        ["pod default/a is not on m, where it was announced"],
        id="announced elsewhere",
    ),
    pytest.param(
        [node("n", "1"), pod("a", where="n"), pod("b", why=NO_ROOM), told("b", "n")],
        ["pod default/b is not on n, where it was announced"],
        id="announced and not bound",
    ),
    pytest.param([pod("a", where="gone")], ["pod default/a is bound to gone, which does not exist"], id="no such node"),
    pytest.param([node("n"), pod("a", why=NO_ROOM)], ["pod default/a is pending but fits node n"], id="would fit"),
    pytest.param(
        [node("n", "1"), pod("a", where="n"), pod("b")],
        ["pod default/b is pending and has no PodScheduled condition"],
        id="forgotten",
    ),
    pytest.param(
        [node("n", labels={"disk": "hdd"}), pod("a", why=NO_ROOM, node_selector={"disk": "ssd"})],
        [],
        id="selects another node",
    ),
    pytest.param([node("n", unschedulable=True), pod("a", why=NO_ROOM)], [], id="cordoned"),
    pytest.param(
        [node("n", "1"), *(pod(f"p{each}", "2", why=NO_ROOM) for each in range(3)), pod("q", why=NO_ROOM)],
        ["pod default/q is pending but fits node n"],
        id="equal pods are looked at once, others still",
    ),
]


@pytest.mark.parametrize(("objects", "problems"), CASES)
async def test_audit_reports_each_kind_of_problem(
    audited: Audit, objects: list[dict[str, Any]], problems: list[str]
) -> None:
    """Each mistake of a scheduler is a line; a cluster in order has none."""
    assert (await audited(*objects)).problems == problems


async def test_audit_adds_up_capacity_and_requests(audited: Audit) -> None:
    """The report counts pods, adds up what there is and what is used, and groups the filters' reasons."""
    report = await audited(
        node("n", allocatable={"memory": "1Gi"}),
        node("m", "500m", allocatable={"memory": "1G"}),
        pod("a", "3", where="n"),
        pod("b", "2", why="0/2 nodes are available: 2 Insufficient cpu."),
        pod(
            "c",
            "3",
            why="0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
    )
    assert (report.nodes, report.bound, report.pending) == (2, 1, 2)
    assert (report.capacity["cpu"], report.used["cpu"]) == (Fraction(9, 2), 3)
    assert report.capacity["memory"] == 2**30 + 10**9
    assert dict(report.reasons) == {"Insufficient cpu": 2}


@pytest.mark.slow
async def test_more_objects_than_a_page(audited: Audit) -> None:
    """Lists are read to their end."""
    report = await audited(node("n", "2000"), *(pod(f"p{number}", "1m", where="n") for number in range(1100)))
    assert report.bound == 1100
    assert report.problems == ["node n is overcommitted: pods by 990"]


def test_audit_imports_nothing_of_the_scheduler() -> None:
    """A second opinion shares no arithmetic with the first."""
    for module, own in ((audit_module, {device_audit.__name__}), (device_audit, set())):
        tree = ast.parse(Path(str(module.__file__)).read_text())
        imported = {alias.name for stmt in ast.walk(tree) if isinstance(stmt, ast.Import) for alias in stmt.names}
        imported |= {str(stmt.module) for stmt in ast.walk(tree) if isinstance(stmt, ast.ImportFrom)}
        assert {name for name in imported if name.startswith("pyscheduler")} == own


async def test_pod_rejected_by_its_node_is_a_problem(audited: Audit) -> None:
    """A kubelet's refusal is counted and told; pods that ended, so or otherwise, hold nothing of the node."""
    refused, done = pod("refused", "3", where="n"), pod("done", "4", where="n")
    refused["status"] = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have it"}
    done["status"] = {"phase": "Succeeded"}
    report = await audited(node("n"), pod("runs", "4", where="n"), refused, done)
    assert report.problems == ["pod default/refused was rejected by n: OutOfcpu: Node didn't have it"]
    assert (report.rejected, report.ended, report.used["cpu"]) == (1, 1, 4)
