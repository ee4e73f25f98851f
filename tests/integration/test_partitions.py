"""Several deployments share a cluster, as docs/performance.md tells who has more of it than one scheduler can do."""

from __future__ import annotations

import asyncio
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Node, Pod
from pyscheduler.cli.demo.audit import audit
from pyscheduler.testing import FakeCluster, FakeFramework, node_manifest, pod_manifest
from tests.integration.programs import pods, program, served

PAGE: Final = Path(__file__).parents[2] / "docs" / "performance.md"
PARTS: Final = ("east", "west")
PODS: Final = 60
_BLOCK: Final = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def configuration(part: str) -> str:
    """Return the configuration that the page shows, for one of the parts."""
    (shown,) = (text for text in _BLOCK.findall(PAGE.read_text(encoding="utf-8")) if "addedAffinity" in text)
    return str(shown).replace("east", part)


async def test_each_deployment_keeps_to_its_part(tmp_path: Path) -> None:
    """Both lead at once, under leases of their own; each binds its pods, all of them, to nodes of its part only."""
    nodes = [
        node_manifest(f"{part}-{number}", allocatable={"cpu": "32", "memory": "128Gi"}, labels={"partition": part})
        for part in PARTS
        for number in range(5)
    ]
    for part in PARTS:
        (tmp_path / f"{part}.yaml").write_text(configuration(part), encoding="utf-8")
    run = ("run", "--health-port", "0", "--secure-port", "0", "--config")
    async with (
        served(tmp_path, nodes) as api,
        program(*run, str(tmp_path / "east.yaml"), "--master", api.url) as east,
        program(*run, str(tmp_path / "west.yaml"), "--master", api.url) as west,
    ):
        for scheduler in (east, west):
            await scheduler.said("Successfully acquired lease")
        made = [pods(PODS, scheduler_name=f"pyscheduler-{part}", prefix=part) for part in PARTS]
        for pair in zip(*made, strict=True):
            for pod in pair:
                status, answer = await api("POST", "/api/v1/namespaces/default/pods", pod)
                assert status == 201, answer
        await api.until_bound(2 * PODS)
        leases = await api.items("/apis/coordination.k8s.io/v1/leases")
        for scheduler in (east, west):
            scheduler.send(signal.SIGTERM)
            assert await scheduler.ended() == 0
        report = await asyncio.to_thread(audit, api.url)
        found = await api.items("/api/v1/pods")
    holders = {lease["metadata"]["name"]: lease["spec"]["holderIdentity"] for lease in leases}
    assert {*holders} == {"pyscheduler-east", "pyscheduler-west"}
    assert len({*holders.values()}) == 2
    assert (report.problems, report.bound, report.pending) == ([], 2 * PODS, 0)
    where = Counter(
        (pod["metadata"]["name"].partition("-")[0], pod["spec"]["nodeName"].partition("-")[0]) for pod in found
    )
    assert where == {(part, part): PODS for part in PARTS}


