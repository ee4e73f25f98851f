"""Requests at the gate: who is let in as whom, and who is refused in which words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_objects.http import Response
from kube_testserver.access.users import ADMIN, User
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.requests import Impersonation, Request

PODS = "/api/v1/namespaces/default/pods"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
RULES = [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]


def give(cluster: EmbeddedCluster, user: str, rules: list[dict[str, Any]]) -> None:
    """Bind a user to a cluster role with some rules, both named after the user."""
    api = "rbac.authorization.k8s.io/v1"
    name = {"metadata": {"name": user}}
    ref = {"kind": "ClusterRole", "name": user}
    cluster.add(
        {"apiVersion": api, "kind": "ClusterRole", **name, "rules": rules},
        {
            "apiVersion": api,
            "kind": "ClusterRoleBinding",
            **name,
            "roleRef": ref,
            "subjects": [{"kind": "User", "name": user}],
        },
    )


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        pytest.param(
            "GET",
            "/api/v1/pods",
            'pods is forbidden: User "sched" cannot list resource "pods" in API group "" at the cluster scope',
            id="cluster",
        ),
        pytest.param(
            "DELETE",
            "/apis/policy/v1/namespaces/a/poddisruptionbudgets/b",
            'poddisruptionbudgets.policy "b" is forbidden: User "sched" cannot delete resource "poddisruptionbudgets" '
            'in API group "policy" in the namespace "a"',
            id="named",
        ),
        pytest.param(
            "PATCH",
            f"{PODS}/p/status",
            'pods "p" is forbidden: User "sched" cannot patch resource "pods/status" in API group "" in the namespace '
            '"default"',
            id="subresource",
        ),
        pytest.param(
            "GET",
            "/apis/none/v1/things/a<b>",
            'things.none "a<b>" is forbidden: User "sched" cannot get resource "things" in API group "none" at the '
            "cluster scope",
            id="nothing of the kind",
        ),
        pytest.param("GET", "/metrics", 'forbidden: User "sched" cannot get path "/metrics"', id="path"),
        pytest.param("GET", "/a&<b>", 'forbidden: User "sched" cannot get path "/a&amp;&lt;b&gt;"', id="no HTML"),
    ],
)
async def test_refusals(guarded: EmbeddedCluster, api_of: Any, method: str, path: str, message: str) -> None:
    """What somebody may not do is refused in the real server's words, whether it exists or not."""
    api = api_of(guarded, "sched-token")
    assert await api.refused(method, path, {}) == (403, "Forbidden", message)
    assert guarded.rbac.usage.refusals() == {message: 1}
    assert guarded.rbac.as_document({})["refused"] == [{"user": "sched", "message": message, "times": 1}]


async def test_authentication_of_requests(guarded: EmbeddedCluster, api_of: Any) -> None:
    """A request without credentials is anonymous; invalid credentials are refused."""
    api = api_of(guarded)
    assert (await api.refused("POST", WHOAMI, {}))[2].startswith(
        'selfsubjectreviews.authentication.k8s.io is forbidden: User "system:anonymous" cannot create'
    )
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert (await api.send("GET", path)).status == 200
    assert (await api.refused("GET", "/api"))[2] == 'forbidden: User "system:anonymous" cannot get path "/api"'
    assert await api.refused("GET", "/healthz", token="wrong") == (401, "Unauthorized", "Unauthorized")
    who = await api_of(guarded, "sched-token").ok("POST", WHOAMI, {})
    assert who["status"]["userInfo"] == {
        "username": "sched",
        "uid": "u-1",
        "groups": ["devs", "system:authenticated"],
    }
    assert (await api_of(guarded, "sched-token")("GET", "/apis"))[0] == 200


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer", "Bearer  sched-token", "nonsense"])
async def test_header_without_bearer_is_anonymous(guarded: EmbeddedCluster, header: str) -> None:
    """Other schemes, and a token after two blanks, do not count."""
    assert guarded.access.authenticate(header).name == "system:anonymous"
    assert guarded.access.authenticate("bearer sched-token").name == "sched"


async def test_rules_open_the_gate(guarded: EmbeddedCluster, api_of: Any) -> None:
    """What a rule allows works; what it does not stays refused; the record names the rule."""
    give(guarded, "sched", RULES)
    api = api_of(guarded, "sched-token")
    assert (await api("GET", PODS))[0] == 200
    for query in ({"watch": "1"}, {"fieldSelector": "metadata.name=p", "watch": "1"}):
        assert (await api.refused("GET", PODS, **query))[0] == 403
    assert (await api.refused("GET", f"{PODS}/p"))[0] == 403
    record = await api_of(guarded, "admin-token").ok("GET", "/debug/rbac", clusterrole="sched")
    assert [(use["role"]["name"], use["what"]) for use in record["allowed"]] == [("sched", "list pods")]
    assert record["unused"] == []
    assert (await api.refused("GET", "/debug/rbac"))[0] == 403
    assert (await api_of(guarded, "admin-token").refused("GET", "/debug/rbac", clusterrole="no"))[0] == 404


async def test_a_name_in_a_rule_allows_a_watch_of_that_name(guarded: EmbeddedCluster, api_of: Any) -> None:
    """As leader election and the authentication ConfigMap need it."""
    rule = {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["c"]}
    give(guarded, "sched", [rule])
    api, path = api_of(guarded, "sched-token"), "/api/v1/namespaces/default/configmaps"
    assert (await api("GET", path, fieldSelector="metadata.name=c"))[0] == 200
    assert (await api("GET", path, fieldSelector="metadata.name=d"))[0] == 403
    assert (await api("GET", path))[0] == 403
    assert (await api("GET", f"{path}/c"))[0] == 404


