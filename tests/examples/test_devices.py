"""examples/11-devices: what its page promises."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pyscheduler.api import ResourceClaim
from pyscheduler.testing import FakeCluster, FakeFramework
from tests.examples.conftest import ROOT
from tests.plugins.devices import devices_of, get_claim, taken_twice, users_of

FOLDER = ROOT / "examples" / "11-devices"


@pytest.fixture
def cluster(pyscheduler_cluster: FakeCluster) -> Iterator[FakeCluster]:
    """Return a cluster that moves, with the nodes of the example."""
    pyscheduler_cluster.server.load((FOLDER / "nodes.yaml").read_bytes())
    lifecycle = pyscheduler_cluster.server.lifecycle()
    lifecycle.start()
    yield pyscheduler_cluster
    lifecycle.stop()


async def started(cluster: FakeCluster) -> FakeFramework:
    """Let the pods of the example come."""
    framework = cluster.framework()
    await framework.start()
    cluster.server.load((FOLDER / "pods.yaml").read_bytes())
    for _ in range(20):
        await cluster.clock.advance(0.5)
    return framework


async def test_pods_go_where_the_page_says(cluster: FakeCluster) -> None:
    """Each row of its table is what happens."""
    framework = await started(cluster)
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| ([^|]*) \| (.*) \|$", page, re.MULTILINE)
    places = {"either node": {"small", "large"}, "`large`": {"large"}, "`small`": {"small"}, "nowhere": {None}}
    told = {name: (where, why) for names, where, why in rows for name in re.findall(r"`([^`]*)`", names)}
    assert told.keys() == {pod.name for pod in cluster.pods()}
    for name, (where, why) in told.items():
        result = framework.result(name)
        assert result.node in places[where], name
        if result.node is None:
            (quoted,) = re.findall(r"`([^`]*)`", why)
            assert quoted in result.message
    given = get_claim(cluster, "two-large-or-two-small").status.allocation
    assert given is not None
    assert {each.request for each in given.devices.results} == {"gpus/small"}
    assert not taken_twice(cluster.objects(ResourceClaim))


async def test_claims_go_as_the_page_says(cluster: FakeCluster) -> None:
    """A claim from a template goes with its pod; one that is shared stays, and gives its device back in the end."""
    await started(cluster)
    assert len(cluster.objects(ResourceClaim)) == 5
    cluster.delete_pod("own")
    cluster.delete_pod("plain")
    cluster.delete_pod("together-0")
    await cluster.clock.advance(5)
    assert {found.name for found in cluster.objects(ResourceClaim)} == {
        "with-much-memory",
        "two-large-or-two-small",
        "three-large",
    }
    assert users_of(get_claim(cluster, "with-much-memory")) == ["together-1"]
    cluster.delete_pod("together-1")
    await cluster.clock.advance(5)
    found = get_claim(cluster, "with-much-memory")
    assert (devices_of(found), users_of(found), found.metadata.finalizers) == ([], [], ())
