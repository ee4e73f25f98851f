"""`pyscheduler explain`, as typed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.cli.main import main
from pyscheduler.testing import node_manifest, pod_manifest
from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]
CLUSTER = [
    node_manifest("small", allocatable={"cpu": "1"}),
    node_manifest("large", allocatable={"cpu": "8"}),
    node_manifest("tainted", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]),
    pod_manifest("bound", node_name="large", requests={"cpu": "1"}),
    pod_manifest("pending", requests={"cpu": "99"}),
    pod_manifest("gated", scheduling_gates=["example.com/wait"]),
    pod_manifest("theirs", scheduler_name="somebody-else"),
    pod_manifest("placed", node_name="small", scheduler_name="somebody-else"),
]

PRIORITY_CLASS = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Write the cluster as `kubectl get -o yaml` would."""
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": CLUSTER}))
    return file


def write(folder: Path, *objects: dict[str, Any]) -> Path:
    """Write a manifest."""
    file = folder / "pod.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return file


def test_manifest_is_evaluated_on_a_cluster_in_a_file(tmp_path: Path, cluster: Path, run: Run) -> None:
    """The nodes that refuse are grouped by plugin; wide lists them by reason; the best node comes with its scores."""
    file = write(tmp_path, pod_manifest("new", requests={"cpu": "2"}))
    code, out, err = run("explain", "-f", file, "--objects", cluster)
    assert (code, err) == (0, "")
    assert out.startswith("pod default/new, profile pyscheduler, 3 nodes\nVerdict: fits\n")
    assert "1 of 3 nodes fit; the pod would be placed on large" in out
    assert "1 of 3 nodes (tainted): node(s) had untolerated taint(s): not tolerated: gpu=yes:NoSchedule" in out
    assert "rejected nodes" not in out
    assert out.splitlines()[-1].split()[0] == "large"
    _, out, _ = run("explain", "-f", file, "--objects", cluster, "-o", "wide")
    rows = [line.split() for line in out.splitlines()]
    assert ["1", "NodeResourcesFit", "Insufficient", "cpu", "small"] in rows
    assert ["1", "TaintToleration", "node(s)", "had", "untolerated", "taint(s)", "tainted"] in rows
    assert rows[-1][0] == "large"


def test_manifest_without_a_namespace_has_that_of_the_option(tmp_path: Path, cluster: Path, run: Run) -> None:
    """As for kubectl; a namespace in the manifest stays."""
    manifests = [pod_manifest("new"), pod_manifest("own", namespace="ml")]
    del manifests[0]["metadata"]["namespace"]
    code, out, err = run("explain", "-f", write(tmp_path, *manifests), "--objects", cluster, "-n", "web")
    assert (code, err) == (0, "")
    assert "pod web/new, profile" in out
    assert "pod ml/own, profile" in out


def test_several_pods_do_not_change_the_cluster_for_each_other(cluster: Path, run: Run) -> None:
    """A bound pod that is evaluated as if it were not bound is on its node again for the next one."""
    _, alone, _ = run("explain", "pending", "--objects", cluster)
    code, out, err = run("explain", "bound", "pending", "bound", "--objects", cluster)
    assert code == 0, err
    first, second, third = out.split("\n\npod default/")
    assert f"pod default/{second}" == alone.rstrip("\n")
    assert f"pod default/{third}" == f"{first}\n"


def test_pending_pod_shows_the_message_of_its_condition(cluster: Path, run: Run) -> None:
    """The message is kube-scheduler's, exit code 0: the question was answered."""
    code, out, err = run("explain", "default/pending", "--objects", cluster)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "Verdict: waits: Unschedulable" in text
    assert "0/3 nodes are available: " in text
    assert text.count("2 Insufficient cpu") == 1


