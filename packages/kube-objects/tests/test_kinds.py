"""The table of kinds: paths, look-ups, and kinds added at run time."""

from __future__ import annotations

import pytest

from kube_objects.codec import decode
from kube_objects.errors import DecodeError
from kube_objects.kinds import BUILT_IN_KINDS, ENDED_PODS, LEASES, NODES, PODS, KindTable, ResourceKind, kind_of
from kube_objects.meta import KubeObject
from kube_objects.pods import Binding, EndedPod, Pod


class PodGroup(KubeObject):
    api_version = "scheduling.example.com/v1"
    kind = "PodGroup"


class OtherPodGroup(KubeObject):
    api_version = "scheduling.example.com/v1"
    kind = "PodGroup"


@pytest.mark.parametrize(
    ("kind", "arguments", "path"),
    [
        pytest.param(PODS, {}, "/api/v1/pods", id="all namespaces"),
        pytest.param(PODS, {"namespace": "ns"}, "/api/v1/namespaces/ns/pods", id="one namespace"),
        pytest.param(PODS, {"namespace": "ns", "name": "p"}, "/api/v1/namespaces/ns/pods/p", id="one object"),
        pytest.param(
            PODS,
            {"namespace": "ns", "name": "p", "subresource": "status"},
            "/api/v1/namespaces/ns/pods/p/status",
            id="a part of it",
        ),
        pytest.param(NODES, {"name": "n1"}, "/api/v1/nodes/n1", id="cluster-scoped"),
        pytest.param(NODES, {"namespace": "ns", "name": "n1"}, "/api/v1/nodes/n1", id="a namespace is ignored there"),
        pytest.param(
            LEASES,
            {"namespace": "kube-system", "name": "l"},
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l",
            id="named group",
        ),
    ],
)
def test_paths(kind: ResourceKind, arguments: dict[str, str], path: str) -> None:
    """The core group lives under /api, the others under /apis."""
    assert kind.path(**arguments) == path


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.plural) for kind in BUILT_IN_KINDS])
def test_built_in_kinds_are_found_by_every_name(kind: ResourceKind) -> None:
    """By URL, by what an object calls itself, and by type."""
    table = KindTable()
    assert table.find(kind.group, kind.version, kind.plural) is kind
    assert table.find_kind(kind.api_version, kind.kind) is kind
    assert table.of(kind.type) is kind
    assert (kind.type.api_version, kind.type.kind) == (kind.api_version, kind.kind)
    assert kind.plural == kind.plural.lower()
    assert kind.plural.startswith(kind.kind.lower()[:-1])


def test_resource_has_the_group_but_for_the_core_group() -> None:
    """Messages of kubectl and RBAC name kinds in this way."""
    assert (PODS.resource, LEASES.resource) == ("pods", "leases.coordination.k8s.io")


def test_unknown_kinds_are_not_found() -> None:
    """Asking is harmless; asking for the row of a type that has none is a mistake."""
    table = KindTable()
    assert table.find("", "v1", "secrets") is None
    assert table.find_kind("v1", "Secret") is None
    with pytest.raises(DecodeError, match=r"Binding is not a declared kind; add kind_of"):
        table.of(Binding)


def test_a_kind_is_added_at_run_time_to_one_table_only() -> None:
    """A plugin's custom resource does not leak into other programs of the process."""
    table, untouched = KindTable(), KindTable()
    groups = kind_of(PodGroup, "podgroups")
    table.register(groups)
    table.register(groups)
    assert groups == ("scheduling.example.com", "v1", "podgroups", "PodGroup", True, PodGroup, "", True)
    assert table.find("scheduling.example.com", "v1", "podgroups") is groups
    assert table.of(PodGroup) is groups
    assert len(table) == len(BUILT_IN_KINDS) + 1
    assert list(table) == [*BUILT_IN_KINDS, groups]
    assert untouched.find("scheduling.example.com", "v1", "podgroups") is None


def test_two_types_for_one_kind_are_refused() -> None:
    """Two plugins that disagree about a kind would each miss the other's fields."""
    table = KindTable([kind_of(PodGroup, "podgroups")])
    with pytest.raises(DecodeError, match=r"podgroups of scheduling.example.com/v1 is already decoded to .*PodGroup"):
        table.register(kind_of(OtherPodGroup, "podgroups"))
    with pytest.raises(DecodeError, match="is already declared with plural='podgroups', not 'groups'; use one of them"):
        table.register(kind_of(PodGroup, "groups"))
    with pytest.raises(DecodeError, match="is already declared with namespaced=True, not False; use one of them"):
        table.register(kind_of(PodGroup, "podgroups", namespaced=False))


def test_one_type_may_serve_two_versions() -> None:
    """The row registered first is the one found by type."""
    v1 = kind_of(Pod, "pods")
    v2 = v1._replace(version="v2")
    table = KindTable([v1, v2])
    assert table.of(Pod) is v1
    assert table.find("", "v2", "pods") is v2


def test_a_row_for_some_of_a_kind_is_found_by_its_type_only() -> None:
    """By name there is the whole kind; pods that have ended are decoded to what is needed of them."""
    table = KindTable()
    table.register(ENDED_PODS)
    assert table.of(EndedPod) is ENDED_PODS
    assert table.find("", "v1", "pods") is table.of(Pod)
    assert len(table) == len(BUILT_IN_KINDS)
    ended = decode(EndedPod, b'{"metadata":{"name":"p"},"spec":{"nodeName":"n"},"status":{"phase":"Failed"}}').as_pod()
    assert (ended.name, ended.node_name, ended.is_terminal) == ("p", "n", True)
