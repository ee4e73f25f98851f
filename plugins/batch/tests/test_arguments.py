"""Arguments of the plugin: pools of nodes, default queues, required groups, and nodes that are not ready."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Node, PriorityClass
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_kai.cycle import cycle_of

POOL = "kai.scheduler/node-pool"
LIMITED = {"quota": 0, "limit": -1, "overQuotaWeight": 1}


def waiting(scheduler: Any) -> dict[str, str]:
    """Return by job key why it waits."""
    return dict(sessions_of(scheduler.scheduler)[0].waiting)


def message(batch: Any, name: str) -> str:
    """Return the message of a pod's condition PodScheduled, "" if it has none."""
    conditions = batch.cluster.pod(name).status.conditions
    return next((each.message for each in conditions if each.type == "PodScheduled"), "")


# --- node pools


@pytest.mark.parametrize(
    ("args", "node"),
    [
        pytest.param("nodePool: a", "in-a", id="the nodes with the label and the value"),
        pytest.param("", "no-pool", id="without a pool, the nodes without the label"),
        pytest.param('nodePool: b, nodePoolLabel: "acme/pool"', "acme-b", id="another label"),
        pytest.param("shard: {partitionLabelValue: a}", "in-a", id="the pool of a shard"),
    ],
)
async def test_a_profile_uses_the_nodes_of_its_pool(kai: Any, args: str, node: str) -> None:
    """Jobs are placed on nodes of the pool only, although other nodes are empty."""
    key, _, value = ("acme/pool", "", "b") if "acme" in args else (POOL, "", "a" if args else "")
    pool = {key: value} if value else {}
    for name, labels in (("in-a", {POOL: "a"}), ("no-pool", {}), ("acme-b", {"acme/pool": "b", POOL: "x"})):
        kai.cluster.add_node(name, allocatable={"cpu": "1", "memory": "8Gi", "pods": "9"}, labels=labels)
    kai.labelled_queue("q", pool)
    await kai.start(args)
    kai.cluster.add_pod(
        "first", requests={"cpu": "1"}, scheduler_name="batch", labels={"kai.scheduler/queue": "q", **pool}
    )
    kai.cluster.add_pod(
        "second", requests={"cpu": "1"}, scheduler_name="batch", labels={"kai.scheduler/queue": "q", **pool}
    )
    await kai.pass_time()
    assert sorted(str(kai.cluster.pod(name).node_name or "") for name in ("first", "second")) == ["", node]


async def test_jobs_and_queues_of_other_pools_are_ignored_without_a_word(kai: Any) -> None:
    """A group of another pool gets no condition and no event; a queue of another pool does not exist here."""
    kai.nodes(1, cpu="4", labels={POOL: "a"})
    kai.labelled_queue("mine", {POOL: "a"})
    kai.labelled_queue("other", {POOL: "b"})
    scheduler = await kai.start("nodePool: a")
    kai.labelled_group("theirs", "other", 1, {POOL: "b"})
    kai.pods("theirs", 1)
    kai.labelled_group("lost", "other", 1, {POOL: "a"})
    kai.pods("lost", 1)
    await kai.pass_time()
    assert list(waiting(scheduler)) == ["default/lost"]
    assert waiting(scheduler)["default/lost"].startswith("QueueDoesNotExist")
    assert message(kai, "theirs-0") == ""
    assert not kai.events("theirs-0")
    assert not kai.queue_status("other")
    kai.cluster.patch(kai.group_kind.type, "theirs", {"metadata": {"labels": {POOL: "a"}}, "spec": {"queue": "mine"}})
    await kai.pass_time()
    assert kai.nodes_of("theirs") == ["n0"], "a group that moves into the pool is scheduled"


# --- nodes that are not ready