def test_member_of_a_group_shows_which_quota_lacks_room(tmp_path: Path, run: Run) -> None:
    """The plugin of the group reads quotas from the file, too."""
    metadata = {"name": "g", "namespace": "default"}
    version = "scheduling.x-k8s.io/v1alpha1"
    spec = {"minMember": 1, "minResources": {"cpu": "3"}}
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec}
    status = {"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "1"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata | {"name": "compute"}, "status": status}
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    name = "pyscheduler-coscheduling"
    member = pod_manifest("g-0", requests={"cpu": "1"}, labels=labels, scheduler_name=name)
    node = node_manifest("n1", allocatable={"cpu": "9", "pods": "9"})
    options = ("--objects", write(tmp_path, node, group, quota, member), "--config", ROOT / "configs/coscheduling.yaml")
    code, out, err = run("explain", "default/g-0", *options)
    assert (code, err) == (0, "")
    assert "insufficient quota for the whole group: compute lacks requests.cpu: needed 2, limit 2, used 1" in out


def test_preemption_names_its_victims(tmp_path: Path, run: Run) -> None:
    """Where others would have to go it is told who, and that another node would do; nobody is told to go."""
    there = [
        item
        for name in ("n1", "n2")
        for item in (
            node_manifest(name, allocatable={"cpu": "2"}),
            pod_manifest(
                f"low-{name}", node_name=name, requests={"cpu": "2"}, status={"startTime": "2026-01-01T00:00:00Z"}
            ),
        )
    ]
    objects = tmp_path / "objects"
    objects.mkdir()
    cluster = write(objects, *there)
    file = write(tmp_path, pod_manifest("high", requests={"cpu": "1"}, priority=10))
    code, out, err = run("explain", "-f", file, "--objects", cluster)
    assert (code, err) == (0, "")
    told = re.search(r"evicts default/low-(n\d) on (n\d); equally good: 1 other node", out)
    assert told is not None, out
    assert told[1] == told[2]


def test_pod_of_a_batch_profile_is_evaluated_with_a_note(tmp_path: Path, cluster: Path, run: Run) -> None:
    """A manifest is of no job of the cluster; the note names the command that explains jobs."""
    pod = pod_manifest("new", requests={"cpu": "2"})
    pod["spec"]["schedulerName"] = "pyscheduler-kai"
    config = Path(__file__).parents[2] / "configs" / "batch-kai.yaml"
    code, out, err = run("explain", "-f", write(tmp_path, pod), "--objects", cluster, "--config", config)
    assert code == 0
    assert "would be placed on" in out
    assert err == (
        "note: profile pyscheduler-kai decides job by job, and default/new is evaluated alone; "
        "`pyscheduler explain job default/NAME` tells why its job waits\n"
    )


def test_priority_classes_may_have_server_set_fields(tmp_path: Path, cluster: Path, run: Run) -> None:
    """What `kubectl get -o yaml` prints has versions and uids, which are no obstacle to a pod in a file."""
    printed = {"name": "high", "resourceVersion": "7", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    folder = tmp_path / "classes"
    folder.mkdir()
    classes = write(folder, {**PRIORITY_CLASS, "metadata": printed})
    pod = pod_manifest("new", requests={"cpu": "2"})
    pod["spec"]["priorityClassName"] = "high"
    file = write(tmp_path, pod)
    code, out, err = run("explain", "-f", file, "--objects", cluster, "--objects", classes)
    assert (code, err) == (0, "")
    assert "would be placed on large" in out


def test_gated_pod_shows_its_gates(cluster: Path, run: Run) -> None:
    """No node is looked at."""
    code, out, _ = run("explain", "gated", "--objects", cluster)
    assert code == 0
    assert "waits: SchedulingGated" in out
    assert "SchedulingGates: " in out
    assert "example.com/wait" in out
    assert "nodes  " not in out


def test_bound_pod_is_evaluated_as_if_unbound(cluster: Path, run: Run) -> None:
    """A note says so; a pod of somebody else's gets the first profile's answer, with a note."""
    code, _, err = run("explain", "bound", "--objects", cluster)
    assert (code, err) == (0, "note: default/bound is bound to large; it is evaluated as if it were not bound yet\n")
    code, out, err = run("explain", "theirs", "--objects", cluster)
    assert code == 0
    assert "no profile has the schedulerName" in err
    assert "Verdict: waits: NoProfile" in out


def test_pod_that_another_scheduler_has_placed_does_not_wait(cluster: Path, run: Run) -> None:
    """The verdict is that it has a node; `pod/NAME` names a pod, as for kubectl."""
    code, out, err = run("explain", "pod/placed", "--objects", cluster)
    assert code == 0
    assert "Verdict: placed" in out
    assert "default/placed is bound to small" in err


def test_json_and_jsonl_output(tmp_path: Path, cluster: Path, run: Run) -> None:
    """One object for one pod, a list for several, one a line on request."""
    two = write(tmp_path, pod_manifest("one"), pod_manifest("two", requests={"cpu": "99"}))
    code, out, _ = run("explain", "-f", two, "--objects", cluster, "-o", "json")
    one, other = json.loads(out)
    assert code == 0
    assert (one["pod"], one["message"], one["nodes"]) == ("default/one", "", 3)
    assert one["filter"]["tainted"]["plugin"] == "TaintToleration"
    assert set(one["best"]) <= set(one["feasible"]) == {"small", "large"}
    assert other["message"] == other["fitError"]
    _, out, _ = run("explain", "-f", two, "--objects", cluster, "-o", "jsonl")
    assert [json.loads(line)["pod"] for line in out.splitlines()] == ["default/one", "default/two"]
    _, out, _ = run("explain", "pending", "--objects", cluster, "-o", "json")
    assert json.loads(out)["pod"] == "default/pending"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody", "--objects", "CLUSTER"], "pod default/nobody does not exist"),
        (["", "--objects", "CLUSTER"], "'' names nothing; write [NAMESPACE/]POD, or [NAMESPACE/]KIND/NAME"),
        (["/", "--objects", "CLUSTER"], "'/' names nothing"),
        (["shop/", "--objects", "CLUSTER"], "'shop/' names nothing"),
        (["a/b/c", "--objects", "CLUSTER"], "'a/b/c' names nothing"),
        (["Pod/nobody", "--objects", "CLUSTER"], "pod default/nobody does not exist, or it has terminated\n"),
        (
            ["service/nobody", "--objects", "CLUSTER"],
            "only pods and workloads can be explained, and service is neither",
        ),
        (["job", "--objects", "CLUSTER"], "give the word job and one name; a pod of the name job is pod/job"),
        (["pod/job", "--objects", "CLUSTER"], "pod default/job does not exist"),
        (
            ["-f", "TORN", "--objects", "CLUSTER"],
            "torn.yaml: error converting YAML to JSON: while parsing a flow node",
        ),
        (["--objects", "CLUSTER"], "either names of pods"),
        (["pending", "-f", "x", "--objects", "CLUSTER"], "either names of pods"),
        (["pending", "--objects", "CLUSTER", "--kubeconfig", "x"], "choose one source"),
        (["pending", "--dialect", "kai", "--objects", "CLUSTER"], "--dialect is for jobs"),
        (["pending", "--objects", "none.yaml"], "none.yaml: no such file"),
        (["-f", "CLUSTER", "--objects", "CLUSTER"], "a Node cannot be scheduled"),
        (["-f", "BAD", "--objects", "CLUSTER"], "spec.containers"),
        (["pending", "--cases", "x"], "--cases contains its own"),
        (["--cases", "x", "-o", "json"], "jsonl"),
        (["--cases", "none.jsonl"], "with cases cannot be read"),
        (["pending", "--kubeconfig", "none"], "none"),
        (["pending", "--objects", "CLUSTER", "--config", "none.yaml"], "none.yaml"),
    ],
)
def test_mistake_is_one_line_without_traceback(
    arguments: list[str], words: str, tmp_path: Path, cluster: Path, run: Run
) -> None:
    """No traceback, exit code 1, or 2 for what the command line itself says."""
    bad = tmp_path / "bad.yaml"
    bad.write_text("{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {}}")
    torn = tmp_path / "torn.yaml"
    torn.write_text("a: [\n")
    typed = [{"CLUSTER": str(cluster), "BAD": str(bad), "TORN": str(torn)}.get(word, word) for word in arguments]
    code, out, err = run("explain", *typed)
    assert code in {1, 2}
    assert out == ""
    assert words in err
    assert "Traceback" not in err
    assert "string" not in err, "the place of a mistake is a line"


