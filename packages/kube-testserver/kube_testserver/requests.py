"""A request, over HTTP or in process, and the parts of its path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from kube_testserver.access.users import User

__all__ = ["Impersonation", "Request", "ResourcePath", "split_path"]

#: Subresources of a namespace: what follows the name of a namespace, and is no resource in it.
_OF_NAMESPACES: Final = frozenset({"status", "finalize"})


class Impersonation(msgspec.Struct, frozen=True):
    """The user that a request wants to be made for (kubectl's `--as`); `groups` empty: those the name implies."""

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, str], ...] = ()


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request as the router sees it; `host` is the name under which the client reached the server.

    `authorization` and `impersonate` are what its headers say about who asks; `user` is who it is, where that is known
    without them.
    """

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = "application/json"
    accept: str = ""
    host: str = ""
    authorization: str = ""
    impersonate: Impersonation | None = None
    user: User | None = None


class ResourcePath(NamedTuple):
    """The parts of a path; a part that the path does not have is empty. `rest` is what follows a subresource."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str
    subresource: str
    rest: list[str]


def split_path(path: str) -> ResourcePath | None:
    """Return the parts of ``/api/VERSION/...`` or ``/apis/GROUP/VERSION/...``, or None for any other path."""
    root, *parts = path.strip("/").split("/")
    if root == "api":
        parts.insert(0, "")
    elif root != "apis":
        return None
    if len(parts) < 3:
        return None
    group, version, plural, *rest = parts
    namespace = ""
    if plural == "namespaces" and len(rest) > 1 and rest[1] not in _OF_NAMESPACES:
        namespace, plural, *rest = rest
    name = rest.pop(0) if rest else ""
    subresource = rest.pop(0) if rest else ""
    return ResourcePath(group, version, namespace, plural, name, subresource, rest)
