"""What the HTTPS port tells about its clients: who they were found to be, what was allowed, and what that took.

`telemetry` implements it. Seconds everywhere.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

__all__ = ["NullVisits", "Visits"]


class Visits(Protocol):
    """The sink of measurements about requests to the HTTPS port."""

    def authenticated(self, *, result: str, username: str, seconds: float) -> None:
        """Count a request by how its authentication ended: `success` or `error`; `username` "" where it failed.

        authentication_attempts, authentication_duration_seconds, authenticated_user_requests.
        """
        ...

    def authorized(self, *, result: str, seconds: float) -> None:
        """Count a decision: `allowed`, `denied`, `no-opinion` or `error`.

        authorization_attempts_total, authorization_duration_seconds.
        """
        ...

    def token_looked_up(self, *, hit: bool, seconds: float) -> None:
        """Note whether a bearer token was known. authentication_token_cache_request_total, _duration_seconds."""
        ...

    def fetching_token(self) -> AbstractContextManager[None]:
        """Count what happens in the block as a question about a token, which failed if the block raises.

        authentication_token_cache_fetch_total, authentication_token_cache_active_fetch_count.
        """
        ...

    def certificate_shown(self, remaining: float) -> None:
        """Note how long a client's certificate is still valid. apiserver_client_certificate_expiration_seconds."""
        ...

    def reviewed(self, kind: str, *, code: str, seconds: float) -> None:
        """Count a question to the API server, `authn` or `authz`; the code is `<error>` where no answer came.

        apiserver_delegated_authn_request_total, _duration_seconds, and the same of authz.
        """
        ...


class NullVisits:
    """Record nothing."""

    def authenticated(self, *, result: str, username: str, seconds: float) -> None:
        """Do nothing."""

    def authorized(self, *, result: str, seconds: float) -> None:
        """Do nothing."""

    def token_looked_up(self, *, hit: bool, seconds: float) -> None:
        """Do nothing."""

    def fetching_token(self) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def certificate_shown(self, remaining: float) -> None:
        """Do nothing."""

    def reviewed(self, kind: str, *, code: str, seconds: float) -> None:
        """Do nothing."""
