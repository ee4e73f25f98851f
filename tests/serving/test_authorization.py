"""Who asks and who may what: what is asked of the API server, what is remembered, and what needs no asking."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Coroutine, Mapping
from typing import Any

import attrs
import pytest

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.framework.errors import APIError, ConfigError, ForbiddenError, TransportError
from pyscheduler.scheduler.ports import Response
from pyscheduler.serving.authentication import ANONYMOUS, Authenticator, Unauthenticated, User, user_of_certificate
from pyscheduler.serving.authorization import Authorizer, Decision
from pyscheduler.serving.delegation import Reviewer, open_transport
from pyscheduler.telemetry.metrics import Metrics

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@attrs.define
class Asked:
    """A transport that answers reviews as it was told, and notes what it was asked."""

    answers: list[Response | TransportError] = attrs.Factory(list)
    requests: list[tuple[str, str, Mapping[str, Any]]] = attrs.Factory(list)
    closed: bool = False

    def will(self, status: Mapping[str, Any], *, code: int = 201, times: int = 1) -> None:
        """Answer so many more requests with this status of a review."""
        self.answers += [Response(status=code, body=json.dumps({"status": status}).encode(), headers={})] * times

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: Any) -> Response:
        self.requests.append((method, path, json.loads(body) if body else {}))
        answer = self.answers.pop(0)
        if isinstance(answer, TransportError):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def asked() -> Asked:
    """Return the API server's stand-in."""
    return Asked()


@pytest.fixture
def clock() -> VirtualClock:
    """Return a clock at rest."""
    return VirtualClock()


@pytest.fixture
def reviewer(asked: Asked, clock: VirtualClock) -> Reviewer:
    """Return who asks it."""
    return Reviewer(asked, clock=clock, rng=random.Random(1))  # type: ignore[arg-type] # two methods are used


def authenticator(reviewer: Reviewer | None, clock: VirtualClock, seconds: float = 10.0) -> Authenticator:
    """Return an authenticator."""
    requests = Metrics().request_metrics()
    return Authenticator(reviewer=reviewer, clock=clock, cache_seconds=seconds, request_metrics=requests)


async def user_of(found: Authenticator, header: str = "") -> User:
    """Return who sends this Authorization header, without a certificate."""
    return await found.authenticate(certificate=None, subject=(), authorization=header)


JANE = {"authenticated": True, "user": {"username": "jane", "uid": "7", "groups": ["dev"], "extra": {"k": ["v"]}}}


# --- authentication -----------------------------------------------------------------------------


async def test_a_token_is_reviewed(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """The API server says whose it is; whoever it knows is also one of `system:authenticated`."""
    asked.will(JANE)
    user = await user_of(authenticator(reviewer, clock), "bearer s3cret")
    assert user == User(name="jane", uid="7", groups=("dev", "system:authenticated"), extra={"k": ("v",)})
    sent = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "metadata": {},
        "spec": {"token": "s3cret"},
    }
    assert asked.requests == [("POST", TOKENS, sent)]


