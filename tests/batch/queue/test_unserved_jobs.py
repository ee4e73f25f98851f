"""`kubectl queue` about jobs that the profile does not serve, names of pods and workloads, and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.batch.queue.test_explain_plans import Objects
from tests.batch.queue.test_queue import KAI, VOLCANO, Run, steps

if TYPE_CHECKING:
    from pathlib import Path

POOL = {"kai.scheduler/node-pool": "blue"}
IN_POOL = "preset: kai\nactions: allocate, reclaim\nschedulerName: kai-scheduler\nnodePool: blue\n"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `kubectl queue`."""
    return Run(capsys)


def cluster(*, labelled: str = "", scheduler: str = "kai-scheduler") -> Objects:
    """Return a cluster with a waiting job `want`; `labelled` are the kinds of objects in the pool `blue`."""
    objects = Objects("kai", 8)
    objects.queue("a", 8)
    objects.job("want", "a", 1, runs=False, at=0)
    for one in objects.items:
        if one["kind"] in labelled.split():
            one["metadata"]["labels"] = POOL
        if one["kind"] == "Pod":
            one["spec"]["schedulerName"] = scheduler
    return objects


def written(folder: Path, text: str) -> list[str]:
    """Write a configuration; return the option that names it."""
    path = folder / "scheduler.yaml"
    path.write_text(text, encoding="utf-8")
    return ["--config", str(path)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("objects", "config", "reason", "text"),
    [
        pytest.param(
            cluster(scheduler="kai-schedular"),
            "preset: kai\nactions: allocate, reclaim\nschedulerName: mine\n",
            "NoBatchProfile",
            'its pods have the schedulerName "kai-schedular", but the batch profile of kai is "mine"; correct it, or '
            "give another --config",
            id="schedulerName",
        ),
        pytest.param(
            cluster(),
            "preset: volcano\nactions: enqueue, allocate\n",
            "NoBatchProfile",
            "no batch profile serves the dialect kai; give one with --config",
            id="dialect",
        ),
        pytest.param(
            cluster(labelled="PodGroup Queue"),
            "preset: kai\nactions: allocate, reclaim\nschedulerName: kai-scheduler\n",
            "OtherNodePool",
            "the job has the label kai.scheduler/node-pool=blue, but the batch profile serves jobs without the label",
            id="job of a pool",
        ),
        pytest.param(
            cluster(labelled="Queue"),
            IN_POOL,
            "OtherNodePool",
            "the job has no label kai.scheduler/node-pool, but the batch profile serves jobs with "
            "kai.scheduler/node-pool=blue; correct the label, or give another --config",
            id="job of no pool",
        ),
        pytest.param(
            cluster(labelled="PodGroup"),
            IN_POOL,
            "OtherNodePool",
            "queue a or one above it is in another node pool; the batch profile serves queues with",
            id="queue of no pool",
        ),
    ],
)
def test_explain_says_that_no_profile_serves_the_job(
    run: Run, tmp_path: Path, objects: Objects, config: str, reason: str, text: str
) -> None:
    """The step `session` holds the job and names the schedulerName or the label."""
    out = run("explain", "want", *written(tmp_path, config), objects=objects.write(tmp_path))
    assert f"Verdict:  waits: {reason}\n" in out
    found = steps(out)
    assert found["session"][:2] == ["holds", reason]
    assert text in found["session"][2]
    assert found["next"][2] == "the next attempt follows when a batch profile serves the job"


def test_a_queue_of_two_dialects_holds_the_job(run: Run, tmp_path: Path) -> None:
    """No pass serves a job whose queue exists twice; `explain` says so."""
    objects = Objects("volcano", 8)
    objects.queue("a")
    objects.job("want", "a", 1, runs=False, at=0)
    version = "scheduling.incubator.k8s.io/v1alpha1"
    objects.items.append({"apiVersion": version, "kind": "Queue", "metadata": {"name": "a"}, "spec": {"weight": 1}})
    found = steps(run("explain", "want", objects=objects.write(tmp_path)))
    text = 'queue "a" is defined by more than one object; delete or rename all but one'
    assert found["session"] == ["holds", "DuplicateQueue", text]


