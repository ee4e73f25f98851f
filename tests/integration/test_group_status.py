"""The status of PodGroups over HTTP: kept by the replica that leads, and made up for by the one that comes after it."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from kube_testserver.patching.requests import PatchOptions, apply_patch
from kube_testserver.schema.unknown_fields import FieldCheck
from kube_testserver.serving.faults import Fault
from pyscheduler.testing import node_manifest, pod_manifest
from tests.integration.conftest import Served
from tests.integration.programs import PATIENCE_SECONDS, program

ROOT = Path(__file__).parents[2]
GROUPS, MEMBERS = 20, 5

_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 1000, burst: 1000}
leaderElection: {leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}
profiles:
  - schedulerName: pyscheduler
    plugins:
      queueSort: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}
      multiPoint: {enabled: [{name: Coscheduling}]}
"""


def group(name: str) -> dict[str, Any]:
    """Return a PodGroup."""
    metadata = {"name": name, "namespace": "default"}
    spec = {"minMember": MEMBERS}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def statuses(served: Served) -> dict[str, dict[str, Any]]:
    """Return the status of every group by its name."""
    found = served.cluster.objects("scheduling.x-k8s.io/v1alpha1", "PodGroup")
    return {each["metadata"]["name"]: each.get("status", {}) for each in found}


async def until(done: Callable[[], bool]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if done():
                return
            await asyncio.sleep(0.05)


async def until_all_say(served: Served, **expected: Any) -> None:
    """Wait until the status of every group says so."""
    await until(lambda: all({**status, **expected} == status for status in statuses(served).values()))


def go(served: Served, phase: str, numbers: range) -> None:
    """Let members of every group run, or end."""
    cluster = served.cluster
    for name in statuses(served):
        for number in numbers:
            body = json.dumps({"status": {"phase": phase}}).encode()
            options = PatchOptions("application/merge-patch+json", FieldCheck(), "status")
            pods = cluster.resource("v1", "Pod")
            apply_patch(cluster.registry, pods, "default", f"{name}-{number}", body, options)


async def test_statuses_are_kept_by_the_leader_and_made_up_for_by_the_next(
    served_cluster: Served, tmp_path: Path
) -> None:
    """The standby writes nothing; what happened between the leader's end and its own beginning is in its counts."""
    cluster = served_cluster.cluster
    definition = ROOT / "configs/crds/podgroups.scheduling.x-k8s.io.yaml"
    cluster.add(yaml.safe_load(definition.read_text(encoding="utf-8")))
    cluster.add(*(node_manifest(f"n{number}", allocatable={"cpu": "32", "pods": "200"}) for number in range(5)))
    names = [f"g{number}" for number in range(GROUPS)]
    cluster.add(*(group(name) for name in names))
    label = "scheduling.x-k8s.io/pod-group"
    writes = cluster.faults.add(Fault(method="PATCH", path="/podgroups/[^/]+/status$"))
    config = tmp_path / "config.yaml"
    config.write_text(_CONFIG, encoding="utf-8")
    run = ("run", "--config", str(config), "--master", served_cluster.url, "--health-port", "0", "--secure-port", "0")
    async with program(*run) as leader:
        await leader.said("Successfully acquired lease")
        async with program(*run) as standby:
            await standby.said("New leader elected")
            members = [f"{name}-{number}" for name in names for number in range(MEMBERS)]
            cluster.add(
                *(pod_manifest(name, labels={label: name.partition("-")[0]}, requests={"cpu": "1"}) for name in members)
            )
            await until_all_say(served_cluster, phase="Scheduling")
            await until(lambda: all(pod["spec"].get("nodeName") for pod in cluster.pods()))
            go(served_cluster, "Running", range(MEMBERS))
            await until_all_say(served_cluster, phase="Running", running=MEMBERS)
            # Three phases; the counts in between are few. Two writers would have come to twice as many.
            assert 3 * GROUPS <= writes.hits <= 3 * GROUPS + MEMBERS * GROUPS
            leader.send(signal.SIGKILL)
            await leader.ended()
            go(served_cluster, "Succeeded", range(MEMBERS - 1))
            before = writes.hits
            assert all(status["running"] == MEMBERS for status in statuses(served_cluster).values())
            await standby.said("Successfully acquired lease")
            await until_all_say(served_cluster, phase="Running", running=1, succeeded=MEMBERS - 1)
            assert writes.hits - before == GROUPS
            go(served_cluster, "Succeeded", range(MEMBERS - 1, MEMBERS))
            await until_all_say(served_cluster, phase="Finished", running=0, succeeded=MEMBERS)
            standby.send(signal.SIGTERM)
            assert await standby.ended() == 0
            assert not [line for line in standby.err if "Status of pod group" in line]
    told = sorted(await served_cluster.api.events("LeaderElection"), key=lambda event: event["eventTime"])
    story = [event["note"].partition(" ")[2] for event in told]
    assert story == ["became leader", "became leader", "stopped leading"]
