"""NodeDeclaredFeatures: what the kubelet says it can do."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pyscheduler.api import Node, Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import CycleState, QueueingHint
from pyscheduler.plugins.node_declared_features import NodeDeclaredFeatures, required_features
from pyscheduler.testing.builders import make_node, make_pod

RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]


def declaring(name: str, *features: str) -> Node:
    """Make a node that declares features."""
    return make_node(name, status={"declaredFeatures": list(features)})


def plugin_of(**gates: bool) -> NodeDeclaredFeatures:
    """Make the plugin under feature gates."""
    return NodeDeclaredFeatures(None, SimpleNamespace(feature_gates=gates))


PLAIN = make_pod("p")
RESTARTING = make_pod("p", spec={"containers": [{"name": "c", "restartPolicyRules": RULES}]})
BOTH = make_pod(
    "p",
    spec={"initContainers": [{"name": "i", "restartPolicyRules": RULES}], "hostNetwork": True, "hostUsers": False},
)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(PLAIN, set(), id="nothing"),
        pytest.param(RESTARTING, {RESTART}, id="a container that restarts all"),
        pytest.param(BOTH, {RESTART, USERS}, id="an init container, and users of its own on the host network"),
        pytest.param(make_pod("p", spec={"hostNetwork": True}), set(), id="host network alone"),
        pytest.param(make_pod("p", spec={"hostNetwork": True, "hostUsers": True}), set(), id="the host's users"),
        pytest.param(make_pod("p", spec={"hostUsers": False}), set(), id="users of its own alone"),
    ],
)
def test_what_a_pod_needs(pod: Pod, expected: set[str]) -> None:
    """Needs are read off the spec."""
    assert required_features(pod) == expected


@pytest.mark.parametrize(
    ("gates", "pod"),
    [
        pytest.param({}, PLAIN, id="a pod that needs nothing"),
        pytest.param({"NodeDeclaredFeatures": False}, BOTH, id="the feature gate is off"),
    ],
)
def test_skips(gates: dict[str, bool], pod: Pod, snapshot_of: Callable[..., Snapshot]) -> None:
    """Nothing to ask of nodes."""
    assert plugin_of(**gates).pre_filter(CycleState(), pod, snapshot_of([]).nodes).is_skip


def test_events() -> None:
    """Nodes and pod updates are registered, unless the feature gate is off."""
    assert [each.event.resource for each in plugin_of().events_to_register()] == ["Node", "Pod"]
    assert list(plugin_of(NodeDeclaredFeatures=False).events_to_register()) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, declaring("n"), QueueingHint.QUEUE, id="a new node"),
        pytest.param(declaring("n"), declaring("n", RESTART), QueueingHint.QUEUE, id="other features"),
        pytest.param(declaring("n", RESTART), declaring("n", RESTART), QueueingHint.SKIP, id="the same features"),
    ],
)
def test_a_node_wakes_pods(old: Node | None, new: Node, expected: QueueingHint) -> None:
    """A node helps that is new or declares something else."""
    assert plugin_of().after_node_change(BOTH, old, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(RESTARTING, PLAIN, QueueingHint.QUEUE, id="it needs less"),
        pytest.param(RESTARTING, RESTARTING, QueueingHint.SKIP, id="it needs the same"),
        pytest.param(
            make_pod("q", spec=None), make_pod("q", spec={"hostUsers": False}), QueueingHint.SKIP, id="another"
        ),
    ],
)
def test_an_update_wakes_its_pod(old: Pod, new: Pod, expected: QueueingHint) -> None:
    """The pod is tried again when it needs other features than before."""
    assert plugin_of().after_pod_update(RESTARTING, old, new) is expected


def test_signature_is_the_needs() -> None:
    """Pods that need other features are judged differently."""
    assert len({tuple(plugin_of().sign_pod(pod)) for pod in (PLAIN, RESTARTING, BOTH)}) == 3
