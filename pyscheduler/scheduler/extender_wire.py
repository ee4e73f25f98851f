"""Requests to an extender and its answers, as JSON of `k8s.io/kube-scheduler/extender/v1`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from kube_objects.meta import Wire
from pyscheduler.api import PySchedulerError, decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "ExtenderError",
    "FilterResult",
    "MetaVictims",
    "binding_args",
    "filter_args",
    "preemption_args",
    "read_binding_error",
    "read_filter_result",
    "read_node_list",
    "read_priorities",
    "read_victims",
]

_MAX_INT64: Final = 2**63 - 1
_NULL: Final = msgspec.Raw(b"null")
#: So many nodes are read before the loop turns.
_CHUNK: Final = 500


class ExtenderError(PySchedulerError):
    """Report that an extender failed: it gave no answer, one that cannot be read, or one that makes no sense."""


@attrs.frozen(kw_only=True)
class FilterResult:
    """The answer of an extender about the nodes of a filter request.

    Those that pass stand in one of two forms, None where it did not use it: their names, or whole `nodes` in JSON, for
    `read_node_list`.
    """

    node_names: Sequence[str] | None = None
    nodes: msgspec.Raw | bytes | None = None
    failed: Mapping[str, str] = attrs.Factory(dict)
    unresolvable: Mapping[str, str] = attrs.Factory(dict)
    error: str = ""


@attrs.frozen
class MetaVictims:
    """The uids of those who would have to go, and how many of them their disruption budgets protect."""

    uids: Sequence[str]
    pdb_violations: int = 0


# Questions


def filter_args(pod: bytes, *, names: Sequence[str] | None, nodes: Iterable[bytes]) -> list[bytes]:
    """Return `ExtenderArgs`, in pieces: `names` where the extender knows its nodes, else `nodes`, each in JSON."""
    if names is not None:
        return [b'{"Pod":', pod, b',"Nodes":null,"NodeNames":', msgspec.json.encode(names), b"}"]
    return [b'{"Pod":', pod, b',"Nodes":{"metadata":{},"items":[', *_separated(nodes), b']},"NodeNames":null}']


def preemption_args(pod: bytes, *, victims: Mapping[str, tuple[Sequence[bytes], int]], meta: bool) -> list[bytes]:
    """Return `ExtenderPreemptionArgs`: by node the victims and how many of them are protected.

    Victims are pods in JSON; with `meta`, for an extender that knows them, their uids.
    """
    unused, used = b"NodeNameToVictims", b"NodeNameToMetaVictims"
    if not meta:
        unused, used = used, unused
    pieces = [b'{"Pod":', pod, b',"', unused, b'":null,"', used, b'":{']
    for number, (node_name, (pods, violations)) in enumerate(victims.items()):
        pieces += [b"," if number else b"", msgspec.json.encode(node_name), b':{"Pods":[']
        pieces += _separated([b'{"UID":' + each + b"}" for each in pods] if meta else pods)
        pieces.append(b'],"NumPDBViolations":%d}' % violations)
    pieces.append(b"}}")
    return pieces


def binding_args(*, name: str, namespace: str, uid: str, node_name: str) -> list[bytes]:
    """Return `ExtenderBindingArgs`."""
    args = {"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node_name}
    return [msgspec.json.encode(args)]


def _separated(texts: Iterable[bytes]) -> list[bytes]:
    """Return the texts with commas between them."""
    pieces: list[bytes] = []
    for text in texts:
        pieces += (b",", text)
    return pieces[1:]


# Answers


def read_filter_result(body: bytes) -> FilterResult:
    """Read `ExtenderFilterResult`; raise `ExtenderError` for what is none."""
    what = "ExtenderFilterResult"
    fields = _object(body, what)
    return FilterResult(
        node_names=_texts(fields.get("nodenames"), f"{what}.NodeNames"),
        nodes=_unread(fields.get("nodes")),
        failed=_text_map(fields.get("failednodes"), f"{what}.FailedNodes"),
        unresolvable=_text_map(fields.get("failedandunresolvablenodes"), f"{what}.FailedAndUnresolvableNodes"),
        error=_text(_plain(fields.get("error")), f"{what}.Error"),
    )


def read_priorities(body: bytes) -> list[tuple[str, int]]:
    """Read `HostPriorityList`: hosts and their scores, which are any 64-bit integers; raise `ExtenderError`."""
    value = _plain(_first_value(body))
    if value is None:
        return []
    if not isinstance(value, list):
        raise _mismatch(value, "HostPriorityList")
    found = []
    for one in value:
        fields = _lowered({} if one is None else one, "HostPriority")
        host = _text(fields.get("host"), "HostPriority.Host")
        found.append((host, _int64(fields.get("score"), "HostPriority.Score")))
    return found


def read_victims(body: bytes) -> dict[str, MetaVictims | None]:
    """Read `ExtenderPreemptionResult`: by node the victims, None where it says null; raise `ExtenderError`."""
    what = "ExtenderPreemptionResult"
    value = _plain(_object(body, what).get("nodenametometavictims"))
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _mismatch(value, f"{what}.NodeNameToMetaVictims", "map[string]*v1.MetaVictims")
    return {name: None if one is None else _meta_victims(one) for name, one in value.items()}


def read_binding_error(body: bytes) -> str:
    """Read `ExtenderBindingResult`: its error, "" where the pod is bound; raise `ExtenderError`."""
    what = "ExtenderBindingResult"
    return _text(_plain(_object(body, what).get("error")), f"{what}.Error")


def _meta_victims(value: object) -> MetaVictims:
    fields = _lowered(value, "MetaVictims")
    pods = fields.get("pods")
    if pods is not None and not isinstance(pods, list):
        raise _mismatch(pods, "MetaVictims.Pods", "[]*v1.MetaPod")
    uids = [_text(_lowered({} if pod is None else pod, "MetaPod").get("uid"), "MetaPod.UID") for pod in pods or ()]
    return MetaVictims(uids, _int64(fields.get("numpdbviolations"), "MetaVictims.NumPDBViolations"))


class _ItemMetadata(Wire):
    name: str = ""


class _Item(Wire):
    metadata: _ItemMetadata = _ItemMetadata()


async def read_node_list(nodes: msgspec.Raw | bytes) -> list[str]:
    """Return the names of the nodes in a NodeList; raise `ExtenderError`.

    The rest of them, most of the answer, is skipped, step by step: megabytes are not to hold the loop.
    """
    field = "ExtenderFilterResult.Nodes"
    await asyncio.sleep(0)
    items = _unread(_object(nodes, field, "v1.NodeList").get("items"))
    if items is None:
        return []
    await asyncio.sleep(0)
    names: list[str] = []
    try:
        texts = msgspec.json.decode(items, type=list[msgspec.Raw])
        for start in range(0, len(texts), _CHUNK):
            await asyncio.sleep(0)
            names += [decode(_Item, bytes(one)).metadata.name for one in texts[start : start + _CHUNK]]
    except (msgspec.DecodeError, PySchedulerError) as error:
        raise ExtenderError(f"json: cannot unmarshal {field}: {error}") from error
    return names


def _unread(raw: msgspec.Raw | None) -> msgspec.Raw | None:
    """Return a JSON value as it stands; None for null."""
    return None if raw == _NULL else raw


# Go's reader


def _first_value(body: msgspec.Raw | bytes) -> bytes:
    """Return the first JSON value of `body`; raise `ExtenderError` where there is none that is whole."""
    body = bytes(body)
    if not body.isascii():
        body = body.decode(errors="replace").encode()
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return _first_value_of_many(body)
    return body


def _first_value_of_many(body: bytes) -> bytes:
    text = body.decode(errors="replace").lstrip(" \t\r\n")
    if not text:
        raise ExtenderError("EOF")
    try:
        value, _ = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode(text)
        return msgspec.json.encode(value)
    except json.JSONDecodeError as error:
        raise ExtenderError(_syntax_error(error, text)) from error
    except (RecursionError, ValueError, OverflowError) as error:
        raise ExtenderError("json: cannot unmarshal: exceeded max depth, or a number out of range") from error


def _refuse_constant(text: str) -> Any:
    raise json.JSONDecodeError("Expecting value", text, 0)


def _syntax_error(error: json.JSONDecodeError, text: str) -> str:
    """Return what is wrong with a text, in Go's words."""
    if error.pos >= len(text) or error.msg.startswith("Unterminated string"):
        return "unexpected EOF"
    found = json.dumps(error.doc[error.pos], ensure_ascii=False)[1:-1]
    for ours, theirs in _SYNTAX:
        if error.msg.startswith(ours):
            return f"invalid character '{found}' {theirs}"
    return f"invalid character '{found}' in string literal"


