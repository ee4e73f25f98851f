"""What users of batch schedulers ask for most, each under its number: 1, 2, 3, 4, 6, 7 and 15."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler_batch.cli.queue.command import main
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_lab.testing import gpus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

GPU = "nvidia.com/gpu"


def requests(count: int) -> dict[str, str]:
    """Return requests with GPUs."""
    return {"cpu": "1", GPU: str(count)}


def waiting(scheduler: Any) -> dict[str, str]:
    """Return by job key why it waits."""
    return dict(sessions_of(scheduler.scheduler)[0].waiting)


def condition(batch: Any, name: str) -> str:
    """Return the message of a pod's condition PodScheduled."""
    return next(each.message for each in batch.cluster.pod(name).status.conditions if each.type == "PodScheduled")


def leaving(batch: Any) -> list[str]:
    """Return the names of the pods that were evicted."""
    return sorted(pod.name for pod in batch.cluster.pods() if pod.is_terminating)


def run_all(batch: Any) -> None:
    """Let all bound pods run."""
    batch.go("Running", *(pod.name for pod in batch.cluster.pods() if pod.node_name and not pod.is_terminating))


def _run_command(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)


@pytest.fixture
def queue_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Awaitable[str]]:
    """Return a function that runs `kubectl queue` on the objects of a cluster."""

    async def run(batch: Any, *arguments: str) -> str:
        items = [
            item
            for version, kind in (
                ("v1", "Node"),
                ("v1", "Pod"),
                (batch.queue_kind.api_version, batch.queue_kind.kind),
                (batch.group_kind.api_version, batch.group_kind.kind),
            )
            for item in batch.cluster.server.objects(version, kind)
        ]
        path = tmp_path / "objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
        # The command has an event loop of its own.
        await asyncio.to_thread(_run_command, [*arguments, "--objects", str(path)])
        return capsys.readouterr().out

    return run


async def test_request_1_a_pending_job_says_why_in_one_place(
    kai: Any, queue_command: Callable[..., Awaitable[str]]
) -> None:
    """Pod, group, metric and `explain` have the same stable reason, with amounts; `explain` has the next step."""
    kai.nodes(2, cpu="8", **{GPU: "4"})
    kai.queue("a", resources=gpus(2, limit=2))
    scheduler = await kai.start()
    kai.job("one", "a", 3, requests=requests(1))
    kai.queue("b", resources=gpus(8))
    kai.job("two", "b", 1, requests=requests(5))
    await kai.pass_time()
    reason = f"OverLimit: queue a would exceed its {GPU} limit of 2: 0 used, 3 requested"
    assert condition(kai, "one-0") == waiting(scheduler)["default/one"] == reason
    (stated,) = kai.group_status("one")["schedulingConditions"]
    assert [each["reason"] for each in stated["reasons"]] == ["OverLimit"]
    assert waiting(scheduler)["default/two"].startswith("PodSchedulingErrors")
    assert [
        scheduler.metric("pyscheduler_batch_waiting_jobs", reason=each) for each in ("OverLimit", "PodSchedulingErrors")
    ] == [1, 1]
    assert scheduler.metric("pyscheduler_batch_waiting_jobs") == 2
    out = await queue_command(kai, "explain", "one")
    assert "waits: OverLimit" in out
    assert f"raise the limit of queue a from 2 to 3 {GPU}" in out
    out = await queue_command(kai, "explain", "two")
    assert f"2 Insufficient {GPU}" in out, "the nodes by reason"
    assert "consolidation:" in out, "whether evictions were tried"


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["Succeeded", "deleted"])
async def test_request_2_finished_groups_reserve_nothing(volcano: Any, ending: str) -> None:
    """A group is enqueued as soon as the one before it has finished, although that one's object is still there."""
    volcano.nodes(1, cpu="4")
    volcano.queue("default")
    await volcano.start()
    volcano.group("old", "default", 4, minResources={"cpu": "4"})
    volcano.pods("old", 4)
    await volcano.pass_time()
    run_all(volcano)
    volcano.group("new", "default", 4, minResources={"cpu": "4"})
    volcano.pods("new", 4)
    await volcano.pass_time(30)
    assert volcano.nodes_of("new") == [""] * 4
    names = [f"old-{number}" for number in range(4)]
    if ending == "Succeeded":
        volcano.go("Succeeded", *names)
    else:
        for name in names:
            volcano.cluster.delete_pod(name)
        volcano.cluster.delete(volcano.group_kind.type, "old")
    await volcano.pass_time(5)
    assert volcano.nodes_of("new") == ["n0"] * 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("preset", ["kai", "volcano", "kube_batch"])
