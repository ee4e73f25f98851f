"""The status of groups: phases, conditions, annotations; and the events about them."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_kube_batch.objects import KUBE_BATCH_QUEUES

STALE = "kai.scheduler/stale-podgroup-timestamp"
LAST_START = "kai.scheduler/last-start-timestamp"


def annotations(cluster: Any, name: str) -> dict[str, str]:
    """Return the annotations of a group."""
    found: dict[str, str] = cluster.raw(cluster.group_kind, name)["metadata"].get("annotations", {})
    return found


# --- Volcano and kube-batch


async def test_volcano_groups_go_through_the_phases(volcano: Any) -> None:
    """Inqueue, also without pods, Running, Completed; conditions say why a gang waits and that it is scheduled."""
    volcano.nodes(1, cpu="2")
    volcano.queue("default")
    await volcano.start()
    volcano.group("one", "default", 2)
    await volcano.pass_time()
    assert volcano.group_status("one")["phase"] == "Inqueue", "controllers wait for this phase to create the pods"
    volcano.pods("one", 1)
    await volcano.pass_time()
    condition = volcano.condition("one", "Unschedulable")
    assert (condition["status"], condition["reason"]) == ("True", "NotEnoughResources")
    text = "2/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 2 minAvailable"
    assert condition["message"] == text
    assert volcano.group_status("one")["phase"] == "Inqueue"
    assert [each[:2] for each in volcano.events("one")] == [("Warning", "Unschedulable")]
    volcano.pods("one", 1, start=1)
    await volcano.pass_time()
    assert volcano.nodes_of("one") == ["n0", "n0"]
    assert volcano.condition("one", "Scheduled")["reason"] == "tasks in gang are ready to be scheduled"
    assert ("Normal", "Scheduled", "pod group is ready") in volcano.events("one")
    volcano.go("Running", "one-0", "one-1")
    await volcano.pass_time()
    status = volcano.group_status("one")
    assert (status["phase"], status["running"]) == ("Running", 2)
    volcano.go("Succeeded", "one-0", "one-1")
    await volcano.pass_time()
    status = volcano.group_status("one")
    assert (status["phase"], status.get("running", 0), status["succeeded"]) == ("Completed", 0, 2)
    assert len(volcano.events("one")) == 2


async def test_names_that_only_quotas_know_do_not_hold_a_group(volcano: Any) -> None:
    """The `minResources` that Volcano's controller writes have `requests.cpu` and `count/pods`, which no node has."""
    volcano.nodes(1, cpu="8")
    volcano.queue("default")
    await volcano.start("actions: 'enqueue, allocate'")
    names = ("cpu", "requests.cpu", "limits.cpu", "pods", "count/pods")
    volcano.group("one", "default", 1, minResources=dict.fromkeys(names, "1"))
    volcano.pods("one", 1)
    await volcano.pass_time()
    assert volcano.nodes_of("one") == ["n0"]
    volcano.group("large", "default", 1, minResources={"cpu": "1", "example.com/gpu": "1"})
    await volcano.pass_time()
    assert volcano.group_status("large").get("phase", "Pending") == "Pending"


async def test_a_group_waits_until_its_namespace_has_quota(volcano: Any) -> None:
    """With `resourcequota`, a group stays Pending while a ResourceQuota lacks room, and is Inqueue once it has."""
    volcano.nodes(1, cpu="8")
    volcano.queue("default")
    server = volcano.cluster.server
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    server.add({**quota, "spec": {}, "status": {"hard": {"requests.cpu": "4"}, "used": {"requests.cpu": "3"}}})
    tiers = "[{plugins: [{name: gang}, {name: resourcequota}]}, {plugins: [{name: predicates}, {name: proportion}]}]"
    await volcano.start(f"actions: 'enqueue, allocate', tiers: {tiers}")
    volcano.group("one", "default", 2, minResources={"cpu": "2", "requests.cpu": "2"})
    volcano.group("other", "default", 2, minResources={"cpu": "2"})
    await volcano.pass_time()
    assert volcano.group_status("one").get("phase", "Pending") == "Pending"
    assert volcano.group_status("other")["phase"] == "Inqueue"
    changed = server.get("v1", "ResourceQuota", "q", namespace="default")
    changed["status"]["used"] = {"requests.cpu": "1500m"}
    resource = server.resource("v1", "ResourceQuota")
    record = server.registry.get(resource, "default", "q")
    server.registry.change(resource, record, changed, subresource="status")
    await volcano.pass_time()
    assert volcano.group_status("one")["phase"] == "Inqueue"