def unready(batch: Any, name: str, kind: str, status: str) -> None:
    """Set a condition of a node."""
    batch.cluster.patch(
        Node, name, {"status": {"conditions": [{"type": kind, "status": status}]}}, namespace="", status=True
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "status"),
    [
        pytest.param("Ready", "False", id="not ready"),
        pytest.param("Ready", "Unknown", id="unknown"),
        pytest.param("DiskPressure", "True", id="pressure"),
    ],
)
async def test_nodes_that_are_not_ready_are_neither_divided_nor_used(kai: Any, kind: str, status: str) -> None:
    """Only ready nodes are divided among queues and take tasks; a node that becomes ready counts again."""
    kai.nodes(2, cpu="4")
    kai.queue("a", resources={"cpu": LIMITED, "memory": LIMITED, "gpu": LIMITED})
    scheduler = await kai.start()
    unready(kai, "n0", kind, status)
    kai.group("one", "a", 1)
    kai.pods("one", 6)
    await kai.pass_time()
    assert sorted(each or "" for each in kai.nodes_of("one")) == ["", "", "n1", "n1", "n1", "n1"]
    found = await sessions_of(scheduler.scheduler)[0].decide(actions=())
    pool = cycle_of(found.session).proportion.pool
    found.session.ledger.put_back()
    assert pool[0] == 4000
    unready(kai, "n0", "Ready", "True")
    await kai.pass_time()
    assert kai.nodes_of("one").count("n0") == 2


async def test_a_cordoned_node_is_not_divided(kai: Any) -> None:
    """An unschedulable node adds nothing to the pool, but its pods count in their queue."""
    kai.nodes(2, cpu="4")
    kai.queue("a")
    scheduler = await kai.start()
    kai.cluster.patch(Node, "n0", {"spec": {"unschedulable": True}}, namespace="")
    await kai.pass_time()
    found = await sessions_of(scheduler.scheduler)[0].decide(actions=())
    pool = cycle_of(found.session).proportion.pool
    found.session.ledger.put_back()
    assert pool[0] == 4000


# --- queues and groups


async def test_queue_label_names_the_queue_of_a_pod_without_a_group(kai: Any) -> None:
    """With `queueLabel`, the usual label does not count."""
    kai.nodes(1, cpu="4")
    kai.queue("a")
    scheduler = await kai.start('queueLabel: "acme/team"')
    kai.cluster.add_pod("new", requests={"cpu": "1"}, scheduler_name="batch", labels={"acme/team": "a"})
    kai.cluster.add_pod("old", requests={"cpu": "1"}, scheduler_name="batch", labels={"kai.scheduler/queue": "a"})
    await kai.pass_time()
    assert kai.cluster.pod("new").node_name == "n0"
    assert waiting(scheduler) == {
        "default/old": "QueueDoesNotExist: the pod is in no pod group and names no queue; set its label acme/team"
    }


@pytest.mark.parametrize("preset", ["volcano", "kube_batch", "kai"])
async def test_default_queue_takes_jobs_that_name_none(preset: str, request: pytest.FixtureRequest) -> None:
    """Groups and pods without a group are in `defaultQueue`; those that name a queue are not."""
    batch = request.getfixturevalue(preset)
    batch.nodes(1, cpu="4")
    batch.queue("team")
    scheduler = await batch.start("defaultQueue: team")
    batch.group("unnamed", "", 1)
    batch.pods("unnamed", 1)
    batch.group("named", "default", 1)
    batch.pods("named", 1)
    batch.cluster.add_pod("alone", requests={"cpu": "1"}, scheduler_name="batch")
    await batch.pass_time()
    assert batch.nodes_of("unnamed") == ["n0"]
    assert batch.cluster.pod("alone").node_name == "n0"
    assert list(waiting(scheduler)) == ["default/named"]


@pytest.mark.parametrize("preset", ["volcano", "kube_batch"])
async def test_require_group_refuses_pods_until_they_have_a_group(preset: str, request: pytest.FixtureRequest) -> None:
    """A pod without a group gets a condition and an event; once it names a group, it is scheduled."""
    batch = request.getfixturevalue(preset)
    batch.nodes(1, cpu="4")
    batch.queue("default")
    await batch.start("requireGroup: true")
    batch.cluster.add_pod("alone-0", requests={"cpu": "1"}, scheduler_name="batch")
    await batch.pass_time()
    text = "PodGroupRequired: the pod is in no pod group; create one and name it on the pod"
    assert message(batch, "alone-0") == text
    assert batch.events("alone-0") == [("Warning", "FailedScheduling", text)]
    batch.group("alone", "default", 1)
    batch.cluster.patch(
        type(batch.cluster.pod("alone-0")),
        "alone-0",
        {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "alone"}}},
    )
    await batch.pass_time()
    assert batch.nodes_of("alone") == ["n0"]