# --- mistakes -----------------------------------------------------------------------------------------


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Four nodes of four CPUs, all in the east and none in the west, and kubelets that take in what fits."""
    cluster = FakeCluster()
    for number in range(4):
        cluster.add_node(f"n{number}", allocatable={"cpu": "4", "pods": "20"}, labels={"partition": "east"})
    kubelets = cluster.server.lifecycle()
    kubelets.start()
    yield cluster
    cluster.assert_invariants()
    await cluster.close()
    kubelets.stop()


async def both(cluster: FakeCluster, *, names: tuple[str, str]) -> list[FakeFramework]:
    """Start two schedulers that think the east theirs, called so."""
    made = [
        cluster.framework(
            config=configuration("east").replace("schedulerName: pyscheduler-east", f"schedulerName: {name}")
        )
        for name in names
    ]
    for framework in made:
        await framework.start()
    return made


def phases(cluster: FakeCluster) -> Counter[str]:
    """Return how many pods are in which phase; those that were not taken in, by the reason."""
    return Counter(pod["status"].get("reason") or pod["status"]["phase"] for pod in cluster.server.pods())


async def test_pods_of_the_other_count_as_soon_as_they_are_seen(cluster: FakeCluster) -> None:
    """Where parts overlap, one that comes later sees full nodes, says so, and binds nothing to them."""
    first, second = await both(cluster, names=("a", "b"))
    for number in range(16):
        cluster.add_pod(f"a{number}", scheduler_name="a", requests={"cpu": "1"})
    await first.settle()
    cluster.add_pod("b0", scheduler_name="b", requests={"cpu": "1"})
    await second.settle()
    assert phases(cluster) == {"Running": 16, "Pending": 1}
    assert "0/4 nodes are available: 4 Insufficient cpu." in second.result("b0").message
    cluster.delete_pod("a3")
    await cluster.clock.advance(30)
    assert phases(cluster) == {"Running": 16}


async def test_a_race_for_the_same_room_overcommits_no_node(cluster: FakeCluster) -> None:
    """Bindings that neither scheduler could see of the other: the node takes in what fits, and refuses the rest aloud.

    Once the refused ones are replaced, as their owners do, what there is room for runs; and the others wait, with a
    reason.
    """
    await both(cluster, names=("a", "b"))
    cluster.server.faults.add(Fault(path=r"/binding$", delay_seconds=1.0))
    for number in range(12):
        for name in ("a", "b"):
            cluster.add_pod(f"{name}{number}", scheduler_name=name, requests={"cpu": "1"})
    await cluster.clock.advance(5)
    seen = phases(cluster)
    assert seen["Running"] <= 16
    assert seen["OutOfcpu"] > 0
    assert seen.total() == 24
    for pod in cluster.server.pods():
        if pod["status"]["phase"] == "Failed":
            name = pod["metadata"]["name"]
            cluster.delete_pod(name)
            cluster.add_pod(f"{name}-again", scheduler_name=pod["spec"]["schedulerName"], requests={"cpu": "1"})
            await cluster.clock.advance(2)
    await cluster.clock.advance(60)
    assert phases(cluster) == {"Running": 16, "Pending": 8}
    waiting = [pod for pod in cluster.server.pods() if not pod["spec"].get("nodeName")]
    for pod in waiting:
        (condition,) = (one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled")
        assert "4 Insufficient cpu" in condition["message"]


async def test_two_that_share_a_name_bind_each_pod_once(cluster: FakeCluster) -> None:
    """The same `schedulerName` under two leases: the second binding of a pod is refused, and its room given back."""
    made = await both(cluster, names=("same", "same"))
    cluster.server.faults.add(Fault(path=r"/binding$", delay_seconds=0.5))
    for number in range(12):
        cluster.add_pod(f"p{number}", scheduler_name="same", requests={"cpu": "1"})
    await cluster.clock.advance(60)
    assert phases(cluster) == {"Running": 12}
    assert Counter(event["regarding"]["name"] for event in cluster.events("Scheduled")) == {
        f"p{number}": 1 for number in range(12)
    }
    cluster.server.faults.clear()
    # Room that a lost binding had held would be missing now.
    for number in range(4):
        cluster.add_pod(f"late{number}", scheduler_name="same", requests={"cpu": "1"})
    await cluster.clock.advance(60)
    assert phases(cluster) == {"Running": 16}
    for framework in made:
        framework.assert_invariants()


async def test_preemption_stays_in_its_part(cluster: FakeCluster) -> None:
    """A pod that is more important than all evicts nobody where it may not run itself."""
    west = cluster.framework(config=configuration("west"))
    for number in range(4):
        cluster.add_pod(f"low{number}", requests={"cpu": "4"}, node_name=f"n{number}")
    cluster.add_pod("high", scheduler_name="pyscheduler-west", requests={"cpu": "1"}, priority=1000)
    await west.settle()
    await cluster.clock.advance(30)
    assert phases(cluster) == {"Running": 4, "Pending": 1}
    assert (
        "0/4 nodes are available: 4 node(s) didn't match scheduler-enforced node affinity"
        in west.result("high").message
    )


@pytest.mark.parametrize(("selector", "expected"), [({}, 1), ({"partition": "east"}, 4)], ids=["without", "with"])
async def test_a_hard_spread_counts_other_parts_unless_the_pod_names_its_own(
    cluster: FakeCluster, selector: dict[str, str], expected: int
) -> None:
    """One pod lies in the only zone of the part, and the zone of the other part stays empty for ever."""
    for number in range(4):
        cluster.patch(
            Node, f"n{number}", {"metadata": {"labels": {"topology.kubernetes.io/zone": "here"}}}, namespace=""
        )
    cluster.add_node("west", allocatable={"cpu": "4"}, labels={"topology.kubernetes.io/zone": "there"})
    east = cluster.framework(config=configuration("east"))
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    for number in range(4):
        manifest = pod_manifest(f"p{number}", scheduler_name="pyscheduler-east", labels={"app": "spread"})
        manifest["spec"] |= {"topologySpreadConstraints": [spread], "nodeSelector": selector}
        cluster.add(manifest, Pod)
    await east.settle()
    await cluster.clock.advance(30)
    assert phases(cluster)["Running"] == expected
