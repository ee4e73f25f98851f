"""Limits of Volcano's queues on devices of resource claims (`capacity`)."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyscheduler.api import DeviceClass, Pod, ResourceClaim, ResourceSlice
from pyscheduler.testing import make_pod
from pyscheduler_batch.model.tasks import Job, TaskState, make_task
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_volcano.device_quotas import DeviceQuotas

TIERS = (
    "actions: 'enqueue, allocate', tiers: [{plugins: [{name: priority}, {name: gang}]}, "
    "{plugins: [{name: predicates}, {name: capacity%s}]}]"
)
COUNT = "deviceclass/gpu"
MEMORY = "memory.deviceclass/gpu"


def add_devices(volcano: Any, count: int = 16) -> None:
    """Add a node with devices of one class; each may be shared by many claims, and has 64Gi."""
    volcano.nodes(1, cpu="64")
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "n0",
        "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {"name": f"d{at}", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "64Gi"}}}
            for at in range(count)
        ],
    }
    add(volcano, "ResourceSlice", "n0", spec, ResourceSlice, namespaced=False)
    add(volcano, "DeviceClass", "gpu", {}, DeviceClass, namespaced=False)


def add(volcano: Any, kind: str, name: str, spec: Any, type_: Any, *, namespaced: bool = True) -> None:
    """Add an object of resource.k8s.io."""
    metadata = {"name": name, **({"namespace": "default"} if namespaced else {})}
    manifest = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
    volcano.cluster.add(manifest, type_)


def claim(volcano: Any, name: str, memory: str = "", **exactly: Any) -> None:
    """Create a claim."""
    if memory:
        exactly["capacity"] = {"requests": {"memory": memory}}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}
    add(volcano, "ResourceClaim", name, {"devices": {"requests": [request]}}, ResourceClaim)


def member(volcano: Any, group: str, number: int, *claims: str) -> None:
    """Create a pod of a group that uses claims."""
    named = [{"name": f"c{at}", "resourceClaimName": each} for at, each in enumerate(claims)]
    volcano.pods(group, 1, start=number, spec={"resourceClaims": named})


def job(volcano: Any, name: str, queue: str, *claims: str, **spec: Any) -> None:
    """Create a job of one pod for each claim; all are needed."""
    volcano.group(name, queue, len(claims), **spec)
    for number, each in enumerate(claims):
        member(volcano, name, number, each)


def bound(volcano: Any) -> set[str]:
    """Return the names of the pods with a node."""
    return {pod.name for pod in volcano.cluster.pods() if pod.node_name}


def reason(scheduler: Any, group: str) -> str:
    """Return why a job waits."""
    found: str = sessions_of(scheduler.scheduler)[0].waiting.get(f"default/{group}", "")
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param("", {"one-0"}, id="on by default"),
        pytest.param("DynamicResourceAllocationEnable: true", {"one-0"}, id="on"),
        pytest.param("DynamicResourceAllocationEnable: false", {"one-0", "two-0"}, id="off"),
    ],
)
async def test_a_queue_holds_no_more_devices_than_it_may(volcano: Any, arguments: str, expected: set[str]) -> None:
    """Two claims of three devices are more than five; when the first job ends, the second one starts."""
    add_devices(volcano)
    volcano.queue("default", capability={COUNT: "5"})
    given = f", arguments: {{capacity.{arguments}}}" if arguments else ""
    scheduler = await volcano.start(TIERS % given)
    for name in ("one", "two"):
        claim(volcano, name, count=3)
        job(volcano, name, "default", name)
        await volcano.pass_time()
    assert bound(volcano) == expected
    if len(expected) == 1:
        assert "queue default is full: deviceclass/gpu 6 of 5" in reason(scheduler, "two")
        volcano.go("Succeeded", "one-0")
        await volcano.pass_time()
        assert "two-0" in bound(volcano)


async def test_an_enqueued_job_waits_for_devices(volcano: Any) -> None:
    """A pod that comes after its group was enqueued is refused when it would be placed."""
    add_devices(volcano)
    volcano.queue("default", capability={COUNT: "2"})
    scheduler = await volcano.start(TIERS % "")
    for name in ("one", "two"):
        volcano.group(name, "default", 1)
        claim(volcano, name, count=2)
    await volcano.pass_time()
    assert {volcano.group_status(name)["phase"] for name in ("one", "two")} == {"Inqueue"}
    for name in ("one", "two"):
        member(volcano, name, 0, name)
    await volcano.pass_time()
    assert bound(volcano) == {"one-0"}
    assert reason(scheduler, "two").startswith("QueueLimit: queue default is full: deviceclass/gpu 4 of 2")


async def test_jobs_of_one_pass_are_not_enqueued_beyond_the_limit(volcano: Any) -> None:
    """Of two jobs with `minResources`, the second one stays Pending: what was enqueued in the pass counts."""
    add_devices(volcano)
    volcano.queue("default", capability={COUNT: "3"})
    for name in ("one", "two"):
        for at in range(2):
            claim(volcano, f"{name}{at}")
        job(volcano, name, "default", f"{name}0", f"{name}1", minResources={"cpu": "2"})
    scheduler = await volcano.start(TIERS % "")
    await volcano.pass_time()
    phases = {name: volcano.group_status(name)["phase"] for name in ("one", "two")}
    assert sorted(phases.values()) == ["Pending", "Running"]
    (held,) = (name for name, phase in phases.items() if phase == "Pending")
    assert reason(scheduler, held).startswith("QueueQuota: queue resource quota insufficient: queue default: ")
    assert len(bound(volcano)) == 2


@pytest.mark.slow
async def test_a_shared_claim_counts_once(volcano: Any) -> None:
    """Three pods with one claim hold its two devices; another claim of two is too much."""
    add_devices(volcano)
    volcano.queue("default", capability={COUNT: "3"})
    claim(volcano, "shared", count=2)
    claim(volcano, "other", count=2)
    await volcano.start(TIERS % "")
    for at in range(3):
        job(volcano, f"g{at}", "default", "shared")
        await volcano.pass_time()
    job(volcano, "g3", "default", "other")
    await volcano.pass_time()
    assert bound(volcano) == {"g0-0", "g1-0", "g2-0"}
    for at in range(2):
        volcano.cluster.delete_pod(f"g{at}-0")
        await volcano.pass_time()
        assert "g3-0" not in bound(volcano), "the last pod still uses the claim"
    volcano.cluster.delete_pod("g2-0")
    await volcano.pass_time()
    assert "g3-0" in bound(volcano)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "capability", "expected"),
    [
        pytest.param("", {MEMORY: "40Gi"}, {"one-0"}, id="a limit on memory"),
        pytest.param("", {COUNT: "9"}, set(), id="a class without a limit on memory takes no request for memory"),
        pytest.param("", {"cpu": "9"}, {"one-0", "two-0"}, id="no limit on the class"),
        pytest.param("false", {MEMORY: "40Gi"}, {"one-0", "two-0"}, id="off"),
    ],
)
async def test_parts_of_devices_are_limited(
    volcano: Any, arguments: str, capability: dict[str, str], expected: set[str]
) -> None:
    """A claim of two devices with 15Gi each counts 30Gi."""
    add_devices(volcano)
    volcano.queue("default", capability=capability)
    given = f", arguments: {{capacity.DRAConsumableCapacityEnable: {arguments}}}" if arguments else ""
    await volcano.start(TIERS % given)
    for name in ("one", "two"):
        claim(volcano, name, memory="15Gi", count=2)
        job(volcano, name, "default", name)
        await volcano.pass_time()
    assert bound(volcano) == expected


async def test_limits_of_queues_above_count(volcano: Any) -> None:
    """Two queues share the limit of their parent."""
    add_devices(volcano)
    volcano.queue("root")
    volcano.queue("org", parent="root", capability={COUNT: "3"})
    for name in ("a", "b"):
        volcano.queue(name, parent="org")
    scheduler = await volcano.start(TIERS % ", enableHierarchy: true")
    for name in ("a", "b"):
        claim(volcano, name, count=2)
        job(volcano, name, name, name)
        await volcano.pass_time()
    assert bound(volcano) == {"a-0"}
    assert "queue org is full: deviceclass/gpu 4 of 3" in reason(scheduler, "b")


async def test_claims_of_templates_count_once_they_exist(volcano: Any) -> None:
    """The claim that a controller makes for a pod has the pod as owner; its name is in the pod's status."""
    add_devices(volcano)
    volcano.queue("default", capability={COUNT: "1"})
    await volcano.start(TIERS % "")
    for name in ("one", "two"):
        volcano.group(name, "default", 1)
        volcano.pods(name, 1, spec={"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]})
    await volcano.pass_time()
    assert bound(volcano) == set()
    for name in ("one", "two"):
        pod = volcano.cluster.pod(f"{name}-0")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        volcano.cluster.add(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": f"{name}-made", "namespace": "default", "ownerReferences": [owner]},
                "spec": {"devices": {"requests": [request]}},
            },
            ResourceClaim,
        )
        statuses = [{"name": "c", "resourceClaimName": f"{name}-made"}]
        volcano.cluster.patch(Pod, pod.name, {"status": {"resourceClaimStatuses": statuses}}, status=True)
        await volcano.pass_time()
    assert bound(volcano) == {"one-0"}


@pytest.mark.parametrize("seed", range(5))
def test_sums_equal_a_recount(seed: int) -> None:
    """After random moves, a queue refuses exactly the tasks whose new claims exceed its limit or that of its parent."""
    rng = random.Random(seed)
    paths = {0: [0], 1: [1, 0], 2: [2, 0]}
    amounts = {f"c{at}": {COUNT: float(rng.randint(1, 3))} for at in range(6)}
    limits = [9.0, 5.0, float("nan")]
    jobs = [Job(uid=f"j{row}", key=f"default/j{row}", queue=str(row), queue_row=row) for row in (1, 2)]
    uses: dict[str, list[str]] = {}
    tasks = []
    for at in range(10):
        spec = {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
        pod = make_pod(f"p{at}", spec=spec)
        uses[pod.uid] = rng.sample(sorted(amounts), rng.randint(1, 2))
        task = make_task(rng.choice(jobs), pod, np.zeros(1), (TaskState.PENDING, -1))
        task.job.add(task)
        tasks.append(task)
    session: Any = SimpleNamespace(
        axis=SimpleNamespace(names=[COUNT]),
        queues=SimpleNamespace(limit=np.array(limits).reshape(3, 1)),
        jobs={job.uid: job for job in jobs},
        claims_of=lambda pod: {name: amounts[name] for name in uses[pod.uid]},
    )
    quotas = DeviceQuotas.of(session, paths.__getitem__, has_dimensions=True)
    assert quotas is not None
    refused = 0
    for _ in range(200):
        task = rng.choice(tasks)
        active = [each for each in tasks if each.state == TaskState.ALLOCATED]
        held = {
            row: {claim for each in active if row in paths[each.job.queue_row] for claim in uses[each.uid]}
            for row in paths
        }
        if task.state == TaskState.PENDING:
            over = [
                row
                for row in paths[task.job.queue_row]
                if not np.isnan(limits[row])
                and not set(uses[task.uid]) <= held[row]
                and sum(amounts[claim][COUNT] for claim in held[row] | set(uses[task.uid])) > limits[row]
            ]
            found = quotas.exceeded(task)
            assert (found and found[0]) == (over[0] if over else None)
            refused += bool(over)
            if over and rng.random() < 0.8:
                continue
        new = TaskState.PENDING if task.state == TaskState.ALLOCATED else TaskState.ALLOCATED
        old, task.state = task.state, new
        quotas.moved(task, old, new)
    assert 0 < refused < 200