async def test_a_group_without_pods_says_why_it_is_not_enqueued(volcano: Any) -> None:
    """Volcano's controller creates the pods of an enqueued group, so the event is all that users see; told once."""
    volcano.nodes(1, cpu="1")
    volcano.queue("default")
    await volcano.start()
    volcano.group("big", "default", 1, minResources={"cpu": "4"})
    await volcano.pass_time()
    volcano.cluster.add_node("small", allocatable={"cpu": "1", "memory": "64Gi", "pods": "110"})
    await volcano.pass_time()
    assert volcano.group_status("big")["phase"] == "Pending"
    text = "resource in cluster is overused: overused cpu; queue resource quota insufficient: insufficient cpu"
    found = [(each["type"], each["note"]) for each in volcano.cluster.events("Unschedulable")]
    assert found == [("Normal", text)]
    volcano.cluster.add_node("large", allocatable={"cpu": "8", "memory": "64Gi", "pods": "110"})
    await volcano.pass_time()
    assert volcano.group_status("big")["phase"] == "Inqueue"


async def test_a_broken_gang_is_unknown(volcano: Any) -> None:
    """A running gang that lost a member, and has no room for the new one, has the phase Unknown."""
    volcano.nodes(2, cpu="1")
    volcano.queue("default")
    await volcano.start()
    volcano.job("one", "default", 2)
    await volcano.pass_time()
    volcano.go("Running", "one-0", "one-1")
    await volcano.pass_time()
    gone = next(pod for pod in volcano.cluster.pods() if pod.node_name == "n0")
    volcano.cluster.delete_node("n0")
    volcano.cluster.delete_pod(gone.name)
    volcano.pods("one", 1, start=2)
    await volcano.pass_time()
    assert volcano.group_status("one")["phase"] == "Unknown"


async def test_kube_batch_groups_have_phase_and_counts(kube_batch: Any) -> None:
    """kube-batch's status has the number of admitted members, too."""
    kube_batch.nodes(1, cpu="2")
    kube_batch.queue("default")
    await kube_batch.start()
    kube_batch.job("one", "default", 2)
    await kube_batch.pass_time()
    kube_batch.go("Running", "one-0")
    await kube_batch.pass_time()
    status = kube_batch.group_status("one")
    assert (status["phase"], status["running"], status["admitted"]) == ("Running", 1, 2)


