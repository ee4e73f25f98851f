"""Bearer tokens: those of a file, and those that the server signs for service accounts.

Differs from kube-apiserver: the signature is symmetric (HS256).
"""

from __future__ import annotations

import base64
import csv
import hashlib
import hmac
import io
from typing import TYPE_CHECKING, Final

import msgspec

from kube_objects.errors import ConfigError
from kube_testserver.access.users import User, account_groups, account_user_name, with_authenticated
from kube_testserver.wire import new_uid

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from kube_testserver.store import Record

__all__ = ["AUDIENCE", "BadTokenError", "TokenIssuer", "read_token_file"]

#: The issuer of the tokens, and their default audience.
AUDIENCE: Final = "https://kubernetes.default.svc.cluster.local"
#: A token outlives its time by this much, as clocks differ; so it is in the real server.
_LEEWAY_SECONDS: Final = 60.0
_KEY_BYTES: Final = 32
_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
_HEADER: Final = {"alg": "HS256", "typ": "JWT"}

_encode: Final = msgspec.json.Encoder().encode


class BadTokenError(Exception):
    """The token is not accepted; the text says why, for a TokenReview."""


class _Ref(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str = ""
    uid: str = ""


class _Private(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str = ""
    serviceaccount: _Ref = _Ref()
    pod: _Ref | None = None


class _Claims(msgspec.Struct, frozen=True):
    aud: list[str]
    exp: int
    iat: int
    iss: str
    jti: str
    kubernetes: _Private = msgspec.field(name="kubernetes.io")
    nbf: int = 0
    sub: str = ""


_decode_claims: Final = msgspec.json.Decoder(_Claims).decode


def read_token_file(text: str, *, source: str = "token file") -> dict[str, User]:
    """Read kube-apiserver's `--token-auth-file`: lines of ``token,user,uid,"group1,group2"``; `ConfigError` if wrong.

    A later line overrides an earlier one with the same token; a line without a token is passed over.
    """
    tokens: dict[str, User] = {}
    try:
        rows = csv.reader(io.StringIO(text), strict=True)
        for row in rows:
            if not row:
                continue
            if len(row) < 3:
                raise ConfigError(
                    f"must have at least 3 columns (token, user name, user uid), found {len(row)}; "
                    f'write lines of token,user,uid,"group1,group2": line {rows.line_num}',
                    source=source,
                )
            if row[0]:
                groups = tuple(row[3].split(",")) if len(row) > 3 else ()
                tokens[row[0]] = with_authenticated(User(row[1], row[2], groups))
    except csv.Error as error:
        raise ConfigError(f"is not CSV: {error}", source=source) from error
    return tokens


class TokenIssuer:
    """Signs and checks the tokens of service accounts. `find` returns the present record of a kind, by key.

    `wall` tells seconds since the epoch.
    """

    def __init__(
        self, *, wall: Callable[[], float], rng: random.Random, find: Callable[[str, str], Record | None]
    ) -> None:
        self._wall = wall
        self._rng = rng
        self._find = find
        self._key = rng.randbytes(_KEY_BYTES)
        self._checked: dict[str, _Claims] = {}

    def issue(
        self, account: Record, *, expires_seconds: float, audiences: tuple[str, ...] = (), pod: Record | None = None
    ) -> str:
        """Return a token for a service account that ends in so many seconds."""
        now = self._wall()
        claims = _Claims(
            aud=list(audiences or (AUDIENCE,)),
            exp=int(now + expires_seconds),
            iat=int(now),
            iss=AUDIENCE,
            jti=new_uid(self._rng),
            kubernetes=_Private(
                account.namespace,
                _Ref(account.name, account.uid),
                _Ref(pod.name, pod.uid) if pod is not None else None,
            ),
            nbf=int(now),
            sub=account_user_name(account.namespace, account.name),
        )
        signed = f"{_text(_encode(_HEADER))}.{_text(_encode(claims))}"
        return f"{signed}.{self._signature(signed)}"

    def check(self, token: str, audiences: tuple[str, ...] = ()) -> tuple[User, tuple[str, ...]] | None:
        """Return the user and the matching audiences of a token, or None if this server did not issue it.

        Raise `BadTokenError` if it did, and the token is not valid or no longer valid.
        """
        claims = self._checked.get(token) or self._read(token)
        if claims is None:
            return None
        wanted = audiences or (AUDIENCE,)
        matching = tuple(one for one in wanted if one in claims.aud)
        if not matching:
            raise BadTokenError(
                f"token audiences {_quoted(claims.aud)} is invalid for the target audiences {_quoted(wanted)}"
            )
        now = self._wall()
        if now - _LEEWAY_SECONDS > claims.exp:
            raise BadTokenError("service account token has expired")
        if now + _LEEWAY_SECONDS < claims.nbf:
            raise BadTokenError("service account token is not valid yet")
        return self._user(claims), matching

    def _user(self, claims: _Claims) -> User:
        private = claims.kubernetes
        namespace, ref, pod = private.namespace, private.serviceaccount, private.pod
        account = self._find("serviceaccounts", f"{namespace}/{ref.name}")
        if account is None:
            raise BadTokenError(f'serviceaccounts "{ref.name}" not found')
        if account.uid != ref.uid:
            raise BadTokenError(f"service account UID ({account.uid}) does not match claim ({ref.uid})")
        extra = {_CREDENTIAL: (f"JTI={claims.jti}",)}
        if pod is not None:
            bound = self._find("pods", f"{namespace}/{pod.name}")
            if bound is None:
                raise BadTokenError("service account token has been invalidated")
            if bound.uid != pod.uid:
                raise BadTokenError(f"pod UID ({bound.uid}) does not match service account pod ref claim ({pod.uid})")
            extra |= {_POD_NAME: (pod.name,), _POD_UID: (pod.uid,)}
        user = User(claims.sub, account.uid, account_groups(namespace), extra)
        return with_authenticated(user)

    def _read(self, token: str) -> _Claims | None:
        signed, _, signature = token.rpartition(".")
        if not signed or not hmac.compare_digest(signature.encode(), self._signature(signed).encode()):
            return None
        claims = _decode_claims(_bytes(signed.partition(".")[2]))
        self._checked[token] = claims  # as many as were issued, and used
        return claims

    def _signature(self, signed: str) -> str:
        return _text(hmac.digest(self._key, signed.encode(), hashlib.sha256))


def _quoted(values: Iterable[str]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
