"""What is measured of the requests to the API server, on real connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kube_objects.clock import LoopClock
from kube_objects.kinds import NODES
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.faults import Fault
from pyscheduler.api import Event, Node
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.framework.errors import APIError, TransportError
from pyscheduler.scheduler.ports import ClientSettings, ClusterClient
from pyscheduler.telemetry.metrics import Metrics
from pyscheduler.testing import make_pod, node_manifest, pod_manifest
from tests.processes import PATIENCE_SECONDS


@attrs.define
class Measured:
    """A client of a served cluster, and the page on which its requests are counted."""

    cluster: EmbeddedCluster
    host: str
    client: ClusterClient
    metrics: Metrics

    def samples(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the samples of that name by their label values but `host`, which is always the server's."""
        found = {}
        for family in text_string_to_metric_families(self.metrics.render()[0].decode()):
            for sample in family.samples:
                if sample.name == name and sample.labels.get("le", "+Inf") == "+Inf":
                    labels = dict(sample.labels)
                    assert labels.pop("host", self.host) == self.host
                    labels.pop("le", None)
                    found[tuple(labels[key] for key in sorted(labels))] = sample.value
        return found


@pytest.fixture
async def measured() -> AsyncIterator[Measured]:
    """Yield a client behind the fence of a lease, as the program has it."""
    cluster = EmbeddedCluster(clock=LoopClock())
    cluster.add(node_manifest("n1"), pod_manifest("p"))
    server = cluster.server()
    await server.start()
    metrics = Metrics()
    transport = HTTPTransport(auth.plain(server.url))
    transport.fence(lambda: True)
    client = transport.connect(ClientSettings(qps=0), clock=LoopClock(), rng=random.Random(1), recorder=metrics)
    yield Measured(cluster, server.url.removeprefix("http://"), client, metrics)
    await client.close()
    await server.stop()


async def test_requests_are_counted_timed_and_weighed(measured: Measured) -> None:
    """Each request counts by verb and code; sizes are those of the bodies."""
    await measured.client.list(Node)
    await measured.client.bind(make_pod("p", uid=uid_of(measured)), "n1")
    assert measured.samples("rest_client_requests_total") == {("200", "GET"): 1, ("201", "POST"): 1}
    assert measured.samples("rest_client_request_duration_seconds_count") == {("GET",): 1, ("POST",): 1}
    assert measured.samples("rest_client_rate_limiter_duration_seconds_count") == {("GET",): 1, ("POST",): 1}
    sent = measured.samples("rest_client_request_size_bytes_sum")
    assert sent["GET",] == 0
    assert 100 < sent["POST",] < 300
    assert measured.samples("rest_client_response_size_bytes_sum")["GET",] > 200
    assert measured.samples("rest_client_request_retries_total") == {}


@pytest.mark.slow
async def test_failures_are_counted(measured: Measured) -> None:
    """Refusals count by their code, silence as `<error>`, and what is sent once more as a retry."""
    measured.cluster.faults.add(Fault(method="GET", path="/nodes$", status=503, times=1))
    await measured.client.list(Node)
    measured.cluster.faults.add(Fault(method="GET", path="/nodes$", status=403, times=1))
    with pytest.raises(APIError):
        await measured.client.list(Node)
    assert measured.samples("rest_client_requests_total") == {("200", "GET"): 1, ("503", "GET"): 1, ("403", "GET"): 1}
    assert measured.samples("rest_client_request_retries_total") == {("503", "GET"): 1}
    measured.cluster.faults.add(Fault(method="POST", path="/events$", lose="request", times=1))
    with pytest.raises(TransportError):
        await measured.client.create(Event, {"metadata": {"name": "e"}}, "default")
    assert measured.samples("rest_client_requests_total")["<error>", "POST"] == 1


async def test_a_watch_is_counted_without_time_and_size(measured: Measured) -> None:
    """An informer's list is a request like any other; its watch lasts for minutes and says nothing of speed."""
    informer = measured.client.informer(NODES)
    informer.start()
    await informer.wait_synced()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while measured.samples("rest_client_requests_total")["200", "GET"] < 2:  # noqa: ASYNC110 - the page is all there is to look at
            await asyncio.sleep(0)
    assert measured.samples("rest_client_request_duration_seconds_count") == {("GET",): 1}


async def test_pools_are_counted(measured: Measured) -> None:
    """One pool is made for requests, and found again afterwards."""
    await measured.client.list(Node)
    await measured.client.list(Node)
    assert measured.samples("rest_client_transport_create_calls_total") == {("miss",): 1, ("hit",): 1}
    assert measured.samples("rest_client_transport_cache_entries") == {(): 1}
    assert measured.samples("rest_client_exec_plugin_ttl_seconds") == {(): float("inf")}
    assert measured.samples("rest_client_exec_plugin_certificate_rotation_age_count") == {(): 0}


def uid_of(measured: Measured) -> str:
    """Return the uid of the pod."""
    uid: str = measured.cluster.get("v1", "Pod", "p", namespace="default")["metadata"]["uid"]
    return uid