async def test_kube_batch_groups_go_through_its_phases(kube_batch: Any) -> None:
    """Pending, Running, Unknown when a lost member finds no room, and Pending again when all have ended."""
    kube_batch.nodes(2, cpu="1")
    kube_batch.queue("default")
    await kube_batch.start()
    kube_batch.job("one", "default", 3)
    await kube_batch.pass_time()
    status = kube_batch.group_status("one")
    assert (status["phase"], status["conditions"][0]["reason"]) == ("Pending", "NotEnoughResources")
    assert status["conditions"][0]["message"] == "1/3 tasks in gang unschedulable: 0 nodes are available"
    kube_batch.cluster.add_node("n2", allocatable={"cpu": "1", "memory": "64Gi", "pods": "110"})
    await kube_batch.pass_time()
    kube_batch.go("Running", "one-0", "one-1", "one-2")
    await kube_batch.pass_time()
    status = kube_batch.group_status("one")
    assert (status["phase"], status["running"]) == ("Running", 3)
    assert [each["type"] for each in status["conditions"]] == ["Unschedulable"]
    gone = next(pod for pod in kube_batch.cluster.pods() if pod.node_name == "n0")
    kube_batch.cluster.delete_node("n0")
    kube_batch.cluster.delete_pod(gone.name)
    kube_batch.pods("one", 1, start=3)
    await kube_batch.pass_time()
    assert kube_batch.group_status("one")["phase"] == "Unknown"
    kube_batch.cluster.delete_pod("one-3")
    await kube_batch.pass_time()
    condition = kube_batch.group_status("one")["conditions"][0]
    assert (condition["reason"], kube_batch.group_status("one")["phase"]) == ("NotEnoughTasks", "Unknown")
    assert condition["message"] == "Not enough valid tasks for gang-scheduling, valid: 2, min: 3"
    left = [pod.name for pod in kube_batch.cluster.pods()]
    kube_batch.go("Succeeded", *left)
    await kube_batch.pass_time()
    status = kube_batch.group_status("one")
    assert (status["phase"], status["running"], status["succeeded"]) == ("Pending", 0, 2)


async def test_the_transition_id_alone_is_no_reason_to_write(volcano: Any) -> None:
    """Passes that find the same state leave the condition of an earlier pass."""
    volcano.nodes(1, cpu="1")
    volcano.queue("default")
    scheduler = await volcano.start()
    volcano.job("one", "default", 2)
    await volcano.pass_time()
    before = volcano.condition("one", "Unschedulable")
    passes = sessions_of(scheduler.scheduler)[0].passes
    volcano.cluster.add_node("small", allocatable={"cpu": "0", "pods": "110"})
    await volcano.pass_time()
    assert sessions_of(scheduler.scheduler)[0].passes > passes
    assert volcano.condition("one", "Unschedulable") == before


async def test_volcano_evictions_are_on_the_group_and_on_its_pods(volcano: Any) -> None:
    """One event on the group for a pass, with the action, the job that gets the room and the number of pods."""
    volcano.nodes(1, cpu="2")
    volcano.queue("default")
    volcano.queue("x")
    await volcano.start('actions: "enqueue, allocate, reclaim"')
    volcano.group("one", "default", 1)
    volcano.pods("one", 2)
    await volcano.pass_time()
    volcano.go("Running", "one-0", "one-1")
    await volcano.pass_time()
    volcano.job("two", "x", 1)
    await volcano.pass_time()
    (evict,) = [each for each in volcano.events("one") if each[1] == "Evict"]
    assert evict == ("Normal", "Evict", "Pod is evicted, because of reclaim (action=reclaim by=default/two pods=1)")
    (victim,) = [pod.name for pod in volcano.cluster.pods() if pod.is_terminating]
    assert ("Warning", "Evict", "Pod is evicted, because of reclaim") in volcano.events(victim)


async def test_another_group_plugin_leaves_the_status_alone(volcano: Any) -> None:
    """Gang runs the controller of group statuses; the controller leaves the groups of Batch alone."""
    volcano.nodes(1, cpu="2")
    volcano.queue("default")
    await volcano.start(before="- schedulerName: co\n  plugins: {multiPoint: {enabled: [{name: Gang}]}}")
    volcano.job("one", "default", 2)
    await volcano.pass_time()
    volcano.go("Running", "one-0", "one-1")
    await volcano.pass_time()
    status = volcano.group_status("one")
    assert (status["phase"], status["running"]) == ("Running", 2)
    writes = volcano.writes("/podgroups/one/status$")
    volcano.go("Succeeded", "one-0")
    await volcano.pass_time(30)
    assert (volcano.group_status("one")["succeeded"], writes.hits) == (1, 1)


# --- KAI


