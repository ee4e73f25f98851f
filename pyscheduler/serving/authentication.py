"""Authenticate requests to the HTTPS port by client certificate or bearer token.

The API server checks each token.

Source: apiserver's authentication/authenticatorfactory/delegating.go, request/x509, request/bearertoken, token/cache.
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Any, Final

import attrs
from cachetools import TTLCache

from pyscheduler.framework.errors import APIError, PySchedulerError, TransportError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.serving.delegation import Reviewer
    from pyscheduler.telemetry.request_metrics import RequestMetrics

__all__ = [
    "ANONYMOUS",
    "Authenticator",
    "Unauthenticated",
    "User",
    "certificate_end",
    "shown_certificate",
    "user_of_certificate",
]

_log = logging.getLogger(__name__)

_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_CACHE_SIZE: Final = 4096
_AUTHENTICATED: Final = "system:authenticated"
_CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
#: The attribute of a certificate's subject that holds the uid of the user.
_UID_OID: Final = "1.3.6.1.4.1.57683.2"


@attrs.frozen(kw_only=True)
class User:
    """The user who sent a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = attrs.Factory(dict)


ANONYMOUS: Final = User(name="system:anonymous", groups=("system:unauthenticated",))


class Unauthenticated(PySchedulerError):  # noqa: N818 - Kubernetes' word for it
    """Report credentials that are wrong or could not be checked."""


class Authenticator:
    """Finds the user of a request. Without a `reviewer`, bearer tokens are ignored and the user is anonymous."""

    def __init__(
        self, *, reviewer: Reviewer | None, clock: Clock, cache_seconds: float, request_metrics: RequestMetrics
    ) -> None:
        self._reviewer = reviewer
        self._clock = clock
        self._request_metrics = request_metrics
        #: Results by the digest of the token; the token itself is not stored. None for an invalid token.
        self._known: TTLCache[bytes, User | None] = TTLCache(_CACHE_SIZE, cache_seconds, timer=clock.now)

    async def authenticate(self, *, certificate: bytes | None, subject: Any, authorization: str) -> User:
        """Return the user. Raises `Unauthenticated`.

        `certificate` is the verified client certificate in DER, `subject` its subject as `ssl` decodes it,
        `authorization` the value of the Authorization header.
        """
        if certificate is not None:
            user = user_of_certificate(certificate, subject)
            if user is not None:
                return _with_authenticated(user)
        token = _bearer_token(authorization)
        if token is None or self._reviewer is None:
            return ANONYMOUS
        return _with_authenticated(await self._user_of_token(self._reviewer, token))

    async def _user_of_token(self, reviewer: Reviewer, token: str) -> User:
        digest = hashlib.sha256(token.encode()).digest()
        began = self._clock.now()
        hit = digest in self._known
        try:
            if hit:
                user = self._known[digest]
            else:
                with self._request_metrics.fetching_token():
                    user = self._known[digest] = await self._review(reviewer, token)
        finally:
            self._request_metrics.token_looked_up(hit=hit, seconds=self._clock.now() - began)
        if user is None:
            raise Unauthenticated("invalid bearer token")
        return user

    async def _review(self, reviewer: Reviewer, token: str) -> User | None:
        """Return the user of the token, or None for an invalid token. A request that fails is not cached."""
        try:
            status = await reviewer.review(_TOKEN_REVIEWS, "authentication.k8s.io/v1 TokenReview", {"token": token})
        except (APIError, TransportError) as error:
            _log.error("Failed to make webhook authenticator request err=%s", error)
            raise Unauthenticated(str(error)) from error
        if status.get("error"):
            raise Unauthenticated(str(status["error"]))
        user = status.get("user")
        if not status.get("authenticated") or not isinstance(user, dict):
            return None
        return User(
            name=user.get("username") or "",
            uid=user.get("uid") or "",
            groups=tuple(user.get("groups") or ()),
            extra={key: tuple(values) for key, values in (user.get("extra") or {}).items()},
        )


def user_of_certificate(certificate: bytes, subject: Any) -> User | None:
    """Return the user that a verified certificate names: the common name is the user, organizations are groups.

    None without a common name. Raises `Unauthenticated` for a certificate with two uids.
    """
    attributes: dict[str, list[str]] = {}
    for name, value in (pair for each in subject for pair in each):
        attributes.setdefault(name, []).append(value)
    uids = attributes.get(_UID_OID, [])
    if len(uids) > 1:
        raise Unauthenticated(f"expected 1 UID, but found multiple: {' '.join(uids)}")
    if not attributes.get("commonName"):
        return None
    return User(
        name=attributes["commonName"][-1],
        uid=uids[0] if uids else "",
        groups=tuple(attributes.get("organizationName", ())),
        extra={_CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(certificate).hexdigest()}",)},
    )


def shown_certificate(connection: ssl.SSLObject | None) -> tuple[bytes | None, Any]:
    """Return the client's certificate in DER and its subject; None and () without a client certificate."""
    if connection is None:
        return None, ()
    decoded = connection.getpeercert()
    return (connection.getpeercert(binary_form=True), decoded.get("subject", ())) if decoded else (None, ())


def certificate_end(connection: ssl.SSLObject | None) -> float:
    """Return the expiry of the client's certificate, in seconds of Unix time."""
    import ssl

    decoded = connection.getpeercert() if connection is not None else None
    return ssl.cert_time_to_seconds(str((decoded or {})["notAfter"]))


def _bearer_token(header: str) -> str | None:
    """Return the token of an Authorization header, or None."""
    parts = header.strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" and parts[1] else None


def _with_authenticated(user: User) -> User:
    """Return the user with the group `system:authenticated`."""
    if _AUTHENTICATED in user.groups or user.name == ANONYMOUS.name:
        return user
    return attrs.evolve(user, groups=(*user.groups, _AUTHENTICATED))
