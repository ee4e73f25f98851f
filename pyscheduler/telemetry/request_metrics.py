"""Metrics of requests to the HTTPS port, as in kube-scheduler.

Source: apiserver's endpoints/filters/metrics.go, authentication/token/cache/stats.go, authentication/request/x509,
authenticatorfactory/metrics.go and authorizerfactory/metrics.go.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections import defaultdict
    from collections.abc import Callable, Iterator

    from pyscheduler.telemetry.histograms import FastHistogram

    _Counts = defaultdict[tuple[str, ...], int]

__all__ = ["RequestMetrics"]

#: Users that are counted by name; the others share a category, so that the page shows no user names.
_NAMED: Final = frozenset({"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"})


class RequestMetrics:
    """Measures the requests; `histogram` and `count` create the storage of a family."""

    def __init__(self, *, histogram: Callable[[str], FastHistogram], count: Callable[[str], _Counts]) -> None:
        self._users = count("authenticated_user_requests")
        self._authentications = count("authentication_attempts")
        self._authentication_seconds = histogram("authentication_duration_seconds")
        self._authorizations = count("authorization_attempts_total")
        self._authorization_seconds = histogram("authorization_duration_seconds")
        self._look_ups = count("authentication_token_cache_request_total")
        self._look_up_seconds = histogram("authentication_token_cache_request_duration_seconds")
        self._fetches = count("authentication_token_cache_fetch_total")
        self._active = count("authentication_token_cache_active_fetch_count")
        self._certificates = histogram("apiserver_client_certificate_expiration_seconds")
        self._reviews = {kind: count(f"apiserver_delegated_{kind}_request_total") for kind in ("authn", "authz")}
        self._review_seconds = {
            kind: histogram(f"apiserver_delegated_{kind}_request_duration_seconds") for kind in ("authn", "authz")
        }

    def authenticated(self, *, result: str, username: str, seconds: float) -> None:
        """Count an authentication and its user; `username` is "" if it failed."""
        self._authentications[(result,)] += 1
        self._authentication_seconds.record(seconds, (result,))
        if username:
            self._users[(_category(username),)] += 1

    def authorized(self, *, result: str, seconds: float) -> None:
        """Count a decision: `allowed`, `denied`, `no-opinion` or `error`."""
        self._authorizations[(result,)] += 1
        self._authorization_seconds.record(seconds, (result,))

    def token_looked_up(self, *, hit: bool, seconds: float) -> None:
        """Record a lookup in the token cache."""
        status = "hit" if hit else "miss"
        self._look_ups[(status,)] += 1
        self._look_up_seconds.record(seconds, (status,))

    @contextmanager
    def fetching_token(self) -> Iterator[None]:
        """Count a TokenReview; the request blocks meanwhile, so blocked and in-flight counts are equal."""
        for status in ("blocked", "in_flight"):
            self._active[(status,)] += 1
        result = "error"
        try:
            yield
            result = "ok"
        finally:
            self._fetches[(result,)] += 1
            for status in ("blocked", "in_flight"):
                self._active[(status,)] -= 1

    def certificate_shown(self, remaining: float) -> None:
        """Record the remaining validity of a client certificate, in seconds."""
        self._certificates.record(remaining)

    def reviewed(self, kind: str, *, code: str, seconds: float) -> None:
        """Count a review of `kind` `authn` or `authz`; the code is `<error>` if no answer came."""
        self._reviews[kind][(code,)] += 1
        self._review_seconds[kind].record(seconds, (code,))


def _category(username: str) -> str:
    if username in _NAMED:
        return username
    return "email_id" if "@" in username else "other"
