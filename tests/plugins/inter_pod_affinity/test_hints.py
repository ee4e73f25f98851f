"""Changes of pods, nodes and namespaces that wake a pod that InterPodAffinity rejected."""

from __future__ import annotations

import pytest

from pyscheduler.api import Node, Pod
from pyscheduler.framework import ActionType, ClusterEvent, QueueingHint
from pyscheduler.plugins.inter_pod_affinity.hints import Hints
from pyscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from pyscheduler.testing.builders import make_node
from tests.plugins.inter_pod_affinity.affine import HOST, ZONE, namespace_of, pod_of, term
from tests.plugins.reading_handle import ReadingHandle

HINTS = Hints(lambda name: {"team": "t"} if name == "red" else {})
NEAR = pod_of(near=[term()])
AWAY = pod_of(away=[term()])
EVERYWHERE = pod_of(near=[term(namespaceSelector={})])
TEAM = pod_of(near=[term(namespaceSelector={"matchLabels": {"team": "t"}})])
NOT_TEAM = pod_of(near=[term(namespaceSelector={"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]})])
NEAR_OTHERS = pod_of(app="b", near=[term()])
TWO_AWAY = pod_of(away=[term(), term(labelSelector={"matchLabels": {"app": "b"}})])
PODS = [
    pytest.param(NEAR, None, pod_of("x", "n"), True, id="a wanted pod came"),
    pytest.param(NEAR, None, pod_of("x", "n", app="b"), False, id="another pod came"),
    pytest.param(NEAR, None, pod_of("x"), False, id="a wanted pod without a node came"),
    pytest.param(NEAR, None, pod_of("x", status={"nominatedNodeName": "n"}), True, id="a wanted pod was nominated"),
    pytest.param(AWAY, None, pod_of("x", "n"), False, id="a shunned pod came"),
    pytest.param(pod_of(), None, pod_of("x", "n"), False, id="a pod came to one without terms"),
    pytest.param(NEAR, pod_of("x", "n", app="b"), pod_of("x", "n"), True, id="a pod became a wanted one"),
    pytest.param(NEAR, pod_of("x", "n"), pod_of("x", "n"), False, id="a wanted pod stayed one"),
    pytest.param(NEAR, pod_of("x", "n"), pod_of("x", "n", app="b"), True, id="it may be the first of its kind"),
    pytest.param(NEAR_OTHERS, pod_of("x", "n"), pod_of("x", "n", app="b"), False, id="a wanted pod is none any more"),
    pytest.param(AWAY, pod_of("x", "n"), pod_of("x", "n", app="b"), True, id="a shunned pod is none any more"),
    pytest.param(AWAY, pod_of("x", "n", app="b"), pod_of("x", "n"), False, id="a pod became a shunned one"),
    pytest.param(AWAY, pod_of("x"), pod_of("x", app="b"), False, id="a pod without a node changed"),
    pytest.param(AWAY, pod_of("p"), pod_of("p", app="b"), True, id="the pod itself was relabelled"),
    pytest.param(AWAY, pod_of("x", "n"), None, True, id="a shunned pod went"),
    pytest.param(AWAY, pod_of("x"), None, False, id="a shunned pod that had no node went"),
    pytest.param(NEAR, pod_of("x", "n"), None, True, id="the last pod of its kind may have gone"),
    pytest.param(NEAR_OTHERS, pod_of("x", "n"), None, False, id="a wanted pod went"),
    pytest.param(TWO_AWAY, pod_of("x", "n"), None, True, id="a pod that one of two terms shuns went"),
    pytest.param(pod_of(), pod_of("x", "n", app="b", away=[term()]), None, True, id="a pod that shunned it went"),
    pytest.param(pod_of(), TWO_AWAY.with_node_name("n"), None, True, id="one that shunned it by one of two terms went"),
    pytest.param(EVERYWHERE, None, pod_of("x", "n", namespace="other"), True, id="a namespace selector that is empty"),
    pytest.param(TEAM, None, pod_of("x", "n"), False, id="a pod of another namespace came"),
    pytest.param(TEAM, None, pod_of("x", "n", namespace="red"), True, id="a pod of a selected namespace came"),
    pytest.param(NOT_TEAM, None, pod_of("x", "n", namespace="red"), False, id="a pod of an excluded namespace came"),
    pytest.param(NOT_TEAM, None, pod_of("x", "n"), True, id="a pod of a namespace that is not excluded came"),
]


@pytest.mark.parametrize(("pod", "old", "new", "helps"), PODS)
def test_changes_of_pods(pod: Pod, old: Pod | None, new: Pod | None, helps: bool) -> None:
    """Only pods that have a node, or were promised one, matter."""
    assert HINTS.after_pod_change(pod, old, new) is (QueueingHint.QUEUE if helps else QueueingHint.SKIP)


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
    assert HINTS.after_node_change(pod, old, new) is (QueueingHint.QUEUE if helps else QueueingHint.SKIP)


AWAY_FROM_TEAM = pod_of(away=[term(namespaceSelector={"matchLabels": {"team": "t"}})])
NAMESPACES = [
    pytest.param(TEAM, "x", {}, {"team": "t"}, True, id="near: the namespace is selected now"),
    pytest.param(TEAM, "x", None, {"team": "t"}, True, id="near: a selected namespace came"),
    pytest.param(TEAM, "x", {}, {"team": "u"}, False, id="near: the namespace is still not selected"),
    pytest.param(NOT_TEAM, "x", {"team": "t"}, {}, True, id="near: the namespace is not excluded any more"),
    pytest.param(AWAY_FROM_TEAM, "x", {"team": "t"}, {}, True, id="away: the namespace is not selected any more"),
    pytest.param(AWAY_FROM_TEAM, "x", {"a": "1"}, {"a": "2"}, False, id="away: another label changed"),
    pytest.param(NEAR, "x", {"team": "t"}, {}, False, id="no selector"),
    pytest.param(pod_of(), "default", {"team": "t"}, {}, True, id="the pod's own namespace, which others may shun"),
    pytest.param(pod_of(), "default", {"team": "t"}, {"team": "t"}, False, id="the pod's own namespace, same labels"),
]


@pytest.mark.parametrize(("pod", "name", "old", "new", "helps"), NAMESPACES)
def test_changes_of_namespaces(
    pod: Pod, name: str, old: dict[str, str] | None, new: dict[str, str], helps: bool
) -> None:
    """A namespace matters if a term begins or ends to select it, or if the pod is in it."""
    before = namespace_of(name, old) if old is not None else None
    found = HINTS.after_namespace_change(pod, before, namespace_of(name, new))
    assert found is (QueueingHint.QUEUE if helps else QueueingHint.SKIP)


def test_events() -> None:
    """Pods that come, go or are relabelled, and nodes and namespaces that come or are relabelled, have hints."""
    pods, nodes, namespaces = InterPodAffinity(None, ReadingHandle()).events_to_register()
    assert pods.event == ClusterEvent("Pod", ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL)
    assert nodes.event == ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
    assert namespaces.event == ClusterEvent("Namespace", ActionType.ADD | ActionType.UPDATE)
