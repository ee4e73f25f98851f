"""`pyscheduler queue`: the output of every subcommand, its mistakes, and the real kubectl."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.cli.main import main as pyscheduler
from pyscheduler_batch.cli.queue.command import main
from pyscheduler_batch.model.amounts import amount_text
from tests import processes

HERE = Path(__file__).parent
KAI = str(HERE / "kai.yaml")
VOLCANO = str(HERE / "volcano.yaml")
ROOT = HERE.parents[2]
KUBECTL = shutil.which("kubectl")
CRDS = [(ROOT / f"configs/crds/{kind}.scheduling.volcano.sh.yaml").read_bytes() for kind in ("podgroups", "queues")]
VOLCANO_OBJECTS = Path(VOLCANO).read_bytes()


class Run:
    """Runs the command and keeps its output."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.err = ""

    def __call__(self, *arguments: str, objects: str = KAI, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--objects", objects] if objects else [*arguments])
        out, self.err = self._capsys.readouterr()
        assert ended.value.code == code, out + self.err
        return out


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `kubectl queue`."""
    return Run(capsys)


def steps(text: str) -> dict[str, list[str]]:
    """Return the rows of an explanation by step: result, reason and detail."""
    lines = text[text.index("  ----") :].splitlines()[1:]
    rows = [re.split(r"\s{2,}", line.strip(), maxsplit=3) for line in lines]
    return {row[0]: row[1:] for row in rows}


# --- get and describe ---------------------------------------------------------------------------


def test_get_prints_the_tree_with_shares_and_problems(run: Run) -> None:
    """Children stand below their parent; unusable queues come last; the footer says what to do."""
    assert run("get") == (
        "QUEUE      DIALECT   STATE   RESOURCE         QUOTA   LIMIT       FAIR-SHARE   ALLOCATED   PENDING   JOBS"
        "     WAITING   PROBLEM\n"
        "research   kai       Open    nvidia.com/gpu   8       unlimited   8            6           15        1   "
        "     4         QueueIsNotALeaf\n"
        "  speech   kai       Open    nvidia.com/gpu   4       4           4            0           11        0   "
        "     3\n"
        "  vision   kai       Open    nvidia.com/gpu   4       8           4            6           4         1   "
        "     1\n"
        "lost       kai       Open    nvidia.com/gpu   0       0           <unknown>    <none>      <none>    <none>"
        "   <none>    ParentQueueDoesNotExist\n"
        "\n"
        "Problems:\n"
        '  queue lost (kai): ParentQueueDoesNotExist: its parent, "nowhere", does not exist; create that queue or '
        "change the parent\n"
        '  job default/stray (kai): QueueIsNotALeaf: queue "research" has child queues; put the pod group into a queue '
        "without children\n"
    )
    assert run.err == ""


def test_get_of_names_prints_these_queues_only(run: Run) -> None:
    """A missing name is reported as by kubectl, after the queues that exist."""
    out = run("get", "vision", "nix", "--no-headers", code=1)
    assert [line.split()[0] for line in out.splitlines()] == ["vision"]
    assert run.err == 'Error from server (NotFound): queues "nix" not found\n'


def with_objects(folder: Path, *items: object) -> str:
    """Write the objects of `kai.yaml` and more; return the path."""
    path = folder / "objects.json"
    known = yaml.safe_load(Path(KAI).read_text())["items"]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*known, *items]}, default=str))
    return str(path)


def pod(name: str, **spec: object) -> dict[str, object]:
    """Return a pod of KAI in the group of its name."""
    metadata = {"name": f"{name}-0", "namespace": "default", "annotations": {"pod-group-name": name}}
    body = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


@pytest.mark.slow
def test_a_chain_of_many_queues_is_shown(run: Run, tmp_path: Path) -> None:
    """The depth of the tree has no limit."""
    queues = [
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": f"q{i}"}, "spec": spec}
        for i in range(1200)
        for spec in [{"parentQueue": f"q{i - 1}"} if i else {}]
    ]
    text = run("get", "q0", "--no-headers", objects=with_objects(tmp_path, *queues))
    lines = text.partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == [f"q{i}" for i in range(1200)]


def test_a_pod_with_a_field_of_a_wrong_type_is_named(run: Run, tmp_path: Path) -> None:
    """One line has the file, the pod and the field."""
    objects = with_objects(tmp_path, pod("bad", containers=3))
    run("get", objects=objects, code=1)
    assert run.err == f"error: {objects}: Pod bad-0: Pod: Expected `array`, got `int` - at `$.spec.containers`\n"


def test_a_pod_with_a_malformed_amount_is_a_problem(run: Run, tmp_path: Path) -> None:
    """The queues are shown, and the problem names the pod."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "x"}}}
    text = run("get", objects=with_objects(tmp_path, pod("yolo", containers=[container])))
    assert "  pod default/yolo-0 (kai): MalformedPod: quantity 'x' is malformed; " in text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["get"], "pod default/yolo-0 (kai): MalformedPod: quantity 'x' is malformed", id="get"),
        pytest.param(["describe", "vision"], "MalformedPod: quantity 'x' is malformed", id="describe"),
        pytest.param(["explain", "yolo"], "Verdict:  waits: MalformedPod\n", id="explain"),
    ],
)
def test_a_malformed_pod_is_told_without_logs(run: Run, tmp_path: Path, arguments: list[str], expected: str) -> None:
    """The answer has the problem, and the scheduler's log lines do not appear beside it."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "x"}}}
    known = [one for one in yaml.safe_load(Path(KAI).read_text())["items"] if one["metadata"]["name"] != "yolo-0"]
    objects = tmp_path / "objects.yaml"
    objects.write_text(yaml.safe_dump_all([*known, pod("yolo", containers=[container])]))
    assert expected in run(*arguments, objects=str(objects))
    assert run.err == ""


def test_sub_groups_of_another_job_are_not_logged(run: Run, tmp_path: Path) -> None:
    """`explain` tells about the sub-groups of its own job only, with the name of each."""
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "loop", "namespace": "default"},
        "spec": {
            "minMember": 1,
            "queue": "vision",
            "subGroups": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}],
        },
    }
    objects = with_objects(tmp_path, group, pod("loop"))
    run("explain", "yolo", objects=objects)
    assert run.err == ""
    assert "parent of sub-group \"a\": 'b' closes a cycle" in run("explain", "loop", objects=objects)
    assert run.err == ""


def test_get_wide_has_a_row_for_each_resource(run: Run) -> None:
    """Weight, priority and the number of warnings stand in the first row of a queue."""
    lines = run("get", "speech", "-o", "wide").splitlines()
    assert [line.split()[:1] for line in lines[1:]] == [["speech"], ["memory"], ["nvidia.com/gpu"]]
    header = lines[0].split()
    assert lines[1].split()[header.index("WARNINGS")] == "1"
    shown = run("get", "speech", "--resource", "gpu").splitlines()[1].split()
    assert shown[3:7] == ["nvidia.com/gpu", "4", "4", "4"]


def test_get_as_json_and_yaml(run: Run) -> None:
    """Both forms have the same data for every dialect."""
    data = json.loads(run("get", "speech", "-o", "json"))
    assert data == yaml.safe_load(run("get", "speech", "-o", "yaml"))
    assert data["kind"] == "QueueSummary"
    assert data["spec"]["quota"] == {"cpu": "unlimited", "memory": "unlimited", "nvidia.com/gpu": "4"}
    assert data["status"]["fairShare"]["nvidia.com/gpu"] == "4"
    assert [job["name"] for job in data["status"]["jobs"]] == ["bert", "tacotron", "whisper"]
    other = json.loads(run("get", "batch", "-o", "json", objects=VOLCANO))
    assert other.keys() == data.keys()
    assert other["status"].keys() == data["status"].keys()


def test_describe_has_warnings_amounts_and_jobs(run: Run) -> None:
    """An unset field that means nothing is a warning; an incomplete job says how many pods it lacks."""
    out = run("describe", "speech")
    assert "spec.resources.gpu.overQuotaWeight is not set, which means 0" in out
    assert "Path:                 research/speech\n" in out
    rows = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines() if line.startswith("  ")]
    assert ["nvidia.com/gpu", "4", "4", "0", "4", "0", "11"] in rows
    assert rows[-1] == [
        *("default/whisper", "<none>", "3", "0", "2", "0", "0", "cpu 2, pods 2, nvidia.com/gpu 2"),
        "2 of at least 3 pods are present",
    ]
    assert rows[-3][0] == "default/bert"
    assert rows[-3][-1].startswith("OverLimit: queue speech would exceed its nvidia.com/gpu limit of 4")


def test_volcano_queues_have_their_own_fields(run: Run) -> None:
    """Closed is a state; a missing queue `root` is no problem; the share is what proportion gives."""
    lines = [line.split() for line in run("get", objects=VOLCANO).splitlines()]
    assert [line[:7] for line in lines[1:]] == [
        ["batch", "volcano", "Open", "cpu", "<none>", "4", "4"],
        ["default", "volcano", "Open", "cpu", "<none>", "unlimited", "0"],
        ["shut", "volcano", "Closed", "cpu", "<none>", "unlimited", "1"],
    ]
    assert "Weight:       3\n" in run("describe", "batch", objects=VOLCANO)


def test_one_name_in_two_dialects_is_a_problem_of_both(run: Run, tmp_path: Path) -> None:
    """Each queue is shown, and each says which system has the other."""
    both = yaml.safe_load(Path(KAI).read_text())
    both["items"] += yaml.safe_load(Path(VOLCANO).read_text())["items"][1:]
    both["items"].append(
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "vision"}, "spec": {}}
    )
    file = tmp_path / "both.yaml"
    file.write_text(yaml.safe_dump(both))
    out = run("get", objects=str(file))
    assert "queue vision (kai): DuplicateQueue: Volcano has a queue of this name, too" in out
    assert "queue vision (volcano): DuplicateQueue: KAI has a queue of this name, too" in out
    only = run("get", "vision", "--dialect", "volcano", "--no-headers", objects=str(file))
    assert [line.split()[1] for line in only.splitlines()] == ["volcano"]


def test_without_the_plugin_shares_are_unknown(run: Run) -> None:
    """All other columns do not need the plugin; a command that does need it says what to install."""
    out = run("get", "vision", "--block", "kube-pyscheduler-batch")
    assert out.splitlines()[1].split()[6] == "<unknown>"
    assert run.err == (
        'Warning: fair shares are unknown: the plugin "Batch" is not installed; '
        'run "pip install kube-pyscheduler-batch"\n'
    )
    run("explain", "yolo", "--block", "kube-pyscheduler-batch", code=1)
    assert run.err == 'error: the plugin "Batch" is not installed; run "pip install kube-pyscheduler-batch"\n'


# --- explain, whatif, simulate ------------------------------------------------------------------


def test_explain_names_the_gate_and_the_excess(run: Run) -> None:
    """The step that holds the job has a reason code and says by how much the limit is exceeded."""
    out = run("explain", "yolo")
    assert "Verdict:  waits: OverLimit\n" in out
    found = steps(out)
    assert [*found] == ["declared", "pods", "queue", "gates", "share", "line", "nodes", "evictions", "next"]
    assert found["gates"][:2] == ["holds", "OverLimit"]
    assert "queue vision is 2 nvidia.com/gpu short: limit 8, allocated 6, the job needs 4" in found["gates"][2]
    assert "6 of 4 nvidia.com/gpu, 6 above its fair share with this job" in found["share"][2]
    assert found["next"][2] == "the next attempt follows when a pod of these queues ends, or a queue changes"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("job", "objects", "step", "reason", "text"),
    [
        pytest.param("whisper", KAI, "pods", "NotReady", "2 of at least 3 pods are present", id="pods are missing"),
        pytest.param("stray", KAI, "queue", "QueueIsNotALeaf", 'queue "research" has child queues', id="inner queue"),
        pytest.param("late", VOLCANO, "queue", "QueueClosed", "queue shut is not open", id="closed queue"),
        pytest.param("alone", VOLCANO, "gates", "QueueLimit", "queue batch is 5 cpu short", id="pod without a group"),
    ],
)
def test_explain_finds_the_first_step_that_holds(
    run: Run, job: str, objects: str, step: str, reason: str, text: str
) -> None:
    """The verdict has the reason code of that step, and the step says what is missing."""
    out = run("explain", job, objects=objects)
    assert f"Verdict:  waits: {reason}\n" in out
    assert steps(out)[step][:2] == ["holds", reason]
    assert text in steps(out)[step][2]


def test_explain_shows_why_nodes_reject(run: Run, tmp_path: Path) -> None:
    """A job that passes all gates names the nodes by reason."""
    objects = yaml.safe_load(Path(KAI).read_text())
    for one in objects["items"]:
        if one["kind"] == "Pod":
            one["spec"]["nodeSelector"] = {"gpu": "h100"}
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(objects))
    data = json.loads(run("explain", "tacotron", "-o", "json", objects=str(file)))
    found = {step["name"]: step for step in data["steps"]}
    assert data["reason"] == "PodSchedulingErrors"
    assert found["nodes"]["result"] == "holds"
    assert "2 node(s) didn't match Pod's node affinity/selector" in found["nodes"]["text"]


@pytest.mark.slow
def test_pyscheduler_explain_job_is_the_same_command(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """`pyscheduler explain job NAME` prints what `kubectl queue explain NAME` prints."""
    expected = run("explain", "yolo")
    with pytest.raises(SystemExit) as ended:
        pyscheduler(["explain", "job", "default/yolo", "--objects", KAI])
    assert ended.value.code == 0
    assert capsys.readouterr().out == expected


def test_pyscheduler_explain_job_takes_a_dialect(capsys: pytest.CaptureFixture[str]) -> None:
    """A job of another dialect does not exist for it."""
    with pytest.raises(SystemExit) as ended:
        pyscheduler(["explain", "job", "yolo", "--dialect", "volcano", "--objects", KAI])
    assert ended.value.code == 1
    assert "job default/yolo does not exist" in capsys.readouterr().err


def test_whatif_shows_who_would_be_evicted(run: Run) -> None:
    """The plan has the evictions and the promised nodes."""
    out = run("whatif", "default/tacotron")
    assert "Verdict:  starts when evicted or ending pods have left the promised nodes\n" in out
    plan = [line.split() for line in out[out.index("  ---") :].splitlines()[1:]]
    assert {tuple(row[:2]) for row in plan} == {
        ("evict", "default/resnet-0"),
        ("evict", "default/resnet-1"),
        ("promise", "default/tacotron-0"),
    }


def test_whatif_of_a_placed_job_says_so(run: Run) -> None:
    """There is nothing to plan, and no table without rows."""
    out = run("whatif", "resnet")
    assert out.endswith("Verdict:  has all its nodes\nPlan:     <none>, because the job is placed\n")


@pytest.mark.slow
def test_whatif_takes_a_new_job_from_a_file(run: Run, tmp_path: Path) -> None:
    """The new objects exist for this pass only; exit code 1 means that the job would wait."""
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "new", "namespace": "default"},
        "spec": {"minMember": 1, "queue": "speech"},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "new-0", "namespace": "default", "annotations": {"pod-group-name": "new"}},
        "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i"}]},
    }
    file = tmp_path / "new.yaml"
    file.write_text(yaml.safe_dump_all([group, pod]))
    data = json.loads(run("whatif", "-f", str(file), "-o", "json"))
    assert (data["job"], data["verdict"]) == ("default/new", "starts")
    assert [(each["act"], each["pod"]) for each in data["plan"]] == [("bind", "default/new-0")]
    group["spec"] = {"minMember": 2, "queue": "speech"}
    file.write_text(yaml.safe_dump_all([group, pod]))
    assert "Verdict:  waits: NotReady\n" in run("whatif", "-f", str(file), code=1)


def written_job(folder: Path, **metadata: str) -> str:
    """Write a pod group of KAI and its pod; return the path."""
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "new", **metadata},
        "spec": {"minMember": 1, "queue": "speech"},
    }
    member = pod("new")
    member["metadata"] = {"name": "new-0", "annotations": {"pod-group-name": "new"}, **metadata}
    file = folder / "new.yaml"
    file.write_text(yaml.safe_dump_all([group, member]))
    return str(file)


def test_whatif_puts_objects_without_a_namespace_into_that_of_the_option(run: Run, tmp_path: Path) -> None:
    """So does kubectl."""
    data = json.loads(run("whatif", "-f", written_job(tmp_path), "-n", "other", "-o", "json"))
    assert (data["job"], data["verdict"]) == ("other/new", "starts")


def test_whatif_refuses_objects_of_another_namespace(run: Run, tmp_path: Path) -> None:
    """The message is kubectl's, after the file and the object."""
    file = written_job(tmp_path, namespace="mine")
    assert run("whatif", "-f", file, "-n", "other", code=1) == ""
    assert run.err == (
        f'error: {file}: PodGroup new: the namespace from the provided object "mine" does not match the namespace '
        "\"other\". You must pass '--namespace=mine' to perform this operation.\n"
    )


