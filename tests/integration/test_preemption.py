"""Preemption as users see it: the program, an API server over HTTP, nodes that let deleted pods go after a moment."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from pyscheduler.testing import node_manifest, pod_manifest
from tests.integration.conftest import Served
from tests.integration.programs import FAST, PATIENCE_SECONDS, free_port, program

BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "keep", "namespace": "default"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
}


async def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so in the cluster."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.02)


async def test_more_important_pods_get_the_room_of_others(served_cluster: Served) -> None:
    """Victims are told and end gracefully, the protected one stays, their preemptors are nominated and then bound."""
    cluster, api = served_cluster.cluster, served_cluster.api
    kubelets = cluster.lifecycle(stop_seconds=0.5)
    kubelets.start()
    names = [f"n{number}" for number in range(4)]
    cluster.add(*(node_manifest(name, allocatable={"cpu": "2"}) for name in names), BUDGET)
    for number in range(8):
        labels = {"app": "kept"} if number == 0 else {}
        cluster.add(pod_manifest(f"low-{number}", requests={"cpu": "1"}, labels=labels))
    arguments = ("--config", str(FAST), "--master", api.url, "--seed", "1", "--health-port", str(free_port()))
    seen: dict[str, dict[str, Any]] = {}

    def all_bound() -> bool:
        for pod in cluster.pods():
            node = pod["status"].get("nominatedNodeName")
            if node:
                seen.setdefault(pod["metadata"]["name"], pod)
        return all(pod["spec"].get("nodeName") for pod in cluster.pods() if pod["metadata"]["name"].startswith("high"))

    async with program("run", *arguments) as scheduler:
        await api.until_bound(8)
        budget = ("policy/v1", "PodDisruptionBudget", "keep")
        await until(lambda: cluster.get(*budget, namespace="default")["status"].get("currentHealthy") == 1)
        uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
        for number in range(3):
            cluster.add(pod_manifest(f"high-{number}", requests={"cpu": "2"}, priority=100))
        await until(all_bound)
        events = {event["regarding"]["name"]: event for event in await api.until_told("Preempted", 6)}
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == 0
    kubelets.stop()
    left = {pod["metadata"]["name"]: pod for pod in cluster.pods()}
    kept_on = left["low-0"]["spec"]["nodeName"]
    assert set(left) == {"low-0", *(f"high-{number}" for number in range(3))} | {
        name for name, pod in left.items() if pod["spec"]["nodeName"] == kept_on
    }
    assert len(left) == 5
    assert {left[f"high-{number}"]["spec"]["nodeName"] for number in range(3)} == {*names} - {kept_on}
    assert set(seen) == {f"high-{number}" for number in range(3)}
    for name, pod in seen.items():
        where = left[name]["spec"]["nodeName"]
        assert pod["status"]["nominatedNodeName"] == where
        assert "nominatedNodeName" not in left[name]["status"]
    notes = {
        f"Preempted by pod {left[name]['metadata']['uid']} on node {left[name]['spec']['nodeName']}" for name in seen
    }
    assert {event["note"] for event in events.values()} == notes
    for name, event in events.items():
        assert event["regarding"]["uid"] == uids[name]
        assert (event["type"], event["action"]) == ("Normal", "Preempting")
