"""What commands print for an operator: text of objects without control characters, and one line for an outage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.faults import Fault
from pyscheduler.cli import client_settings
from pyscheduler.cli.main import main as pyscheduler
from pyscheduler.cli.podgroup.command import main as podgroup
from pyscheduler.cli.terminal import printable
from pyscheduler.testing import node_manifest, pod_manifest
from pyscheduler_batch.cli.queue.command import main as queue
from tests.batch.queue.test_explain_plans import Objects

ROOT = Path(__file__).parents[2]
CRD = (ROOT / "configs/crds/podgroups.scheduling.x-k8s.io.yaml").read_bytes()
HOSTILE = "a b\n\x1b[31mred\x1b]0;title\x07\r\x9b2J\u2028"
SHOWN = r"a b\n^[[31mred^[]0;title\u0007\r\u009b2J\u2028"


def assert_harmless(text: str) -> None:
    """Check that a text has no control characters but the ends of its lines, and no line that an object forged."""
    lines = text.removesuffix("\n").split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert [line for line in lines if line.startswith(("\x1b", "[31mred", "red", "^[[31mred"))] == []


def ended(run: Any, arguments: list[str]) -> None:
    """Run a command to its end."""
    with pytest.raises(SystemExit):
        run(arguments)


@asynccontextmanager
async def served(cluster: EmbeddedCluster, folder: Path) -> AsyncIterator[str]:
    """Serve a cluster over HTTP; yield the name of its kubeconfig."""
    server = cluster.server()
    await server.start()
    file = folder / "config"
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: e\n"
        f"clusters: [{{name: e, cluster: {{server: '{server.url}'}}}}]\n"
        "contexts: [{name: e, context: {cluster: e, user: u}}]\nusers: [{name: u, user: {}}]\n"
    )
    yield str(file)
    await server.stop()


@pytest.fixture
def objects(tmp_path: Path) -> str:
    """Write a cluster whose job, queue and pod have hostile texts; return the name of the file."""
    objects = Objects("kai", 8)
    objects.queue("a", 8)
    objects.job("want", HOSTILE, 1, runs=False, at=0)
    objects.job("runs", "a", 1, runs=True, at=0)
    objects.queue(HOSTILE, 8, displayName=HOSTILE, parentQueue=HOSTILE)
    for one in objects.items:
        if one["kind"] == "Pod":
            one["spec"]["nodeSelector"] = {HOSTILE: HOSTILE}
    return objects.write(tmp_path)


def test_control_characters_are_visible() -> None:
    """ESC looks as in kubectl; a line end and other control characters are escaped, all other text is unchanged."""
    assert printable(HOSTILE) == SHOWN
    assert printable(printable(HOSTILE)) == SHOWN
    assert printable("team é 日本 \\n") == "team é 日本 \\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["get"], id="get"),
        pytest.param(["get", "-o", "wide"], id="get wide"),
        pytest.param(["get", "nobody\x1b[31m"], id="get of an unknown queue"),
        pytest.param(["describe", HOSTILE], id="describe"),
        pytest.param(["describe", "a"], id="describe another queue"),
        pytest.param(["explain", "want"], id="explain"),
        pytest.param(["explain", "want", "-o", "json"], id="explain as JSON"),
        pytest.param(["explain", "want", "-o", "yaml"], id="explain as YAML"),
        pytest.param(["explain", "nobody\x1b[31m"], id="explain an unknown job"),
        pytest.param(["whatif", "want"], id="whatif"),
    ],
)
def test_queue_commands_escape_the_text_of_objects(
    capsys: pytest.CaptureFixture[str], objects: str, arguments: list[str]
) -> None:
    """The name of a queue in a PodGroup forges no line, and does not reach the terminal as an escape sequence."""
    ended(queue, [*arguments, "--objects", objects])
    out, err = capsys.readouterr()
    assert_harmless(out)
    assert_harmless(err)
    assert "[31m" in out + err or arguments[-1] == "a"


@pytest.mark.slow
def test_queue_simulate_escapes_the_text_of_objects(
    capsys: pytest.CaptureFixture[str], objects: str, tmp_path: Path
) -> None:
    """The names of edited queues are escaped, too, and the columns stay aligned."""
    edited = Objects("kai", 8)
    edited.queue(HOSTILE, 2)
    file = tmp_path / "queues.yaml"
    file.write_text(yaml.safe_dump_all(one for one in edited.items if one["kind"] == "Queue"))
    ended(queue, ["simulate", "-f", str(file), "--objects", objects])
    out, err = capsys.readouterr()
    assert_harmless(out)
    assert_harmless(err)
    header, *rows = [line for line in out.splitlines() if "kai  " in line or "DIALECT" in line]
    assert {row.index("kai") for row in rows} == {header.index("DIALECT")}
    assert any(row.startswith(f"{SHOWN} ") for row in rows)


def test_explain_of_a_pod_escapes_the_text_of_objects(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The nodes, reasons and notes of `pyscheduler explain` have no control characters."""
    cluster = [node_manifest("n1\x1b[31m"), node_manifest("n2\nred", taints=[{"key": HOSTILE, "effect": "NoSchedule"}])]
    pods = [pod_manifest("fits"), pod_manifest("waits\x1b[2J", scheduler_name=HOSTILE, requests={"cpu": "9999"})]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*cluster, *pods]}))
    for pod in ("fits", "waits\x1b[2J", "nobody\x1b[2J"):
        ended(pyscheduler, ["explain", pod, "--objects", str(file)])
        out, err = capsys.readouterr()
        assert_harmless(out)
        assert_harmless(err)
        assert "^[[" in out + err