_SYNTAX: Final = (
    ("Expecting value", "looking for beginning of value"),
    ("Expecting property name", "looking for beginning of object key string"),
    ("Illegal trailing comma", "looking for beginning of object key string"),
    ("Expecting ':'", "after object key"),
    ("Expecting ','", "after object key:value pair"),
)


def _object(body: msgspec.Raw | bytes, what: str, go_type: str = "") -> dict[str, msgspec.Raw]:
    """Return the fields of a JSON object, their names in lower case; none for null."""
    try:
        # Almost always it is one, and to look at it once is enough.
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw] | None)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = _first_value(body)
        try:
            fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw] | None)
        except msgspec.DecodeError as error:
            raise _mismatch(_plain(text), what, go_type) from error
    return {name.lower(): raw for name, raw in (fields or {}).items()}


def _plain(raw: msgspec.Raw | bytes | None) -> Any:
    """Return a JSON value as Python's own; what in it is no UTF-8 is replaced, as Go does, not refused."""
    if raw is None:
        return None
    try:
        try:
            return msgspec.json.decode(raw)
        except (UnicodeDecodeError, msgspec.DecodeError):  # the latter since msgspec 0.23
            return msgspec.json.decode(bytes(raw).decode(errors="replace"))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ExtenderError(f"invalid JSON: {error}") from error


