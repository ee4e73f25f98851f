"""Bearer tokens: from a file, and signed for service accounts."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kube_objects.errors import APIError, ConfigError
from kube_testserver.access.tokens import AUDIENCE, BadTokenError, read_token_file
from kube_testserver.access.users import User
from kube_testserver.cluster import EmbeddedCluster

TOKEN_PATH = "/api/v1/namespaces/default/serviceaccounts/default/token"
BOB = "system:serviceaccount:default:default"


def test_a_token_file() -> None:
    """Lines of token, user, uid and quoted groups; whoever is known is in system:authenticated."""
    text = 'abc,kim,u-1\n\ndef,lee,u-2,"devs,ops"\n,nobody,u-3\nabc,kay,u-4\n'
    assert read_token_file(text) == {
        "abc": User("kay", "u-4", ("system:authenticated",)),
        "def": User("lee", "u-2", ("devs", "ops", "system:authenticated")),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("abc,kim", "at least 3 columns .token, user name, user uid., found 2", id="too few"),
        pytest.param('a,b,c,"d', "is not CSV", id="no end"),
    ],
)
def test_a_token_file_that_is_wrong(text: str, message: str) -> None:
    """One line says what is wrong and in which file."""
    with pytest.raises(ConfigError, match=f"^tokens.csv: .*{message}"):
        read_token_file(text, source="tokens.csv")


def claims_of(token: str) -> dict[str, Any]:
    """Return the claims in a token."""
    body = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


async def test_a_token_is_good_for_its_time_and_a_minute(guarded: EmbeddedCluster, clock: Any) -> None:
    """It says when it ends, is taken a minute longer, and then is no good."""
    token = guarded.account_token("default", "default", expires_seconds=600)
    claims = claims_of(token)
    assert (claims["sub"], claims["aud"], claims["exp"] - claims["iat"]) == (BOB, [AUDIENCE], 600)
    user, audiences = guarded.access.check_token(token)
    assert (user.name, audiences) == (BOB, (AUDIENCE,))
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
    await clock.advance(659)
    guarded.access.check_token(token)
    await clock.advance(2)
    with pytest.raises(BadTokenError, match="service account token has expired"):
        guarded.access.check_token(token)


async def test_a_token_ends_with_its_account(guarded: EmbeddedCluster) -> None:
    """The account's deletion ends its tokens, also where an account of the same name follows."""
    token = guarded.account_token("default", "default")
    guarded.remove("v1", "ServiceAccount", "default", namespace="default")
    with pytest.raises(BadTokenError, match="does not match claim"):
        guarded.access.check_token(token)
    guarded.add({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bob"}})
    other = guarded.account_token("default", "bob")
    guarded.remove("v1", "ServiceAccount", "bob", namespace="default")
    with pytest.raises(BadTokenError, match='serviceaccounts "bob" not found'):
        guarded.access.check_token(other)
    with pytest.raises(APIError, match="not found"):
        guarded.account_token("default", "bob")


@pytest.mark.parametrize("spoil", [lambda token: token[:-4] + "AAAA", lambda token: "x" + token, lambda _: "a.b.c"])
def test_a_token_of_somebody_else(guarded: EmbeddedCluster, spoil: Any) -> None:
    """What the server did not sign is none of its tokens."""
    token = guarded.account_token("default", "default")
    with pytest.raises(BadTokenError, match="invalid bearer token"):
        guarded.access.check_token(spoil(token))


def test_a_token_for_somebody_else(guarded: EmbeddedCluster) -> None:
    """A token is for an audience, and no good for others."""
    record = guarded.store.collection("serviceaccounts").get("default/default")
    assert record is not None
    token = guarded.access.issuer.issue(record, expires_seconds=600, audiences=("vault",))
    assert guarded.access.check_token(token, ("x", "vault"))[1] == ("vault",)
    with pytest.raises(BadTokenError, match=r'token audiences \["vault"\] is invalid for the target audiences'):
        guarded.access.check_token(token)


async def test_asking_for_a_token(guarded: EmbeddedCluster, api_of: Any) -> None:
    """A TokenRequest is answered with a token that works, under the name of the account."""
    api = api_of(guarded, "admin-token")
    status, body = await api("POST", TOKEN_PATH, {"spec": {"expirationSeconds": 700}})
    assert status == 201
    assert body["spec"] == {"boundObjectRef": None, "expirationSeconds": 700, "audiences": [AUDIENCE]}
    assert body["metadata"]["name"] == "default"
    _, who = await api("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token=body["status"]["token"])
    assert who["status"]["userInfo"]["username"] == BOB
    assert list(who["status"]["userInfo"]["extra"]) == ["authentication.kubernetes.io/credential-id"]
    assert (await api("POST", TOKEN_PATH, {}))[1]["spec"]["expirationSeconds"] == 3600


async def test_a_token_without_roles(cluster: EmbeddedCluster, api: Any) -> None:
    """Without RBAC, a TokenRequest is answered as well, and a TokenReview knows the token."""
    answer = await api.ok("POST", TOKEN_PATH, {})
    assert (answer["kind"], answer["metadata"]["name"]) == ("TokenRequest", "default")
    assert answer["status"]["expirationTimestamp"] == "2027-01-15T09:00:00Z"
    review = {"spec": {"token": answer["status"]["token"]}}
    reviewed = await api.ok("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert (reviewed["status"]["authenticated"], reviewed["status"]["user"]["username"]) == (True, BOB)
    assert claims_of(cluster.account_token("default", "default"))["sub"] == BOB
    path = TOKEN_PATH.replace("accounts/default", "accounts/nobody")
    assert await api.refused("POST", path, {}) == (404, "NotFound", 'serviceaccounts "nobody" not found')


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        pytest.param(
            {"spec": {"expirationSeconds": 599}},
            422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may not '
            "specify a duration less than 10 minutes",
            id="short",
        ),
        pytest.param({"spec": {"expirationSeconds": 1 << 33}}, 422, "larger than 2^32 seconds", id="long"),
        pytest.param({"metadata": {"name": "x"}}, 422, "must match the service account name if specified", id="name"),
        pytest.param({"metadata": {"uid": "x"}}, 409, "does not match the UID of the service account", id="uid"),
        pytest.param({"spec": {"expirationSeconds": "x"}}, 400, "cannot be handled as a TokenRequest", id="shape"),
        pytest.param({"spec": {"boundObjectRef": {"kind": "Node"}}}, 400, "cannot bind token to object", id="kind"),
        pytest.param({"spec": {"boundObjectRef": {"kind": "Pod", "name": "p"}}}, 404, 'pods "p" not found', id="pod"),
    ],
)
async def test_a_token_that_cannot_be_had(
    guarded: EmbeddedCluster, api_of: Any, body: dict[str, Any], code: int, message: str
) -> None:
    """A request that cannot be granted is refused in the real server's words."""
    status, _, said = await api_of(guarded, "admin-token").refused("POST", TOKEN_PATH, body)
    assert status == code
    assert message in said


async def test_a_token_bound_to_a_pod(guarded: EmbeddedCluster, api_of: Any, pod: Any) -> None:
    """It names the pod, ends with it, and is only for pods of that account."""
    api = api_of(guarded, "admin-token")
    guarded.add(pod("mine", serviceAccountName="default"), pod("other"))
    bound = {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "mine"}}}
    _, answer = await api("POST", TOKEN_PATH, bound)
    token = answer["status"]["token"]
    assert guarded.access.check_token(token)[0].extra["authentication.kubernetes.io/pod-name"] == ("mine",)
    bound["spec"]["boundObjectRef"]["uid"] = "another"
    assert (await api.refused("POST", TOKEN_PATH, bound))[0] == 409
    bound["spec"]["boundObjectRef"] = {"kind": "Pod", "name": "other"}
    assert "different serviceaccount name" in (await api.refused("POST", TOKEN_PATH, bound))[2]
    guarded.remove("v1", "Pod", "mine", namespace="default")
    with pytest.raises(BadTokenError, match="service account token has been invalidated"):
        guarded.access.check_token(token)


async def test_a_token_can_be_taken_away(guarded: EmbeddedCluster, api_of: Any) -> None:
    """A static token that is taken out while the server runs is refused from then on."""
    api = api_of(guarded, "sched-token")
    assert (await api("GET", "/version"))[0] == 200
    del guarded.access.tokens["sched-token"]
    assert await api.refused("GET", "/version") == (401, "Unauthorized", "Unauthorized")
