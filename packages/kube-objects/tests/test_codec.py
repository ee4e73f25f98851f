"""Decoding objects, lists and watch lines, with whatever may be wrong about them; encoding."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from kube_objects.codec import (
    BOOKMARK,
    ERROR,
    Malformed,
    WatchEvent,
    decode,
    decode_event,
    decode_list,
    encode,
)
from kube_objects.errors import DecodeError, PySchedulerError
from kube_objects.meta import APIStatus, KubeObject, ObjectMeta, ObjectReference
from kube_objects.nodes import Node
from kube_objects.pods import Pod, PodSpec
from kube_objects.storage import StorageClass

#: A pod as an API server answers it, shortened: managed fields, probes and nulls included.
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "p0",
        "namespace": "rec",
        "uid": "6b1a9b7e-32f0-4d0f-9f0f-7c8d2f1f5d11",
        "resourceVersion": "66",
        "generation": 1,
        "creationTimestamp": "2026-11-20T09:57:47Z",
        "labels": {"app": "t"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}
        ],
        "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:spec": {"f:containers": {}}}}],
    },
    "spec": {
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
        "initContainers": [{"name": "s", "image": "s", "restartPolicy": "Always", "ports": [{"hostPort": 1}]}],
        "containers": [
            {
                "name": "c",
                "image": "busybox",
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "TCP"}],
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 10},
            }
        ],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["a", "b"]}]}]
                }
            }
        },
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "schedulingGates": [{"name": "g"}],
        "schedulingGroup": {"podGroupName": "pg"},
        "schedulerName": "default-scheduler",
        "priority": 7,
        "preemptionPolicy": "PreemptLowerPriority",
    },
    "status": {
        "phase": "Pending",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "lastProbeTime": None, "lastTransitionTime": None},
        ],
        "qosClass": "Burstable",
    },
}


def as_bytes(value: Any) -> bytes:
    """Return the JSON of a value."""
    return json.dumps(value).encode()


def event(kind: str, value: Any) -> bytes:
    """Return a line of a watch."""
    return as_bytes({"type": kind, "object": value})


def test_a_pod_is_read_with_everything_the_scheduler_needs() -> None:
    """Fields arrive under their Python names, typed, and unknown ones are gone."""
    pod = decode(Pod, as_bytes(POD))
    assert (pod.key, pod.priority, pod.scheduler_name) == ("rec/p0", 7, "default-scheduler")
    assert pod.metadata.owner_references[0].controller
    container = pod.spec.containers[0]
    assert container.resources.requests == {"cpu": "100m", "memory": "64Mi"}
    assert (container.ports[0].host_port, container.ports[0].host_ip) == (8080, "10.0.0.1")
    assert pod.spec.init_containers[0].restart_policy == "Always"
    claim = pod.spec.volumes[1].persistent_volume_claim
    assert claim is not None
    assert claim.claim_name == "c"
    assert pod.spec.tolerations[0].toleration_seconds == 300
    affinity = pod.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    assert required.node_selector_terms[0].match_expressions[0].values == ("a", "b")
    assert pod.spec.topology_spread_constraints[0].label_selector is None
    assert [gate.name for gate in pod.spec.scheduling_gates] == ["g"]
    assert pod.spec.scheduling_group is not None
    assert pod.spec.scheduling_group.pod_group_name == "pg"
    assert pod.status.conditions[0].last_transition_time is None


def test_what_was_decoded_encodes_to_what_was_kept() -> None:
    """Decoding the encoding gives the same object; nothing the scheduler does not read is in it."""
    pod = decode(Pod, as_bytes(POD))
    data = encode(pod)
    assert decode(Pod, data) == pod
    assert b"managedFields" not in data
    assert b"livenessProbe" not in data


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=".".join(path))
        for path in [
            ("metadata",),
            ("metadata", "labels"),
            ("metadata", "ownerReferences"),
            ("spec",),
            ("spec", "containers"),
            ("spec", "tolerations"),
            ("spec", "nodeSelector"),
            ("spec", "schedulerName"),
            ("spec", "hostNetwork"),
            ("spec", "affinity"),
            ("status", "conditions"),
            ("status",),
        ]
    ],
)
def test_null_is_the_default_wherever_it_stands(path: tuple[str, ...]) -> None:
    """Go writes null for an empty value of any type, and reads it as that."""
    with_null = json.loads(json.dumps(POD))
    without = json.loads(json.dumps(POD))
    parent, bare = with_null, without
    for part in path[:-1]:
        parent, bare = parent[part], bare[part]
    parent[path[-1]] = None
    bare.pop(path[-1], None)
    assert decode(Pod, as_bytes(with_null)) == decode(Pod, as_bytes(without))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(
            b'{"spec":{"priority":"high"}}', "Pod: Expected `int | null`, got `str` - at `$.spec.priority`", id="type"
        ),
        pytest.param(
            b'{"spec":{"containers":{}}}', "Pod: Expected `array`, got `object` - at `$.spec.containers`", id="shape"
        ),
        pytest.param(
            b'{"metadata":{"labels":null},"spec":{"priority":1.5}}',
            "Pod: Expected `int | null`, got `float` - at `$.spec.priority`",
            id="the real trouble, not the null before it",
        ),
        pytest.param(b"[]", "Pod: Expected `object`, got `array`", id="no object"),
        pytest.param(b"", "Pod: Input data was truncated", id="empty"),
        pytest.param(b'{"metadata":', "Pod: Input data was truncated", id="cut off"),
        pytest.param(b"<html>", "Pod: JSON is malformed: invalid character (byte 0)", id="no JSON"),
    ],
)
def test_a_malformed_object_is_an_error_with_the_path(data: bytes, message: str) -> None:
    """One line says what is wrong and where."""
    with pytest.raises(DecodeError) as caught:
        decode(Pod, data)
    assert str(caught.value) == message
    assert isinstance(caught.value, PySchedulerError)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"metadata":{"name":"\xff"}}', id="not UTF-8"),
        pytest.param(b'{"metadata":{"name":"\\ud800"}}', id="half a surrogate"),
        pytest.param(b'{"x":' * 100_000, id="deeply nested, cut off"),
        pytest.param(b'{"spec":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deeply nested"),
        pytest.param(b'{"spec":{"priority":' + b"9" * 5000 + b"}}", id="a number of 5000 digits"),
    ],
)
def test_hostile_bytes_are_an_error_too(data: bytes) -> None:
    """Whatever the peer sends, decoding ends in an object or a `DecodeError`."""
    with pytest.raises(DecodeError, match=r"^Pod: .") as caught:
        decode(Pod, data)
    assert "\n" not in str(caught.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["metadata", "spec", "name", "labels", "containers"]), inner)
        ),
        max_leaves=10,
    )
)
def test_any_json_is_an_object_or_an_error(value: Any) -> None:
    """No shape of data escapes as another exception."""
    try:
        pod = decode(Pod, as_bytes(value))
    except DecodeError:
        return
    assert isinstance(pod, Pod)


def test_a_list_is_read_with_its_position() -> None:
    """Items, the version to watch from, where to continue, and how much is left."""
    page = decode_list(
        Pod,
        as_bytes(
            {
                "kind": "PodList",
                "metadata": {"resourceVersion": "9", "continue": "abc", "remainingItemCount": 5},
                "items": [POD, {"metadata": {"name": "b", "labels": {"x": "y"}}}],
            }
        ),
    )
    assert [pod.name for pod in page.items] == ["p0", "b"]
    assert (page.resource_version, page.continue_token, page.remaining, page.malformed) == ("9", "abc", 5, ())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"metadata":{"resourceVersion":"9"},"items":[]}', id="empty"),
        pytest.param(b'{"metadata":{"resourceVersion":"9"},"items":null}', id="null"),
        pytest.param(b'{"items":[],"metadata":{"resourceVersion":"9","continue":null}}', id="null elsewhere"),
    ],
)
def test_an_empty_list_is_empty(data: bytes) -> None:
    """Go writes null for a list of nothing."""
    page = decode_list(Pod, data)
    assert (page.items, page.malformed, page.resource_version, page.continue_token) == ([], (), "9", "")


def test_a_list_without_position_is_read() -> None:
    """A `List` from a file has no version to watch from."""
    page = decode_list(Pod, b'{"metadata":null,"items":[{"metadata":{"name":"a","labels":null}}]}')
    assert [pod.name for pod in page.items] == ["a"]
    assert page.resource_version == ""


def test_one_malformed_item_does_not_cost_the_others() -> None:
    """The good ones are read, in order; the bad ones come back with name and reason."""
    items = [
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "bad", "namespace": "ns", "resourceVersion": "3"}, "spec": {"priority": "high"}},
        {"metadata": {"name": "b", "labels": None}},
        {"metadata": {"name": "worse", "labels": {"x": 1}}},
        17,
        {"metadata": "nonsense"},
        {"metadata": {"name": "c"}},
    ]
    page = decode_list(Pod, as_bytes({"metadata": {"resourceVersion": "9"}, "items": items}))
    assert [pod.name for pod in page.items] == ["a", "b", "c"]
    assert page.resource_version == "9"
    assert page.malformed == (
        Malformed("ns", "bad", "3", "Pod: Expected `int | null`, got `str` - at `$.spec.priority`"),
        Malformed("", "worse", "", "Pod: Expected `str`, got `int` - at `$.metadata.labels[...]`"),
        Malformed("", "", "", "Pod: Expected `object`, got `int`"),
        Malformed("", "", "", "Pod: Expected `object`, got `str` - at `$.metadata`"),
    )
    assert [item.key for item in page.malformed] == ["ns/bad", "worse", "", ""]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"kind":"Status","status":"Failure","code":410}', id="a status"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"items":{}}', id="items is no list"),
        pytest.param(b'{"items":[{}', id="cut off"),
        pytest.param(b'{"items":[],"metadata":{"resourceVersion":[]}}', id="malformed position"),
        pytest.param(b"502 Bad Gateway", id="no JSON"),
    ],
)
def test_what_is_no_list_is_an_error(data: bytes) -> None:
    """An answer that is not a list must never be taken for an empty one: everything would be forgotten."""
    with pytest.raises(DecodeError, match=r"^list of Pod: "):
        decode_list(Pod, data)


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind) for kind in ("ADDED", "MODIFIED", "DELETED")])
def test_a_watch_line_is_read(kind: str) -> None:
    """Type and object, in one step."""
    assert decode_event(Pod, event(kind, POD)) == WatchEvent(kind, decode(Pod, as_bytes(POD)))


def test_the_type_may_come_last() -> None:
    """JSON objects have no order."""
    line = b'{"object":{"metadata":{"name":"a"}},"type":"ADDED"}\n'
    assert decode_event(Pod, line) == WatchEvent("ADDED", Pod(metadata=ObjectMeta(name="a")))


def test_a_bookmark_carries_a_version() -> None:
    """A real API server puts a null into the empty pod of a bookmark."""
    line = event(
        BOOKMARK,
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "230", "annotations": {"k8s.io/initial-events-end": "true"}},
            "spec": {"containers": None},
            "status": {},
        },
    )
    bookmark = decode_event(Pod, line)
    assert bookmark.type == BOOKMARK
    assert isinstance(bookmark.object, Pod)
    assert bookmark.object.resource_version == "230"
    assert bookmark.object.annotations == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize("cls", [pytest.param(cls, id=cls.kind) for cls in (Pod, Node, StorageClass)])
def test_an_error_line_carries_a_status(cls: type[KubeObject]) -> None:
    """Also where a status could be mistaken for an object of the kind."""
    status = {"kind": "Status", "status": "Failure", "message": "too old", "reason": "Expired", "code": 410}
    gone = decode_event(cls, event(ERROR, {**status, "metadata": {}, "details": None}))
    assert gone == WatchEvent(ERROR, APIStatus(status="Failure", message="too old", reason="Expired", code=410))


def test_a_malformed_object_in_a_watch_is_told_with_its_event() -> None:
    """The watch goes on, and whoever follows it knows which object it could not read."""
    bad = {"metadata": {"name": "p", "namespace": "ns", "resourceVersion": "8"}, "spec": {"priority": []}}
    assert decode_event(Pod, event("MODIFIED", bad)) == WatchEvent(
        "MODIFIED", Malformed("ns", "p", "8", "Pod: Expected `int | null`, got `array` - at `$.spec.priority`")
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(b"", "watch of Pod: Input data was truncated", id="empty"),
        pytest.param(b'{"type":"ADDED","object":{', "watch of Pod: Input data was truncated", id="cut off"),
        pytest.param(b"{}", "watch of Pod: a line without a type", id="no event"),
        pytest.param(b'{"kind":"Status","code":500}', "watch of Pod: a line without a type", id="a bare status"),
        pytest.param(b"[]", "watch of Pod: Expected `object`, got `array`", id="no object"),
    ],
)
def test_what_is_no_event_is_an_error(line: bytes, message: str) -> None:
    """The stream is broken; who reads it starts again."""
    with pytest.raises(DecodeError) as caught:
        decode_event(Pod, line)
    assert str(caught.value) == message


def test_kinds_are_written_with_their_kind_and_parts_without() -> None:
    """What is posted says what it is; what is nested need not."""
    assert encode(Pod()) == b'{"apiVersion":"v1","kind":"Pod"}'
    assert encode(Pod(spec=PodSpec(node_name="n"))) == b'{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"n"}}'
    assert encode(ObjectReference(kind="Node", name="n")) == b'{"kind":"Node","name":"n"}'
    assert msgspec.json.decode(encode(APIStatus(code=404, reason="NotFound"))) == {
        "apiVersion": "v1",
        "kind": "Status",
        "code": 404,
        "reason": "NotFound",
    }


def test_texts_are_kept_where_somebody_wants_them() -> None:
    """Each object that can be read is handed over with all that was said of it; deletions and bookmarks are not."""
    whole = {**POD, "spec": {**POD["spec"], "undeclared": {"a": [1]}}}
    kept: list[tuple[str, Any]] = []

    def keep(item: KubeObject, text: bytes) -> None:
        kept.append((item.name, msgspec.json.decode(text)))

    items = [whole, {"metadata": {"name": "bad"}, "spec": {"priority": "high"}}]
    page = decode_list(Pod, as_bytes({"metadata": {"resourceVersion": "9"}, "items": items}), keep)
    assert page.items == [decode(Pod, as_bytes(POD))]
    assert [one.name for one in page.malformed] == ["bad"]
    assert page.resource_version == "9"
    assert kept == [(POD["metadata"]["name"], whole)]
    for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
        assert decode_event(Pod, event(kind, whole), keep) == decode_event(Pod, event(kind, POD))
    assert [text for _, text in kept] == [whole, whole, whole]
    with pytest.raises(DecodeError, match="list of Pod"):
        decode_list(Pod, b"[]", keep)
