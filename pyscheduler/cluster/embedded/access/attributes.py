"""What a request is about, as authorization sees it: read from method, path and query alone, before anything is done.

A path below /api and /apis is about a resource even where nothing of that name is served: who may not ask is not told
what there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from pyscheduler.api.errors import SelectorError
from pyscheduler.api.selector_text import parse_field_selector
from pyscheduler.cluster.embedded.listing import is_true

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Attributes", "attributes_of"]

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_VERBS_IN_PATHS: Final = frozenset({"proxy", "watch"})
_OF_NAMESPACES: Final = frozenset({"status", "finalize"})


class Attributes(msgspec.Struct, frozen=True, gc=False):
    """One thing somebody wants to do: a verb on a resource, or (`resource` empty) on a path."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def combined(self) -> str:
        """Return resource and subresource as rules and messages write them."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """Return what a request is about."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return Attributes(method.lower(), path)
    verb = _VERBS.get(method, "")
    if rest[0] in _VERBS_IN_PATHS and len(rest) > 1:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 and verb != "proxy" else ""
    if not name and verb == "get":
        verb = "watch" if is_true(query.get("watch", "")) else "list"
        name = _selected_name(query.get("fieldSelector", ""))
    elif not name and verb == "delete":
        verb = "deletecollection"
    return Attributes(verb, path, group, rest[0], subresource, namespace, name)


def _selected_name(field_selector: str) -> str:
    """Return the one name that a list or watch is restricted to, so that a rule with resource names can allow it."""
    if not field_selector:
        return ""
    try:
        selector = parse_field_selector(field_selector)
    except SelectorError:
        return ""
    for one in selector.requirements:
        if one.field == "metadata.name" and not one.negated:
            return one.value if one.value not in (".", "..") and not set("/%") & set(one.value) else ""
    return ""