@pytest.mark.slow
async def test_podgroup_commands_escape_the_text_of_objects(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Messages and annotations that `kubectl podgroup` reads from an API server are escaped."""
    cluster = EmbeddedCluster(clock=LoopClock())
    cluster.load(CRD)
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    cluster.add({**group, "metadata": {"name": "train", "namespace": "default"}, "spec": {"minMember": 2}})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": HOSTILE}
    labels = {"scheduling.x-k8s.io/pod-group": "train"}
    status = {"phase": "Pending", "conditions": [condition]}
    cluster.add(pod_manifest("train-0", labels=labels, scheduler_name=HOSTILE, status=status))
    async with served(cluster, tmp_path) as file:
        for arguments in (["get"], ["get", "-o", "wide"], ["describe"], ["get", "nobody\x1b[31m"]):
            await asyncio.to_thread(ended, podgroup, [*arguments, "--kubeconfig", file])
            out, err = capsys.readouterr()
            assert_harmless(out)
            assert_harmless(err)
            assert "^[[31m" in out + err


@pytest.mark.slow
@pytest.mark.parametrize("loss", [{"status": 500}, {"lose": "request"}], ids=["500", "no answer"])
async def test_an_api_server_without_etcd_is_one_line(
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    loss: dict[str, Any],
) -> None:
    """If lists fail slowly, each command prints one line on standard error and no log line of the scheduler."""
    settings = attrs.evolve(client_settings.COMMAND_CLIENT, patience_seconds=1.0)
    monkeypatch.setattr(client_settings, "COMMAND_CLIENT", settings)
    cluster = EmbeddedCluster(clock=LoopClock())
    cluster.faults.add(Fault(path="(pods|nodes|queues|podgroups|workloads)$", delay_seconds=1.1, **loss))
    async with served(cluster, tmp_path) as file:
        for run, arguments in ((queue, ["get"]), (podgroup, ["get"]), (pyscheduler, ["explain", "p"])):
            await asyncio.to_thread(ended, run, [*arguments, "--kubeconfig", file])
            out, err = capsys.readouterr()
            assert (out, err.count("\n")) == ("", 1)
            assert err.startswith(
                ("error: ", "Error from server (InternalError): ", "Unable to connect to the server: ")
            )
    assert [record for record in caplog.records if record.name.startswith("pyscheduler.cluster.real")] == []
