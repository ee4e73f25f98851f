"""What a running kube-scheduler was seen to do, reproduced: events, conditions and nominations field by field, metrics.

The recorded answers are in `observed`; see its NOTICE.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.config.load import loads
from pyscheduler.runtime import profile
from pyscheduler.scheduler.assembly import Settings, build
from pyscheduler.telemetry.metrics import Metrics
from pyscheduler.testing import node_manifest, pod_manifest
from tests.processes import PATIENCE_SECONDS

OBSERVED: Final = Path(__file__).parent / "observed"
RECORD: Final = json.loads((OBSERVED / "observed.json").read_text())
SEEN: Final = {family["name"]: family for family in json.loads((OBSERVED / "metrics.json").read_text())}
PROFILE: Final = "default-scheduler"
CONFIG: Final = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{qps: 5000, burst: 5000}}
profiles: [{{schedulerName: {PROFILE}}}]
"""

ROOMY: Final = ("node-00002", "node-00003", "node-00004")
FILLERS: Final = ("filler-0", "filler-1", "filler-2")


@attrs.define
class Story:
    """What is left of a run: the cluster's pods and events, and the metrics page."""

    pods: list[dict[str, Any]]
    events: list[dict[str, Any]]
    page: str

    def pod(self, name: str) -> dict[str, Any]:
        """Return the pod of that name."""
        return next(pod for pod in self.pods if pod["metadata"]["name"] == name)

    def labels(self) -> dict[str, dict[str, set[str]]]:
        """Return the label values on the metrics page, by family and label."""
        found: dict[str, dict[str, set[str]]] = {}
        for family in text_string_to_metric_families(self.page):
            values = found.setdefault(family.name + ("_total" if family.type == "counter" else ""), {})
            for sample in family.samples:
                for label, value in sample.labels.items():
                    values.setdefault(label, set()).add(value)
        return found


def given(name: str) -> dict[str, Any]:
    """Return the manifest of a recorded pod, as it was created."""
    recorded = next(pod for pod in RECORD["pods"] if pod["metadata"]["name"] == name)
    spec = {key: value for key, value in recorded["spec"].items() if key not in {"nodeName", "priority"}}
    if name == "preemptor":
        spec["terminationGracePeriodSeconds"] = 0
    return pod_manifest(name, scheduler_name=PROFILE, spec=spec)


def cluster_objects() -> Iterator[dict[str, Any]]:
    """Yield what was there before the pods came."""
    resources = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    yield node_manifest("node-00000", allocatable=resources)
    yield node_manifest("node-00001", allocatable=resources, unschedulable=True)
    for name in ROOMY:
        yield node_manifest(name, allocatable=resources)
    yield {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }


@asynccontextmanager
async def scheduling(cluster: EmbeddedCluster) -> AsyncIterator[Metrics]:
    """Run a scheduler over HTTP while the block runs; yield what it records."""
    server = cluster.server()
    await server.start()
    metrics = Metrics()
    scheduler = build(
        loads(CONFIG, source="observed"),
        HTTPTransport(auth.plain(server.url)),
        LoopClock(),
        random.Random(7),
        recorder=metrics,
        settings=Settings(host_name="host-1"),
    )
    await scheduler.start()
    running = asyncio.create_task(scheduler.run())
    try:
        yield metrics
    finally:
        await scheduler.stop()
        await running
        await server.stop()


async def until(cluster: EmbeddedCluster, *names: str) -> None:
    """Wait until the scheduler has said something about each of these pods."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            told = {event["regarding"]["name"] for event in cluster.objects("events.k8s.io/v1", "Event")}
            if told >= set(names):
                return
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Let it all happen again, once for all tests here; every cycle is sampled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profile, "SAMPLED_SHARE", 1.0)
        yield asyncio.run(happen())


async def change(cluster: EmbeddedCluster, path: str, patch: object) -> None:
    """Apply a merge patch."""
    answer = await InProcessTransport(cluster.router).request(
        "PATCH", path, body=json.dumps(patch).encode(), content_type="application/merge-patch+json"
    )
    assert answer.status == 200, answer.body


async def happen() -> Story:
    """Create the pods in the order of the record, each batch when the one before has been dealt with."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1))
    cluster.add(*cluster_objects())
    async with scheduling(cluster) as metrics:
        taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
        await change(cluster, "/api/v1/nodes/node-00000", {"spec": {"taints": [taint]}})
        for name in ("ok", "too-big", "gated", "wrong-node", "needs-pvc"):
            cluster.add(given(name))
        await until(cluster, "ok", "too-big", "wrong-node", "needs-pvc")
        for name in FILLERS:
            cluster.add(given(name))
        await until(cluster, *FILLERS)
        cluster.add(given("preemptor"))
        await until(cluster, "preemptor")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not is_settled(cluster):  # noqa: ASYNC110 - nothing tells but the cluster itself
                await asyncio.sleep(0.01)
        pods, events = cluster.pods(), cluster.objects("events.k8s.io/v1", "Event")
        # As a kubelet does; in the record a condition of the victim's did it.
        path = "/api/v1/namespaces/default/pods/ok"
        await change(cluster, path, {"metadata": {"labels": {"version": "2"}}})
        async with asyncio.timeout(PATIENCE_SECONDS):
            while 'event="AssignedPodUpdate"' not in (page := metrics.render()[0].decode()):  # noqa: ASYNC110 - same
                await asyncio.sleep(0.01)
        return Story(pods, events, page)