def test_whatif_places_a_gang_of_several_pods(run: Run, tmp_path: Path) -> None:
    """All pods of a file count for the minimum of their group."""
    file = ROOT / "examples" / "13-three-teams" / "render.yaml"
    cluster = [yaml.safe_load_all((file.parent / f"{name}.yaml").read_text()) for name in ("nodes", "queues")]
    objects = tmp_path / "cluster.yaml"
    objects.write_text(yaml.safe_dump_all([one for each in cluster for one in each]))
    config = str(ROOT / "configs" / "batch-kai.yaml")
    data = json.loads(run("whatif", "-f", str(file), "--config", config, "-o", "json", objects=str(objects)))
    assert data["verdict"] == "starts"
    assert {each["pod"] for each in data["plan"]} == {"default/render-0", "default/render-1"}


def test_whatif_of_pods_that_exist_replaces_them(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """Each pod takes the place of the pod with its name, in the cache, too."""
    run("whatif", "-f", KAI, code=1)
    assert not caplog.records
    assert not run.err


@pytest.mark.slow
def test_simulate_compares_shares_of_edited_queues(run: Run, tmp_path: Path) -> None:
    """What one queue gives up goes to its sibling."""
    queues = [one for one in yaml.safe_load(Path(KAI).read_text())["items"] if one["metadata"]["name"] == "speech"]
    queues[0]["spec"]["resources"]["gpu"]["quota"] = 2
    file = tmp_path / "queues.yaml"
    file.write_text(yaml.safe_dump_all(queues))
    rows = [line.split() for line in run("simulate", "-f", str(file)).splitlines()]
    assert ["speech", "kai", "nvidia.com/gpu", "4", "2", "-2"] in rows
    assert ["vision", "kai", "nvidia.com/gpu", "4", "6", "+2"] in rows
    assert ["research", "kai", "nvidia.com/gpu", "8", "8", "0"] in rows


def queue(name: str, parent: str, quota: int) -> dict[str, object]:
    """Return a queue of KAI."""
    resources = {"gpu": {"quota": quota, "limit": -1, "overQuotaWeight": 1}}
    spec = {"parentQueue": parent, "resources": resources}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def test_simulate_shows_every_queue_of_the_file(run: Run, tmp_path: Path) -> None:
    """A new queue without jobs has no share, and a queue that cannot be used has an unknown one."""
    file = tmp_path / "queues.yaml"
    file.write_text(yaml.safe_dump_all([queue("idle", "research", 2), queue("astray", "nowhere", 1)]))
    rows = [line.split() for line in run("simulate", "-f", str(file)).splitlines()]
    assert ["idle", "kai", "nvidia.com/gpu", "0", "0", "0"] in rows
    assert ["astray", "kai", "<none>", "<unknown>", "<unknown>", "<unknown>"] in rows


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_simulate_does_not_indent_names_in_data(run: Run, tmp_path: Path, output: str) -> None:
    """A child queue has its own name in JSON and YAML; only the table is indented."""
    file = tmp_path / "queues.yaml"
    file.write_text(yaml.safe_dump(queue("idle", "research", 2)))
    items = yaml.safe_load(run("simulate", "-f", str(file), "-o", output))["items"]
    assert {item["queue"] for item in items} == {"research", "speech", "vision", "idle"}
    assert {(item["dialect"], item["preset"]) for item in items} == {("kai", "kai")}


def test_simulate_says_what_does_not_count_in_an_edited_queue(run: Run, tmp_path: Path) -> None:
    """An amount that is no number counts as 0, with a warning."""
    file = tmp_path / "queue.yaml"
    file.write_text(
        "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: speech}, "
        "spec: {parentQueue: lab, resources: {gpu: {quota: many}}}}"
    )
    run("simulate", "-f", str(file))
    assert "Warning: queue speech: spec.resources.gpu.quota: 'many' is neither a number" in run.err


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["nix"], "error: No such command 'nix'.", id="no such command"),
        pytest.param(["get", "--objects", "/nix"], "error: /nix: no such file or directory", id="no such file"),
        pytest.param(
            ["get", "--objects", KAI, "--context", "a"], "error: --objects cannot be combined with", id="two sources"
        ),
        pytest.param(
            ["get", "--objects", KAI, "--resource", "tpu"],
            'error: --resource: no queue and no node has the resource "tpu"; choose one of cpu, memory, pods',
            id="no such resource",
        ),
        pytest.param(
            ["explain", "nix", "--objects", KAI], "error: job default/nix does not exist: no PodGroup", id="no such job"
        ),
        pytest.param(["whatif", "--objects", KAI], "error: give either the name of a job or its", id="no job"),
        pytest.param(
            ["whatif", "-f", str(ROOT / "configs/default.yaml"), "--objects", KAI],
            f"error: {ROOT / 'configs/default.yaml'}: object 1 has no kind or no metadata.name",
            id="no objects in the file",
        ),
        pytest.param(
            ["simulate", "-f", str(ROOT / "configs/rbac/podgroup-viewer.yaml"), "--objects", KAI],
            f"error: {ROOT / 'configs/rbac/podgroup-viewer.yaml'}: ClusterRole podgroup-viewer of "
            "rbac.authorization.k8s.io/v1 is no batch queue; give queues of ",
            id="no queue in the file",
        ),
        pytest.param(
            ["get", "--objects", KAI, "--config", str(ROOT / "configs/default.yaml")],
            f'error: {ROOT / "configs/default.yaml"}: no profile enables the plugin "Batch"',
            id="no batch profile",
        ),
    ],
)
def test_mistakes_are_one_line(run: Run, arguments: list[str], message: str) -> None:
    """The message on stderr names the mistake; the exit code is 1; nothing is on stdout."""
    assert run(*arguments, objects="", code=1) == ""
    assert run.err.startswith(message)
    assert "Traceback" not in run.err


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 16e9, "16G"),
        ("memory", 3 * 2**29, "1536Mi"),
        ("memory", 1234567891011, "1.12Ti"),
        ("memory", 0, "0"),
        ("nvidia.com/gpu", 0.5, "0.5"),
        ("nvidia.com/gpu", -2, "-2"),
        ("cpu", float("inf"), "unlimited"),
        ("cpu", float("nan"), "<none>"),
    ],
)
def test_amounts_are_short_quantities(resource: str, amount: float, text: str) -> None:
    """Amounts are shown in the largest unit that is exact, or rounded to two digits."""
    assert amount_text(resource, amount) == text


