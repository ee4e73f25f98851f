"""All wire types: their names on the wire, their defaults, and what may be relied on when reading them."""

from __future__ import annotations

import msgspec
import pytest

import kube_objects
from kube_objects.codec import decode, encode
from kube_objects.meta import KubeObject, Wire

TYPES = sorted(
    (value for value in vars(kube_objects).values() if isinstance(value, type)),
    key=lambda value: value.__name__,
)
WIRE_TYPES = [value for value in TYPES if issubclass(value, Wire) and value not in {Wire, KubeObject}]
KINDS = [value for value in WIRE_TYPES if issubclass(value, KubeObject)]


class GroupSpec(Wire):
    min_member: int = 0


class Group(KubeObject):
    api_version = "example.com/v1"
    kind = "Group"

    spec: GroupSpec = GroupSpec()


CLIENT_NAMES = {
    "APIStatus": "V1Status",
    "ContainerResourceClaim": "CoreV1ResourceClaim",
    "Event": "EventsV1Event",
    "EventSeries": "EventsV1EventSeries",
    "ResourceClaim": "ResourceV1ResourceClaim",
    "EndedPod": "V1Pod",
    "EndedPodSpec": "V1PodSpec",
    "EndedPodStatus": "V1PodStatus",
}
#: Volumes of pods and persistent volumes share one class here, and two in the client.
SHARED = {"AzureFileVolumeSource": {"secretNamespace"}}


def test_an_empty_object_decodes_to_the_defaults_and_encodes_to_nothing() -> None:
    """No field is required, and defaults are not written."""
    for cls in WIRE_TYPES:
        empty = decode(cls, b"{}")
        assert empty == cls()
        assert msgspec.json.encode(empty) == b"{}", cls


def test_unknown_fields_are_skipped() -> None:
    """A newer API server may send fields that did not exist when this was written."""
    for cls in WIRE_TYPES:
        assert decode(cls, b'{"fromTheFuture":{"a":[1,null,{"b":"c"}]},"AND":1}') == cls()


def test_nulls_read_as_defaults() -> None:
    """Go writes null for empty lists, maps and times; it is the same as leaving the field out."""
    for cls in WIRE_TYPES:
        nulls = dict.fromkeys(cls.__struct_encode_fields__)
        assert decode(cls, msgspec.json.encode(nulls)) == cls()


def test_collections_and_texts_are_never_none() -> None:
    """What may be None is a pointer, a number or a time: hot code loops over collections without a check."""
    fields = [(cls.__name__, field) for cls in WIRE_TYPES for field in msgspec.structs.fields(cls)]
    for name, field in fields:
        if field.default is None:
            arms = msgspec.inspect.type_info(field.type)
            assert isinstance(arms, msgspec.inspect.UnionType), (name, field.name)
            assert not any(
                isinstance(arm, msgspec.inspect.DictType | msgspec.inspect.VarTupleType) for arm in arms.types
            ), (name, field.name)


def test_instances_are_immutable_and_keyword_only() -> None:
    """Objects are shared by cache, queue and snapshot; nobody changes one in place."""
    for cls in WIRE_TYPES:
        instance = cls()
        with pytest.raises(AttributeError):
            setattr(instance, cls.__struct_fields__[0], None)
        with pytest.raises(TypeError):
            cls(None)


def test_field_names_are_those_of_kubernetes() -> None:
    """Each wire name exists on the same type of the official client; camel case alone gets `hostIP` wrong."""
    client = pytest.importorskip("kubernetes.client")

    for cls in WIRE_TYPES:
        model = getattr(client, CLIENT_NAMES.get(cls.__name__, f"V1{cls.__name__}"))
        known = set(model.attribute_map.values()) | SHARED.get(cls.__name__, set())
        assert set(cls.__struct_encode_fields__) <= known, cls


def test_a_kind_says_what_it_is() -> None:
    """Group, version and kind stand on the class, are written first, and are not needed to decode."""
    for cls in KINDS:
        assert cls.kind == cls.__name__.removeprefix("Ended")
        assert cls.api_version
        data = encode(cls(metadata=kube_objects.ObjectMeta(name="x")))
        assert data == f'{{"apiVersion":"{cls.api_version}","kind":"{cls.kind}","metadata":{{"name":"x"}}}}'.encode()
        assert decode(cls, data).name == "x"