def two_dialects(*, runs: bool) -> Objects:
    """Return a cluster in which KAI and Volcano have a queue `same`, and a job of KAI in it."""
    objects = Objects("kai", 8)
    objects.queue("same", 8)
    objects.job("want", "same", 1, runs=runs, at=0)
    version = "scheduling.volcano.sh/v1beta1"
    objects.items.append({"apiVersion": version, "kind": "Queue", "metadata": {"name": "same"}, "spec": {"weight": 1}})
    return objects


BOTH_PRESETS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
""" + "".join(
    f"""
- schedulerName: {name}
  plugins: {{multiPoint: {{enabled: [{{name: Batch}}], disabled: [{{name: DefaultPreemption}}]}}}}
  pluginConfig: [{{name: Batch, args: {{preset: {preset}}}}}]
"""
    for name, preset in (("kai-scheduler", "kai"), ("volcano", "volcano"))
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("runs", [False, True], ids=["waits", "runs"])
@pytest.mark.parametrize("config", ["", BOTH_PRESETS], ids=["presets", "a configuration of both"])
def test_a_queue_of_kai_and_volcano_is_a_duplicate(run: Run, tmp_path: Path, config: str, *, runs: bool) -> None:
    """A scheduler with both presets uses neither queue; that is no matter of node pools or of policies."""
    options = written(tmp_path, config) if config else []
    file = two_dialects(runs=runs).write(tmp_path)
    out = run("explain", "want", *options, objects=file)
    text = 'queue "same" is defined by more than one object; delete or rename all but one'
    assert steps(out)["session"] == ["holds", "DuplicateQueue", text]
    assert f"Verdict:  {'has all its nodes' if runs else 'waits: DuplicateQueue'}\n" in out
    out = run("get", *options, objects=file)
    assert "queue same (kai): DuplicateQueue: Volcano has a queue of this name, too" in out
    assert "Warning: fair shares of kai are unknown: its profile can use none of the queues\n" in run.err


@pytest.mark.parametrize("is_file", [False, True], ids=["--dialect", "--config"])
def test_a_queue_of_volcano_does_not_concern_a_scheduler_of_kai(run: Run, tmp_path: Path, *, is_file: bool) -> None:
    """A scheduler with the preset of KAI alone does not read queues of Volcano, so the name is no problem."""
    kai = "preset: kai\nactions: allocate, reclaim\nschedulerName: kai-scheduler\n"
    options = written(tmp_path, kai) if is_file else ["--dialect", "kai"]
    file = two_dialects(runs=False).write(tmp_path)
    out = run("explain", "want", *options, objects=file)
    assert "Verdict:  starts in the next pass\n" in out
    assert "session" not in steps(out)
    assert "DuplicateQueue" not in run("get", *options, objects=file)
    assert run.err == ""


@pytest.mark.parametrize("dialect", ["volcano", "kube-batch"])
def test_a_group_without_an_object_has_the_dialect_of_its_scheduler(run: Run, tmp_path: Path, dialect: str) -> None:
    """The pods of Volcano and kube-batch name their group by the same annotation."""
    objects = Objects("volcano", 8)
    objects.job("want", "a", 1, runs=False, at=0)
    objects.items = [one for one in objects.items if one["kind"] != "PodGroup"]
    for one in objects.items:
        if one["kind"] == "Pod":
            one["spec"]["schedulerName"] = "mine"
    config = written(tmp_path, f"preset: {dialect}\nactions: allocate\nschedulerName: mine\n")
    out = run("explain", "want", *config, objects=objects.write(tmp_path))
    assert f"Dialect:  {dialect}\n" in out
    assert "Verdict:  waits: PodGroupDoesNotExist\n" in out
    assert steps(out)["session"] == ["info", "-", "no pod takes part in a pass"]


def test_sub_groups_that_make_no_tree_hold_no_other_step(run: Run, tmp_path: Path) -> None:
    """The step `declared` says what is wrong; the queue and the node pool are as they must be."""
    objects = cluster()
    (group,) = (one for one in objects.items if one["kind"] == "PodGroup")
    group["spec"]["subGroups"] = [{"name": "x", "parent": "y", "minMember": 1}, {"name": "y", "parent": "x"}]
    out = run("explain", "want", objects=objects.write(tmp_path))
    assert "Verdict:  waits: InvalidSubGroups\n" in out
    assert "session" not in steps(out)


def test_nodes_of_other_pools_do_not_count(run: Run, tmp_path: Path) -> None:
    """The nodes step of a job in a node pool counts the nodes of the pool only."""
    objects = cluster(labelled="PodGroup Queue")
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "0"}
    small = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "small", "labels": POOL}}
    objects.items.append(small | {"status": {"allocatable": amounts}})
    config = written(tmp_path, IN_POOL)
    text = steps(run("explain", "want", *config, objects=objects.write(tmp_path)))["nodes"][-1]
    assert text.endswith("default/want-0: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    for one in objects.items:
        if one["kind"] == "Pod":
            one["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "9"
            one["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "9"
    text = steps(run("explain", "want", *config, objects=objects.write(tmp_path)))["nodes"][-1]
    assert text.endswith("default/want-0: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")


def lone_pod() -> dict[str, Any]:
    """Return a pod without a group whose schedulerName is misspelt."""
    body = {"schedulerName": "kai-schedular", "containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone", "namespace": "default"}, "spec": body}


def test_pod_without_a_group_and_profile_is_named(run: Run, tmp_path: Path) -> None:
    """`explain` and `whatif -f` name the schedulerName that no profile has."""
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump(lone_pod()))
    text = 'no batch profile has the schedulerName "kai-schedular", only kai-scheduler, volcano, kube-batch; '
    run("whatif", "-f", str(path), code=1)
    assert run.err == f"error: {path}: no job in it: {text}correct it, or give another --config\n"
    run("explain", "lone", objects=str(path), code=1)
    assert run.err == f"error: pod default/lone is no job: {text}correct it, or give another --config\n"


def test_job_is_found_by_its_pod_and_by_its_owner(run: Run, tmp_path: Path) -> None:
    """A name of several jobs is a mistake that lists them."""
    objects = cluster()
    objects.job("other", "a", 1, runs=False, at=1)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "h3", "uid": "u"}
    groups = [one for one in objects.items if one["kind"] == "PodGroup"]
    groups[0]["metadata"]["ownerReferences"] = [owner]
    for name in ("h3", "want-0", "default/h3"):
        assert "Job:      default/want\n" in run("explain", name, objects=objects.write(tmp_path))
    groups[1]["metadata"]["ownerReferences"] = [owner]
    run("explain", "h3", objects=objects.write(tmp_path), code=1)
    assert run.err == (
        "error: default/h3 is the name of no job, but of pods or owners of several: default/other, default/want; "
        "name one of them\n"
    )


HIERARCHY = "preset: volcano\nactions: enqueue, allocate\ntiers: [{plugins: [{name: drf, enableHierarchy: true}]}]\n"
NO_SHARES = (
    "Warning: fair shares of {} are unknown: no policy of its profile reports them, as proportion and capacity do\n"
)


def test_missing_shares_are_explained(run: Run, tmp_path: Path) -> None:
    """One warning names a profile without shares, such as Volcano's with a hierarchy of drf."""
    config = written(tmp_path, HIERARCHY)
    assert "<unknown>" in run("get", *config, objects=VOLCANO)
    assert run.err == NO_SHARES.format("volcano")
    queue = tmp_path / "queue.yaml"
    queue.write_text(
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: batch}\nspec: {weight: 2}\n"
    )
    run("simulate", "-f", str(queue), *config, objects=VOLCANO)
    assert run.err == NO_SHARES.format("volcano")