async def test_a_server_without_roles(cluster: EmbeddedCluster, api_of: Any) -> None:
    """A server without roles asks nobody, and has no record to show."""
    api = api_of(cluster, "sched-token")
    assert (await api("GET", PODS))[0] == 200
    assert (await api.send("GET", "/debug/rbac")).status == 404
    assert (await api.ok("POST", WHOAMI, {}))["status"]["userInfo"]["username"] == "system:anonymous"
    token = cluster_token(cluster)
    assert (await api.ok("POST", WHOAMI, {}, token=token))["status"]["userInfo"]["username"].endswith(":bob")


def cluster_token(cluster: EmbeddedCluster) -> str:
    """Return a token for an account that is made for it."""
    cluster.add({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bob"}})
    return cluster.account_token("default", "bob")


async def test_tokens_without_roles(clock: Any, api_of: Any) -> None:
    """With tokens and no roles, bad credentials are refused and everybody else may do everything."""
    cluster = EmbeddedCluster(clock=clock, tokens={"t": User("kim")})
    assert (await api_of(cluster, "t").ok("POST", WHOAMI, {}))["status"]["userInfo"]["username"] == "kim"
    assert (await api_of(cluster)("GET", PODS))[0] == 200
    assert (await api_of(cluster, "x").refused("GET", PODS))[0] == 401


async def test_an_in_process_transport_acts_as_somebody(guarded: EmbeddedCluster, clock: Any) -> None:
    """For a user, for a token that may run out, and for the server itself where nothing is said."""

    async def status(transport: Any) -> int:
        answer: Response = await transport.request("GET", PODS)
        return answer.status

    assert await status(guarded.client()) == 200
    assert await status(guarded.client(user=ADMIN)) == 200
    assert await status(guarded.client(user=User("kim"))) == 403
    give(guarded, "system:serviceaccount:default:default", RULES)
    transport = guarded.client(token=guarded.account_token("default", "default", expires_seconds=10))
    assert await status(transport) == 200
    await clock.advance(100)
    assert await status(transport) == 401
    transport.token = guarded.account_token("default", "default")
    assert await status(transport) == 200
    async with guarded.client(user=User("kim")).stream(PODS, query={"watch": "1"}) as stream:
        assert stream.status == 403


# --- impersonation --------------------------------------------------------------------------------


async def as_other(cluster: EmbeddedCluster, token: str, wanted: Impersonation) -> tuple[int, Any]:
    """Ask who one is, for somebody else."""
    request = Request("POST", WHOAMI, {}, b"{}", authorization=f"Bearer {token}", impersonate=wanted)
    answer = await cluster.router.handle(request)
    assert isinstance(answer, Response)
    body = msgspec.json.decode(answer.body)
    return answer.status, body.get("status", {}).get("userInfo") if answer.status == 201 else body["message"]


async def test_an_administrator_may_ask_for_others(guarded: EmbeddedCluster) -> None:
    """The request is made for them, in the groups their name implies or those that are given."""
    status, user = await as_other(
        guarded, "admin-token", Impersonation("kim", ("devs",), "u", (("k", "v"), ("k", "w")))
    )
    assert (status, user) == (
        201,
        {"username": "kim", "uid": "u", "groups": ["devs", "system:authenticated"], "extra": {"k": ["v", "w"]}},
    )
    _, account = await as_other(guarded, "admin-token", Impersonation("system:serviceaccount:a:b"))
    assert account["groups"] == ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]
    status, message = await as_other(guarded, "admin-token", Impersonation("system:anonymous"))
    assert status == 403
    assert 'User "system:anonymous" cannot create' in message
    assert await as_other(guarded, "admin-token", Impersonation(groups=("devs",))) == (
        400,
        "requested ['devs'] without impersonating a user",
    )


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        pytest.param(
            Impersonation("kim"),
            'users "kim" is forbidden: User "sched" cannot impersonate resource "users" in API group "" at the cluster '
            "scope",
            id="user",
        ),
        pytest.param(
            Impersonation("system:serviceaccount:a:b"),
            'serviceaccounts "b" is forbidden: User "sched" cannot impersonate resource "serviceaccounts" in API group '
            '"" in the namespace "a"',
            id="account",
        ),
        pytest.param(
            Impersonation("lee", ("system:masters",)),
            'groups "system:masters" is forbidden: User "sched" cannot impersonate resource "groups" in API group "" '
            "at the cluster scope",
            id="group",
        ),
        pytest.param(
            Impersonation("lee", extra=(("scopes", "x"),)),
            'userextras.authentication.k8s.io "x" is forbidden: User "sched" cannot impersonate resource '
            '"userextras/scopes" in API group "authentication.k8s.io" at the cluster scope',
            id="extra",
        ),
        pytest.param(
            Impersonation("lee", uid="u"),
            'uids.authentication.k8s.io "u" is forbidden: User "sched" cannot impersonate resource "uids" in API group '
            '"authentication.k8s.io" at the cluster scope',
            id="uid",
        ),
    ],
)
async def test_others_may_ask_for_whom_they_may(guarded: EmbeddedCluster, wanted: Impersonation, message: str) -> None:
    """Each part of the other user needs the verb impersonate."""
    rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["lee"]}
    give(guarded, "sched", [rule])
    assert await as_other(guarded, "sched-token", wanted) == (403, message)
    assert (await as_other(guarded, "sched-token", Impersonation("lee")))[0] == 201