async def test_kai_groups_say_why_they_wait(kai: Any) -> None:
    """The scheduling condition has the reason and a transition number; it is not written while a part runs."""
    kai.nodes(1, cpu="2")
    kai.queue("a")
    await kai.start()
    kai.job("one", "a", 3)
    await kai.pass_time()
    (condition,) = kai.group_status("one")["schedulingConditions"]
    room = condition["reasons"][0]["message"]
    assert room.startswith("no node has room for default/one-")
    assert condition == {
        "type": "UnschedulableOnNodePool",
        "nodePool": "default",
        "status": "True",
        "reason": "Unschedulable",
        "message": f"PodSchedulingErrors: {room}.",
        "reasons": [{"reason": "PodSchedulingErrors", "message": room}],
        "transitionID": "1",
        "lastTransitionTime": condition["lastTransitionTime"],
    }
    assert kai.events("one") == [("Normal", "Unschedulable", condition["message"])]
    kai.group("two", "a", 1)
    kai.pods("two", 3)
    await kai.pass_time()
    assert sorted(kai.nodes_of("two")) == ["", "n0", "n0"]
    assert "schedulingConditions" not in kai.group_status("two")
    assert [each[1] for each in kai.events("two")] == ["Unschedulable"]


async def test_a_kai_group_that_lacks_pods_is_not_ready(kai: Any) -> None:
    """The event has the numbers, for each sub-group that is not ready."""
    kai.nodes(1, cpu="8")
    kai.queue("a")
    await kai.start()
    kai.group("one", "a", 3)
    kai.pods("one", 1)
    kai.group("two", "a", 2, subGroups=[{"name": "w", "minMember": 2}])
    kai.pods("two", 1, labels={"kai.scheduler/subgroup-name": "w"})
    await kai.pass_time()
    text = "Job is not ready for scheduling. Waiting for 3 pods, currently 1 exist, 0 are gated"
    assert kai.events("one") == [("Normal", "NotReady", text)]
    text = "Job is not ready for scheduling. Waiting for 2 pods for SubGroup w, currently 1 exist, 0 are gated."
    assert kai.events("two") == [("Normal", "NotReady", text)]


async def test_a_stale_gang_has_a_time_until_it_is_whole_again(kai: Any) -> None:
    """The annotation says since when the gang is broken; it survives a restart and is removed at the end."""
    kai.nodes(2, cpu="1")
    kai.queue("a")
    scheduler = await kai.start()
    kai.job("one", "a", 2)
    await kai.pass_time()
    assert annotations(kai, "one")[LAST_START] == "2026-01-01T00:00:00Z"
    kai.cluster.delete_pod("one-0")
    await kai.pass_time(10)
    since = annotations(kai, "one")[STALE]
    assert ("Normal", "StaleJob", "Job is stale. 1 pods are active, minMember is 2") in kai.events("one")
    await scheduler.close()
    scheduler = await kai.start()
    await kai.pass_time(10)
    assert annotations(kai, "one")[STALE] == since
    kai.pods("one", 1, start=2)
    await kai.pass_time()
    assert STALE not in annotations(kai, "one")
    assert annotations(kai, "one")[LAST_START] == "2026-01-01T00:00:00Z"


async def test_a_gang_that_stays_broken_is_evicted(kai: Any) -> None:
    """The grace period of the profile counts; the event says what was missing."""
    kai.nodes(2, cpu="1")
    kai.queue("a")
    await kai.start("stalenessGracePeriod: 20s")
    kai.job("one", "a", 2)
    await kai.pass_time()
    kai.cluster.delete_pod("one-0")
    await kai.pass_time(15)
    assert not kai.cluster.pod("one-1").is_terminating
    await kai.pass_time(10)
    assert kai.cluster.pod("one-1").is_terminating
    text = "Workload doesn't meet the minimum required number of pods (2), evicting remaining pod: default/one-1"
    assert ("Normal", "Evict", f"{text} (action=stalegangeviction pods=1)") in kai.events("one")


