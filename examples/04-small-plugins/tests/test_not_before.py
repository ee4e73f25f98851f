"""NotBefore, in virtual time."""

from pyscheduler.testing import FakeCluster
from small_plugins.not_before import NotBefore


async def test_pod_is_scheduled_at_its_time(pyscheduler_cluster: FakeCluster) -> None:
    """The pod waits for its time, although nothing happens in the cluster, and not longer."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = cluster.framework(enable=[NotBefore])
    at = cluster.clock.wall() + 240
    early = await framework.schedule("p", annotations={"example.com/not-before": str(at)})
    assert early.message.startswith("0/1 nodes are available: it is too early for this pod.")
    await cluster.clock.advance(239)
    assert framework.result("p").state == "pending"
    await cluster.clock.advance(1)
    assert framework.result("p").bound
    assert framework.metric("not_before_held_total", namespace="default") == 1