# --- minimum


async def test_explicit_min_member_0_is_no_gang(kai: Any) -> None:
    """As in KAI, `minMember: 0` lets single pods start; without `minMember` one pod is needed."""
    kai.nodes(1, cpu="2")
    kai.queue("a")
    scheduler = await kai.start()
    kai.group("none", "a", 0)
    kai.pods("none", 3)
    await kai.pass_time()
    assert kai.nodes_of("none").count("n0") == 2
    session = sessions_of(scheduler.scheduler)[0]
    job = next(job for job in session.tables.jobs.values() if job.key == "default/none")
    assert job.min_member == 0
    assert job.stale_since is None


# --- pressure of nodes (kube-batch)

PRESSURE_TIERS = "tiers: [{plugins: [{name: gang}, {name: predicates, arguments: {%s}}, {name: proportion}]}]"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("condition", "requests", "held"),
    [
        pytest.param("DiskPressure", {"cpu": "1"}, True, id="disk"),
        pytest.param("PIDPressure", {"cpu": "1"}, True, id="processes"),
        pytest.param("MemoryPressure", {}, True, id="memory, best-effort pod"),
        pytest.param("MemoryPressure", {"cpu": "1"}, False, id="memory, other pod"),
    ],
)
async def test_pressure_keeps_pods_away_if_kube_batch_is_told_so(
    kube_batch: Any, condition: str, requests: dict[str, str], *, held: bool
) -> None:
    """Without the argument the node takes the pod; with it, the pod waits until the pressure ends."""
    conditions = [{"type": condition, "status": "True"}]
    kube_batch.nodes(1, cpu="4")
    kube_batch.cluster.patch(Node, "n0", {"status": {"conditions": conditions}}, status=True)
    kube_batch.queue("default")
    for argument, is_held in (("", False), (f"predicate.{condition}Enable: true", held)):
        scheduler = await kube_batch.start(PRESSURE_TIERS % argument)
        kube_batch.job("one", "default", 1, requests=requests)
        await kube_batch.pass_time()
        assert kube_batch.nodes_of("one") == [("" if is_held else "n0")]
        if is_held:
            conditions[0]["status"] = "False"
            kube_batch.cluster.patch(Node, "n0", {"status": {"conditions": conditions}}, status=True)
            await kube_batch.pass_time()
            assert kube_batch.nodes_of("one") == ["n0"]
        await scheduler.close()
        kube_batch.cluster.delete_pod("one-0")
        kube_batch.cluster.delete(kube_batch.group_kind.type, "one")


@pytest.mark.parametrize("is_pressed", [True, False])
async def test_nobody_is_evicted_on_a_node_under_pressure(kube_batch: Any, *, is_pressed: bool) -> None:
    """The pod that needs room could not use it there."""
    kube_batch.nodes(1, cpu="1")
    kube_batch.queue("default")
    kube_batch.cluster.add(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 100,
        },
        PriorityClass,
    )
    tiers = (
        "tiers: [{plugins: [{name: priority}, {name: gang, enablePreemptable: false}]}, "
        "{plugins: [{name: predicates, arguments: {predicate.DiskPressureEnable: true}}, {name: proportion}]}]"
    )
    await kube_batch.start(f"actions: 'allocate, preempt', {tiers}")
    kube_batch.job("low", "default", 1)
    await kube_batch.pass_time()
    kube_batch.go("Running", "low-0")
    if is_pressed:
        conditions = [{"type": "DiskPressure", "status": "True"}]
        kube_batch.cluster.patch(Node, "n0", {"status": {"conditions": conditions}}, status=True)
    kube_batch.group("one", "default", 1, priorityClassName="high")
    kube_batch.pods("one", 1, priority=100)
    await kube_batch.pass_time()
    assert kube_batch.cluster.pod("low-0").is_terminating != is_pressed
