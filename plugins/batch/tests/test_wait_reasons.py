"""Every pod that waits says why, also where the original records nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from pyscheduler.api import Node, Pod
from pyscheduler_batch.contract import Policy
from pyscheduler_batch.sessions.assembly import sessions_of

if TYPE_CHECKING:
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler_batch.contract import Job

NO_ROOM = "NotEnoughResources: no node has room for a pod of the job"
VOLCANO = "tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}, {name: nodeorder}]}]"


def messages(cluster: Any) -> dict[str, str]:
    """Return by job what the conditions of its waiting pods say; pods of a job agree."""
    found: dict[str, set[str]] = {}
    for pod in cluster.cluster.pods():
        if not pod.node_name:
            job = pod.name.rpartition("-")[0]
            said = [each.message for each in pod.status.conditions if each.type == "PodScheduled"]
            found.setdefault(job, set()).add(said[0] if said else "")
    assert all(len(said) == 1 for said in found.values()), found
    return {job: said.pop() for job, said in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "allocate, backfill"])
async def test_volcano_says_that_no_node_has_room(volcano: Any, actions: str) -> None:
    """Also of pods that look like others that were tried in their place."""
    volcano.nodes(2, cpu="4")
    volcano.queue("q")
    volcano.job("runs", "q", 6)
    await volcano.start(f'actions: "{actions}", {VOLCANO}')
    await volcano.pass_time(5)
    volcano.job("late", "q", 3)
    volcano.job("huge", "q", 1, requests={"cpu": "64"})
    for number in range(3):
        volcano.cluster.add_pod(f"single-{number}", requests={"cpu": "6"}, scheduler_name="batch")
    await volcano.pass_time(5)
    said = messages(volcano)
    # A node would take one pod of the gang, so the filters have nothing to say.
    assert said.pop("late") == NO_ROOM
    assert said.pop("huge") == f"{NO_ROOM}; 0/2 nodes are available: 2 Insufficient cpu."
    assert set(said) <= {"single"}


@pytest.mark.parametrize("preset", ["volcano", "kube_batch"])
async def test_pods_without_requests_start_beside_a_node_that_shrank(
    request: pytest.FixtureRequest, preset: str
) -> None:
    """A node may have less than its pods hold; that keeps nobody out who asks for nothing of it."""
    cluster: Any = request.getfixturevalue(preset)
    cluster.nodes(2, cpu="4")
    cluster.queue("q")
    await cluster.start()
    cluster.job("runs", "q", 8)
    await cluster.pass_time(5)
    cluster.cluster.patch(Node, "n0", {"status": {"allocatable": {"cpu": "3"}}}, status=True)
    await cluster.pass_time(5)
    for number in range(6):
        cluster.job(f"small-{number}", "q", 1, requests={"cpu": "0"})
    await cluster.pass_time(5)
    assert all(cluster.nodes_of(f"small-{number}") != [""] for number in range(6))
    cluster.cluster.patch(Node, "n0", {"status": {"allocatable": {"cpu": "4"}}}, status=True)


@pytest.mark.parametrize("preset", ["volcano", "kube_batch"])
async def test_a_pod_that_was_placed_and_not_sent_says_so(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    """Its node has room for it only when evicted pods are gone."""
    cluster: Any = request.getfixturevalue(preset)
    monkeypatch.setattr("pyscheduler_volcano.session.VolcanoSession._has_room_now", lambda *_: False)
    cluster.nodes(1, cpu="4")
    cluster.queue("q")
    await cluster.start()
    cluster.job("small", "q", 1, requests={"cpu": "0"})
    await cluster.pass_time(5)
    text = "NotEnoughResources: the node of a placed pod has no room for it at present"
    assert messages(cluster) == {"small": text}


class Never(Policy):
    """Lets no job begin, and does not say why."""

    name: ClassVar[str] = "never"

    def job_enqueueable(self, job: Job) -> int:
        return -1


def offers(registry: Registry) -> None:
    """Offer the policy."""
    registry.add_batch("never", f"{__name__}:Never")


async def test_volcano_says_that_a_job_is_not_enqueued(volcano: Any) -> None:
    """A policy of another distribution may refuse jobs without a reason."""
    volcano.nodes(1, cpu="4")
    volcano.queue("q")
    tiers = VOLCANO.replace("{name: gang}", "{name: gang}, {name: never}")
    await volcano.start(f'actions: "enqueue, allocate", {tiers}', register=offers)
    volcano.group("runs", "q", 1, minResources={"cpu": "1"})
    volcano.pods("runs", 1)
    await volcano.pass_time(5)
    assert messages(volcano) == {"runs": "NotEnqueued: no pass has enqueued the job yet"}


async def test_kube_batch_says_whether_room_or_the_share_is_missing(kube_batch: Any) -> None:
    """A queue that holds its share is not served; then nobody looks for room for its jobs."""
    kube_batch.nodes(2, cpu="4", memory="4Gi")
    kube_batch.queue("q")
    kube_batch.queue("r")
    unit = {"cpu": "1", "memory": "1Gi"}
    kube_batch.job("runs", "q", 4, requests=unit)
    kube_batch.job("huge", "r", 1, requests={"cpu": "64", "memory": "64Gi"})
    await kube_batch.start()
    await kube_batch.pass_time(5)
    kube_batch.job("late", "q", 2, requests=unit)
    await kube_batch.pass_time(5)
    huge = "NotEnoughResources: 0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory."
    assert messages(kube_batch) == {"late": "QueueOverused: queue q holds its share already", "huge": huge}
    kube_batch.cluster.delete(Pod, "huge-0")
    await kube_batch.pass_time(5)
    assert messages(kube_batch) == {}


async def test_kube_batch_says_it_on_each_pod_of_a_gang_that_is_too_large(kube_batch: Any) -> None:
    """Also on those for which the pass has kept room, and in place of what was said before."""
    kube_batch.nodes(2, cpu="4")
    kube_batch.queue("q")
    await kube_batch.start()
    kube_batch.group("big", "q", 10)
    kube_batch.cluster.add_pod(
        "big-0", requests={"cpu": "1"}, scheduler_name="batch", annotations={"scheduling.k8s.io/group-name": "big"}
    )
    await kube_batch.pass_time(3)
    assert messages(kube_batch) == {
        "big": "NotEnoughTasks: Not enough valid tasks for gang-scheduling, valid: 1, min: 10"
    }
    for number in range(1, 10):
        kube_batch.cluster.add_pod(
            f"big-{number}",
            requests={"cpu": "1"},
            scheduler_name="batch",
            annotations={"scheduling.k8s.io/group-name": "big"},
        )
    await kube_batch.pass_time(5)
    assert messages(kube_batch) == {"big": "NotEnoughResources: 0/2 nodes are available: 2 Insufficient cpu."}


async def test_volcano_promises_nothing_to_a_part_of_a_gang(volcano: Any) -> None:
    """Preempt leaves the only pod that fits pipelined, as in the original; the pods say that room is missing."""
    volcano.nodes(1, cpu="4")
    volcano.queue("q")
    volcano.job("pair", "q", 2, requests={"cpu": "3"})
    await volcano.start(f'actions: "enqueue, allocate, backfill, preempt", {VOLCANO}')
    await volcano.pass_time(5)
    assert messages(volcano) == {"pair": NO_ROOM}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("spec", "label", "expected"),
    [
        pytest.param(
            {"subGroups": [{"name": "a", "minMember": 1}]},
            "A1",
            "0 of at least 1 pods of sub-group a are present; the label kai.scheduler/subgroup-name of pods names no "
            'sub-group: default/j-0 ("A1"); name one of the sub-groups a',
            id="wrong-name",
        ),
        pytest.param(
            {"subGroups": [{"name": "a", "minMember": 1}]},
            "",
            "0 of at least 1 pods of sub-group a are present; the label kai.scheduler/subgroup-name of pods names no "
            "sub-group: default/j-0 (no label); name one of the sub-groups a",
            id="no-label",
        ),
        pytest.param(
            {},
            "A1",
            "the label kai.scheduler/subgroup-name of pods names no sub-group: default/j-0 "
            '("A1"); remove it, because the job has no sub-groups',
            id="no-sub-groups",
        ),
        pytest.param(
            {"subGroups": [{"name": "a", "minMember": 1}], "minSubGroup": 3},
            "a",
            "the job has 1 of at least 3 sub-groups",
            id="too-few-sub-groups",
        ),
        pytest.param(
            {"subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 2}]},
            "a",
            "0 of at least 2 pods of sub-group b are present",
            id="no-pods-of-a-sub-group",
        ),
    ],
)
async def test_kai_names_the_sub_group_that_keeps_a_job_waiting(
    kai: Any, spec: dict[str, Any], label: str, expected: str
) -> None:
    """A sub-group without its pods is named, and a pod whose label names none."""
    kai.nodes(1, cpu="8")
    kai.queue("q")
    await kai.start()
    kai.group("j", "q", 1, **spec)
    kai.pods("j", 1, labels={"kai.scheduler/subgroup-name": label} if label else {})
    await kai.pass_time(5)
    assert messages(kai) == {"j": f"NotReady: {expected}"}


async def test_kai_names_a_label_of_a_sub_group_on_a_pod_without_a_group(kai: Any) -> None:
    """Such a pod is no member of anything that has sub-groups."""
    kai.nodes(1, cpu="8")
    kai.queue("q")
    await kai.start()
    labels = {"kai.scheduler/subgroup-name": "a", "kai.scheduler/queue": "q"}
    kai.cluster.add_pod("solo-0", labels=labels, scheduler_name="batch", requests={"cpu": "1"})
    await kai.pass_time(5)
    assert 'default/solo-0 ("a"); remove it, because the job has no sub-groups' in messages(kai)["solo"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({"gpu-fraction": "x"}, "gpu-fraction annotation value must be", id="no-number"),
        pytest.param({"gpu-fraction": "1.5"}, "gpu-fraction annotation value must be", id="more-than-a-gpu"),
        pytest.param({"gpu-memory": "x"}, "gpu-memory annotation value must be a positive integer", id="memory"),
        pytest.param(
            {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"},
            "fraction count annotation value must be a positive integer",
            id="no-devices",
        ),
    ],
)
async def test_a_job_says_which_annotation_cannot_be_used(kai: Any, annotations: dict[str, str], expected: str) -> None:
    """The condition and the event of its pods have the sentence of KAI."""
    kai.nodes(1, cpu="8", **{"nvidia.com/gpu": "2"})
    kai.queue("q")
    await kai.start(plugins=", {name: GpuSharing}")
    kai.group("bad", "q", 1)
    own = {"pod-group-name": "bad", **annotations}
    kai.cluster.add_pod("bad-0", annotations=own, scheduler_name="batch", requests={"cpu": "100m"})
    await kai.pass_time(5)
    (condition,) = kai.cluster.pod("bad-0").status.conditions
    start = f"PodSchedulingErrors: the annotations of default/bad-0 cannot be used: {expected}"
    assert condition.message.startswith(start)
    assert kai.events("bad-0")[0][-1].startswith(start)


CAUSES = [
    pytest.param(
        {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]}},
        'persistentvolumeclaim "missing" not found',
        id="claim",
    ),
    pytest.param(
        {"node_selector": {"pool": "none"}}, "2 node(s) didn't match Pod's node affinity/selector", id="label"
    ),
    pytest.param({}, "2 node(s) had untolerated taint(s)", id="taint"),
]


@pytest.mark.parametrize("preset", ["kai", "volcano", "kube_batch"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("more", "text"), CAUSES)
async def test_a_job_that_all_nodes_reject_is_told_why(
    request: pytest.FixtureRequest, preset: str, count: int, more: dict[str, Any], text: str
) -> None:
    """The condition has the line of the filters, and does not say that room is missing."""
    cluster: Any = request.getfixturevalue(preset)
    for name in ("n0", "n1"):
        taints = [] if more else [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
        cluster.cluster.add_node(name, allocatable={"cpu": "8", "memory": "64Gi", "pods": "110"}, taints=taints)
    cluster.queue("q")
    await cluster.start()
    cluster.job("g", "q", count, **more)
    cluster.group("alone", "q", 1)
    cluster.pods("alone", 1, requests={"cpu": "0"}, **more)
    await cluster.pass_time(5)
    for said in messages(cluster).values():
        assert f"0/2 nodes are available: {text}" in said
        assert "no node has room" not in said


def add_three_nodes(cluster: Any) -> None:
    """Add a node with 4 cpu, a larger one with a label, and one with a taint."""
    room = {"cpu": "4", "memory": "64Gi", "pods": "110"}
    cluster.cluster.add_node("n0", allocatable=room)
    cluster.cluster.add_node("n1", allocatable={**room, "cpu": "8"}, labels={"pool": "large"})
    cluster.cluster.add_node("n2", allocatable=room, taints=[{"key": "k", "value": "x", "effect": "NoSchedule"}])


@pytest.mark.parametrize("preset", ["kai", "volcano"])
async def test_a_pod_without_room_is_told_why_for_each_node(request: pytest.FixtureRequest, preset: str) -> None:
    """Condition and event have the line of the filters after the text of the batch system; groups have no line."""
    cluster: Any = request.getfixturevalue(preset)
    add_three_nodes(cluster)
    cluster.queue("q")
    await cluster.start()
    cluster.job("large", "q", 1, requests={"cpu": "9"}, node_selector={"pool": "large"})
    await cluster.pass_time(5)
    reasons = (
        "Insufficient cpu",
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) had untolerated taint(s)",
    )
    text = messages(cluster)["large"]
    own, _, line = text.partition("; ")
    assert "no node has room for" in own
    assert line == f"0/3 nodes are available: {', '.join(f'1 {reason}' for reason in reasons)}."
    assert cluster.events("large-0")[0][-1] == text
    (sessions,) = sessions_of(cluster.scheduler.scheduler)
    assert sessions.waiting == {"default/large": own}


async def test_the_line_of_the_filters_follows_the_cluster(kai: Any) -> None:
    """It is written again if its reasons or the number of nodes change, not if the numbers by reason do."""
    add_three_nodes(kai)
    kai.queue("q")
    await kai.start()
    kai.job("large", "q", 1, requests={"cpu": "9"})
    await kai.pass_time(5)
    before = messages(kai)["large"]
    assert before.endswith("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.")
    kai.cluster.patch(Node, "n0", {"spec": {"taints": [{"key": "k", "value": "x", "effect": "NoSchedule"}]}})
    for number in range(3):
        kai.job(f"small-{number}", "q", 1)
        await kai.pass_time(10)
    assert messages(kai)["large"] == before
    kai.cluster.add_node("n3", allocatable={"cpu": "1", "memory": "64Gi", "pods": "110"})
    for number in range(3, 6):
        kai.job(f"small-{number}", "q", 1)
        await kai.pass_time(10)
    line = "0/4 nodes are available: 2 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    assert messages(kai)["large"].endswith(line)


async def test_more_kinds_of_pods_than_questions_get_their_line_in_turn(kai: Any) -> None:
    """The first 32 kinds have a line at once, four more each second while passes run."""
    kai.nodes(2, cpu="4")
    kai.queue("q")
    await kai.start()
    for number in range(40):
        kai.job(f"large-{number}", "q", 1, requests={"cpu": str(5 + number)})
    await kai.pass_time(2)

    def count() -> int:
        return sum("nodes are available" in text for text in messages(kai).values())

    assert 32 <= count() < 40
    for number in range(4):
        kai.job(f"small-{number}", "q", 1)
        await kai.pass_time(2)
    assert count() == 40


@pytest.mark.parametrize("preset", ["kai", "volcano", "kube_batch"])
async def test_a_gang_says_that_some_of_its_pods_have_gates(request: pytest.FixtureRequest, preset: str) -> None:
    """Until the gates are removed; the gang starts then."""
    cluster: Any = request.getfixturevalue(preset)
    cluster.nodes(1, cpu="8")
    cluster.queue("q")
    await cluster.start()
    cluster.group("g", "q", 3)
    cluster.pods("g", 2)
    cluster.pods("g", 1, start=2, spec={"schedulingGates": [{"name": "example.com/hold"}]})
    await cluster.pass_time(5)
    text = "NotReady: 1 of 3 pods have scheduling gates; the job needs at least 3 without"
    said = {
        each.message
        for pod in cluster.cluster.pods()
        for each in pod.status.conditions
        if each.reason == "Unschedulable"
    }
    assert said == {text}
    cluster.cluster.patch(Pod, "g-2", {"spec": {"schedulingGates": []}})
    await cluster.pass_time(5)
    assert cluster.nodes_of("g") == ["n0"] * 3