def _lowered(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _mismatch(value, what)
    return {name.lower(): inner for name, inner in value.items()}


def _text(value: object, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _mismatch(value, field, "string")
    return value


def _texts(raw: msgspec.Raw | None, field: str) -> list[str] | None:
    value = _plain(raw)
    if value is None:
        return None
    if not isinstance(value, list):
        raise _mismatch(value, field, "[]string")
    return [_text(one, field) for one in value]


def _text_map(raw: msgspec.Raw | None, field: str) -> dict[str, str]:
    value = _plain(raw)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _mismatch(value, field, "v1.FailedNodesMap")
    return {name: _text(one, field) for name, one in value.items()}


def _int64(value: object, field: str) -> int:
    if value is None:
        return 0
    if type(value) is not int or not -_MAX_INT64 - 1 <= value <= _MAX_INT64:
        raise _mismatch(value, field, "int64")
    return value


def _mismatch(value: object, what: str, go_type: str = "") -> ExtenderError:
    """Return the error for a value of the wrong kind, in Go's words: for a field (`Type.Field`) or the whole answer."""
    match value:
        case bool():
            found = "bool"
        case int() | float():
            found = f"number {value}" if go_type == "int64" else "number"
        case str():
            found = "string"
        case dict():
            found = "object"
        case _:
            found = "array"
    if "." in what:
        return ExtenderError(f"json: cannot unmarshal {found} into Go struct field {what} of type {go_type}")
    return ExtenderError(f"json: cannot unmarshal {found} into Go value of type v1.{what}")