def test_cases_are_answered_line_by_line(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A line that cannot be evaluated makes the exit code 1, and the others are printed nevertheless."""
    case = {"id": "a", "family": "mixed", "objects": {"nodes": CLUSTER[:2]}, "pod": pod_manifest("p")}
    file = tmp_path / "cases.jsonl"
    file.write_text(f"{json.dumps(case)}\nnonsense\n{json.dumps({**case, 'id': 'b'})}\n")
    with pytest.raises(SystemExit) as ended:
        main(["explain", "--cases", str(file), "-o", "jsonl", "--workers", "1"])
    first, second, third = map(json.loads, capfdbinary.readouterr().out.splitlines())
    assert ended.value.code == 1
    assert (first["id"], third["id"]) == ("a", "b")
    assert first["actual"] == third["actual"]
    assert (set(second), second["id"]) == ({"id", "error"}, "line 2")


async def test_explain_writes_nothing_to_a_live_cluster(tmp_path: Path, run: Run) -> None:
    """Over HTTP: the answer is there, and not one object of the cluster has changed."""
    import asyncio

    live = EmbeddedCluster(clock=LoopClock())
    live.add(*CLUSTER, PRIORITY_CLASS)
    server = live.server()
    await server.start()
    before = live.store.version
    pod = pod_manifest("new", requests={"cpu": "2"})
    pod["spec"]["priorityClassName"] = "high"
    file = write(tmp_path, pod)
    try:
        code, out, _ = await asyncio.to_thread(run, "explain", "-f", file, "--master", server.url)
        assert code == 0
        assert "would be placed on large" in out
        code, out, _ = await asyncio.to_thread(run, "explain", "default/pending", "--master", server.url)
        assert "waits: Unschedulable" in out
    finally:
        await server.stop()
    assert live.store.version == before


HOOKS = """
from pyscheduler import FilterPlugin, PreEnqueuePlugin
from pyscheduler.framework.hooks import hookimpl


class Fragile(PreEnqueuePlugin, FilterPlugin):
    def pre_enqueue(self, pod):
        if pod.name != "new":
            raise LookupError(f"no team of {pod.name}")
        return True if "wrong" in pod.labels else None

    def filter(self, state, pod, node):
        raise LookupError(f"no rack of {node.name}")


@hookimpl
def pyscheduler_register(registry):
    registry.add("Fragile", Fragile)
"""


@pytest.fixture
def fragile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a plugin that raises; return a configuration that enables it."""
    return installed(tmp_path, monkeypatch, "Fragile", HOOKS)


def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: str, hooks: str) -> Path:
    """Install a plugin; return a configuration that enables it."""
    name = plugin.lower()
    folder = tmp_path / "installed"
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / f"{name}_hooks.py").write_text(hooks)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pyscheduler]\n{name} = {name}_hooks\n")
    monkeypatch.syspath_prepend(str(folder))
    profile = {"schedulerName": "pyscheduler", "plugins": {"multiPoint": {"enabled": [{"name": plugin}]}}}
    body = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(body))
    return file


