"""Roles and bindings as objects: what is there from the beginning, what is refused, filled in and aggregated."""

from __future__ import annotations

from typing import Any

import pytest

from kube_testserver.cluster import EmbeddedCluster

RBAC = "/apis/rbac.authorization.k8s.io/v1"
API = "rbac.authorization.k8s.io/v1"
POD_RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
SUBJECT = {"kind": "User", "name": "kim"}


@pytest.fixture
def admin(guarded: EmbeddedCluster, api_of: Any) -> Any:
    """Return a sender with an administrator's token."""
    return api_of(guarded, "admin-token")


def role(name: str, *rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a cluster role; `labels` go into its metadata."""
    metadata = {"name": name, "labels": fields.pop("labels", {})}
    return {"apiVersion": API, "kind": "ClusterRole", "metadata": metadata, "rules": list(rules), **fields}


def binding(role_name: str, *, subject: dict[str, str] = SUBJECT, name: str = "b") -> dict[str, Any]:
    """Return a cluster role binding."""
    ref = {"kind": "ClusterRole", "name": role_name}
    kind = {"apiVersion": API, "kind": "ClusterRoleBinding"}
    return {**kind, "metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}


# --- the beginning ----------------------------------------------------------------------------------


async def test_bootstrap_roles_exist(guarded: EmbeddedCluster, admin: Any) -> None:
    """The server starts with the roles that a second scheduler's manifests refer to."""
    names = {role["metadata"]["name"] for role in guarded.objects(API, "ClusterRole")}
    assert {
        "cluster-admin",
        "admin",
        "edit",
        "view",
        "system:kube-scheduler",
        "system:volume-scheduler",
        "system:auth-delegator",
        "system:discovery",
        "system:basic-user",
        "system:public-info-viewer",
    } <= names
    reader = guarded.get(API, "Role", "extension-apiserver-authentication-reader", namespace="kube-system")
    assert reader["rules"][0]["resourceNames"] == ["extension-apiserver-authentication"]
    assert reader["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults"}
    assert guarded.get("v1", "ConfigMap", "extension-apiserver-authentication", namespace="kube-system")
    for one in guarded.objects(API, "ClusterRoleBinding"):
        assert one["roleRef"]["name"] in names
        assert all(subject["apiGroup"] == "rbac.authorization.k8s.io" for subject in one["subjects"])
    assert (
        await admin.send("GET", f"{RBAC}/clusterroles", accept="application/json;as=Table;g=meta.k8s.io;v=v1")
    ).status == 200


def test_the_cluster_without_roles_begins_without_them(cluster: EmbeddedCluster) -> None:
    """Where nobody is asked, nothing is there that only costs."""
    assert not cluster.objects(API, "ClusterRole")


@pytest.mark.parametrize("mode", ["cluster", "guarded"])
def test_every_namespace_has_an_account(mode: str, request: pytest.FixtureRequest) -> None:
    """With and without RBAC, the account `default` comes with a namespace, comes back, and goes with it."""
    guarded: EmbeddedCluster = request.getfixturevalue(mode)
    guarded.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    first = guarded.get("v1", "ServiceAccount", "default", namespace="a")
    guarded.remove("v1", "ServiceAccount", "default", namespace="a")
    assert guarded.get("v1", "ServiceAccount", "default", namespace="a")["metadata"]["uid"] != first["metadata"]["uid"]
    guarded.remove("v1", "Namespace", "a")
    assert not guarded.objects("v1", "ServiceAccount", namespace="a")
    assert {one["metadata"]["namespace"] for one in guarded.objects("v1", "ServiceAccount")} == {
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    }


def test_roles_are_aggregated(guarded: EmbeddedCluster) -> None:
    """A role gathers the rules of those it selects, each once, again when they change, and through others."""
    selector = {"clusterRoleSelectors": [{"matchLabels": {"to": "sum"}}, {"matchLabels": {"also": "sum"}}]}
    guarded.add(role("sum", aggregationRule=selector))
    nodes = {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}
    guarded.add(role("b", POD_RULE, nodes, labels={"to": "sum"}), role("a", POD_RULE, labels={"also": "sum"}))
    assert guarded.get(API, "ClusterRole", "sum")["rules"] == [POD_RULE, nodes]
    guarded.remove(API, "ClusterRole", "b")
    assert guarded.get(API, "ClusterRole", "sum")["rules"] == [POD_RULE]
    admin, edit, view = (guarded.get(API, "ClusterRole", name)["rules"] for name in ("admin", "edit", "view"))
    assert len(view) < len(edit) < len(admin)
    assert [rule for rule in admin if rule in edit] == edit
    assert all(rule in edit for rule in view)
    guarded.add(role("mine", POD_RULE, labels={"rbac.authorization.k8s.io/aggregate-to-view": "true"}))
    assert POD_RULE in guarded.get(API, "ClusterRole", "admin")["rules"]


# --- what is refused and filled in -----------------------------------------------------------------


async def test_groups_are_filled_in(admin: Any) -> None:
    """A reference and its subjects may leave out their group."""
    stored = await admin.ok("POST", f"{RBAC}/clusterrolebindings", binding("view"))
    assert stored["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    assert stored["subjects"] == [{**SUBJECT, "apiGroup": "rbac.authorization.k8s.io"}]
    account = {"kind": "ServiceAccount", "name": "s", "namespace": "a"}
    stored = await admin.ok("POST", f"{RBAC}/clusterrolebindings", binding("view", subject=account, name="c"))
    assert stored["subjects"] == [account]


@pytest.mark.parametrize(
    ("plural", "body", "message"),
    [
        pytest.param(
            "clusterroles",
            role("r", {"apiGroups": [""], "resources": ["pods"]}),
            "rules[0].verbs: Required value: verbs must contain at least one value",
            id="verbs",
        ),
        pytest.param(
            "clusterroles", role("r", {"verbs": ["get"], "resources": ["x"]}), "rules[0].apiGroups: Req", id="groups"
        ),
        pytest.param(
            "clusterroles", role("r", {"verbs": ["get"], "apiGroups": [""]}), "rules[0].resources: Req", id="resources"
        ),
        pytest.param(
            "clusterroles",
            role("r", {**POD_RULE, "nonResourceURLs": ["/x"]}),
            'rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both',
            id="both",
        ),
        pytest.param(
            "namespaces/default/roles",
            {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
            'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply',
            id="paths in a namespace",
        ),
        pytest.param(
            "clusterroles",
            role("r", aggregationRule={"clusterRoleSelectors": []}),
            "aggregationRule.clusterRoleSelectors: Required value",
            id="aggregation",
        ),
        pytest.param("clusterroles", role("a/b"), 'metadata.name: Invalid value: "a/b"', id="name"),
        pytest.param(
            "clusterrolebindings",
            {**binding("r"), "roleRef": {"kind": "Role", "name": "r"}},
            'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
            id="a role of a namespace",
        ),
        pytest.param(
            "clusterrolebindings",
            {**binding("r"), "roleRef": {"kind": "ClusterRole", "apiGroup": "x"}},
            "roleRef.apiGroup: Unsupported value",
            id="reference",
        ),
        pytest.param(
            "clusterrolebindings", binding("r", subject={"kind": "User"}), "subjects[0].name: Req", id="subject"
        ),
        pytest.param(
            "clusterrolebindings",
            binding("r", subject={"kind": "ServiceAccount", "name": "x"}),
            "subjects[0].namespace: Required value",
            id="account",
        ),
        pytest.param(
            "clusterrolebindings",
            binding("r", subject={"kind": "ServiceAccount", "name": "x", "namespace": "a", "apiGroup": "x"}),
            'subjects[0].apiGroup: Unsupported value: "x"',
            id="group of an account",
        ),
        pytest.param(
            "clusterrolebindings", binding("r", subject={"kind": "Robot", "name": "x"}), "subjects[0].kind", id="kind"
        ),
        pytest.param(
            "clusterrolebindings",
            binding("r", subject={"kind": "User", "name": "x", "apiGroup": "y"}),
            "subjects[0].apiGroup",
            id="group of a user",
        ),
    ],
)
async def test_invalid_roles_are_refused(admin: Any, plural: str, body: dict[str, Any], message: str) -> None:
    """The refusal of an invalid role names the field."""
    status, reason, said = await admin.refused("POST", f"{RBAC}/{plural}", body)
    assert (status, reason) == (422, "Invalid"), said
    assert message in said


async def test_a_reference_cannot_change(admin: Any) -> None:
    """A binding keeps its role; its subjects may change. A PUT of a new name makes it."""
    await admin.ok("PUT", f"{RBAC}/clusterrolebindings/b", binding("view"))
    changed = {**binding("view"), "subjects": []}
    await admin.ok("PUT", f"{RBAC}/clusterrolebindings/b", changed)
    status, _, said = await admin.refused("PUT", f"{RBAC}/clusterrolebindings/b", binding("edit"))
    assert (status, said.endswith("cannot change roleRef")) == (422, True)
    assert (await admin.refused("POST", f"{RBAC}/clusterroles", {"rules": [{"verbs": "get"}]}))[0] == 400


# --- escalation --------------------------------------------------------------------------------------


def let_write(cluster: EmbeddedCluster, *more: dict[str, Any]) -> None:
    """Let `sched` write roles and bindings, and do a few things more."""
    write = {"verbs": ["create", "update"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"]}
    cluster.add(role("writer", write, *more), binding("writer", subject={"kind": "User", "name": "sched"}))


async def test_escalation_is_refused(guarded: EmbeddedCluster, api_of: Any) -> None:
    """Not in a role, not through a binding."""
    let_write(guarded)
    sched = api_of(guarded, "sched-token")
    wanted = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
    url = {"verbs": ["get"], "nonResourceURLs": ["/x"]}
    assert await sched.refused("POST", f"{RBAC}/clusterroles", role("r", wanted, url)) == (
        403,
        "Forbidden",
        (
            'clusterroles.rbac.authorization.k8s.io "r" is forbidden: user "sched" (groups=["devs" '
            '"system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
            '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}\n'
            '{NonResourceURLs:["/x"], Verbs:["get"]}'
        ),
    )
    body = binding("cluster-admin", name="mine")
    status, _, said = await sched.refused("POST", f"{RBAC}/clusterrolebindings", body)
    assert (status, '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}' in said) == (403, True)
    assert (await sched.refused("POST", f"{RBAC}/clusterrolebindings", binding("gone", name="x")))[0] == 404
    assert not any(one["metadata"]["name"] in ("r", "mine") for one in guarded.objects(API, "ClusterRole"))


async def test_user_may_grant_own_permissions(guarded: EmbeddedCluster, api_of: Any) -> None:
    """A role within one's own rights, and a binding to it."""
    let_write(guarded, POD_RULE)
    sched = api_of(guarded, "sched-token")
    await sched.ok("POST", f"{RBAC}/clusterroles", role("r", POD_RULE))
    await sched.ok("POST", f"{RBAC}/clusterrolebindings", binding("r", name="mine"))
    more = role("r", {**POD_RULE, "verbs": ["get", "list"]})
    assert (await sched.refused("PUT", f"{RBAC}/clusterroles/r", more))[0] == 403
    gathering = role("g", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    assert (await sched.refused("POST", f"{RBAC}/clusterroles", gathering))[2].endswith(
        "must have cluster-admin privileges to use the aggregationRule"
    )


async def test_escalate_and_bind(guarded: EmbeddedCluster, api_of: Any) -> None:
    """These verbs let somebody give what they do not hold; owners and finalizers may always change."""
    group = ["rbac.authorization.k8s.io"]
    let_write(
        guarded,
        {"verbs": ["escalate"], "apiGroups": group, "resources": ["clusterroles"]},
        {"verbs": ["bind"], "apiGroups": group, "resources": ["clusterroles"], "resourceNames": ["view"]},
    )
    sched = api_of(guarded, "sched-token")
    await sched.ok("POST", f"{RBAC}/clusterroles", role("r", POD_RULE))
    await sched.ok("POST", f"{RBAC}/clusterrolebindings", binding("view", name="mine"))
    assert (await sched.refused("POST", f"{RBAC}/clusterrolebindings", binding("edit", name="x")))[0] == 403
    guarded.add(binding("edit", name="given"))
    given = guarded.get(API, "ClusterRoleBinding", "given")
    given["metadata"]["finalizers"] = ["example.com/keep"]
    await sched.ok("PUT", f"{RBAC}/clusterrolebindings/given", given)
    given["subjects"] = []
    del given["metadata"]["resourceVersion"]
    assert (await sched.refused("PUT", f"{RBAC}/clusterrolebindings/given", given))[0] == 403