# --- the real kubectl ---------------------------------------------------------------------------


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """Serve the objects of the Volcano file; return an environment in which kubectl finds them, and the plugin."""
    cluster = EmbeddedCluster(clock=LoopClock())
    for text in (*CRDS, VOLCANO_OBJECTS):
        cluster.load(text)
    server = cluster.server()
    await server.start()
    (tmp_path / "config").write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: e\n"
        f"clusters: [{{name: e, cluster: {{server: '{server.url}'}}}}]\n"
        "contexts: [{name: e, context: {cluster: e, user: u}}]\nusers: [{name: u, user: {}}]\n"
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    yield {**os.environ, "PATH": path, "KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path)}
    await server.stop()


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on this machine")
@pytest.mark.slow
async def test_kubectl_finds_the_plugin(environment: dict[str, str]) -> None:
    """`kubectl queue` reads a cluster over HTTP; kinds that are not served have no objects."""
    assert KUBECTL is not None
    done = await processes.run_async(KUBECTL, "queue", "get", "--no-headers", env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["batch", "volcano"],
        ["default", "volcano"],
        ["shut", "volcano"],
    ]


def test_get_counts_parts_of_gpus(run: Run, tmp_path: Path) -> None:
    """Pods of KAI that share GPUs hold and request their parts of them, as in the status of their queue."""
    items = yaml.safe_load(Path(KAI).read_text(encoding="utf-8"))["items"]
    (template,) = [each for each in items if each["kind"] == "Pod" and each["metadata"]["name"] == "resnet-0"]
    items = [each for each in items if each["kind"] != "Pod"]
    for name, node, shares in (
        ("half", template["spec"]["nodeName"], {"gpu-fraction": "0.5"}),
        ("two", template["spec"]["nodeName"], {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}),
        ("memory", "", {"gpu-memory": "50"}),
        ("wrong", "", {"gpu-fraction": "x"}),
    ):
        metadata = {**template["metadata"], "name": name, "uid": name}
        metadata["annotations"] = {**template["metadata"].get("annotations", {}), **shares}
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
        spec = {**template["spec"], "containers": containers, "nodeName": node}
        items.append({**template, "metadata": metadata, "spec": spec})
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    status = json.loads(run("get", "vision", "-o", "json", objects=str(path)))["status"]
    assert (status["allocated"]["nvidia.com/gpu"], status["pending"]["nvidia.com/gpu"]) == ("1", "0.5")


def test_queues_of_a_tree_are_one_also_if_the_file_is_of_another_system(run: Run) -> None:
    """A job in an inner queue is a problem with any `--config`."""
    out = run("get", "--config", str(ROOT / "configs/batch-volcano.yaml"), objects=KAI)
    assert "job default/stray (kai): QueueIsNotALeaf" in out
