"""The access check of a request: authentication, impersonation and authorization.

By default, the server allows all requests.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from kube_testserver import errors
from kube_testserver.access.attributes import Attributes, attributes_of, not_authorized
from kube_testserver.access.authorizer import Authorizer, RbacAuthorizer
from kube_testserver.access.escalation import EscalationGuard
from kube_testserver.access.tokens import BadTokenError, TokenIssuer
from kube_testserver.access.users import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    account_groups,
    split_account_name,
    with_authenticated,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_testserver.requests import Impersonation, Request

__all__ = ["AccessGate"]

_ALWAYS_ALLOWED: Final = frozenset({"/healthz", "/livez", "/readyz"})
_AUTHENTICATION: Final = "authentication.k8s.io"


class AccessGate:
    """Authenticates and authorizes. `tokens` are those of a file and may be changed while the server runs.

    Without any, and where everybody may do everything, it is not `closed`: credentials are not looked at.
    """

    def __init__(
        self, authorizer: Authorizer, issuer: TokenIssuer, *, tokens: Mapping[str, User] | None = None
    ) -> None:
        self.authorizer = authorizer
        self.issuer = issuer
        #: Static bearer tokens and their users; a token that is removed is no longer valid.
        self.tokens: dict[str, User] = {token: with_authenticated(user) for token, user in (tokens or {}).items()}
        #: Whether requests have to pass; if not, `identify` tells who they say they are.
        self.closed = bool(tokens) or isinstance(authorizer, RbacAuthorizer)
        self.guard = EscalationGuard(authorizer) if isinstance(authorizer, RbacAuthorizer) else None

    def admit(self, request: Request) -> User:
        """Return the user of a request, or refuse it (401, 403)."""
        user = request.user
        if user is None:
            try:
                user = self.authenticate(request.authorization)
            except BadTokenError as error:
                raise errors.unauthorized() from error
        if request.impersonate is not None:
            user = self._impersonated(user, request.impersonate)
        if request.path not in _ALWAYS_ALLOWED:
            self._authorize(user, attributes_of(request.method, request.path, request.query))
        return user

    def identify(self, request: Request) -> User:
        """Return the user of a request without refusing any; unknown credentials are anonymous."""
        if request.user is not None:
            return request.user
        try:
            return self.authenticate(request.authorization)
        except BadTokenError:
            return ANONYMOUS

    def authenticate(self, authorization: str) -> User:
        """Return the user of an Authorization header (anonymous where it names no bearer); `BadTokenError`."""
        parts = authorization.split(" ", 2) if authorization else ()
        if len(parts) < 2 or parts[0].lower() != "bearer" or not parts[1]:
            return ANONYMOUS
        return self.check_token(parts[1])[0]

    def check_token(self, token: str, audiences: tuple[str, ...] = ()) -> tuple[User, tuple[str, ...]]:
        """Return the user and the matching audiences of a token (default: the server's own); raise `BadTokenError`."""
        user = self.tokens.get(token)
        if user is not None:
            return user, audiences
        found = self.issuer.check(token, audiences)
        if found is None:
            raise BadTokenError("invalid bearer token")
        return found

    def acting(self, user: User, asked: Attributes) -> AbstractContextManager[None]:
        """Check writes of roles and bindings meanwhile against the rights of `user`."""
        return nullcontext() if self.guard is None else self.guard.acting(user, asked)

    def _authorize(self, user: User, asked: Attributes) -> None:
        decision = self.authorizer.authorize(user, asked, note=True)
        if decision.allowed:
            return
        refusal = not_authorized(user.name, asked, decision.reason)
        if isinstance(self.authorizer, RbacAuthorizer):
            self.authorizer.usage.refused(user.name, str(refusal))
        raise refusal

    # --- impersonation -----------------------------------------------------------------------------

    def _impersonated(self, user: User, wanted: Impersonation) -> User:
        """Return the user a request is to be made for, if its sender may impersonate each part of them."""
        if not wanted.user:
            raise errors.bad_request(f"requested {list(wanted.groups)} without impersonating a user")
        account = split_account_name(wanted.user)
        if account is not None:
            namespace, name = account
            asked = [Attributes("impersonate", resource="serviceaccounts", namespace=namespace, name=name)]
        else:
            asked = [Attributes("impersonate", resource="users", name=wanted.user)]
        asked += [Attributes("impersonate", resource="groups", name=group) for group in wanted.groups]
        asked += [
            Attributes("impersonate", group=_AUTHENTICATION, resource="userextras", subresource=key, name=value)
            for key, value in wanted.extra
        ]
        if wanted.uid:
            asked.append(Attributes("impersonate", group=_AUTHENTICATION, resource="uids", name=wanted.uid))
        for one in asked:
            self._authorize(user, one)
        groups = wanted.groups or (account_groups(account[0]) if account is not None else ())
        if wanted.user == ANONYMOUS.name:
            groups = groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
        elif AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
            groups = (*groups, AUTHENTICATED)
        extra: dict[str, tuple[str, ...]] = {}
        for key, value in wanted.extra:
            extra[key] = (*extra.get(key, ()), value)
        return User(wanted.user, wanted.uid, groups, extra)
