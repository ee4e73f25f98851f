"""Find unknown fields, report them with kube-apiserver's messages, and drop them.

The parameter ``fieldValidation`` of a request chooses a warning (``Warn``, the default), an error (``Strict``), or
neither (``Ignore``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_testserver import errors
from kube_testserver.schema.kinds import METADATA, definitions, item_of, resolved, value_of
from kube_testserver.wire import warning_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kube_testserver.schema.kinds import Node

__all__ = ["FieldCheck", "field_check", "prune"]

_MODES: Final = ("", "Ignore", "Strict", "Warn")
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_ALWAYS: Final = ("apiVersion", "kind", "metadata")


@attrs.define
class FieldCheck:
    """The settings of one write for fields: what to do about unknown ones, and the manager that sets the others.

    `strict` refuses, otherwise `warnings` collects what the client is to be told. `patch` is the text of a patch, whose
    refusal looks different. `manager` owns what changes, unless `managed` says already who owns what.
    """

    strict: bool = False
    silent: bool = False
    patch: str | None = None
    manager: str = ""
    managed: list[dict[str, Any]] | None = None
    warnings: list[str] = attrs.Factory(list)

    def tell(self, problems: Iterable[str], *, kind: str, version: str) -> None:
        """Take note of problems, or refuse them (400; 422 in a patch)."""
        found = list(dict.fromkeys(problems))
        if not found or self.silent:
            return
        if not self.strict:
            self.warnings += [one for one in found if one not in self.warnings]
            return
        words = f"strict decoding error: {', '.join(found)}"
        if self.patch is None:
            raise errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {words}')
        problem = errors.FieldProblem.invalid("patch", self.patch, words)
        raise errors.invalid("", "", "", [problem])

    def headers(self) -> dict[str, str]:
        """Return the headers by which a client is warned."""
        if not self.warnings:
            return {}
        return {"warning": warning_header(self.warnings)}


def field_check(query: Mapping[str, str], options_kind: str) -> FieldCheck:
    """Read how a request wants unknown fields treated; refuse (422) any other value."""
    mode = query.get("fieldValidation", "")
    if mode not in _MODES:
        problem = errors.FieldProblem.unsupported("fieldValidation", mode, _MODES)
        raise errors.invalid("meta.k8s.io", options_kind, "", [problem])
    return FieldCheck(strict=mode == "Strict", silent=mode == "Ignore", manager=query.get("fieldManager", ""))


def prune(obj: dict[str, Any], schema: Node, *, custom: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Return an object without what its schema does not know, and the paths of what was dropped.

    Of a built-in kind, absent values (null) that Go writes as nothing are dropped too, silently. The schema of a
    `custom` resource has to say where anything may stand. `obj` is left as it is.
    """
    unknown: list[str] = []
    root = resolved(schema)
    known = {**{name: {} for name in _ALWAYS}, **root.get("properties", {})}
    known["metadata"] = definitions()[METADATA]
    pruned = {}
    for name, value in obj.items():
        if name not in known:
            if root.get(_PRESERVE):
                pruned[name] = value
            else:
                unknown.append(name)
        elif value is not None or custom:
            pruned[name] = (
                value if name in ("apiVersion", "kind") else _pruned(value, known[name], name, unknown, custom)
            )
    return pruned, [f'unknown field "{path}"' for path in unknown]


def _pruned(value: Any, node: Node, path: str, unknown: list[str], custom: bool) -> Any:
    node = resolved(node)
    if isinstance(value, dict):
        properties, values = node.get("properties"), value_of(node)
        free = node.get(_PRESERVE) or node.get(_EMBEDDED) or (properties is None and values is None and not custom)
        kept = {}
        for name, inner in value.items():
            known = (properties or {}).get(name) or values
            where = f"{path}.{name}"
            if known is None and not free:
                unknown.append(where)
            elif inner is None and not custom and known is not None and not _keeps_null(known):
                continue
            else:
                kept[name] = inner if known is None else _pruned(inner, known, where, unknown, custom)
        return kept
    if isinstance(value, list) and "items" in node:
        items = item_of(node)
        return [_pruned(inner, items, f"{path}[{index}]", unknown, custom) for index, inner in enumerate(value)]
    return value


def _keeps_null(node: Node) -> bool:
    """Return True if Go writes an absent value of this kind as null: a time, or anything at all."""
    node = resolved(node)
    return node.get("format") == "date-time" or "type" not in node
