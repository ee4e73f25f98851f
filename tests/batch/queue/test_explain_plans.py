"""`kubectl queue explain`: the best eviction plan of each action, and the rule that rejected it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.batch.queue.test_queue import Run, steps

if TYPE_CHECKING:
    from pathlib import Path

GPU = "nvidia.com/gpu"
FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
KEY = {"kai": "pod-group-name", "volcano": "scheduling.k8s.io/group-name", "kube-batch": "scheduling.k8s.io/group-name"}
VERSIONS = {
    "kai": ("scheduling.run.ai/v2", "scheduling.run.ai/v2alpha2", "kai-scheduler"),
    "volcano": ("scheduling.volcano.sh/v1beta1", "scheduling.volcano.sh/v1beta1", "volcano"),
    "kube-batch": ("scheduling.incubator.k8s.io/v1alpha1", "scheduling.incubator.k8s.io/v1alpha1", "kube-batch"),
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `kubectl queue`."""
    return Run(capsys)


class Objects:
    """The objects of one cluster of one node."""

    def __init__(self, dialect: str, gpus: int) -> None:
        self.dialect = dialect
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: str(gpus)}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": amounts}}
        self.items: list[dict[str, Any]] = [node]

    def queue(self, name: str, quota: int = 0, weight: int = 1, **spec: Any) -> None:
        """Add a queue; in KAI with a quota of GPUs."""
        if self.dialect == "kai":
            gpu = {"quota": quota, "limit": -1, "overQuotaWeight": weight}
            spec["resources"] = {"cpu": FREE, "memory": FREE, "gpu": gpu}
        else:
            spec.setdefault("weight", 1)
        self.items.append(
            {"apiVersion": VERSIONS[self.dialect][0], "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        )

    def job(self, name: str, queue: str, pods: int, *, least: int = 1, runs: bool, at: int, priority: int = 0) -> None:
        """Add a job whose pods request one GPU each; it was created at minute `at`."""
        _, version, scheduler = VERSIONS[self.dialect]
        created = f"2026-01-01T00:{at:02}:00Z"
        metadata = {"name": name, "namespace": "default", "creationTimestamp": created, "uid": name}
        spec: dict[str, Any] = {"minMember": least, "queue": queue}
        if priority:
            spec["priorityClassName"] = "high"
        group = {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec}
        self.items.append(group | {"status": {"phase": "Running" if runs else "Inqueue"}})
        for number in range(pods):
            own = {**metadata, "name": f"{name}-{number}", "uid": f"{name}-{number}"}
            amounts = {"cpu": "1", GPU: "1"}
            body = {
                "schedulerName": scheduler,
                "priority": priority,
                "containers": [{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": {GPU: "1"}}}],
            }
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": own | {"annotations": {KEY[self.dialect]: name}},
                "spec": body | ({"nodeName": "n1"} if runs else {}),
                "status": {"phase": "Running" if runs else "Pending"},
            }
            self.items.append(pod)

    def high_class(self, value: int = 10) -> None:
        """Add the priority class of high jobs."""
        metadata = {"name": "high"}
        self.items.append(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}
        )

    def write(self, folder: Path) -> str:
        """Write the objects to a file; return its path."""
        path = folder / "cluster.yaml"
        path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": self.items}), encoding="utf-8")
        return str(path)


def evictions(run: Run, objects: Objects, folder: Path, *, config: str = "") -> str:
    """Return what `explain` says about evictions for the job `want`."""
    options: list[str] = []
    if config:
        (folder / "scheduler.yaml").write_text(config, encoding="utf-8")
        options = ["--config", str(folder / "scheduler.yaml")]
    row = steps(run("explain", "want", *options, objects=objects.write(folder)))["evictions"]
    return row[-1]


def test_kai_reclaim_beyond_the_fair_share(run: Run, tmp_path: Path) -> None:
    """A queue without quota and share may not reclaim; the text has the amounts."""
    objects = Objects("kai", 4)
    objects.queue("rich", 4)
    objects.queue("poor", 0, weight=0)
    objects.job("old", "rich", 4, runs=True, at=0)
    objects.job("want", "poor", 1, runs=False, at=1)
    text = evictions(run, objects, tmp_path)
    assert f"reclaim: OverFairShare: queue poor would exceed its {GPU} fair share of 0: 0 used, 1 requested" in text


@pytest.mark.slow
def test_kai_reclaim_of_more_than_the_other_queue_has_too_much(run: Run, tmp_path: Path) -> None:
    """The best plan is shown with its victims, and what their queue holds of its share."""
    objects = Objects("kai", 3)
    objects.queue("a", 2)
    objects.queue("b", 2)
    objects.job("old", "a", 3, runs=True, at=0)
    objects.job("want", "b", 2, least=2, runs=False, at=1)
    text = evictions(run, objects, tmp_path)
    assert "reclaim: the best plan evicts default/old-" in text
    assert f"but ReclaimNotFair: queue b may not take so much: queue a holds 3 of 2 {GPU}" in text


def test_kai_run_time_protects_a_victim(run: Run, tmp_path: Path) -> None:
    """A gang within its minimum run time is named, and the next attempt follows when that time is over."""
    objects = Objects("kai", 2)
    objects.queue("a", 0, reclaimMinRuntime="100000h")
    objects.queue("b", 2)
    objects.job("old", "a", 2, runs=True, at=0)
    objects.items[-3]["metadata"]["annotations"] = {"kai.scheduler/last-start-timestamp": "2026-01-01T00:00:00Z"}
    objects.job("want", "b", 2, least=2, runs=False, at=1)
    text = evictions(run, objects, tmp_path)
    assert "reclaim: the best plan evicts default/old-" in text
    assert "but MinRuntimeNotElapsed: the minimum run time still protects default/old" in text
    found = steps(run("explain", "want", objects=objects.write(tmp_path)))
    assert found["next"][-1].endswith(", or at 2037-05-29T16:00:00Z")


def test_kai_run_time_protects_all_candidates(run: Run, tmp_path: Path) -> None:
    """The jobs that are no candidates yet are named, and until when."""
    objects = Objects("kai", 1)
    objects.queue("a", 0, reclaimMinRuntime="100000h")
    objects.queue("b", 1)
    objects.job("old", "a", 1, runs=True, at=0)
    objects.items[-2]["metadata"]["annotations"] = {"kai.scheduler/last-start-timestamp": "2026-01-01T00:00:00Z"}
    objects.job("want", "b", 1, runs=False, at=1)
    text = evictions(run, objects, tmp_path)
    protected = "the minimum run time still protects default/old until 2037-05-29T16:00:00Z"
    assert f"reclaim: MinRuntimeNotElapsed: {protected}; preempt: no preemptible jobs of lower priority" in text


@pytest.mark.parametrize(
    ("preemptable", "reclaimable", "queue", "expected"),
    [
        pytest.param("true", True, "b", "reclaim: 1 preemptible job in other queues, but no", id="candidate"),
        pytest.param("true", False, "b", "reclaim: no preemptible jobs in other reclaimable queues", id="queue"),
        pytest.param("false", True, "b", "reclaim: no preemptible jobs in other queues", id="pods-and-reclaim"),
        pytest.param("false", True, "a", "preempt: no preemptible jobs of lower priority", id="pods-and-preempt"),
    ],
)
def test_only_jobs_that_may_be_evicted_count_as_candidates(
    run: Run, tmp_path: Path, preemptable: str, reclaimable: bool, queue: str, expected: str
) -> None:
    """Pods may refuse evictions by an annotation, and a queue that others reclaim from it."""
    objects = Objects("volcano", 2)
    objects.high_class()
    objects.queue("a", reclaimable=reclaimable)
    objects.queue("b")
    objects.job("old", "a", 2, least=1, runs=True, at=0)
    for each in objects.items:
        if each["kind"] == "Pod":
            each["metadata"]["annotations"]["volcano.sh/preemptable"] = preemptable
    objects.job("want", queue, 1, runs=False, at=1, priority=10)
    objects.items[-1]["spec"]["containers"][0]["resources"] = {"requests": {GPU: "3"}}
    config = CONFIG.replace(", {name: proportion}", "") % "volcano"
    assert expected in evictions(run, objects, tmp_path, config=config)


def test_kai_consolidation_finds_no_place_for_a_victim(run: Run, tmp_path: Path) -> None:
    """The pod that finds no other node is named."""
    objects = Objects("kai", 2)
    objects.items.append(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n2"},
            "status": {"allocatable": {"cpu": "0", "memory": "64Gi", "pods": "110", GPU: "2"}},
        }
    )
    objects.high_class(60)
    objects.queue("a", 4)
    objects.job("old", "a", 1, runs=True, at=0)
    objects.job("want", "a", 2, least=2, runs=False, at=1, priority=60)
    config = 'preset: kai\nactions: "allocate, consolidation"\n'
    text = evictions(run, objects, tmp_path, config=config)
    assert "consolidation: the best plan evicts default/old-0, but VictimsNotMoved: " in text


CONFIG = """
preset: %s
actions: "allocate, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}]
"""


@pytest.mark.parametrize("dialect", ["volcano", "kube-batch"])
def test_policies_that_spare_candidates_are_counted(run: Run, tmp_path: Path, dialect: str) -> None:
    """Preemption fails because gang spares a whole gang; the node and the numbers are there."""
    objects = Objects(dialect, 2)
    objects.high_class()
    objects.queue("a")
    objects.job("old", "a", 2, least=2, runs=True, at=0)
    objects.job("want", "a", 1, runs=False, at=1, priority=10)
    text = evictions(run, objects, tmp_path, config=CONFIG % dialect)
    assert "preempt: VictimsSpared: on node n1 0 of 2 candidates may be evicted" in text
    assert "gang spares 2" in text


def test_volcano_evictions_that_do_not_suffice_for_the_gang(run: Run, tmp_path: Path) -> None:
    """Of a gang of three only one finds room: the plan is taken back, and says so."""
    objects = Objects("volcano", 3)
    objects.high_class()
    objects.queue("a")
    objects.job("old", "a", 3, least=2, runs=True, at=0)
    objects.job("want", "a", 3, least=3, runs=False, at=1, priority=10)
    text = evictions(run, objects, tmp_path, config=CONFIG % "volcano")
    assert "preempt: the best plan evicts default/old-" in text
    assert "but GangIncomplete: this makes room for 1 pods, but the job needs 3 at once" in text


def test_a_queue_at_its_share_reclaims_nothing(run: Run, tmp_path: Path) -> None:
    """The gate is named, although there are candidates in other queues."""
    objects = Objects("volcano", 4)
    objects.queue("a")
    objects.queue("b")
    objects.job("old", "a", 2, runs=True, at=0)
    objects.job("mine", "b", 2, runs=True, at=0)
    objects.job("want", "b", 1, runs=False, at=1)
    objects.job("more", "a", 1, runs=False, at=1)
    text = evictions(run, objects, tmp_path, config=CONFIG % "volcano")
    assert "preempt: VictimsSpared: on node n1 0 of 2 candidates may be evicted" in text
    assert "priority spares 2" in text
    assert "reclaim: QueueMayNotReclaim: with this job the queue would hold more than it may take from others" in text


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("preset", "gpus", "runs", "spec", "expected"),
    [
        pytest.param("volcano", 6, 0, {}, "no node has room for a pod of the job", id="larger-than-a-node"),
        pytest.param("kube-batch", 1, 8, {}, "nodes are available: 2 Insufficient nvidia.com/gpu", id="kube-batch"),
        pytest.param("volcano", 1, 8, {}, "no node has room for a pod of the job", id="full"),
        pytest.param("volcano", 1, 5, {}, "no node has room for a pod of the job", id="gang-too-large"),
        pytest.param(
            "volcano",
            2,
            0,
            {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
            "network topology: no HyperNode of tier 1 or lower takes 4 pods of the job; h1 has room for 2",
            id="hyper-node",
        ),
        pytest.param(
            "volcano",
            2,
            2,
            {"networkTopology": {"mode": "hard", "highestTierName": "rack"}},
            "no HyperNode of tier 1 (rack) or lower takes 4 pods of the job; h1 has room for 1",
            id="hyper-node-by-name",
        ),
        pytest.param(
            "volcano",
            2,
            0,
            {
                "subGroupPolicy": [
                    {
                        "name": "p",
                        "subGroupSize": 4,
                        "matchLabelKeys": ["part"],
                        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
                    }
                ]
            },
            "no HyperNode of tier 1 or lower takes 4 pods of sub-group p/x; h1 has room for 2",
            id="sub-group",
        ),
    ],
)
def test_a_job_without_room_is_held_by_the_step_nodes(
    run: Run, tmp_path: Path, preset: str, gpus: int, runs: int, spec: dict[str, Any], expected: str
) -> None:
    """The verdict has the reason of the pods, and the step says what is missing, also in a topology."""
    objects = Objects(preset, 4)
    node = objects.items[0]
    objects.items.append({**node, "metadata": {"name": "n2"}})
    objects.queue("a")
    objects.job("old", "a", runs, runs=True, at=0)
    objects.job("want", "a", 4, least=4, runs=False, at=1)
    for number, each in enumerate(objects.items):
        if each["kind"] == "PodGroup" and each["metadata"]["name"] == "want":
            each["spec"] |= spec
        elif each["kind"] == "Pod" and "nodeName" in each["spec"]:
            each["spec"]["nodeName"] = f"n{1 + number % 2}"
        elif each["kind"] == "Pod":
            each["metadata"] = each["metadata"] | {"labels": {"part": "x"}}
            each["spec"]["containers"][0]["resources"] = {"requests": {GPU: str(gpus)}}
    for number in (1, 2):
        members = [{"type": "Node", "selector": {"exactMatch": {"name": f"n{number}"}}}]
        body = {"metadata": {"name": f"h{number}"}, "spec": {"tier": 1, "tierName": "rack", "members": members}}
        objects.items.append({"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", **body})
    topology = ", {name: network-topology-aware}" if preset == "volcano" else ""
    tiers = f"[{{plugins: [{{name: priority}}, {{name: gang}}]}}, {{plugins: [{{name: predicates}}{topology}]}}]"
    config = f"preset: {preset}\nactions: allocate, preempt\ntiers: {tiers}\n"
    (tmp_path / "scheduler.yaml").write_text(config, encoding="utf-8")
    text = run("explain", "want", "--config", str(tmp_path / "scheduler.yaml"), objects=objects.write(tmp_path))
    assert "Verdict:  waits: NotEnoughResources\n" in text
    found = steps(text)
    assert (found["nodes"][:2], found["gates"][0]) == (["holds", "NotEnoughResources"], "ok")
    assert expected in found["nodes"][-1]


@pytest.mark.parametrize(
    ("dialect", "reason", "expected"),
    [
        pytest.param(
            "kai",
            "NotReady",
            "stalegangeviction: StaleGang: the gang runs below its minimum; its pods are evicted at 2100-01-01T00:01",
            id="kai",
        ),
        pytest.param("volcano", "NotEnoughTasks", "none needed", id="volcano"),
    ],
)
def test_a_gang_that_lost_a_pod_waits(run: Run, tmp_path: Path, dialect: str, reason: str, expected: str) -> None:
    """The verdict is not that it has all its nodes, and KAI says when the rest is evicted."""
    objects = Objects(dialect, 4)
    objects.queue("a", 4)
    objects.job("want", "a", 2, least=3, runs=True, at=1)
    stale = {"kai.scheduler/stale-podgroup-timestamp": "2100-01-01T00:00:00Z"}
    objects.items[-3]["metadata"] = {**objects.items[-3]["metadata"], "annotations": stale}
    text = run("explain", "want", objects=objects.write(tmp_path))
    assert f"Verdict:  waits: {reason}\n" in text
    assert steps(text)["evictions"][-1].startswith(expected)


def test_a_limit_is_named_once_with_units(run: Run, tmp_path: Path) -> None:
    """The step `gates` has the reason of the pass, and the amounts as quantities."""
    objects = Objects("kai", 4)
    objects.queue("a", 4)
    objects.items[-1]["spec"]["resources"]["cpu"] = {"quota": 0, "limit": 500, "overQuotaWeight": 1}
    objects.job("want", "a", 2, least=2, runs=False, at=1)
    gates = steps(run("explain", "want", objects=objects.write(tmp_path)))["gates"]
    assert gates[:2] == ["holds", "OverLimit"]
    assert gates[-1] == "queue a is 1500m cpu short: limit 500m, allocated 0, the job needs 2"


def test_a_label_that_names_no_sub_group_holds_the_step_pods(run: Run, tmp_path: Path) -> None:
    """The sub-group without pods is named, and the label of the pod."""
    objects = Objects("kai", 4)
    objects.queue("a", 4)
    objects.job("want", "a", 1, runs=False, at=1)
    group, pod = objects.items[-2:]
    group["spec"]["subGroups"] = [{"name": "workers", "minMember": 1}]
    pod["metadata"]["labels"] = {"kai.scheduler/subgroup-name": "worker"}
    text = run("explain", "want", objects=objects.write(tmp_path))
    assert "Verdict:  waits: NotReady\n" in text
    found = steps(text)["pods"]
    assert found[0] == "holds"
    assert "0 of at least 1 pods of sub-group workers are present" in found[-1]
    assert 'default/want-0 ("worker"); name one of the sub-groups workers' in found[-1]


def quota(hard: str, used: str) -> dict[str, Any]:
    """Return a quota of CPUs."""
    status = {"hard": {"requests.cpu": hard}, "used": {"requests.cpu": used}}
    metadata = {"name": "compute", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "status": status}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["volcano", "kube-batch"])