async def test_token_reviews_are_cached(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """Yes and no alike; no token itself is kept."""
    asked.will(JANE)
    asked.will({"authenticated": False})
    asked.will({})
    found = authenticator(reviewer, clock)
    for _ in range(3):
        assert (await user_of(found, "Bearer good")).name == "jane"
        with pytest.raises(Unauthenticated, match="invalid bearer token"):
            await user_of(found, "Bearer bad")
    assert len(asked.requests) == 2
    assert "good" not in repr(list(found._known.items()))
    await clock.advance(10.5)
    with pytest.raises(Unauthenticated):
        await user_of(found, "Bearer good")
    assert len(asked.requests) == 3


async def test_cache_ttl_of_zero_disables_the_cache(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """A time of 0 asks each time."""
    asked.will(JANE, times=2)
    found = authenticator(reviewer, clock, 0.0)
    assert [(await user_of(found, "Bearer t")).name for _ in range(2)] == ["jane", "jane"]
    assert len(asked.requests) == 2


async def test_failed_reviews_are_not_cached(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """The bearer is turned away once, and asked about again."""
    asked.will({"error": "the issuer is not trusted"})
    asked.will({}, code=403)
    asked.will(JANE)
    found = authenticator(reviewer, clock)
    with pytest.raises(Unauthenticated, match="issuer is not trusted"):
        await user_of(found, "Bearer t")
    with pytest.raises(Unauthenticated, match="HTTP 403"):
        await user_of(found, "Bearer t")
    assert (await user_of(found, "Bearer t")).name == "jane"


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Bearer  t", "Basic amFuZTp4", "Token t"])
async def test_other_authorization_headers_are_anonymous(
    asked: Asked, reviewer: Reviewer, clock: VirtualClock, header: str
) -> None:
    """Whoever shows none is anonymous, and nobody is asked."""
    assert await user_of(authenticator(reviewer, clock), header) == ANONYMOUS
    assert asked.requests == []


async def test_tokens_are_anonymous_without_an_api_server(clock: VirtualClock) -> None:
    """Their bearers are anonymous, as in kube-scheduler."""
    assert await user_of(authenticator(None, clock), "Bearer t") == ANONYMOUS


async def test_certificate_has_priority_over_a_token(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """Its common name is the user, its organizations are groups; without a common name it says nothing."""
    subject = ((("organizationName", "dev"),), (("organizationName", "ops"),), (("commonName", "jane"),))
    found = authenticator(reviewer, clock)
    user = await found.authenticate(certificate=b"der", subject=subject, authorization="Bearer t")
    assert (user.name, user.groups) == ("jane", ("dev", "ops", "system:authenticated"))
    assert list(user.extra) == ["authentication.kubernetes.io/credential-id"]
    asked.will(JANE)
    user = await found.authenticate(certificate=b"der", subject=subject[:1], authorization="Bearer t")
    assert user.extra == {"k": ("v",)}


def test_the_uid_of_a_certificate() -> None:
    """One is taken, two are a mistake."""
    uid, name = (("1.3.6.1.4.1.57683.2", "7"),), (("commonName", "jane"),)
    user = user_of_certificate(b"", (uid, name))
    assert user is not None
    assert user.uid == "7"
    with pytest.raises(Unauthenticated, match="expected 1 UID, but found multiple: 7 7"):
        user_of_certificate(b"", (uid, uid, name))


# --- authorization ------------------------------------------------------------------------------


def authorizer(reviewer: Reviewer | None, clock: VirtualClock, *paths: str) -> Authorizer:
    """Return an authorizer that remembers a yes for 10 seconds, and a no for 2."""
    return Authorizer(
        reviewer=reviewer, clock=clock, open_paths=paths or ("/healthz",), allowed_seconds=10, denied_seconds=2
    )


MARY = User(name="mary", uid="8", groups=("dev",), extra={"k": ["v"]})


async def test_access_is_reviewed(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """The API server is told who wants what, and its word counts."""
    asked.will({"allowed": True, "reason": "RBAC: allowed"})
    assert await authorizer(reviewer, clock).authorize(MARY, "get", "/metrics") == Decision(True, "RBAC: allowed")
    spec = {
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        "user": "mary",
        "groups": ["dev"],
        "extra": {"k": ["v"]},
        "uid": "8",
    }
    sent = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": spec}
    assert asked.requests == [("POST", ACCESS, sent)]


async def test_decisions_are_cached(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """A yes and a no each have their own; another path is another question."""
    asked.will({"allowed": True})
    asked.will({"allowed": False})
    found = authorizer(reviewer, clock)
    for _ in range(2):
        assert (await found.authorize(MARY, "get", "/metrics")).allowed
        assert not (await found.authorize(MARY, "get", "/configz")).allowed
    assert len(asked.requests) == 2
    await clock.advance(3)
    asked.will({"allowed": True})
    assert (await found.authorize(MARY, "get", "/metrics")).allowed
    assert (await found.authorize(MARY, "get", "/configz")).allowed
    assert len(asked.requests) == 3


async def test_denied_overrides_allowed(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """Where an answer says both."""
    asked.will({"allowed": True, "denied": True, "reason": "both"})
    assert await authorizer(reviewer, clock).authorize(MARY, "get", "/metrics") == Decision(False, "both", denied=True)


async def test_long_requests_are_not_cached(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """Who asks cannot fill the memory."""
    asked.will({"allowed": False}, times=2)
    found = authorizer(reviewer, clock)
    for _ in range(2):
        await found.authorize(MARY, "get", "/" + "x" * 10_000)
    assert len(asked.requests) == 2


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/healthz", True),
        ("/healthz/ping", False),
        ("/pages/", True),
        ("/pages/any", True),
        ("/pages", False),
        ("/no-slash", True),
        ("/", False),
        ("/metrics", False),
    ],
)
async def test_open_paths(clock: VirtualClock, path: str, allowed: bool) -> None:
    """They match as a whole, or up to a star; a slash at the beginning is optional."""
    found = authorizer(None, clock, "/healthz", "/pages/*", "no-slash")
    assert (await found.authorize(ANONYMOUS, "get", path)).allowed is allowed


async def test_system_masters_is_always_allowed(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """Nobody is asked about them, so that they get in when the API server is gone."""
    user = User(name="root", groups=("system:masters",))
    assert (await authorizer(reviewer, clock).authorize(user, "put", "/debug/flags/v")).allowed
    assert asked.requests == []


# --- asking -------------------------------------------------------------------------------------


async def later(clock: VirtualClock, decision: Coroutine[Any, Any, Decision]) -> Decision:
    """Return what is decided within some seconds."""
    task = asyncio.create_task(decision)
    await clock.advance(20)
    return await task


async def test_temporary_errors_are_retried(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """With growing pauses, five times at most; a refusal is final."""
    asked.will({}, code=500)
    asked.answers.append(TransportError("connection reset"))
    asked.will({}, code=429)
    asked.will({"allowed": True})
    assert (await later(clock, authorizer(reviewer, clock).authorize(MARY, "get", "/metrics"))).allowed
    assert len(asked.requests) == 4
    asked.will({}, code=503, times=9)
    with pytest.raises(APIError):
        await later(clock, authorizer(reviewer, clock).authorize(MARY, "get", "/metrics"))
    assert len(asked.requests) == 9


async def test_permanent_errors_are_not_retried(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """Who may not create reviews is not asked twice."""
    asked.will({}, code=403)
    with pytest.raises(ForbiddenError):
        await authorizer(reviewer, clock).authorize(MARY, "get", "/metrics")
    assert len(asked.requests) == 1


async def test_invalid_answer_is_an_error(asked: Asked, reviewer: Reviewer, clock: VirtualClock) -> None:
    """A proxy's page is as good as silence."""
    asked.answers += [Response(status=201, body=b"<html>", headers={})] * 5
    with pytest.raises(TransportError, match="the API server's answer is not a JSON object"):
        await later(clock, authorizer(reviewer, clock).authorize(MARY, "get", "/metrics"))


async def test_a_kubeconfig_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the flag; without one, outside a cluster, there is nobody to ask."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", "/nowhere-either")
    assert await open_transport("", flag="--authentication-kubeconfig") is None
    with pytest.raises(ConfigError, match=r"^--authentication-kubeconfig: .*nowhere.* does not exist"):
        await open_transport("/nowhere", flag="--authentication-kubeconfig")


async def test_in_cluster_credentials_are_the_default(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever $KUBECONFIG says; where its files are missing, it is said, and nobody is asked."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    with caplog.at_level(logging.WARNING):
        assert await open_transport("", flag="--authorization-kubeconfig") is None
    (record,) = caplog.records
    told = record.getMessage()
    assert told.startswith("Failed to read in-cluster kubeconfig for authorization-kubeconfig err=service account ")
