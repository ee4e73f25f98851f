"""`kubectl podgroup`: what it reads and how it shows it, also through the real kubectl."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.faults import Fault
from pyscheduler.cli.podgroup.command import main
from pyscheduler.cli.podgroup.group_facts import fact_readers
from pyscheduler.cli.podgroup.reader import events_about, read_directory
from pyscheduler.cli.podgroup.summary import Summary, summaries
from pyscheduler.cli.podgroup.view import Table, data_of, described, row
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.framework import ForbiddenError
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.podgroup import DialectTable
from pyscheduler.scheduler.ports import ClientSettings
from pyscheduler.testing import FakeCluster, make_pod, pod_manifest
from pyscheduler_quota.claims import RESERVED
from tests import processes
from tests.cli.test_podgroup_summary import refused, summed
from tests.cpu import slowness
from tests.podgroup.builders import GANG, SIGS, make_group, member

ROOT = Path(__file__).parents[2]
CRD = (ROOT / "configs/crds/podgroups.scheduling.x-k8s.io.yaml").read_bytes()
KUBECTL = shutil.which("kubectl")
NOW = 1_767_225_600.0 + 90  # a minute and a half after the builders' objects were created


FIT = "0/3 nodes are available: 3 Insufficient cpu."


# --- how it is shown -------------------------------------------------------------------------------


def test_the_table_is_aligned_and_grows() -> None:
    """Columns stand under their headers, also in a later writing; no blanks at the end of a line."""
    found = summed(make_group("g", minMember=2), refused("a", "g", FIT), member("b", "long-name-of-a-group"))
    table = Table()
    lines = table.lines([row(one, NOW, wide=False, namespaced=False) for one in found.values()])
    for column, value in (("DIALECT", "sigs"), ("MIN", "2"), ("AGE", "90s"), ("REASON", "3 Insufficient cpu.")):
        assert lines[1].index(value, 0 if column == "DIALECT" else lines[0].index(column)) == lines[0].index(column)
    assert lines[0] == "NAME                   DIALECT   PHASE        MIN      BOUND   WAITING   PENDING   AGE   REASON"
    assert not any(line != line.rstrip() for line in lines)
    assert len(table.lines([row(found["g"], NOW, wide=False, namespaced=False)])) == 1


def test_long_reasons_are_cut_in_the_narrow_table_only() -> None:
    """A hundred characters, on one line; all of it with -o wide."""
    found = summed(make_group("g", minMember=1), refused("a", "g", "x" * 200 + "\nmore"))["g"]
    narrow = row(found, NOW, wide=False, namespaced=False)[-1]
    assert narrow == "x" * 97 + "..."
    wide = row(found, NOW, wide=True, namespaced=True)
    assert wide[-1] == "x" * 200 + " more"
    assert wide[0] == "default"
    assert len(wide) == len(Table(wide=True, namespaced=True).lines([wide])[0].split())


def test_data_has_one_shape_for_all_dialects() -> None:
    """What JSON and YAML show can be read without knowing who declared the group."""
    ours = {f"{GANG}name": "ann", f"{GANG}min-available": "two", f"{GANG}mode": "NonStrict"}
    found = summed(make_group("g", minMember=2), member("a", "g", node_name="n1"), make_pod("b", annotations=ours))
    data = {name: data_of(one) for name, one in found.items()}
    assert data["g"].keys() == data["ann"].keys()
    assert data["g"]["declaredBy"] == {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    assert data["g"]["members"][0]["node"] == "n1"
    assert data["ann"]["declaredBy"] is None
    assert data["ann"]["spec"]["minMember"] is None
    assert data["ann"]["spec"]["mode"] == "NonStrict"
    assert "two" in data["ann"]["problems"][0]


def test_a_description_has_every_member() -> None:
    """Name, state, node (in brackets where it is only intended), age, scheduler and the last message."""
    found = summed(
        make_group("g", minMember=3, scheduleTimeoutSeconds=90),
        member("a", "g", node_name="n1", status={"phase": "Running"}),
        member("b", "g", status={"phase": "Pending", "nominatedNodeName": "n2"}),
        refused("c", "g", FIT),
    )["g"]
    text = "\n".join(described(found, (), NOW))
    assert "Pods:           1 bound (1 running) / 1 waiting / 1 pending / 0 succeeded / 0 failed" in text
    assert "Wait time:      1m30s" in text
    rows = [line.split(maxsplit=5) for line in text.splitlines() if line.startswith("  ")]
    assert [cells[:3] for cells in rows[2:]] == [
        ["a", "Running", "n1"],
        ["b", "Waiting", "(n2)"],
        ["c", "Pending", "<none>"],
    ]
    assert rows[4][5] == FIT
    assert text.endswith("Events:  <none>")


# --- reading ---------------------------------------------------------------------------------------


@pytest.fixture
async def cluster() -> EmbeddedCluster:
    """Return a cluster with a group of two members, and one that only its pod knows."""
    made = EmbeddedCluster(clock=LoopClock())
    made.load(CRD)
    made.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    made.add({**group, "metadata": {"name": "train", "namespace": "default"}, "spec": {"minMember": 2}})
    for number in range(2):
        made.add(pod_manifest(f"train-{number}", labels={SIGS: "train"}))
    made.add(pod_manifest("far-0", namespace="other", annotations={f"{GANG}name": "far", f"{GANG}min-available": "1"}))
    return made


async def read(cluster: EmbeddedCluster, namespace: str = "") -> tuple[list[str], list[str]]:
    """Return the groups that are read, with their minimum, and the warnings."""
    client = InProcessTransport(cluster.router).connect(
        ClientSettings(qps=-1), clock=LoopClock(), rng=random.Random(0), recorder=NullRecorder()
    )
    warnings: list[str] = []
    directory, kinds = await read_directory(client, DialectTable(), namespace, warnings.append)
    await events_about(client, DialectTable(), namespace, warnings.append)
    await client.close()
    found = summaries(directory, listed=kinds)
    return [f"{one.state.id} {row(one, NOW, wide=False, namespaced=False)[3]}" for one in found], warnings


async def test_kinds_that_are_not_served_have_no_objects(cluster: EmbeddedCluster) -> None:
    """One CRD of many is installed: its groups and those without objects are found, and nothing is said."""
    assert await read(cluster) == (["default/train 2", "other/far 1"], [])
    assert await read(cluster, "other") == (["other/far 1"], [])


async def test_forbidden_kind_causes_one_warning(cluster: EmbeddedCluster) -> None:
    """Its groups are known from their pods, without the minimum; it is an error if pods may not be listed."""
    cluster.faults.add(Fault(method="GET", path="/podgroups$", status=403))
    cluster.faults.add(Fault(method="GET", path="/events$", status=403))
    groups, warnings = await read(cluster)
    assert groups == ["default/train <unknown>", "other/far 1"]
    assert len(warnings) == len(set(warnings)) == 2
    assert warnings[0].startswith("podgroups.scheduling.x-k8s.io, ")
    assert " may not be listed: only what pods say of these groups is known; the role in configs" in warnings[0]
    cluster.faults.add(Fault(method="GET", path="/pods$", status=403))
    with pytest.raises(ForbiddenError):
        await read(cluster)


def quota(hard: str, used: str) -> dict[str, object]:
    """Return a quota of CPUs."""
    status = {"hard": {"requests.cpu": hard}, "used": {"requests.cpu": used}}
    metadata = {"name": "compute", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "status": status}


async def test_reserved_quota_and_lack_of_quota_are_shown(cluster: EmbeddedCluster) -> None:
    """The annotation has what is reserved; quotas say how much of it is left, and why other groups wait."""
    spec = {"minMember": 2, "minResources": {"cpu": "4", "memory": "6Gi"}}
    for name, annotation in (("kept", '{"cpu":"4","memory":"6Gi","pods":"2"}'), ("ended", "{}"), ("late", None)):
        metadata = {"name": name, "namespace": "default"}
        if annotation is not None:
            metadata["annotations"] = {RESERVED: annotation}
        body = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
        cluster.add(body)
    cluster.add(pod_manifest("kept-0", labels={SIGS: "kept"}, requests={"cpu": "1"}), quota("5", "1"))
    found, warnings = await described_groups(cluster)
    assert warnings == []
    assert data_of(found["kept"][0])["status"]["quotaReservation"] == {
        "phase": "Reserved",
        "reserved": {"cpu": "4", "memory": "6Gi", "pods": "2"},
        "left": {"cpu": "3", "memory": "6Gi", "pods": "1"},
        "message": "",
    }
    line = "cpu=4, memory=6Gi, pods=2 (for pods that do not exist yet: cpu=3, memory=6Gi, pods=1)"
    assert f"Reserved:       {line}" in found["kept"][1]
    assert "Reserved:       Ended" in found["ended"][1]
    assert "Reserved:       <none>" in found["train"][1]
    lack = "compute lacks requests.cpu: needed 4, limit 5, used 1, reserved by other groups 3"
    assert f"Reserved:       insufficient quota for the whole group: {lack}" in found["late"][1]
    late = found["late"][0]
    assert late.reason.endswith(lack), "it has no pods that could say so"
    assert data_of(late)["status"]["quotaReservation"]["phase"] == "Waiting"
    assert row(found["kept"][0], NOW, wide=True, namespaced=False)[-4] == "cpu=4,memory=6Gi,pods=2"
    cluster.faults.add(Fault(method="GET", path="/resourcequotas$", status=403))
    found, warnings = await described_groups(cluster)
    assert warnings == ["resourcequotas may not be listed, and count as absent: injected fault: status 403"]
    phases = [data_of(found[name][0])["status"]["quotaReservation"]["phase"] for name in ("late", "kept")]
    assert phases == ["", "Reserved"]


async def described_groups(cluster: EmbeddedCluster) -> tuple[dict[str, tuple[Summary, str]], list[str]]:
    """Return by name the summary and the description of each group, and the warnings."""
    client = InProcessTransport(cluster.router).connect(
        ClientSettings(qps=-1), clock=LoopClock(), rng=random.Random(0), recorder=NullRecorder()
    )
    warnings: list[str] = []
    directory, _ = await read_directory(client, DialectTable(), "default", warnings.append)
    readers = fact_readers()
    for reader in readers.values():
        await reader.read(client, directory, "default", warnings.append)
    await client.close()
    found = summaries(directory, readers=readers)
    return {one.state.id.name: (one, "\n".join(described(one, (), NOW))) for one in found}, warnings


async def test_members_waiting_at_permit_are_shown_as_waiting(pyscheduler_cluster: FakeCluster) -> None:
    """While nine of ten hold their places the API says so; when the group is given up, it does not any more."""
    cluster = pyscheduler_cluster
    cluster.server.load(CRD)
    cluster.add_node("n1", allocatable={"cpu": "9", "pods": "110"})
    framework = cluster.framework(config=(ROOT / "configs/coscheduling.yaml").read_text(encoding="utf-8"))
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    metadata = {"name": "g", "namespace": "default"}
    cluster.server.add({**group, "metadata": metadata, "spec": {"minMember": 10, "scheduleTimeoutSeconds": 30}})
    for number in range(10):
        name = "pyscheduler-coscheduling"
        cluster.server.add(pod_manifest(f"p{number}", labels={SIGS: "g"}, requests={"cpu": "1"}, scheduler_name=name))
    await framework.settle()
    await cluster.clock.advance(1)
    (waiting,) = await groups_in(cluster)
    assert (waiting.bound, waiting.waiting, waiting.pending) == (0, 9, 1)
    assert "Insufficient cpu" in waiting.reason
    await cluster.clock.advance(31)
    (given_up,) = await groups_in(cluster)
    assert (given_up.bound, given_up.waiting, given_up.pending) == (0, 0, 10)
    await framework.close()


async def groups_in(cluster: FakeCluster) -> list[Summary]:
    """Return the groups as the command reads them."""
    client = cluster.transport().connect(
        ClientSettings(qps=-1), clock=cluster.clock, rng=random.Random(0), recorder=NullRecorder()
    )
    directory, _ = await read_directory(client, DialectTable(), "", lambda _: None)
    return summaries(directory)


@pytest.mark.slow
def test_ten_thousand_pods_are_summed_up_quickly() -> None:
    """A hundred groups of a hundred cost a second or two of CPU."""
    pods = [make_pod(f"p{number}", labels={SIGS: f"g{number % 100}"}) for number in range(10_000)]
    slow = slowness()
    before = time.process_time()
    found = summed(*pods)
    lines = Table().lines([row(one, NOW, wide=False, namespaced=False) for one in found.values()])
    seconds = time.process_time() - before
    assert len(lines) == 101
    assert seconds < 3 * max(slow, slowness())


# --- the real kubectl ------------------------------------------------------------------------------

needs_kubectl = pytest.mark.skipif(
    KUBECTL is None, reason="kubectl is not on this machine: kubectl podgroup is not tested through it"
)
Kubectl = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
async def environment(tmp_path: Path, cluster: EmbeddedCluster) -> AsyncIterator[dict[str, str]]:
    """Serve the cluster; give an environment in which kubectl finds it, and the plugin."""
    server = cluster.server()
    await server.start()
    (tmp_path / "config").write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: e\n"
        f"clusters: [{{name: e, cluster: {{server: '{server.url}'}}}}]\n"
        "contexts: [{name: e, context: {cluster: e, user: u}}, "
        "{name: o, context: {cluster: e, user: u, namespace: other}}]\n"
        "users: [{name: u, user: {}}]\n"
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    yield {**os.environ, "PATH": path, "KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path)}
    await server.stop()


@pytest.fixture
def kubectl(environment: dict[str, str]) -> Kubectl:
    """Run `kubectl podgroup` to its end; return exit code, output and errors."""

    async def run(*arguments: str) -> tuple[int, str, str]:
        assert KUBECTL is not None
        done = await processes.run_async(KUBECTL, "podgroup", *arguments, env=environment)
        return done.returncode, done.stdout, done.stderr

    return run


@needs_kubectl
@pytest.mark.slow
async def test_kubectl_get(kubectl: Kubectl) -> None:
    """The plugin is found by its name; namespaces, contexts and forms are those of kubectl."""
    code, out, err = await kubectl("get")
    assert (code, err) == (0, "")
    assert [line.split()[:8] for line in out.splitlines()] == [
        ["NAME", "DIALECT", "PHASE", "MIN", "BOUND", "WAITING", "PENDING", "AGE"],
        ["train", "sigs", "Scheduling", "2", "0", "0", "2", out.splitlines()[1].split()[7]],
    ]
    _, out, _ = await kubectl("get", "-A", "--no-headers")
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["default", "train", "sigs"],
        ["other", "far", "annotation"],
    ]
    _, out, _ = await kubectl("get", "--context", "o", "-o", "json")
    assert [item["metadata"]["name"] for item in json.loads(out)["items"]] == ["far"]
    _, out, _ = await kubectl("get", "train", "-o", "yaml")
    assert yaml.safe_load(out)["spec"]["minMember"] == 2


@needs_kubectl
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "err"),
    [
        pytest.param(("get", "-n", "empty"), 0, "No resources found in empty namespace.\n", id="nothing there"),
        pytest.param(
            ("describe", "nix"), 1, 'Error from server (NotFound): podgroups "nix" not found\n', id="no such group"
        ),
    ],
)
async def test_kubectl_get_without_groups(kubectl: Kubectl, arguments: tuple[str, ...], code: int, err: str) -> None:
    """Empty answers are one line on stderr, with kubectl's exit codes."""
    assert await kubectl(*arguments) == (code, "", err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["get", "--nix"], "error: No such option '--nix'.", id="no such flag"),
        pytest.param(["nix"], "error: No such command 'nix'.", id="no such command"),
        pytest.param(["get", "-l", "a=("], "error: unable to parse requirement: ", id="no such selector"),
        pytest.param(["get", "--kubeconfig", "/nix"], "error: kubeconfig /nix does not exist", id="no such kubeconfig"),
        pytest.param(
            ["get", "a", "-l", "b=c"], "error: name cannot be provided when a selector", id="name and selector"
        ),
        pytest.param(["get", "a", "-A"], "error: a resource cannot be retrieved by name across", id="name everywhere"),
        pytest.param(["get", "--kubeconfig", "DEAD"], "error: the API server cannot be reached: ", id="nobody answers"),
    ],
)
def test_errors_have_kubectls_form(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The message on stderr, exit code 1, no traceback."""
    dead = tmp_path / "config"
    dead.write_text(
        "{current-context: e, clusters: [{name: e, cluster: {server: 'http://127.0.0.1:9'}}], "
        "contexts: [{name: e, context: {cluster: e, user: u}}], users: [{name: u, user: {}}]}"
    )
    with pytest.raises(SystemExit) as ended:
        main([str(dead) if word == "DEAD" else word for word in arguments])
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(message)


@needs_kubectl
@pytest.mark.slow
async def test_kubectl_describe(kubectl: Kubectl, cluster: EmbeddedCluster) -> None:
    """Every member is there, and the events about the group."""
    uid = cluster.get("scheduling.x-k8s.io/v1alpha1", "PodGroup", "train", namespace="default")["metadata"]["uid"]
    cluster.add(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"kind": "PodGroup", "namespace": "default", "name": "train", "uid": uid},
            "type": "Warning",
            "reason": "Timeout",
            "message": "schedule time longer than 48 hours",
            "source": {"component": "pyscheduler"},
            "lastTimestamp": "2026-01-01T00:00:00Z",
        }
    )
    code, out, err = await kubectl("describe", "train")
    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("  train-")] == [
        ["train-0", "Pending"],
        ["train-1", "Pending"],
    ]
    assert out.splitlines()[-1].split()[:2] == ["Warning", "Timeout"]
    assert out.rstrip().endswith("schedule time longer than 48 hours")


@needs_kubectl
@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param((), id="as usual"),
        pytest.param(processes.IGNORING_SIGINT, id="SIGINT is ignored at the start"),
    ],
)
async def test_kubectl_watch(environment: dict[str, str], cluster: EmbeddedCluster, launcher: tuple[str, ...]) -> None:
    """A row for each group that changes, and none for one that does not; Ctrl-C ends it with 130."""
    assert KUBECTL is not None
    process = await processes.start(*launcher, KUBECTL, "podgroup", "get", "--watch", env=environment)
    output = process.stdout
    assert output is not None

    async def line() -> str:
        return (await asyncio.wait_for(output.readline(), processes.PATIENCE_SECONDS)).decode()

    try:
        lines = [await line() for _ in range(2)]
        assert lines[0].startswith("NAME ")
        cluster.add(pod_manifest("late-0", annotations={f"{GANG}name": "late", f"{GANG}min-available": "1"}))
        assert (await line()).split()[:2] == ["late", "annotation"]
        cluster.remove("v1", "Pod", "train-1", namespace="default")
        assert (await line()).split()[:7] == ["train", "sigs", "Pending", "2", "0", "0", "1"]
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(process.communicate(), processes.PATIENCE_SECONDS)
    finally:
        processes.kill(process)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")
