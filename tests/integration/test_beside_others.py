"""Beside other schedulers, with several profiles, and seen with kubectl."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from pyscheduler.testing import node_manifest, pod_manifest
from tests import processes
from tests.integration.conftest import Served
from tests.integration.programs import free_port, nodes, program, served

KUBECTL = shutil.which("kubectl")

TWO_PROFILES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: spread
- schedulerName: pack
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins:
    multiPoint:
      disabled: [{name: NodeResourcesBalancedAllocation}]
"""


async def test_two_profiles_and_pods_of_others(tmp_path: Path, served_cluster: Served) -> None:
    """Each pod is scheduled as its profile says, in that name; pods of other schedulers are not touched in any way."""
    cluster, api = served_cluster.cluster, served_cluster.api
    cluster.add(*nodes(4))
    for name in [*(f"pack-{number}" for number in range(4)), *(f"spread-{number}" for number in range(3))]:
        cluster.add(pod_manifest(name, scheduler_name=name.partition("-")[0], requests={"cpu": "6"}))
    foreign = cluster.add(pod_manifest("foreign", scheduler_name="default-scheduler"))
    config = tmp_path / "config.yaml"
    config.write_text(TWO_PROFILES)
    port = free_port()
    arguments = ("--config", str(config), "--master", api.url, "--seed", "1", "--health-port", str(port))
    async with program("run", *arguments) as scheduler:
        await api.until_bound(7)
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == 0
    where = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in cluster.pods()}
    assert len({where[f"pack-{number}"] for number in range(4)}) == 1
    # In the list's order the pods of `pack` come first: three nodes are empty then.
    assert len({where["pack-0"], *(where[f"spread-{number}"] for number in range(3))}) == 4
    assert cluster.get("v1", "Pod", "foreign", namespace="default") == foreign[0]
    told = {event["regarding"]["name"]: event["reportingController"] for event in await api.events("Scheduled")}
    assert told == {name: name.partition("-")[0] for name in where if name != "foreign"}


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on this machine: what users see through it is not tested")
async def test_what_users_see_with_kubectl(tmp_path: Path) -> None:
    """A pod that is created with kubectl is placed; `get -o wide`, `get events` and `describe` tell where and why."""
    config = tmp_path / "kubeconfig"
    options = ("--write-kubeconfig", str(config))

    async def kubectl(*arguments: str, stdin: str = "") -> str:
        assert KUBECTL is not None
        options = (f"--kubeconfig={config}", f"--cache-dir={tmp_path / 'cache'}")
        done = await processes.run_async(KUBECTL, *options, *arguments, stdin=stdin)
        assert done.returncode == 0, done
        return done.stdout

    node = node_manifest("node-1", allocatable={"cpu": "2"})
    run = ("run", "--kubeconfig", str(config), "--health-port", "0")
    async with served(tmp_path, [node], options=options) as api, program(*run):
        for name, cpu in (("small", "1"), ("large", "8")):
            manifest = pod_manifest(name, requests={"cpu": cpu})
            await kubectl("create", "-f", "-", stdin=json.dumps(manifest))
        await api.until_bound(1)
        await api.until_told("FailedScheduling", 1)
        await api.until_told("Scheduled", 1)
        rows = {line.split()[0]: line for line in (await kubectl("get", "pods", "-o", "wide")).splitlines()}
        assert "node-1" in rows["small"]
        assert "Pending" in rows["large"]
        events = await kubectl("get", "events")
        assert "Successfully assigned default/small to node-1" in events
        assert "0/1 nodes are available: 1 Insufficient cpu." in events
        described = await kubectl("describe", "pod", "large")
        assert "FailedScheduling" in described
        assert "PodScheduled" in described