async def test_kai_evictions_name_the_pods_and_the_workload(kai: Any) -> None:
    """The group that loses pods has one event; the one that waits for them is pipelined."""
    gpus = {"cpu": {"quota": -1, "limit": -1, "overQuotaWeight": 1}, "memory": {"quota": -1, "limit": -1}}
    kai.nodes(1, cpu="64", **{"nvidia.com/gpu": "2"})
    for name in ("a", "b"):
        kai.queue(name, resources={**gpus, "gpu": {"quota": 1, "limit": -1, "overQuotaWeight": 1}})
    await kai.start()
    kai.group("one", "a", 1)
    kai.pods("one", 2, requests={"cpu": "1", "nvidia.com/gpu": "1"})
    await kai.pass_time()
    kai.job("two", "b", 1, requests={"cpu": "1", "nvidia.com/gpu": "1"})
    await kai.pass_time()
    (victim,) = [pod.key for pod in kai.cluster.pods() if pod.is_terminating]
    text = f"Pod {victim} was preempted by workload default/two (action=reclaim by=default/two pods=1)"
    assert ("Normal", "Evict", text) in kai.events("one")
    assert "Pipelined" in [each[1] for each in kai.events("two")]
    assert ("Normal", "Pipelined", "Pod default/two-0 was pipelined to node n0") in kai.events("two-0")


async def test_pods_of_kai_are_marked_unless_the_group_says_no(kai: Any) -> None:
    """Both groups' pods have the event Unschedulable; with markUnschedulable false they have no condition."""
    kai.nodes(1, cpu="1")
    kai.queue("a")
    await kai.start()
    kai.group("one", "a", 2)
    kai.group("two", "a", 2, markUnschedulable=False)
    for name in ("one", "two"):
        kai.pods(name, 2)
    await kai.pass_time()
    for name in ("one-0", "two-0"):
        assert [each[:2] for each in kai.events(name)] == [("Warning", "Unschedulable")]
    marked = {pod.name for pod in kai.cluster.pods() if any(each.status == "False" for each in pod.status.conditions)}
    assert marked == {"one-0", "one-1"}


async def test_pods_whose_group_does_not_exist_say_so(volcano: Any) -> None:
    """They have an event and a condition; once the group comes, they are bound."""
    volcano.nodes(1, cpu="1")
    volcano.queue("default")
    await volcano.start()
    volcano.pods("one", 1)
    await volcano.pass_time(60)
    text = 'PodGroupDoesNotExist: pod group "default/one" does not exist; create it'
    assert volcano.events("one-0") == [("Warning", "FailedScheduling", text)]
    volcano.group("one", "default", 1)
    await volcano.pass_time()
    assert volcano.nodes_of("one") == ["n0"]


# --- queues that cannot be used


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("queue", "reason", "text"),
    [
        pytest.param("none", "QueueDoesNotExist", 'queue "none" does not exist', id="missing"),
        pytest.param(
            "orphan", "ParentQueueDoesNotExist", 'queue "orphan" is below the queue "gone", which', id="missing parent"
        ),
        pytest.param("left", "QueueCycle", 'queue "left" is in or below a cycle of queues', id="cycle"),
        pytest.param("dept", "QueueIsNotALeaf", 'queue "dept" has child queues', id="inner"),
    ],
)
async def test_a_job_in_a_queue_that_cannot_be_used_says_so(kai: Any, queue: str, reason: str, text: str) -> None:
    """Group and pods have a stable reason and one event; once the queue is right, the job is bound."""
    kai.nodes(1, cpu="8")
    kai.queue("dept")
    kai.queue("a", parentQueue="dept")
    kai.queue("orphan", parentQueue="gone")
    kai.queue("left", parentQueue="right")
    kai.queue("right", parentQueue="left")
    await kai.start()
    kai.job("one", queue, 1)
    await kai.pass_time(60)
    (condition,) = kai.group_status("one")["schedulingConditions"]
    assert [each["reason"] for each in condition["reasons"]] == [reason]
    assert condition["message"].startswith(f"{reason}: {text}")
    (event,) = kai.events("one")
    assert event == ("Normal", "Unschedulable", condition["message"])
    assert kai.nodes_of("one") == [""]
    (note,) = [each[2] for each in kai.events("one-0")]
    assert note.startswith(f"{reason}: {text}")


