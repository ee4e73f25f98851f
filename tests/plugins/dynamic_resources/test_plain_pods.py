"""DynamicResources, as far as pods without claims go."""

from __future__ import annotations

import numpy as np

from pyscheduler.framework import CycleState, NodeStatuses, QueueingHint, Status
from pyscheduler.plugins.dynamic_resources.plugin import DynamicResources
from pyscheduler.testing import FakeCluster, make_pod

CLAIMS = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}


async def test_a_pod_with_claims_is_never_placed_as_if_it_had_none(pyscheduler_cluster: FakeCluster) -> None:
    """It stays pending with a message that names the field and the plugin."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = cluster.framework()
    result = await framework.schedule("claims", spec=CLAIMS)
    assert result.state == "pending"
    assert "spec.resourceClaims" in result.message
    assert "DynamicResources" in result.message
    assert (await framework.schedule("plain")).bound


async def test_without_prefilter_its_filter_refuses_every_node(pyscheduler_cluster: FakeCluster) -> None:
    """A profile may disable PreFilter of the plugin; the pod is not placed then either."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    cluster.add_node("n2")
    plugin = cluster.framework().plugin("DynamicResources")
    assert isinstance(plugin, DynamicResources)
    nodes = cluster.framework().nodes()
    refused = plugin.filter_nodes(CycleState(), make_pod("claims", spec=CLAIMS), nodes)
    assert isinstance(refused, NodeStatuses)
    assert not refused.passed().any()
    assert plugin.filter_nodes(CycleState(), make_pod("plain"), nodes) is None
    assert np.array_equal(plugin.score_nodes(CycleState(), make_pod("plain"), nodes), [0, 0])


async def test_postfilter_has_nothing_to_give_back(pyscheduler_cluster: FakeCluster) -> None:
    """The words stand before those of preemption; they are an error where PreFilter never ran, as upstream."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1", allocatable={"cpu": "1"})
    framework = cluster.framework()
    result = await framework.schedule("big", requests={"cpu": "2"})
    assert "no new claims to deallocate" in result.message
    plugin = framework.plugin("DynamicResources")
    assert isinstance(plugin, DynamicResources)
    nominated, status = plugin.post_filter(CycleState(), make_pod("p"), NodeStatuses(0))
    assert nominated is None
    assert (status.is_error, status.message) == (True, "not found")


def test_only_the_pods_own_change_matters_to_it() -> None:
    """A change of another pod does not help; one of a pod with claims does not help yet."""
    plugin = DynamicResources(None, None)
    pod, claims = make_pod("p"), make_pod("p", spec=CLAIMS)
    assert plugin.after_pod_change(pod, pod, pod) is QueueingHint.QUEUE
    assert plugin.after_pod_change(pod, pod, make_pod("other")) is QueueingHint.SKIP
    assert plugin.after_pod_change(pod, pod, claims) is QueueingHint.SKIP


def test_pods_with_claims_have_no_signature() -> None:
    """Two such pods are never taken for equal."""
    plugin = DynamicResources(None, None)
    assert plugin.sign_pod(make_pod("p")) == ()
    assert isinstance(plugin.sign_pod(make_pod("p", spec=CLAIMS)), Status)
