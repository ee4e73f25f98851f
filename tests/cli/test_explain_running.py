"""`pyscheduler explain` beside a running scheduler: each pod of examples/17-why-pending has the words of its answer."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from kube_testserver.test_server import TestServer
from tests import processes
from tests.cli.conftest import Run
from tests.integration.programs import free_port

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/17-why-pending"
ANSWERS: list[dict[str, Any]] = yaml.safe_load((EXAMPLE / "answers.yaml").read_text())
#: Pods to which no scheduler writes a condition.
UNSEEN = {"nobody", "web-0", "report", "database"}


@attrs.frozen
class Situation:
    """A running scheduler, as far as `explain` needs to know."""

    server: TestServer
    profile: Path
    #: The scheduler's HTTPS port.
    url: str
    log: Path


def install(folder: Path) -> None:
    """Install the plugin of the example into a folder."""
    source = EXAMPLE / "racks"
    info = folder / "why_pending_racks-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(source / "why_pending_racks.py", folder)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: why-pending-racks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pyscheduler]\nwhy-pending-racks = why_pending_racks\n")


def is_settled(server: TestServer) -> bool:
    """Return True once each pod has its condition, the victim is being evicted, and the Deployment has no pod."""
    pods = server.run(lambda cluster: cluster.objects("v1", "Pod"))
    waiting = [pod for pod in pods if pod["metadata"]["name"] not in UNSEEN]
    victim = next(pod for pod in pods if pod["metadata"]["name"] == "database")
    events = server.run(lambda cluster: cluster.objects("v1", "Event", namespace="team-a"))
    return (
        "deletionTimestamp" in victim["metadata"]
        and any(event["reason"] == "FailedCreate" for event in events)
        and all(any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", ())) for pod in waiting)
    )


@pytest.fixture(scope="module")
def situation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Situation]:
    """Run an API server with the cluster and the pods of the example, and a scheduler."""
    folder = tmp_path_factory.mktemp("why-pending")
    install(folder / "installed")
    profile = EXAMPLE / "profile.yaml"
    manifests = [ROOT / "configs/crds", EXAMPLE / "manifests/cluster.yaml", EXAMPLE / "manifests/pods.yaml"]
    with pytest.MonkeyPatch.context() as patch, TestServer(load=manifests, lifecycle=False) as server:
        patch.syspath_prepend(str(folder / "installed"))
        patch.setenv("PYTHONPATH", str(folder / "installed"))
        command = (sys.executable, "-m", "pyscheduler", "run", "--kubeconfig", server.kubeconfig, "--config", profile)
        with (folder / "log").open("w") as log:
            port = free_port()
            scheduler = processes.popen(*command, "--secure-port", str(port), stderr=log.fileno())
            try:
                until = time.monotonic() + processes.PATIENCE_SECONDS
                while not is_settled(server):
                    assert scheduler.poll() is None, (folder / "log").read_text()
                    assert time.monotonic() < until, "not all pods have a condition"
                    time.sleep(0.05)
                yield Situation(server, profile, f"https://localhost:{port}", folder / "log")
            finally:
                processes.kill(scheduler)
                scheduler.communicate()


@pytest.mark.parametrize("answer", [pytest.param(each, id=each["cause"]) for each in ANSWERS])
def test_explain_shows_every_key_word(situation: Situation, run: Run, answer: dict[str, Any]) -> None:
    """One call names the cause, and agrees with the condition that the scheduler wrote."""
    options = ("--kubeconfig", situation.server.kubeconfig, "--scheduler", situation.url)
    code, out, err = run("explain", *shlex.split(answer["explain"]), "--config", situation.profile, *options)
    text = " ".join(out.split())
    assert [word for word in answer["words"] if word not in text] == [], out + err
    assert code == 0, out + err


@pytest.mark.parametrize("answer", [pytest.param(each, id=each["cause"]) for each in ANSWERS if each["story"]])
def test_history_shows_every_key_word(situation: Situation, run: Run, answer: dict[str, Any]) -> None:
    """The log of the scheduler tells the same cause, without the cluster."""
    until = time.monotonic() + processes.PATIENCE_SECONDS
    while True:
        code, out, err = run("explain", "--history", answer["explain"], "--from", situation.log)
        missing = [word for word in answer["story"] if word not in out]
        if not missing or time.monotonic() > until:
            break
        time.sleep(0.1)  # the condition is there, and the line about it may be under way
    assert (code, missing) == (0, []), out + err


def test_example_has_thirteen_pods_and_two_more_causes() -> None:
    """Each cause is asked about once."""
    assert len(ANSWERS) == len({each["explain"] for each in ANSWERS}) == 15