async def test_a_missing_queue_of_volcano_is_on_the_condition(volcano: Any) -> None:
    """The condition Unschedulable has the reason; when the queue comes, the job is bound."""
    volcano.nodes(1, cpu="8")
    volcano.queue("default")
    await volcano.start()
    volcano.job("one", "late", 1)
    await volcano.pass_time()
    assert volcano.condition("one", "Unschedulable")["reason"] == "QueueDoesNotExist"
    assert [each[:2] for each in volcano.events("one")] == [("Warning", "Unschedulable")]
    volcano.queue("late")
    await volcano.pass_time()
    assert volcano.nodes_of("one") == ["n0"]
    assert volcano.condition("one", "Scheduled")["status"] == "True"


async def test_a_group_may_change_its_queue(kai: Any) -> None:
    """A job in a missing queue is bound as soon as its group names another one; the sums follow."""
    kai.nodes(1, cpu="8")
    for name in ("a", "b"):
        kai.queue(name)
    await kai.start()
    kai.job("one", "gone", 1)
    kai.job("two", "a", 1)
    await kai.pass_time()
    for name in ("one", "two"):
        kai.cluster.patch(kai.group_kind.type, name, {"spec": {"queue": "b"}})
    await kai.pass_time()
    assert kai.nodes_of("one") == ["n0"]
    assert kai.queue_status("b")["allocated"] == {"cpu": "2"}
    assert kai.queue_status("a")["allocated"] == {}


async def test_two_queues_of_one_name_are_refused(kube_batch: Any) -> None:
    """kube-batch has two kinds of queues; a name in both is no queue until one of them is deleted."""
    other = KUBE_BATCH_QUEUES[1]
    kube_batch.cluster.serve(other)
    kube_batch.nodes(1, cpu="8")
    kube_batch.queue("default")
    spec = {"apiVersion": other.api_version, "kind": other.kind, "metadata": {"name": "default"}, "spec": {}}
    kube_batch.cluster.add(spec, other.type)
    await kube_batch.start()
    kube_batch.job("one", "default", 1)
    await kube_batch.pass_time()
    assert kube_batch.condition("one", "Unschedulable")["reason"] == "DuplicateQueue"
    kube_batch.cluster.delete(other.type, "default")
    await kube_batch.pass_time()
    assert kube_batch.nodes_of("one") == ["n0"]


async def test_a_broken_tree_of_volcano_is_on_every_group(volcano: Any) -> None:
    """In hierarchical capacity a missing root stops all queues: groups say so, and are bound once it is there."""
    volcano.nodes(1, cpu="8")
    volcano.queue("default", parent="root")
    plugins = "[{name: gang}, {name: predicates}, {name: capacity, enableHierarchy: true}]"
    await volcano.start(f"tiers: [{{plugins: {plugins}}}]")
    volcano.job("one", "default", 1)
    await volcano.pass_time(60)
    assert volcano.nodes_of("one") == [""]
    assert volcano.condition("one", "Unschedulable")["reason"] == "ParentQueueDoesNotExist"
    (text,) = [note for _, reason, note in volcano.events("one") if reason == "Unschedulable"]
    assert text.startswith('queue "default" needs the queue "root", which does not exist; create it')
    volcano.queue("root")
    await volcano.pass_time()
    assert volcano.nodes_of("one") == ["n0"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"minMember": "many"}, "InvalidMinMember", id="minimum"),
        pytest.param({"subGroups": [{"name": "a", "parent": "gone"}]}, "InvalidSubGroups", id="parent"),
        pytest.param(
            {"subGroups": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]}, "InvalidSubGroups", id="cycle"
        ),
        pytest.param(
            {"subGroups": [{"name": "a" * n, "parent": "a" * (n - 1)} for n in range(1, 601)]},
            "InvalidSubGroups",
            id="600 levels",
        ),
    ],
)
async def test_a_group_that_cannot_be_read_says_so(kai: Any, spec: dict[str, Any], reason: str) -> None:
    """Its pods wait with a reason, other jobs are scheduled; once it is corrected, its pods are bound."""
    kai.nodes(1, cpu="8")
    kai.queue("a")
    scheduler = await kai.start()
    kai.group("one", "a", 1, **spec)
    kai.pods("one", 1, labels={"kai.scheduler/subgroup-name": "a"})
    kai.job("two", "a", 1)
    await kai.pass_time(10)
    (condition,) = kai.group_status("one")["schedulingConditions"]
    assert [each["reason"] for each in condition["reasons"]] == [reason]
    assert (kai.nodes_of("one"), kai.nodes_of("two")) == ([""], ["n0"])
    correct = {"minMember": 1, "subGroups": [{"name": "a", "minMember": 1}]}
    kai.cluster.patch(kai.group_kind.type, "one", {"spec": correct})
    await kai.pass_time(10)
    assert kai.nodes_of("one") == ["n0"]
    assert scheduler.warnings == {}


