"""Signatures of the in-tree plugins: pods that a plugin judges differently have different ones."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import SignPlugin
from pyscheduler.plugins.image_locality import ImageLocality
from pyscheduler.plugins.node_affinity import NodeAffinity
from pyscheduler.plugins.node_name import NodeName
from pyscheduler.plugins.node_ports import NodePorts
from pyscheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from pyscheduler.plugins.node_resources.fit import NodeResourcesFit
from pyscheduler.plugins.node_unschedulable import NodeUnschedulable
from pyscheduler.plugins.taint_toleration import TaintToleration
from pyscheduler.testing.builders import make_pod

HANDLE = SimpleNamespace(feature_gates={})
PLAIN = make_pod("p")
TOLERANT = make_pod("p", tolerations=[{"key": "dedicated", "value": "db"}])
IN_ZONE = make_pod("p", node_selector={"zone": "a"})
BY_NAME = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a1"]}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [BY_NAME]}}


def with_ports(*ports: tuple[str, str, int]) -> Pod:
    """Make a pod that takes ports of its host, each as (address, protocol, port)."""
    entries = [{"hostIP": ip, "protocol": protocol, "hostPort": port} for ip, protocol, port in ports]
    return make_pod("p", spec={"containers": [{"name": "c", "ports": entries}]})


@pytest.mark.parametrize(
    ("plugin", "one", "other"),
    [
        pytest.param(
            ImageLocality(), make_pod("p", images=["app", "db:v1"]), make_pod("p", images=["app"]), id="image"
        ),
        pytest.param(NodeAffinity(), PLAIN, IN_ZONE, id="node selector"),
        pytest.param(NodeAffinity(), PLAIN, make_pod("p", affinity={"nodeAffinity": REQUIRED}), id="node affinity"),
        pytest.param(NodeName(), PLAIN, make_pod("p", node_name="n"), id="node name"),
        pytest.param(NodePorts(), with_ports(("", "TCP", 80)), with_ports(("", "TCP", 443)), id="host port"),
        pytest.param(
            NodeResourcesFit(),
            make_pod("p", requests={"cpu": "1"}),
            make_pod("p", requests={"cpu": "1001m"}),
            id="requests",
        ),
        pytest.param(NodeUnschedulable(None, HANDLE), PLAIN, TOLERANT, id="toleration of cordoned nodes"),
        pytest.param(TaintToleration(None, HANDLE), PLAIN, TOLERANT, id="toleration"),
    ],
)
def test_pods_that_are_judged_differently_have_different_signatures(plugin: SignPlugin, one: Pod, other: Pod) -> None:
    """Pods that differ in a field that the plugin reads have different signatures."""
    assert plugin.sign_pod(one) != plugin.sign_pod(other)


@pytest.mark.parametrize(
    ("plugin", "one", "other"),
    [
        pytest.param(
            ImageLocality(),
            make_pod("p", images=["app", "db:v1"]),
            make_pod("p", images=["db:v1", "app:latest", "app"]),
            id="images in another order, with the tag that they mean",
        ),
        pytest.param(
            NodePorts(),
            with_ports(("", "TCP", 80), ("", "TCP", 443)),
            with_ports(("", "UDP", 443), ("10.0.0.1", "TCP", 80)),
            id="ports in another order, whatever their addresses and protocols",
        ),
        pytest.param(
            NodeResourcesFit(),
            make_pod("p", requests={"cpu": "1"}),
            make_pod("q", requests={"cpu": "1000m"}),
            id="another spelling of an amount",
        ),
    ],
)
def test_pods_that_are_judged_alike_have_one_signature(plugin: SignPlugin, one: Pod, other: Pod) -> None:
    """So that answers about one can be reused for the other."""
    assert plugin.sign_pod(one) == plugin.sign_pod(other)


def test_both_resource_plugins_give_one_fragment() -> None:
    """They depend on the same fact."""
    pod = make_pod("p", requests={"cpu": "1"})
    assert NodeResourcesBalancedAllocation().sign_pod(pod) == NodeResourcesFit().sign_pod(pod)
