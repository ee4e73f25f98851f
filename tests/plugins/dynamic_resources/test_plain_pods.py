"""DynamicResources and pods without claims: it has next to nothing to do."""

from __future__ import annotations

import numpy as np

from pyscheduler.framework import CycleState, NodeStatuses, Status
from pyscheduler.plugins.dynamic_resources.plugin import DynamicResources
from pyscheduler.runtime.equivalence_cache.equivalence_key import equivalence_key
from pyscheduler.testing import FakeCluster, make_pod
from tests.plugins.devices import using


async def test_it_has_nothing_to_say(cluster: FakeCluster) -> None:
    """It skips filter and PreBind, scores 0, and reserves nothing."""
    cluster.add_node("n1")
    framework = cluster.framework()
    plugin = framework.plugin("DynamicResources")
    assert isinstance(plugin, DynamicResources)
    state, pod, nodes = CycleState(), make_pod("plain"), framework.nodes()
    assert plugin.pre_enqueue(pod) is None
    assert plugin.pre_filter(state, pod, nodes) is Status.skip()
    assert plugin.filter_nodes(state, pod, nodes) is None
    assert np.array_equal(plugin.score_nodes(state, pod, nodes), [0])
    assert plugin.reserve(state, pod, "n1") is None
    assert plugin.pre_bind_pre_flight(state, pod, "n1") is Status.skip()
    plugin.unreserve(state, pod, "n1")
    assert plugin.sign_pod(pod) == ()
    assert (await framework.schedule("plain")).bound


async def test_postfilter_has_nothing_to_give_back(cluster: FakeCluster) -> None:
    """The words stand before those of preemption; they are an error where PreFilter never ran, as upstream."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    framework = cluster.framework()
    result = await framework.schedule("big", requests={"cpu": "2"})
    assert "no new claims to deallocate" in result.message
    plugin = framework.plugin("DynamicResources")
    assert isinstance(plugin, DynamicResources)
    answer = plugin.post_filter(CycleState(), make_pod("p"), NodeStatuses(0))
    assert isinstance(answer, tuple)
    assert answer[0] is None
    assert (answer[1].is_error, answer[1].message) == (True, "not found")


async def test_without_prefilter_pods_with_claims_fail(cluster: FakeCluster) -> None:
    """A profile may disable PreFilter of the plugin; nothing is known of the pod's claims then, which is an error."""
    cluster.add_node("n1")
    framework = cluster.framework()
    plugin = framework.plugin("DynamicResources")
    assert isinstance(plugin, DynamicResources)
    pod = make_pod("claims", spec=using("c"))
    refused = plugin.filter_nodes(CycleState(), pod, framework.nodes())
    assert refused is not None
    for status in (refused.status(0), plugin.reserve(CycleState(), pod, "n1")):
        assert status is not None
        assert (status.is_error, status.message) == (True, "not found")
    plugin.unreserve(CycleState(), pod, "n1")


async def test_pods_with_claims_are_like_no_other(cluster: FakeCluster) -> None:
    """They have no signature, and no answer about them is kept for another."""
    plugin = cluster.framework().plugin("DynamicResources")
    assert isinstance(plugin, DynamicResources)
    pod = make_pod("p", spec=using("c"))
    assert isinstance(plugin.sign_pod(pod), Status)
    assert equivalence_key(pod) is None
    assert equivalence_key(make_pod("p")) is not None
