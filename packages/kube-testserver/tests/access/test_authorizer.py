"""Roles and bindings as decisions, and the record of what was used."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from kube_objects.errors import APIError, ConfigError
from kube_testserver.access.attributes import Attributes
from kube_testserver.access.usage import RoleName
from kube_testserver.access.users import MASTERS, User
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.virtual_time import VirtualClock

API = "rbac.authorization.k8s.io/v1"


def role(name: str, *rules: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    """Return a Role, or a ClusterRole where no namespace is given."""
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    kind = "Role" if namespace else "ClusterRole"
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "rules": list(rules)}


def rule(verbs: str, resources: str, names: str = "", groups: str = "") -> dict[str, Any]:
    """Return a rule; arguments are lists of words, and no group is the core one."""
    return {
        "verbs": verbs.split(),
        "apiGroups": groups.split() or [""],
        "resources": resources.split(),
        "resourceNames": names.split(),
    }


def bind(name: str, role_name: str, *subjects: str, namespace: str = "", kind: str = "") -> dict[str, Any]:
    """Return a binding of ``User:x``, ``Group:x`` and ``ServiceAccount:namespace/x``."""
    listed = []
    for subject in subjects:
        of_kind, _, who = subject.partition(":")
        space, _, account = who.rpartition("/")
        listed.append({"kind": of_kind, "name": account or who, **({"namespace": space} if space else {})})
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {
        "apiVersion": API,
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"kind": kind or ("Role" if namespace else "ClusterRole"), "name": role_name},
        "subjects": listed,
    }


KIM = User("kim", groups=("devs",))
LIST_PODS = Attributes("list", resource="pods", namespace="a")


def test_user_without_binding_is_refused(guarded: EmbeddedCluster) -> None:
    """A user without bindings is refused, a member of system:masters never is."""
    assert not guarded.rbac.authorize(KIM, LIST_PODS).allowed
    assert guarded.rbac.authorize(User("root", groups=(MASTERS,)), LIST_PODS).allowed


def test_changes_hold_at_once(guarded: EmbeddedCluster) -> None:
    """A role that is narrowed, and a binding that is deleted, allow no more."""
    guarded.add(role("lister", rule("list", "pods")), bind("all", "lister", "User:kim"))
    assert guarded.rbac.authorize(KIM, LIST_PODS).allowed
    guarded.remove(API, "ClusterRole", "lister")
    decision = guarded.rbac.authorize(KIM, LIST_PODS)
    assert (decision.allowed, decision.reason) == (
        False,
        'RBAC: clusterrole.rbac.authorization.k8s.io "lister" not found',
    )
    guarded.add(bind("more", "gone", "User:kim"))
    assert guarded.rbac.authorize(KIM, LIST_PODS).reason == (
        'RBAC: [clusterrole.rbac.authorization.k8s.io "lister" not found, '
        'clusterrole.rbac.authorization.k8s.io "gone" not found]'
    )
    guarded.add(role("lister", rule("list", "pods")))
    assert guarded.rbac.authorize(KIM, LIST_PODS).allowed
    guarded.remove(API, "ClusterRoleBinding", "all")
    assert not guarded.rbac.authorize(KIM, LIST_PODS).allowed


def test_the_record_tells_used_from_unused(guarded: EmbeddedCluster) -> None:
    """Each verb, group, resource and name of a rule counts by itself; only what was asked for real is noted."""
    wanted = role("r", rule("list watch", "pods nodes"), rule("get update", "configmaps", "c d"))
    guarded.add(wanted, bind("b", "r", "User:kim"))
    name = RoleName("ClusterRole", "", "r")
    guarded.rbac.authorize(KIM, Attributes("watch", resource="pods"))
    assert len(guarded.rbac.unused(name)) == 8
    for asked in (
        Attributes("list", resource="pods"),
        Attributes("list", resource="pods", namespace="a"),
        Attributes("watch", resource="nodes"),
        Attributes("get", resource="configmaps", name="c", namespace="a"),
        Attributes("get", resource="configmaps", name="d", namespace="a"),
        Attributes("update", resource="configmaps", name="c", namespace="a"),
    ):
        assert guarded.rbac.authorize(KIM, asked, note=True).allowed
    assert guarded.rbac.unused(name) == ["rule 0: watch pods", "rule 0: list nodes", 'rule 1: update configmaps "d"']
    document = guarded.rbac.as_document({"clusterrole": "r"})
    assert document["unused"] == guarded.rbac.unused(name)
    first = document["allowed"][0]
    assert (first["user"], first["binding"]["name"], first["role"]["name"]) == ("kim", "b", "r")
    assert {use["what"]: use["times"] for use in document["allowed"]}["list pods"] == 2
    with pytest.raises(APIError, match=r'clusterroles\.rbac.* "none" not found'):
        guarded.rbac.unused(RoleName("ClusterRole", "", "none"))


def test_a_role_of_a_namespace_has_a_record_too(guarded: EmbeddedCluster) -> None:
    """It is asked for as namespace/name."""
    guarded.add(role("r", rule("get", "pods"), namespace="a"), bind("b", "r", "User:kim", namespace="a"))
    assert guarded.rbac.as_document({"role": "a/r"})["unused"] == ["rule 0: get pods"]
    guarded.rbac.authorize(KIM, Attributes("get", resource="pods", namespace="a", name="p"), note=True)
    assert guarded.rbac.as_document({"role": "a/r"})["unused"] == []


def test_a_cluster_without_roles_says_so(cluster: EmbeddedCluster) -> None:
    """The record is there only where roles decide."""
    with pytest.raises(ConfigError, match='authorization="rbac"'):
        _ = cluster.rbac


USERS = [User("kim", groups=("devs",)), User("lee", groups=("devs", "ops")), User("system:serviceaccount:a:bob")]
SUBJECTS = ["User:kim", "User:lee", "Group:ops", "ServiceAccount:a/bob"]
ASKED = [
    Attributes(verb, resource=resource, namespace=namespace)
    for verb in ("get", "list")
    for resource in ("pods", "nodes")
    for namespace in ("", "a", "b")
]


def is_bound(subjects: list[str], user: User) -> bool:
    """Tell whether a user is among the subjects."""
    names = {f"User:{user.name}", *(f"Group:{group}" for group in user.groups)}
    if user.name.startswith("system:serviceaccount:"):
        names.add("ServiceAccount:" + user.name.removeprefix("system:serviceaccount:").replace(":", "/"))
    return bool(names & set(subjects))


@pytest.mark.slow
def test_decisions_follow_a_plain_reading_of_all_bindings() -> None:
    """Over random bindings, made and deleted: allowed is who is bound, there or everywhere, to a role that says so."""
    fired: Counter[str] = Counter()
    granting = st.tuples(
        st.sampled_from(("", "a", "b")),
        st.sampled_from(("get pods", "list pods", "get nodes", "list nodes")),
        st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=2, unique=True),
    )

    @settings(max_examples=40)
    @given(st.lists(granting, max_size=4), st.data())
    def check(grants: list[tuple[str, str, list[str]]], data: st.DataObject) -> None:
        cluster = EmbeddedCluster(clock=VirtualClock(), rng=random.Random(1), authorization="rbac")
        for index, (namespace, what, subjects) in enumerate(grants):
            cluster.add(role(f"r{index}", rule(*what.split())))
            cluster.add(bind(f"b{index}", f"r{index}", *subjects, namespace=namespace, kind="ClusterRole"))
        if grants and data.draw(st.booleans()):
            gone = data.draw(st.integers(0, len(grants) - 1))
            namespace = grants[gone][0]
            cluster.rbac.authorize(USERS[0], ASKED[0])  # so that something has been looked up before
            kind = "RoleBinding" if namespace else "ClusterRoleBinding"
            cluster.remove(API, kind, f"b{gone}", namespace=namespace)
            del grants[gone]
            fired["deleted"] += 1
        for user in USERS:
            for asked in ASKED:
                expected = any(
                    what == f"{asked.verb} {asked.resource}" and space in ("", asked.namespace) and is_bound(who, user)
                    for space, what, who in grants
                )
                assert cluster.rbac.authorize(user, asked).allowed is expected
                fired[f"allowed {bool(asked.namespace)}" if expected else "refused"] += 1

    check()
    assert min(fired[name] for name in ("allowed True", "allowed False", "refused", "deleted")) > 5, fired