@pytest.mark.parametrize("system", ["kai", "volcano", "kube_batch"])
async def test_a_group_without_a_minimum_is_scheduled(request: pytest.FixtureRequest, system: str) -> None:
    """A minimum that is not set is no mistake."""
    batch = request.getfixturevalue(system)
    batch.nodes(1, cpu="8")
    batch.queue("a")
    await batch.start()
    batch.group("one", "a", 1, minMember=None)
    batch.pods("one", 1)
    await batch.pass_time(10)
    assert batch.nodes_of("one") == ["n0"]


async def test_a_gang_that_is_bound_makes_few_passes_due(kai: Any) -> None:
    """Members of a large gang that run one after the other make a pass due twice a second, and the status follows."""
    kai.nodes(1, cpu="100")
    kai.queue("q")
    await kai.start()
    kai.job("gang", "q", 60)
    await kai.pass_time(4.0)
    sessions = sessions_of(kai.scheduler.scheduler)[0]
    passes = sessions.passes
    for number in range(20):
        kai.go("Running", f"gang-{number}")
        await kai.pass_time(0.1)
    assert 0 < sessions.passes - passes <= 5
    await kai.pass_time(2.0)
    status = kai.group_status("gang")
    assert (status["running"], status["pending"]) == (20, 40)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("preset", "spec", "expected"),
    [
        pytest.param(
            "kai",
            {"priorityClassName": "nix"},
            'spec.priorityClassName: PriorityClass "nix" does not exist; a default counts',
            id="kai-class",
        ),
        pytest.param("volcano", {"priorityClassName": "nix"}, 'PriorityClass "nix" does not exist', id="volcano-class"),
        pytest.param("kai", {"topologyConstraint": 3}, "spec.topologyConstraint", id="kai-topology"),
        pytest.param("kai", {}, "", id="nothing"),
    ],
)
async def test_an_event_says_what_a_group_says_without_effect(
    preset: str, spec: dict[str, Any], expected: str, request: pytest.FixtureRequest
) -> None:
    """A field that cannot be used is named once for each change of the object, whatever happens to its pods."""
    batch = request.getfixturevalue(preset)
    batch.nodes(1, cpu="4")
    batch.queue("q")
    await batch.start()
    batch.group("one", "q", 1, **spec)
    batch.pods("one", 1)
    await batch.pass_time(5)
    batch.pods("one", 1, start=1)
    await batch.pass_time(5)
    notes = [note for kind, reason, note in batch.events("one") if (kind, reason) == ("Warning", "InvalidPodGroup")]
    assert len(notes) == bool(expected)
    assert expected in "".join(notes)
    if "priorityClassName" in spec:
        batch.cluster.patch(batch.group_kind.type, "one", {"spec": {"priorityClassName": "nada"}})
        await batch.pass_time(5)
        notes = [note for _, reason, note in batch.events("one") if reason == "InvalidPodGroup"]
        assert len(notes) == 2
        assert '"nada"' in notes[-1]
