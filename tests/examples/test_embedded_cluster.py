"""examples/02-embedded-cluster: what its page promises about four pods, with kubectl and without."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from pyscheduler.api import Node
from pyscheduler.testing import FakeCluster
from tests import processes
from tests.examples.conftest import ROOT, Start, bound_pod

EXAMPLE = ROOT / "examples/02-embedded-cluster"
PAGE = (EXAMPLE / "README.md").read_text(encoding="utf-8")
TOO_LARGE = (
    "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). no new claims to deallocate, "
    "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)
NO_ZONE = "node(s) didn't match pod topology spread constraints (missing required label)"


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on this machine: its session with the server is not tested"
)
def test_the_session_runs() -> None:
    """The script runs to its end; all four pods are running in the end, and the last told what it waited for."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = processes.run(EXAMPLE / "session.sh", env=os.environ | {"PATH": path})
    assert result.returncode == 0, result.stdout + result.stderr
    last = result.stdout.rpartition("$ kubectl get pods -o wide")[2]
    phases = {line.split()[0]: line.split()[2] for line in last.splitlines() if "/1 " in line}
    assert phases == {"fits": "Running", "gated": "Running", "spread": "Running", "too-large": "Running"}
    assert NO_ZONE in result.stdout


@pytest.mark.slow
def test_it_works_over_http(start: Start, tmp_path: Path) -> None:
    """The two commands of the page find each other through the kubeconfig that the server writes."""
    kubeconfig = str(tmp_path / "kubeconfig")
    files = [f"--load={EXAMPLE / name}" for name in ("cluster.yaml", "pods.yaml")]
    url = start("cluster", "--port", "0", "--write-kubeconfig", kubeconfig, *files).line().split()[1]
    config = str(ROOT / "configs/default.yaml")
    scheduler = start("run", "--kubeconfig", kubeconfig, "--config", config, "--health-port", "0")
    assert bound_pod(url, "fits")["spec"]["nodeName"] == "node-1"
    assert scheduler.stop() == 0, scheduler.log


async def test_the_pods_meet_the_ends_that_the_page_tells(pyscheduler_cluster: FakeCluster) -> None:
    """Each row of the table in the page is what happens, and what mends it mends it."""
    cluster = pyscheduler_cluster
    for name in ("cluster.yaml", "pods.yaml"):
        cluster.server.load((EXAMPLE / name).read_bytes())
    framework = cluster.framework()
    await framework.settle()
    results = {pod.name: framework.result(pod.name) for pod in cluster.pods()}
    assert {name: (each.state, each.node) for name, each in results.items()} == {
        "fits": ("bound", "node-1"),
        "too-large": ("pending", None),
        "gated": ("gated", None),
        "spread": ("pending", None),
    }
    assert results["too-large"].message == TOO_LARGE
    assert TOO_LARGE in PAGE
    assert NO_ZONE in results["spread"].message
    assert NO_ZONE in PAGE
    cluster.patch(Node, "node-1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "a"}}})
    await framework.settle()
    assert framework.result("spread").node == "node-1"
    await framework.close()
