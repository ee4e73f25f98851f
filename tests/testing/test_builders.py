"""Builders say what one writes, and nothing that one did not write."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from pyscheduler import testing
from pyscheduler.api import host_ports, pod_requests, quantity_milli, quantity_value
from pyscheduler.testing import (
    FakeCluster,
    NodeKeywords,
    PodKeywords,
    make_node,
    make_pod,
    node_manifest,
    pod_manifest,
)
from pyscheduler.testing.builders import _CREATED


def test_a_plain_pod_is_plain() -> None:
    """Without keywords a pod has a name, a namespace, the scheduler's name and one container that asks for nothing."""
    pod = make_pod("p")
    assert (pod.name, pod.namespace, pod.uid) == ("p", "default", "pod-default-p")
    assert pod.scheduler_name == "pyscheduler"
    assert [container.name for container in pod.spec.containers] == ["c0"]
    assert pod_requests(pod) == {}
    assert (pod.node_name, pod.priority, pod.spec.affinity, pod.spec.tolerations) == ("", 0, None, ())


def test_keywords_of_a_pod_set_its_fields() -> None:
    """Each keyword ends up in the field that its name says."""
    pod = make_pod(
        "p",
        namespace="ns",
        scheduler_name="other",
        requests={"cpu": "250m", "memory": "1Gi"},
        labels={"a": "b"},
        annotations={"c": "d"},
        priority=7,
        node_name="n1",
        node_selector={"disk": "ssd"},
        tolerations=[{"key": "k", "operator": "Exists"}],
        affinity={"podAffinity": {}},
        scheduling_gates=["wait"],
        host_ports=[80],
        images=["one", "two"],
        spec={"hostNetwork": True},
        status={"nominatedNodeName": "n2"},
        uid="u",
        resource_version="9",
    )
    assert (pod.namespace, pod.scheduler_name, pod.priority, pod.node_name) == ("ns", "other", 7, "n1")
    assert pod_requests(pod) == {"cpu": 250, "memory": 1024**3}
    assert (pod.labels, pod.annotations) == ({"a": "b"}, {"c": "d"})
    assert pod.spec.node_selector == {"disk": "ssd"}
    assert [(each.key, each.operator) for each in pod.spec.tolerations] == [("k", "Exists")]
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.pod_affinity is not None
    assert [gate.name for gate in pod.spec.scheduling_gates] == ["wait"]
    assert [port for _, _, port in host_ports(pod)] == [80]
    assert [container.image for container in pod.spec.containers] == ["one", "two"]
    assert pod.status.nominated_node_name == "n2"
    assert (pod.uid, pod.resource_version) == ("u", "9")


def test_spec_overrides_keywords() -> None:
    """`spec` is the way out where a keyword does not say enough."""
    pod = make_pod("p", requests={"cpu": "1"}, spec={"containers": [{"name": "mine"}]})
    assert [container.name for container in pod.spec.containers] == ["mine"]


def test_a_plain_node_has_room() -> None:
    """Without keywords a node has CPU, memory and room for 110 pods, and its hostname label."""
    node = make_node("n")
    allocatable = node.status.allocatable
    assert quantity_milli(allocatable["cpu"]) == 4000
    assert quantity_value(allocatable["memory"]) == 16 * 1024**3
    assert quantity_value(allocatable["pods"]) == 110
    assert node.labels == {"kubernetes.io/hostname": "n"}
    assert (node.spec.unschedulable, node.spec.taints) == (False, ())


def test_keywords_of_a_node_set_its_fields() -> None:
    """Amounts and labels that are given add to the usual ones; capacity is what is allocatable."""
    node = make_node(
        "n",
        allocatable={"cpu": "2", "example.com/gpu": "1"},
        labels={"zone": "a"},
        annotations={"x": "y"},
        taints=[{"key": "k", "effect": "NoSchedule"}],
        unschedulable=True,
        images={"app:1": 5},
        spec={"providerID": "p"},
        status={"declaredFeatures": ["f"]},
    )
    assert node.status.allocatable == {"cpu": "2", "memory": "16Gi", "pods": "110", "example.com/gpu": "1"}
    assert node_manifest("n")["status"]["capacity"] == node_manifest("n")["status"]["allocatable"]
    assert node.labels == {"kubernetes.io/hostname": "n", "zone": "a"}
    assert node.annotations == {"x": "y"}
    assert [(taint.key, taint.effect) for taint in node.spec.taints] == [("k", "NoSchedule")]
    assert node.spec.unschedulable
    assert [(image.names, image.size_bytes) for image in node.status.images] == [(("app:1",), 5)]
    assert node.status.declared_features == ("f",)


def test_both_forms_take_the_same_keywords() -> None:
    """What can be said of an object can be said of its manifest, and the other way round."""
    for build, manifest in ((make_pod, pod_manifest), (make_node, node_manifest)):
        assert {"uid", "resource_version"} <= inspect.signature(build).parameters.keys()
        with pytest.raises(TypeError, match="unexpected keyword"):
            build("x", nonsense=1)
        with pytest.raises(TypeError, match="unexpected keyword"):
            manifest("x", nonsense=1)


def test_built_objects_share_no_lists() -> None:
    """A manifest can be changed without changing the next one, nor what it was made from."""
    labels = {"a": "b"}
    first = pod_manifest("p", labels=labels)
    first["metadata"]["labels"]["c"] = "d"
    assert labels == {"a": "b"}
    assert pod_manifest("p", labels=labels)["metadata"]["labels"] == {"a": "b"}


def test_api_server_accepts_built_objects(pyscheduler_cluster: FakeCluster) -> None:
    """Manifests with every keyword pass the embedded server's validation, and come back as they were."""
    node = pyscheduler_cluster.add_node(
        "n", allocatable={"example.com/gpu": "2"}, taints=[{"key": "k", "effect": "NoSchedule"}], images={"app": 1}
    )
    assert node.name == "n"
    pod = pyscheduler_cluster.add_pod(
        "p",
        requests={"cpu": "1", "example.com/gpu": "1"},
        priority=0,
        tolerations=[{"key": "k", "operator": "Exists"}],
        scheduling_gates=["example.com/gate"],
        host_ports=[8080],
        node_selector={"disk": "ssd"},
    )
    assert pod_requests(pod) == {"cpu": 1000, "example.com/gpu": 1}
    again = pyscheduler_cluster.add_pod(make_pod("q", namespace="other", requests={"cpu": "1"}, labels={"a": "b"}))
    assert (again.namespace, again.labels) == ("other", {"a": "b"})
    assert again.uid != "pod-other-q"


def test_objects_are_made_at_a_fixed_time() -> None:
    """Nothing in an object depends on when the test runs."""
    assert make_pod("p") == make_pod("p")
    assert make_node("n").metadata.creation_timestamp == _CREATED


def test_the_kit_offers_its_names_lazily() -> None:
    """Each public name is there; any other is an AttributeError that says so."""
    assert all(getattr(testing, name) for name in testing.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = testing.nonsense  # type: ignore[attr-defined]  # that is the point


@pytest.mark.parametrize(
    ("keywords", "function"), [(PodKeywords, pod_manifest), (NodeKeywords, node_manifest)], ids=["pod", "node"]
)
def test_typed_keywords_are_those_of_the_builder(keywords: type, function: Callable[..., object]) -> None:
    """Functions that pass keywords on take exactly those of the builder, with its types."""
    wanted = {
        name: parameter.annotation
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert {name: each.__forward_arg__ for name, each in keywords.__annotations__.items()} == wanted