def test_job_that_waits_for_quota(dialect: str, run: Run, tmp_path: Path) -> None:
    """The step `gates` names quota and amounts; `describe` of its queue does, too."""
    objects = Objects(dialect, 9)
    objects.queue("a")
    objects.job("want", "a", 2, least=2, runs=False, at=1)
    objects.items[2]["spec"]["minResources"] = {"cpu": "5"}
    objects.items.append(quota("4", "2"))
    found = steps(run("explain", "want", objects=objects.write(tmp_path)))
    text = "insufficient quota for the whole group: compute lacks requests.cpu: needed 3, limit 4, used 2"
    assert found["gates"][:2] == ["holds", "WaitingForQuota"]
    assert text in found["gates"][-1]
    assert text in run("describe", "a", objects=objects.write(tmp_path))
    objects.items[-1] = quota("5", "2")
    assert steps(run("explain", "want", objects=objects.write(tmp_path)))["gates"][0] == "ok"


@pytest.mark.parametrize("dialect", ["kai", "volcano", "kube-batch"])
def test_a_gang_with_gated_pods_does_not_wait_for_its_controller(run: Run, tmp_path: Path, dialect: str) -> None:
    """All pods exist; the step says how many of them have scheduling gates."""
    objects = Objects(dialect, 8)
    objects.queue("a", 8)
    objects.job("want", "a", 3, least=3, runs=False, at=0)
    objects.items[-1]["spec"]["schedulingGates"] = [{"name": "example.com/hold"}]
    text = run("explain", "want", objects=objects.write(tmp_path))
    assert "Verdict:  waits: NotReady\n" in text
    (_, reason, said) = steps(text)["pods"]
    assert (reason, said) == ("NotReady", "1 of 3 pods have scheduling gates; the job needs at least 3 without")


def test_the_enqueued_group_that_reserves_a_queue_is_named(run: Run, tmp_path: Path) -> None:
    """Its pods do not exist yet, so that nothing else shows what holds the queue's room."""
    objects = Objects("volcano", 8)
    objects.queue("a", capability={GPU: "8"})
    objects.job("big", "a", 0, runs=False, at=0)
    objects.items[-1]["spec"]["minResources"] = {GPU: "8"}
    objects.job("want", "a", 1, runs=False, at=1)
    group = next(each for each in objects.items if each["metadata"]["name"] == "want")
    group["spec"]["minResources"], group["status"]["phase"] = {GPU: "1"}, "Pending"
    text = run("explain", "want", objects=objects.write(tmp_path))
    assert "reserved by enqueued groups: default/big" in " ".join(text.split())
