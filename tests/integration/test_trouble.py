"""What goes wrong while the scheduler runs: refusals, broken watches, no server, objects that nobody can read."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

from kube_testserver.serving.faults import Fault
from pyscheduler.cli.demo.audit import audit
from pyscheduler.testing import node_manifest, pod_manifest
from tests.integration.conftest import Served
from tests.integration.programs import FAST, Api, free_port, nodes, pods, program, served
from tests.malformed import bad_pod_manifest

_WARNING = re.compile(r'^pyscheduler_warnings_total\{kind="(\w+)"\} ([\d.]+)$', re.MULTILINE)


async def warnings_of(port: int) -> dict[str, int]:
    """Return what the scheduler with that health port has passed over so far, by kind."""
    status, text = await Api(f"http://127.0.0.1:{port}")("GET", "/metrics")
    assert status == 200
    return {kind: int(float(count)) for kind, count in _WARNING.findall(text)}


def run(url: str, health_port: int = 0) -> tuple[str, ...]:
    """Return the arguments of a scheduler on that server."""
    return (
        "run",
        "--config",
        str(FAST),
        "--seed",
        "1",
        "--health-port",
        str(health_port),
        "--master",
        url,
        "--leader-elect=false",
    )


async def test_refused_and_lost_bindings(served_cluster: Served) -> None:
    """Binds that are refused, fail, or lose their answer, and watches that are cut, cost no pod and bind none twice."""
    cluster, api = served_cluster.cluster, served_cluster.api
    cluster.add(*nodes(40), *pods(300))
    binding = r"/pods/pod-\d+/binding$"
    faults = [
        cluster.faults.add(Fault(method="POST", path=binding, times=15, probability=0.2, status=409)),
        cluster.faults.add(Fault(method="POST", path=binding, times=15, probability=0.2, status=429)),
        cluster.faults.add(Fault(method="POST", path=binding, times=15, probability=0.2, status=500)),
        cluster.faults.add(Fault(method="POST", path=binding, times=15, probability=0.2, lose="answer")),
        cluster.faults.add(Fault(method="POST", path=binding, times=15, probability=0.2, lose="request")),
        cluster.faults.add(Fault(method="GET", path="/api/v1/nodes$", times=2, status=500)),
    ]
    port = free_port()
    async with program(*run(api.url, port)) as scheduler:
        for moment in (50, 150):
            await scheduler.said("Successfully bound", times=moment)
            cluster.router.drop_watches()
        await api.until_bound(300)
        found = await warnings_of(port)
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == 0
    assert all(fault.hits for fault in faults)
    assert found["request_retried"] >= 15
    assert found["attempt_error"] >= 1
    assert found["watch_refused"] == 2
    report = await asyncio.to_thread(audit, api.url)
    assert (report.problems, report.bound, report.pending) == ([], 300, 0)
    assert len(await api.events("Scheduled")) == 300


async def test_a_server_that_goes_away_and_comes_back(served_cluster: Served) -> None:
    """The scheduler retries while the server is gone, and goes on when it is there again."""
    cluster, api = served_cluster.cluster, served_cluster.api
    cluster.add(*nodes(3), *pods(5))
    port = free_port()
    server = cluster.server(port=port)
    await server.start()
    async with program(*run(server.url)) as scheduler:
        await scheduler.said("Successfully bound", times=5)
        await server.stop()
        await scheduler.said("API server unreachable")
        cluster.add(*pods(7, prefix="other"))
        server = cluster.server(port=port)
        await server.start()
        assert len(await api.until_bound(12)) == 12
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == 0
    await server.stop()
    assert not any("Traceback" in line for line in scheduler.err)


async def test_stopping_while_the_server_is_gone(tmp_path: Path) -> None:
    """Bindings that nobody answers do not keep a scheduler from stopping."""
    async with (
        served(tmp_path, [*nodes(50), *pods(500)]) as api,
        program(*run(api.url), is_patient=True) as scheduler,
    ):
        await scheduler.said("Successfully bound", times=50)
        api.server.send(signal.SIGKILL)
        await scheduler.said("API server unreachable")
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == 0
    assert not any("Traceback" in line for line in scheduler.err)


def planted(name: str, **keywords: Any) -> dict[str, Any]:
    """Return a pod as no server would have let it in."""
    manifest = bad_pod_manifest(name, keywords.pop("requests", {}), **keywords, status={"phase": "Pending"})
    manifest["metadata"] |= {"uid": f"uid-of-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return manifest


async def test_objects_that_cannot_be_read(served_cluster: Served) -> None:
    """Each is counted and logged, the others go on; a pod waits with a reason and is scheduled once it is mended."""
    cluster, api = served_cluster.cluster, served_cluster.api
    cluster.add(node_manifest("good"), pod_manifest("fine"))
    cluster.plant(node_manifest("bad-shape", spec={"taints": 7}))
    cluster.plant(node_manifest("bad-quantity", status={"allocatable": {"cpu": "lots"}}))
    cluster.plant(planted("shape", spec={"containers": 5}))
    cluster.plant(planted("quantity", requests={"cpu": "much"}))
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Nope"}]}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.plant(planted("selector", affinity=affinity))
    port = free_port()
    async with program(*run(api.url, port)) as scheduler:
        assert (await api.until_bound(1)).popitem()[1] == "good"
        await scheduler.said("Ignoring malformed object resource=nodes key=bad-shape")
        await scheduler.said("Ignoring malformed object resource=pods key=default/shape")
        found = await warnings_of(port)
        assert (found["malformed_pod"] >= 3, found["malformed_node"]) == (True, 2)
        told = await api.until_told("FailedScheduling", 3)
        notes = {event["regarding"]["name"]: event["note"] for event in told}
        assert notes == {
            "shape": "the pod cannot be read: Pod: Expected `array`, got `int` - at `$.spec.containers`",
            "quantity": "the pod cannot be read: quantity 'much' is malformed; write it like 500m, 2, 1.5Gi or 1e3",
            "selector": 'the pod cannot be read: "Nope" is not a valid label selector operator',
        }
        for name in ("shape", "quantity", "selector"):
            _mend(served_cluster, name)
        await api.until_bound(4)
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == 0
    assert not any("Traceback" in line for line in scheduler.err)
    assert len(await api.events("FailedScheduling")) == 3


def _mend(served_cluster: Served, name: str) -> None:
    """Give a planted pod a spec that can be read."""
    registry = served_cluster.cluster.registry
    resource = served_cluster.cluster.resource("v1", "Pod")
    collection = registry.collection(resource)
    record = collection.get(f"default/{name}")
    assert record is not None
    mended = record.decode()
    mended["spec"] = pod_manifest(name, requests={"cpu": "100m"})["spec"]
    collection.replace(record, mended)