async def test_request_2_other_resources_do_not_hold_a_cpu_job(preset: str, request: pytest.FixtureRequest) -> None:
    """A queue that has used up its GPUs still starts jobs that request CPU only."""
    batch = request.getfixturevalue(preset)
    batch.nodes(1, cpu="8", **{GPU: "2"})
    spec = {"resources": gpus(2, limit=2)} if preset == "kai" else {}
    batch.queue("a", **spec)
    batch.queue("b", **spec)
    await batch.start()
    batch.job("gpu", "a", 2, requests=requests(1))
    await batch.pass_time()
    run_all(batch)
    batch.job("more", "a", 1, requests=requests(1))
    batch.job("cpu", "a", 1)
    await batch.pass_time()
    assert batch.nodes_of("more") == [""]
    assert batch.nodes_of("cpu") == ["n0"]


async def test_request_3_one_whole_gang_is_evicted_and_no_more(kai: Any) -> None:
    """Of ten gangs exactly one loses its pods, all of them; no gang is left in part."""
    kai.nodes(5, cpu="16", **{GPU: "4"})
    kai.queue("a", resources=gpus(0))
    kai.queue("b", resources=gpus(20))
    await kai.start()
    for number in range(10):
        kai.job(f"gang{number}", "a", 2, requests=requests(1))
    await kai.pass_time()
    run_all(kai)
    await kai.pass_time()
    kai.job("want", "b", 2, requests=requests(1))
    await kai.pass_time()
    gone = leaving(kai)
    assert len(gone) == 2
    assert len({name.rpartition("-")[0] for name in gone}) == 1


async def test_request_3_surplus_pods_go_before_gangs(volcano: Any) -> None:
    """Volcano's gang policy gives up pods above a minimum, one for one, and keeps whole gangs."""
    volcano.nodes(1, cpu="6")
    for name in ("a", "b"):
        volcano.queue(name)
    await volcano.start('actions: "enqueue, allocate, reclaim"')
    volcano.job("whole", "a", 3)
    volcano.group("elastic", "a", 1)
    volcano.pods("elastic", 3)
    await volcano.pass_time()
    run_all(volcano)
    await volcano.pass_time()
    volcano.job("want", "b", 1)
    await volcano.pass_time()
    (gone,) = leaving(volcano)
    assert gone.startswith("elastic-")


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["kai", "volcano", "kube_batch"])
async def test_request_4_nobody_is_evicted_for_a_job_that_would_not_fit(
    preset: str, request: pytest.FixtureRequest
) -> None:
    """An unschedulable job at the head of its queue evicts nobody, however often it is tried."""
    batch = request.getfixturevalue(preset)
    batch.nodes(1, cpu="4", **{GPU: "4"})
    for name, quota in (("a", 0), ("b", 4)):
        batch.queue(name, **({"resources": gpus(quota)} if preset == "kai" else {}))
    actions = {"kai": "allocate, consolidation, reclaim, preempt", "volcano": "enqueue, allocate, preempt, reclaim"}
    scheduler = await batch.start(f'actions: "{actions.get(preset, "allocate, preempt, reclaim")}"')
    batch.group("low", "a", 1)
    batch.pods("low", 4, requests=requests(1))
    await batch.pass_time()
    run_all(batch)
    batch.group("head", "b", 1)
    batch.pods("head", 1, requests=requests(1), node_selector={"gpu": "h100"})
    await batch.pass_time(1)  # the older one is at the head of the queue
    batch.job("large", "b", 5, requests=requests(1))
    for number in range(20):
        batch.cluster.add_node(f"tiny{number}", allocatable={"cpu": "0", "memory": "1Gi", "pods": "1"})
        await batch.pass_time(60)
    assert leaving(batch) == []
    assert set(waiting(scheduler)) >= {"default/head", "default/large"}


