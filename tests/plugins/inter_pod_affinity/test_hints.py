"""Which changes of pods and nodes wake a pod that InterPodAffinity rejected."""

from __future__ import annotations

import pytest

from pyscheduler.api import Node, Pod
from pyscheduler.framework import ActionType, ClusterEvent, QueueingHint
from pyscheduler.plugins.inter_pod_affinity.hints import after_node_change, after_pod_change
from pyscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from pyscheduler.testing.builders import make_node
from tests.plugins.inter_pod_affinity.affine import HOST, ZONE, AffinityHandle, pod_of, term

NEAR = pod_of(near=[term()])
AWAY = pod_of(away=[term()])
EVERYWHERE = pod_of(near=[term(namespaceSelector={})])
TEAM = pod_of(near=[term(namespaceSelector={"matchLabels": {"team": "t"}})])
OTHER = {"app": "b"}
PODS = [
    pytest.param(NEAR, None, pod_of("x", "n"), True, id="a wanted pod came"),
    pytest.param(NEAR, None, pod_of("x", "n", app="b"), False, id="another pod came"),
    pytest.param(NEAR, None, pod_of("x"), False, id="a wanted pod without a node came"),
    pytest.param(NEAR, None, pod_of("x", status={"nominatedNodeName": "n"}), True, id="a wanted pod was nominated"),
    pytest.param(AWAY, None, pod_of("x", "n"), False, id="a shunned pod came"),
    pytest.param(pod_of(), None, pod_of("x", "n"), False, id="a pod came to one without terms"),
    pytest.param(NEAR, pod_of("x", "n", app="b"), pod_of("x", "n"), True, id="a pod became a wanted one"),
    pytest.param(NEAR, pod_of("x", "n"), pod_of("x", "n"), False, id="a wanted pod stayed one"),
    pytest.param(NEAR, pod_of("x", "n"), pod_of("x", "n", app="b"), False, id="a wanted pod is none any more"),
    pytest.param(AWAY, pod_of("x", "n"), pod_of("x", "n", app="b"), True, id="a shunned pod is none any more"),
    pytest.param(AWAY, pod_of("x", "n", app="b"), pod_of("x", "n"), False, id="a pod became a shunned one"),
    pytest.param(AWAY, pod_of("x"), pod_of("x", app="b"), False, id="a pod without a node changed"),
    pytest.param(AWAY, pod_of("p"), pod_of("p", app="b"), True, id="the pod itself was relabelled"),
    pytest.param(AWAY, pod_of("x", "n"), None, True, id="a shunned pod went"),
    pytest.param(AWAY, pod_of("x"), None, False, id="a shunned pod that had no node went"),
    pytest.param(NEAR, pod_of("x", "n"), None, False, id="a wanted pod went"),
    pytest.param(pod_of(), pod_of("x", "n", app="b", away=[term()]), None, True, id="a pod that shunned it went"),
    pytest.param(
        pod_of(),
        pod_of("x", "n", app="b", away=[term(), term(labelSelector={"matchLabels": OTHER})]),
        None,
        False,
        id="one that shunned it and others went: as there, all terms would have to mean it",
    ),
    pytest.param(EVERYWHERE, None, pod_of("x", "n", namespace="other"), True, id="a namespace selector that is empty"),
    pytest.param(TEAM, None, pod_of("x", "n"), False, id="namespaces are not looked up"),
]


@pytest.mark.parametrize(("pod", "old", "new", "helps"), PODS)
def test_changes_of_pods(pod: Pod, old: Pod | None, new: Pod | None, helps: bool) -> None:
    """Only pods that have a node, or were promised one, matter."""
    assert after_pod_change(pod, old, new) is (QueueingHint.QUEUE if helps else QueueingHint.SKIP)


def node(**labels: str) -> Node:
    """Make a node."""
    return make_node("n", labels={key.replace("zone", ZONE): value for key, value in labels.items()})


NODES = [
    pytest.param(NEAR, None, node(zone="a"), True, id="near: a node with the key came"),
    pytest.param(NEAR, None, node(), False, id="near: a node without the key came"),
    pytest.param(NEAR, node(), node(zone="a"), True, id="near: a node got the key"),
    pytest.param(NEAR, node(zone="a"), node(zone="b"), True, id="near: a node moved"),
    pytest.param(NEAR, node(zone="a"), node(), False, id="near: a node lost the key"),
    pytest.param(NEAR, node(zone="a"), node(zone="a", disk="x"), False, id="near: another label changed"),
    pytest.param(AWAY, None, node(), True, id="away: any node came"),
    pytest.param(AWAY, node(zone="a"), node(), True, id="away: a node lost the key"),
    pytest.param(AWAY, node(zone="a"), node(zone="b"), True, id="away: a node moved"),
    pytest.param(AWAY, node(), node(zone="a"), False, id="away: a node got the key"),
    pytest.param(AWAY, node(zone="a"), node(zone="a", disk="x"), False, id="away: another label changed"),
    pytest.param(pod_of(), None, node(zone="a"), False, id="no terms"),
    pytest.param(pod_of(near=[term(HOST)]), node(zone="a"), node(zone="b"), False, id="near: by another key"),
]


@pytest.mark.parametrize(("pod", "old", "new", "helps"), NODES)
def test_changes_of_nodes(pod: Pod, old: Node | None, new: Node, helps: bool) -> None:
    """A node matters where it joins a domain of the pod's affinity, or leaves one of its anti-affinity."""
    assert after_node_change(pod, old, new) is (QueueingHint.QUEUE if helps else QueueingHint.SKIP)


def test_events() -> None:
    """Pods that come, go or are relabelled, and nodes that come or are relabelled, are asked about."""
    pods, nodes = InterPodAffinity(None, AffinityHandle()).events_to_register()
    actions = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
    assert (pods.event, pods.queueing_hint) == (ClusterEvent("Pod", actions), after_pod_change)
    actions = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
    assert (nodes.event, nodes.queueing_hint) == (ClusterEvent("Node", actions), after_node_change)
