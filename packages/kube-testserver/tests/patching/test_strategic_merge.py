"""Strategic merge patch: which lists merge, in which order, and what the directives do."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_testserver.patching.json_patches import PatchError
from kube_testserver.patching.strategic_merge import apply_strategic_patch
from kube_testserver.resources.builtin import BUILTIN_RESOURCES
from kube_testserver.schema.merge_keys import merge_lists

LISTS = {one.collection: merge_lists(one.group, one.version, one.kind) for one in BUILTIN_RESOURCES}


def containers(*items: Any) -> dict[str, Any]:
    """Return an object with containers."""
    return {"spec": {"containers": list(items)}}


def conditions(*items: Any) -> dict[str, Any]:
    """Return an object with conditions."""
    return {"status": {"conditions": list(items)}}


READY = {"type": "Ready", "status": "True"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


@pytest.mark.parametrize(
    ("collection", "target", "patch", "expected"),
    [
        pytest.param(
            "pods",
            containers({"name": "a", "image": "1"}, {"name": "b", "image": "1"}),
            containers({"name": "b", "image": "2"}),
            containers({"name": "a", "image": "1"}, {"name": "b", "image": "2"}),
            id="containers merge by name",
        ),
        pytest.param(
            "pods",
            containers({"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "1"}]}),
            containers({"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "Z", "value": "3"}]}),
            containers(
                {
                    "name": "a",
                    "env": [
                        {"name": "X", "value": "1"},
                        {"name": "Y", "value": "2"},
                        {"name": "Z", "value": "3"},
                    ],
                }
            ),
            id="variables merge inside containers",
        ),
        pytest.param(
            "pods",
            conditions(SCHEDULED),
            conditions(READY),
            conditions(READY, SCHEDULED),
            id="a new condition comes first",
        ),
        pytest.param(
            "pods",
            conditions(READY, SCHEDULED),
            conditions({"type": "PodScheduled", "status": "False"}),
            conditions(READY, {"type": "PodScheduled", "status": "False"}),
            id="a known condition keeps its place",
        ),
        pytest.param(
            "pods",
            {"spec": {"tolerations": [{"key": "a"}, {"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "c"}]}},
            {"spec": {"tolerations": [{"key": "c"}]}},
            id="tolerations are replaced",
        ),
        pytest.param(
            "nodes",
            {"spec": {"taints": [{"key": "a"}]}},
            {"spec": {"taints": [{"key": "b"}]}},
            {"spec": {"taints": [{"key": "b"}]}},
            id="taints are replaced",
        ),
        pytest.param(
            "pods",
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["c", "b"]}},
            {"metadata": {"finalizers": ["c", "a", "b"]}},
            id="finalizers merge as a set",
        ),
        pytest.param(
            "pods",
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {"finalizers": ["b"]}},
            id="values leave a set",
        ),
        pytest.param(
            "pods",
            {"metadata": {"labels": {"a": "1", "b": "2"}}},
            {"metadata": {"labels": {"a": None, "c": "3"}}},
            {"metadata": {"labels": {"b": "2", "c": "3"}}},
            id="null deletes",
        ),
        pytest.param("pods", {"a": {"x": 1}}, {"a": {"$patch": "replace", "y": 2}}, {"a": {"y": 2}}, id="replace"),
        pytest.param("pods", {"a": {"x": 1}, "b": 1}, {"a": {"$patch": "delete"}}, {"a": {}, "b": 1}, id="delete"),
        pytest.param(
            "pods",
            containers({"name": "a"}, {"name": "b"}),
            containers({"name": "a", "$patch": "delete"}),
            containers({"name": "b"}),
            id="delete an item",
        ),
        pytest.param(
            "pods",
            containers({"name": "a"}, {"name": "b"}),
            containers({"$patch": "replace"}, {"name": "c"}),
            containers({"name": "c"}),
            id="replace a merging list",
        ),
        pytest.param(
            "pods",
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}},
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}},
            id="retain keys",
        ),
        pytest.param(
            "pods",
            containers({"name": "a"}, {"name": "b"}, {"name": "c"}),
            {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}},
            containers({"name": "b"}, {"name": "c"}, {"name": "a"}),
            id="order alone",
        ),
        pytest.param(
            "pods",
            containers({"name": "a"}, {"name": "b"}),
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                    "containers": [{"name": "a", "image": "2"}],
                }
            },
            containers({"name": "b"}, {"name": "a", "image": "2"}),
            id="order with a change",
        ),
        pytest.param(
            "replicasets.apps",
            {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "1"}]}}}},
            {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "2"}]}}}},
            {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "2"}]}}}},
            id="inside a template",
        ),
        pytest.param("configmaps", {"data": [1, 2]}, {"data": [3]}, {"data": [3]}, id="no schema, no merging"),
        pytest.param("pods", {}, containers({"name": "a", "x": None}), containers({"name": "a"}), id="into nothing"),
        pytest.param(
            "pods",
            {"spec": "text"},
            containers({"name": "a"}),
            containers({"name": "a"}),
            id="over another type",
        ),
    ],
)
def test_patches(collection: str, target: Any, patch: Any, expected: Any) -> None:
    """Each rule of the merge, on the lists for which it counts; neither side is changed."""
    before = copy.deepcopy((target, patch))
    assert apply_strategic_patch(LISTS.get(collection, {}), target, patch) == expected
    assert (target, patch) == before


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param([], id="a list"),
        pytest.param(containers({"image": "x"}), id="an item without its key"),
        pytest.param(containers("x"), id="an item that is no object"),
        pytest.param({"spec": {"$patch": "turn"}}, id="an unknown directive"),
        pytest.param({"spec": {"$retainKeys": "x"}}, id="keys that are no list"),
        pytest.param(containers({"name": {"a": "b"}}), id="a key that is an object"),
    ],
)
def test_malformed_patches(patch: Any) -> None:
    """What is no strategic merge patch is refused as such."""
    with pytest.raises(PatchError) as refusal:
        apply_strategic_patch(LISTS["pods"], containers({"name": "a"}), patch)
    assert refusal.value.malformed


def test_lists_that_merge() -> None:
    """The keys by which Kubernetes merges lists, of the kinds one meets most."""
    pods = LISTS["pods"]
    assert (pods["spec.containers"], pods["spec.containers.ports"]) == ("name", "containerPort")
    assert (pods["spec.initContainers.env"], pods["spec.volumes"]) == ("name", "name")
    assert (pods["status.conditions"], pods["metadata.finalizers"]) == ("type", "")
    assert not {"spec.tolerations", "spec.containers.args"} & pods.keys()
    assert "spec.taints" not in LISTS["nodes"]
    assert LISTS["deployments.apps"]["spec.template.spec.containers.volumeMounts"] == "mountPath"
    assert LISTS["services"]["spec.ports"] == "port"