async def test_request_4_work_that_comes_back_is_not_evicted_again_at_once(kai: Any) -> None:
    """A job that was reclaimed and got a place again rests; what reclaims meanwhile waits for its backoff."""
    kai.nodes(1, cpu="8", **{GPU: "1"})
    kai.queue("a", resources=gpus(0))
    kai.queue("b", resources=gpus(1))
    await kai.start()
    kai.job("low", "a", 1, requests=requests(1))
    await kai.pass_time()
    run_all(kai)
    kai.job("first", "b", 1, requests=requests(1))
    await kai.pass_time(1)
    assert leaving(kai) == ["low-0"]
    kai.cluster.delete_pod("low-0")
    kai.cluster.delete_pod("first-0")
    kai.pods("low", 1, start=1, requests=requests(1))
    await kai.pass_time(1)
    run_all(kai)
    assert kai.nodes_of("low") == ["n0"]
    kai.job("second", "b", 1, requests=requests(1))
    await kai.pass_time(3)
    assert leaving(kai) == [], "the job rests for ten seconds after its eviction"
    await kai.pass_time(30)
    assert leaving(kai) == ["low-1"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("preset", ["kai", "volcano", "kube_batch"])
async def test_request_6_a_gang_that_lost_a_node_is_served_first(preset: str, request: pytest.FixtureRequest) -> None:
    """The member that comes back gets the room before jobs of the queue that are older or hold nothing."""
    batch = request.getfixturevalue(preset)
    batch.nodes(2, cpu="1")
    batch.queue("default")
    await batch.start()
    # In Volcano and kube-batch, DRF would rank a job without any pod before one with a pod.
    batch.group("fresh", "default", 1)
    await batch.pass_time(5)
    batch.job("gang", "default", 2)
    await batch.pass_time()
    run_all(batch)
    await batch.pass_time()
    lost = next(pod for pod in batch.cluster.pods() if pod.node_name == "n0")
    batch.cluster.delete_node("n0")
    batch.cluster.delete_pod(lost.name)
    batch.pods("fresh", 1)
    await batch.pass_time()
    batch.pods("gang", 1, start=2)
    await batch.pass_time()
    batch.cluster.add_node("n2", allocatable={"cpu": "1", "memory": "64Gi", "pods": "110"})
    await batch.pass_time(5)
    assert sorted(batch.nodes_of("gang")) == ["n1", "n2"]
    assert batch.nodes_of("fresh") == [""]


async def test_request_6_a_gang_that_was_evicted_does_not_come_first(volcano: Any) -> None:
    """Only loss without an eviction counts: otherwise victims would take the room back from who needs it."""
    volcano.nodes(1, cpu="3")
    for name in ("a", "b"):
        volcano.queue(name)
    scheduler = await volcano.start('actions: "enqueue, allocate, reclaim"')
    volcano.group("low", "a", 1)
    volcano.pods("low", 3)
    await volcano.pass_time()
    run_all(volcano)
    await volcano.pass_time()
    volcano.job("want", "b", 1)
    await volcano.pass_time()
    assert len(leaving(volcano)) == 1
    tables = sessions_of(scheduler.scheduler)[0].tables
    assert not any(job.is_broken for job in tables.jobs.values())


@pytest.mark.slow
async def test_request_7_unset_quotas_are_named_and_shares_can_be_computed(
    kai: Any, queue_command: Callable[..., Awaitable[str]], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """A field that means zero has a warning with advice; `simulate` predicts shares, also for edited queues."""
    kai.nodes(1, cpu="64", **{GPU: "8"})
    kai.queue("unset", resources={"gpu": {"quota": 2}})
    for name, quota in (("a", 6), ("b", 6)):
        kai.queue(name, resources=gpus(quota))
    with caplog.at_level(logging.WARNING):
        await kai.start()
        for name in ("a", "b"):
            kai.group(f"job-{name}", name, 1)
            kai.pods(f"job-{name}", 8, requests=requests(1))
        await kai.pass_time()
    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert "Queue unset: spec.resources.gpu.limit is not set, which means 0: no job of this queue may use gpu" in logged
    assert kai.values("kai_queue_fair_share_gpu", "a", "b", "unset") == {"a": 6, "b": 6, "unset": 0}
    edited = tmp_path / "edited.json"
    queue = kai.raw(kai.queue_kind, "a")
    queue["spec"]["resources"]["gpu"]["quota"] = 2
    edited.write_text(json.dumps(queue), encoding="utf-8")
    predicted = await queue_command(kai, "simulate", "-f", str(edited), "-o", "json")
    rows = {each["queue"]: each for each in json.loads(predicted)["items"] if each["resource"] == GPU}
    assert {name: (rows[name]["before"], rows[name]["after"]) for name in ("a", "b")} == {
        "a": ("6", "2"),
        "b": ("6", "6"),
    }
    out = await queue_command(kai, "whatif", "default/job-b")
    assert "Verdict:" in out


async def test_request_15_place_in_line_and_dry_run(kai: Any, queue_command: Callable[..., Awaitable[str]]) -> None:
    """`explain` has the place among the waiting jobs; `whatif` shows who would be evicted, and changes nothing."""
    kai.nodes(1, cpu="8", **{GPU: "2"})
    kai.queue("a", resources=gpus(0))
    kai.queue("b", resources=gpus(2))
    scheduler = await kai.start()
    kai.job("runs", "a", 2, requests=requests(1))
    await kai.pass_time()
    run_all(kai)
    for number in range(3):
        kai.job(f"late{number}", "a", 1, requests=requests(1))
        await kai.pass_time(2)
    assert "place 2 of 3 waiting jobs of queue a, after default/late0" in await queue_command(kai, "explain", "late1")
    await scheduler.close()
    kai.job("claim", "b", 2, requests=requests(1))
    before = [pod.metadata.resource_version for pod in kai.cluster.pods()]
    out = await queue_command(kai, "whatif", "claim")
    assert "evict" in out
    assert "default/runs-0" in out
    assert [pod.metadata.resource_version for pod in kai.cluster.pods()] == before
