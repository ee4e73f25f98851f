"""Validation of Secrets: names of keys, size, the keys that a type requires, and fields that may not change.

Source: Kubernetes 1.36, `ValidateSecret` and `ValidateSecretUpdate` in `pkg/apis/core/validation`.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final

from kube_testserver.errors import FieldProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_testserver.store import Object

__all__ = ["secret_problems"]

_MAX_BYTES: Final = 1024 * 1024
_MAX_KEY_LENGTH: Final = 253
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
_REQUIRED_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_LOGIN_KEYS: Final = ("username", "password")


def secret_problems(old: Object | None, new: Object) -> Iterator[FieldProblem]:
    """Yield what is wrong with a new secret, or with a change of `old`."""
    if old is not None:
        yield from _change_problems(old, new)
    data: dict[str, str] = new.get("data") or {}
    for key in data:
        for rule in _key_problems(key):
            yield FieldProblem.invalid(f"data[{key}]", key, rule)
    if sum(len(base64.b64decode(value)) for value in data.values()) > _MAX_BYTES:
        yield FieldProblem("data", "FieldValueTooLong", f"Too long: may not be more than {_MAX_BYTES} bytes")
    kind = new.get("type") or "Opaque"
    if kind == "kubernetes.io/service-account-token":
        if not (new["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME):
            yield FieldProblem.required(f"metadata.annotations[{_ACCOUNT_NAME}]")
    elif kind == "kubernetes.io/basic-auth" and not any(key in data for key in _LOGIN_KEYS):
        yield from (FieldProblem.required(f"data[{key}]") for key in _LOGIN_KEYS)
    for key in _REQUIRED_KEYS.get(kind, ()):
        if key not in data or (key == "ssh-privatekey" and not data[key]):
            yield FieldProblem.required(f"data[{key}]")


def _change_problems(old: Object, new: Object) -> Iterator[FieldProblem]:
    if new.get("type") != old.get("type"):
        yield FieldProblem.invalid("type", new.get("type"), "field is immutable")
    if not old.get("immutable"):
        return
    why = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield FieldProblem.forbidden("immutable", why)
    if (new.get("data") or {}) != (old.get("data") or {}):
        yield FieldProblem.forbidden("data", why)


def _key_problems(key: str) -> Iterator[str]:
    if len(key.encode()) > _MAX_KEY_LENGTH:
        yield f"must be no more than {_MAX_KEY_LENGTH} bytes"
    if _KEY.fullmatch(key) is None:
        yield _KEY_RULE
    if key in (".", ".."):
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"