def is_settled(cluster: EmbeddedCluster) -> bool:
    """Tell whether all that is written beside the cycle has been: conditions, and what preemption does."""
    pods = cluster.pods()
    if not all(pod["status"].get("conditions") for pod in pods):
        return False
    preemptor = next(pod for pod in pods if pod["metadata"]["name"] == "preemptor")
    events = {event["reason"] for event in cluster.objects("events.k8s.io/v1", "Event")}
    leaving = any(pod["metadata"].get("deletionTimestamp") for pod in pods)
    return "nominatedNodeName" in preemptor["status"] and "Preempted" in events and leaving


TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
MICRO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
NUMBER: Final = re.compile(r"\d+")
UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def essence(value: Any, uids: Mapping[str, str]) -> Any:
    """Return an object with all that differs from run to run replaced by its shape: times, versions, uids, nodes."""
    if isinstance(value, dict):
        return {key: essence(inner, uids) for key, inner in value.items()}
    if isinstance(value, list):
        return [essence(inner, uids) for inner in value]
    if not isinstance(value, str):
        return value
    for shape, pattern in (("<time>", TIME), ("<micro time>", MICRO_TIME), ("<number>", NUMBER)):
        if pattern.fullmatch(value):
            return shape
    value = UID.sub(lambda found: f"<uid of {uids.get(found[0], 'something')}>", value)
    value = re.sub("|".join(ROOMY), "<node with room>", value)
    return re.sub(r"^([a-z0-9-]+)\.[0-9a-f]{16}$", r"<name after \1>", value)


def outcome(pods: list[dict[str, Any]], events: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return what became of a pod: the events about it, and what its status says."""
    uids = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods}
    pod = next(pod for pod in pods if pod["metadata"]["name"] == name)
    told = sorted((each for each in events if each["regarding"]["name"] == name), key=lambda each: each["reason"])
    return {
        "events": essence(told, uids),
        "status": essence(pod["status"], uids),
        "node": essence(pod["spec"].get("nodeName"), uids),
        "deletion": essence(pod["metadata"].get("deletionTimestamp"), uids),
    }


def preempted(events: list[dict[str, Any]]) -> str:
    """Return the filler that had to go: of three that are alike it may be any."""
    return next((each["regarding"]["name"] for each in events if each["reason"] == "Preempted"), "filler-2")


@pytest.mark.parametrize("name", sorted(pod["metadata"]["name"] for pod in RECORD["pods"]))
def test_the_same_comes_out(story: Story, name: str) -> None:
    """Events, condition, nomination and messages are kube-scheduler's."""
    here = name
    if name in FILLERS:
        gone = preempted(story.events)
        here = {"filler-2": gone, gone: "filler-2"}.get(name, name)
    expected = outcome(RECORD["pods"], RECORD["events"], name)
    found = json.loads(json.dumps(outcome(story.pods, story.events, here)).replace(here, name))
    assert found == expected


# Metrics

#: What is left out on the page, and why.
ELSEWHERE: Final = "served at /metrics/resources"
UNTHROTTLED: Final = "only writes wait for the rate limit, and reads that follow an error"
LEFT_OUT: Final[Mapping[tuple[str, str, str], str]] = {
    ("kube_pod_resource_request", "", ""): ELSEWHERE,
    ("rest_client_rate_limiter_duration_seconds", "verb", "GET"): UNTHROTTLED,
}
#: Only where the API server's echo comes while another pod is being tried, which takes less time than the echo here.
BY_CHANCE: Final = {("scheduler_inflight_events", "event", "AssignedPodAdd")}


def test_every_family_and_value_that_was_seen_is_there(story: Story) -> None:
    """The same situations fill the same families and label values, but for what is listed with its reason."""
    here = story.labels()
    lacking = set()
    for name, family in SEEN.items():
        if name not in here:
            lacking.add((name, "", ""))
            continue
        for label, values in family["labels"].items():
            if label != "host":
                lacking |= {(name, label, value) for value in set(values) - here[name].get(label, set())}
    assert lacking - BY_CHANCE == set(LEFT_OUT)


def test_the_host_is_the_api_servers(story: Story) -> None:
    """Requests are told apart by host and port, as there."""
    hosts = {host for labels in story.labels().values() for host in labels.get("host", ())}
    assert len(hosts) == 1
    assert re.fullmatch(r"127\.0\.0\.1:\d+", hosts.pop())


def test_numbers_are_what_happened(story: Story) -> None:
    """A few that can be counted by hand."""
    assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 4.0' in story.page
    assert 'scheduler_pending_pods{queue="gated"} 1.0' in story.page
    assert 'scheduler_cache_size{type="nodes"} 5.0' in story.page
    assert 'scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="unschedulable"} 1.0' in story.page