def test_kube_batch_divides_by_weight(run: Run, tmp_path: Path) -> None:
    """A queue that asks for little gives the rest to others; one without a job has no share."""
    objects = Objects("kube-batch", 8)
    for name, weight in (("a", 1), ("b", 3), ("idle", 4)):
        objects.queue(name, weight=weight)
    objects.job("small", "a", 1, runs=False, at=0)
    objects.job("large", "b", 8, runs=False, at=0)
    _, *rows = run("get", objects=objects.write(tmp_path)).splitlines()
    shares = {row.split()[0]: row.split()[6] for row in rows if row}
    assert (run.err, shares) == ("", {"a": "1", "b": "7", "idle": "0"})


def test_explain_of_kube_batch_works_beside_a_gang_with_too_few_pods(run: Run, tmp_path: Path) -> None:
    """`explain` works in a queue where a gang with too few pods waits, and for that gang."""
    objects = Objects("kube-batch", 8)
    objects.queue("a")
    objects.job("short", "a", 1, least=3, runs=False, at=0)
    objects.job("want", "a", 1, runs=False, at=1)
    found = steps(run("explain", "short", objects=objects.write(tmp_path)))
    assert found["line"][-1] == "place 1 of 1 waiting jobs of queue a"


@pytest.mark.parametrize("arguments", [["get"], ["explain", "bert"]], ids=" ".join)
def test_warnings_of_the_configuration_are_counted(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    """One line says how many there are, and which command shows them."""
    config = written(
        tmp_path, "preset: kai\nactions: allocate, reclaim\nschedulerName: kai-scheduler\ncolour: red\nshape: round\n"
    )
    run(*arguments, *config, objects=KAI)
    file = config[1]
    assert run.err == f'Warning: {file}: 2 warnings; "pyscheduler config --config {file}" shows them\n'


CAPACITY = """\
preset: volcano
actions: enqueue, allocate
tiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity, enableHierarchy: true}]}]
"""
NEEDS_ROOT = 'needs the queue "root", which does not exist; create it'


def test_missing_root_of_a_tree_is_a_problem(run: Run, tmp_path: Path) -> None:
    """Hierarchical capacity of Volcano needs the queue root: get, describe and explain name it, until it exists."""
    config = written(tmp_path, CAPACITY)
    objects = Objects("volcano", 8)
    objects.queue("default", weight=1)
    objects.job("small", "default", 1, runs=False, at=0)
    path = objects.write(tmp_path)
    out = run("get", *config, objects=path)
    assert out.splitlines()[1].split()[-1] == "ParentQueueDoesNotExist"
    assert f"  queue default (volcano): ParentQueueDoesNotExist: it {NEEDS_ROOT}\n" in out
    assert f"ParentQueueDoesNotExist: it {NEEDS_ROOT}\n" in run("describe", "default", *config, objects=path)
    out = run("explain", "small", *config, objects=path)
    assert "Verdict:  waits: ParentQueueDoesNotExist\n" in out
    assert steps(out)["queue"] == ["holds", "ParentQueueDoesNotExist", f'queue "default" {NEEDS_ROOT}']
    objects.queue("root", weight=1)
    path = objects.write(tmp_path)
    assert "Problems" not in run("get", *config, objects=path)
    assert "Verdict:  starts" in run("explain", "small", *config, objects=path)


def test_drf_does_not_need_the_queue_root(run: Run, tmp_path: Path) -> None:
    """Its hierarchy is that of the annotations, not of the parents: without root, queues have no problem."""
    assert "Problems" not in run("get", *written(tmp_path, HIERARCHY), objects=VOLCANO)


def test_missing_priority_class_is_explained(run: Run, tmp_path: Path) -> None:
    """The step that says what the group declares names it, as the event does; explain and whatif print it."""
    objects = Objects("kai", 8)
    objects.queue("a", 8)
    objects.job("want", "a", 1, runs=False, at=0, priority=5)
    text = 'spec.priorityClassName: PriorityClass "high" does not exist; a default counts'
    assert steps(run("explain", "want", objects=objects.write(tmp_path)))["declared"] == [
        "info",
        "-",
        f"PodGroup of kai, minimum 1, phase Inqueue; {text}",
    ]
    objects.job("more", "a", 9, least=9, runs=False, at=0, priority=5)
    assert text in run("whatif", "more", objects=objects.write(tmp_path), code=1)
    objects.high_class()
    assert text not in run("explain", "want", objects=objects.write(tmp_path))
