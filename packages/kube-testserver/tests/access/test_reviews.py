"""Reviews: asking who somebody is and what they may do."""

from __future__ import annotations

from typing import Any

import pytest

from kube_testserver.access.tokens import AUDIENCE
from kube_testserver.cluster import EmbeddedCluster

AUTHENTICATION, AUTHORIZATION = "/apis/authentication.k8s.io/v1", "/apis/authorization.k8s.io/v1"
GET_PODS = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "a"}}
SCHEDULER = "system:kube-scheduler"


@pytest.fixture
def admin(guarded: EmbeddedCluster, api_of: Any) -> Any:
    """Return a sender with an administrator's token."""
    return api_of(guarded, "admin-token")


async def test_a_token_review(guarded: EmbeddedCluster, admin: Any, clock: Any) -> None:
    """A good token is answered with its user, a bad one with what is wrong with it."""
    path = f"{AUTHENTICATION}/tokenreviews"
    answer = await admin.ok("POST", path, {"metadata": {}, "spec": {"token": "sched-token"}})
    assert (answer["kind"], answer["apiVersion"]) == ("TokenReview", "authentication.k8s.io/v1")
    assert answer["status"] == {
        "authenticated": True,
        "user": {"username": "sched", "uid": "u-1", "groups": ["devs", "system:authenticated"]},
        "audiences": [AUDIENCE],
    }
    bad = await admin.ok("POST", path, {"spec": {"token": "x"}})
    assert bad["status"] == {"user": {}, "error": "invalid bearer token"}
    token = guarded.account_token("default", "default", expires_seconds=1)
    await clock.advance(100)
    late = await admin.ok("POST", path, {"spec": {"token": token}})
    assert late["status"] == {"user": {}, "error": "service account token has expired"}
    assert await admin.refused("POST", path, {"spec": {}}) == (
        400,
        "BadRequest",
        "token is required for TokenReview in authentication",
    )


async def test_an_access_review(admin: Any) -> None:
    """It tells what others may do and why, and asks nobody to exist."""
    path = f"{AUTHORIZATION}/subjectaccessreviews"
    answer = await admin.ok("POST", path, {"spec": {"user": SCHEDULER, **GET_PODS}})
    assert answer["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "system:kube-scheduler" of ClusterRole "system:kube-scheduler" '
        'to User "system:kube-scheduler"',
    }
    assert answer["spec"] == {"user": SCHEDULER, **GET_PODS}
    assert (await admin.ok("POST", path, {"spec": {"user": "kim", **GET_PODS}}))["status"] == {"allowed": False}
    of_path = {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}, "groups": ["system:monitoring"]}
    assert (await admin.ok("POST", path, {"spec": of_path}))["status"]["allowed"] is True


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"user": "x"}, "spec.resourceAttributes: Invalid value: null: exactly one of", id="neither"),
        pytest.param(GET_PODS, 'spec.user: Invalid value: "": at least one of user or group', id="nobody"),
        pytest.param(
            {"user": "x", **GET_PODS, "nonResourceAttributes": {"path": "/", "verb": "get"}},
            'spec.nonResourceAttributes: Invalid value: {"path":"/","verb":"get"}: cannot be specified in combination',
            id="both",
        ),
    ],
)
async def test_an_access_review_that_makes_no_sense(admin: Any, spec: dict[str, Any], message: str) -> None:
    """It is refused with the field that is wrong."""
    status, reason, said = await admin.refused("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec})
    assert (status, reason) == (422, "Invalid")
    assert said.startswith(f'SubjectAccessReview.authorization.k8s.io "" is invalid: {message}')


async def test_metadata_of_a_review_must_be_empty(admin: Any) -> None:
    """A review is no object: it has no name."""
    body = {"metadata": {"name": "x"}, "spec": GET_PODS}
    status, _, said = await admin.refused("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", body)
    assert (status, "must be empty" in said) == (422, True)


async def test_asking_for_oneself(guarded: EmbeddedCluster, api_of: Any, admin: Any) -> None:
    """Everybody who is known may ask what they may do; it does not count as doing it."""
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    assert (await admin.ok("POST", path, {"spec": GET_PODS}))["status"] == {"allowed": True}
    sched = api_of(guarded, "sched-token")
    assert (await sched.ok("POST", path, {"spec": GET_PODS}))["status"] == {"allowed": False}
    uses = guarded.rbac.as_document({})["allowed"]
    assert [use["what"] for use in uses] == ["create selfsubjectaccessreviews.authorization.k8s.io"]
    assert not guarded.rbac.usage.refusals()


async def test_the_rules_of_oneself(guarded: EmbeddedCluster, api_of: Any) -> None:
    """`kubectl auth can-i --list`: all rules that apply in a namespace, and what is missing."""
    api = api_of(guarded, "sched-token")
    path = f"{AUTHORIZATION}/selfsubjectrulesreviews"
    guarded.add(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "b", "namespace": "a"},
            "roleRef": {"kind": "Role", "name": "none"},
            "subjects": [{"kind": "User", "name": "sched"}],
        }
    )
    status = (await api.ok("POST", path, {"spec": {"namespace": "a"}}))["status"]
    assert status["evaluationError"] == 'role.rbac.authorization.k8s.io "none" not found'
    assert status["incomplete"] is False
    assert {
        "verbs": ["create"],
        "apiGroups": ["authentication.k8s.io"],
        "resources": ["selfsubjectreviews"],
    } in status["resourceRules"]
    assert any("/openapi/*" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
    assert "evaluationError" not in (await api.ok("POST", path, {"spec": {"namespace": "b"}}))["status"]
    assert (await api.refused("POST", path, {"spec": {}}))[2] == "no namespace on request"


async def test_always_allow_accepts_every_request(cluster: EmbeddedCluster, api: Any) -> None:
    """The answers say so."""
    answer = await api.ok("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": {"user": "x", **GET_PODS}})
    assert answer["status"] == {"allowed": True}
    rules = await api.ok("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "a"}})
    assert rules["status"] == {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


async def test_reviews_are_only_created(admin: Any) -> None:
    """There is nothing to list, and what has the wrong shape is not understood."""
    assert (await admin.refused("GET", f"{AUTHENTICATION}/tokenreviews"))[0] == 405
    body = {"spec": {"user": 1}}
    assert (await admin.refused("POST", f"{AUTHORIZATION}/subjectaccessreviews", body))[0] == 400