LICENCES = """
from pyscheduler import PermitPlugin, ReservePlugin, Status
from pyscheduler.framework.hooks import hookimpl


class Licences(ReservePlugin, PermitPlugin):
    books = {}

    def reserve(self, state, pod, node_name):
        assert state.trial is not None
        assert self.handle.snapshot.get(node_name).pods
        if "licence" not in pod.labels:
            return Status.unschedulable("no licence is left")
        self.books[pod.uid] = node_name
        if pod.labels["licence"] == "broken":
            raise LookupError("no such licence")

    def unreserve(self, state, pod, node_name):
        self.books.pop(pod.uid, None)

    def permit(self, state, pod, node_name):
        raise AssertionError("a trial of one pod does not ask")


@hookimpl
def pyscheduler_register(registry):
    registry.add("Licences", Licences)
"""


@pytest.mark.slow
def test_reserve_runs_in_a_trial_and_permit_is_named(
    run: Run, cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rejection at Reserve is the answer; the plugins that are not asked are named."""
    config = installed(tmp_path, monkeypatch, "Licences", LICENCES)

    def answer(*options: str, **labels: str) -> tuple[str, str]:
        pod = write(tmp_path, pod_manifest("new", requests={"cpu": "2"}, labels=labels))
        code, out, err = run("explain", "-f", pod, "--objects", cluster, "--config", config, *options)
        assert code == 0
        return out, err

    out, err = answer()
    assert ("Licences rejects the pod on large: no licence is left" in out, err) == (True, "")
    found = json.loads(answer("-o", "json")[0])
    assert (found["reserve"]["plugin"], found["reserve"]["node"]) == ("Licences", "large")
    assert found["message"] == "0/1 nodes are available: 1 no licence is left."
    out, err = answer(licence="yes")
    assert ("would be placed on large" in out, "not asked: Licences" in out, err) == (True, True, "")
    assert "reserve" not in json.loads(answer("-o", "json", licence="yes")[0])
    out, err = answer(licence="broken")
    assert "waits: SchedulerError" in out
    assert 'running Reserve plugin "Licences": LookupError: no such licence' in out
    import licences_hooks  # type: ignore[import-not-found]  # installed by this test

    assert licences_hooks.Licences.books == {}


def test_an_exception_of_a_plugin_is_shown_with_its_traceback_on_request(
    run: Run, cluster: Path, tmp_path: Path, fragile: Path
) -> None:
    """Without the option, a note names plugin, extension point and line."""
    pod = write(tmp_path, pod_manifest("new"))
    arguments = ("-f", pod, "--objects", cluster, "--config", fragile)
    code, out, err = run("explain", *arguments)
    assert code == 0
    assert "waits: SchedulerError" in out
    assert 'running "Fragile" filter plugin: LookupError: no rack of small' in out
    failed = 'plugin "Fragile" failed at Filter (pod=default/new): LookupError: no rack of small'
    note = f"note: {failed}, fragile_hooks.py:13 in Fragile.filter"
    assert err == f"{note}; --traceback shows more\n"
    _, _, err = run("explain", *arguments, "--traceback")
    assert err.startswith(f"{note}\n  Traceback (most recent call last):\n")
    assert 'raise LookupError(f"no rack of {node.name}")' in err
    assert err.endswith("LookupError: no rack of small\n")


def test_an_answer_of_the_wrong_type_has_no_traceback_to_show(
    run: Run, cluster: Path, tmp_path: Path, fragile: Path
) -> None:
    """The note does not offer a traceback where the scheduler itself found the mistake."""
    pod = write(tmp_path, pod_manifest("new", labels={"wrong": "yes"}))
    for more in ((), ("--traceback",)):
        code, _, err = run("explain", "-f", pod, "--objects", cluster, "--config", fragile, *more)
        assert code == 0
        assert err == (
            'note: plugin "Fragile" failed at PreEnqueue (pod=default/new): TypeError: PreEnqueue returned bool; '
            "expected Status or None, fragile_hooks.py:7 in Fragile.pre_enqueue\n"
        )


def test_failures_for_other_pods_are_not_shown(run: Run, cluster: Path, fragile: Path) -> None:
    """A plugin that fails for each pod that is read gives one note, about the pod that is explained."""
    _, _, err = run("explain", "default/pending", "--objects", cluster, "--config", fragile)
    assert err == (
        'note: plugin "Fragile" failed at PreEnqueue (pod=default/pending): LookupError: no team of pending, '
        "fragile_hooks.py:9 in Fragile.pre_enqueue; --traceback shows more\n"
    )
    _, _, err = run("explain", "default/bound", "--objects", cluster, "--config", fragile)
    assert "pending" not in err
