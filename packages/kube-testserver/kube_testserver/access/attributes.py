"""The attributes by which a request is allowed or refused: verb, resource, namespace, name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kube_objects.errors import SelectorError
from kube_objects.selector_text import parse_field_selector
from kube_testserver import errors
from kube_testserver.requests import split_path
from kube_testserver.wire import is_true

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Attributes", "attributes_of", "not_authorized"]

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


class Attributes(msgspec.Struct, frozen=True, gc=False):
    """The action of a request: a verb on a resource, or (`resource` empty) on a path."""

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
    where = split_path(path)
    if where is None:
        return Attributes(method.lower(), path)
    verb, name = _VERBS.get(method, ""), where.name
    if not name and verb == "get":
        verb = "watch" if is_true(query.get("watch", "")) else "list"
        name = _selected_name(query.get("fieldSelector", ""))
    elif not name and verb == "delete":
        verb = "deletecollection"
    namespace = where.name if where.plural == "namespaces" else where.namespace
    return Attributes(verb, path, where.group, where.plural, where.subresource, namespace, name)


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


def not_authorized(user_name: str, asked: Attributes, reason: str) -> errors.StatusError:
    """403: the user may not do what they ask for; `reason` is what the authorizer adds to that."""
    who, verb = f'User "{user_name}"', asked.verb
    if asked.resource:
        where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
        why = f'{who} cannot {verb} resource "{asked.combined}" in API group "{asked.group}" {where}'
    else:
        why = f'{who} cannot {verb} path "{asked.path}"'
    for character, harmless in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):  # a browser must not read it as HTML
        why = why.replace(character, harmless)
    if reason:
        why = f"{why}: {reason}"
    if not asked.resource:  # a refusal of nothing in particular begins with nothing, and says so
        return errors.StatusError(f"forbidden: {why}", code=403, reason="Forbidden", details={})
    return errors.forbidden(asked.group, asked.resource, asked.name, why)