def test_metadata_is_at_hand_on_the_object() -> None:
    """Name, namespace, uid, version, labels, annotations and key need no detour."""
    pod = decode(
        kube_objects.Pod,
        b'{"metadata":{"name":"p","namespace":"ns","uid":"u","resourceVersion":"7","labels":{"a":"b"},'
        b'"annotations":{"c":"d"}}}',
    )
    assert (pod.name, pod.namespace, pod.uid, pod.resource_version) == ("p", "ns", "u", "7")
    assert (pod.labels, pod.annotations, pod.key) == ({"a": "b"}, {"c": "d"}, "ns/p")


def test_the_key_of_a_cluster_scoped_object_is_its_name() -> None:
    """A node has no namespace and no slash in its key."""
    assert kube_objects.Node(metadata=kube_objects.ObjectMeta(name="n1")).key == "n1"


def test_a_pod_that_says_nothing_has_neutral_answers() -> None:
    """The shortcuts on a pod are usable before admission has filled anything in."""
    pod = kube_objects.Pod()
    assert (pod.node_name, pod.scheduler_name, pod.priority) == ("", "", 0)
    assert not pod.is_terminal
    assert not pod.is_terminating


@pytest.mark.parametrize(
    ("phase", "terminal"),
    [
        pytest.param("Pending", False, id="pending"),
        pytest.param("Running", False, id="running"),
        pytest.param("Unknown", False, id="unknown"),
        pytest.param("Succeeded", True, id="succeeded"),
        pytest.param("Failed", True, id="failed"),
    ],
)
def test_terminal_phases(phase: str, terminal: bool) -> None:
    """A pod that has ended uses nothing; one that is being deleted still does."""
    pod = kube_objects.Pod(
        metadata=kube_objects.ObjectMeta(deletion_timestamp="2026-01-01T00:00:00Z"),
        status=kube_objects.PodStatus(phase=phase),
    )
    assert pod.is_terminal is terminal
    assert pod.is_terminating


def test_binding_a_pod_to_a_node_keeps_everything_else() -> None:
    """The assumed pod is the same pod with its node set, and shares all parts."""
    pod = kube_objects.Pod(metadata=kube_objects.ObjectMeta(name="p", uid="u"), spec=kube_objects.PodSpec(priority=3))
    bound = pod.with_node_name("n1")
    assert (bound.node_name, bound.priority, bound.uid) == ("n1", 3, "u")
    assert bound.metadata is pod.metadata
    assert pod.node_name == ""


def test_a_binding_names_the_pod_by_uid_and_the_node_by_name() -> None:
    """The uid makes the server refuse to bind a namesake that was created meanwhile."""
    pod = kube_objects.Pod(metadata=kube_objects.ObjectMeta(name="p", namespace="ns", uid="u"))
    assert msgspec.json.decode(encode(kube_objects.Binding.of(pod, "n1"))) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "target": {"kind": "Node", "name": "n1"},
    }


def test_absence_and_zero_differ_where_kubernetes_tells_them_apart() -> None:
    """No storage class means the default one; an empty one means none at all."""
    silent = decode(kube_objects.PersistentVolumeClaim, b'{"spec":{}}')
    empty = decode(kube_objects.PersistentVolumeClaim, b'{"spec":{"storageClassName":""}}')
    assert silent.spec.storage_class_name is None
    assert empty.spec.storage_class_name == ""


def test_a_bare_number_is_a_quantity_too() -> None:
    """Files written by hand say `cpu: 2`; the API server would quote it."""
    node = decode(kube_objects.Node, b'{"status":{"allocatable":{"cpu":2,"memory":1.5e9,"pods":"110"}}}')
    assert dict(node.status.allocatable) == {"cpu": 2, "memory": 1.5e9, "pods": "110"}


def test_a_custom_resource_is_a_subclass() -> None:
    """A plugin describes the fields it reads and gets everything else from the base."""
    group = decode(Group, b'{"metadata":{"name":"g","namespace":"ns"},"spec":{"minMember":3,"x":1}}')
    assert (group.key, group.spec.min_member) == ("ns/g", 3)
    assert encode(group).startswith(b'{"apiVersion":"example.com/v1","kind":"Group",')
