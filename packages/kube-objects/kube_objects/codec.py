"""Decode JSON into Kubernetes objects, lists and watch events, and encode objects as JSON.

msgspec decodes the bytes straight into the typed objects. Two problems need a second, slower attempt:

- Go writes a nil list, map or pointer as ``null``. The object is then decoded without its nulls.
- An object in a list is malformed. The list is then decoded item by item, and this object becomes a `Malformed`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from kube_objects.errors import DecodeError
from kube_objects.meta import APIStatus, KubeObject, ListMeta, Wire

T = TypeVar("T", bound=Wire)
Keep: TypeAlias = Callable[[KubeObject, bytes], object]
"""Takes an object and the text that it was decoded from."""
K = TypeVar("K", bound=KubeObject)

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"
"""Only the object's resource version means anything."""
ERROR: Final = "ERROR"
"""The object is an `APIStatus`; the stream ends."""


_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_WITH_KIND: Final = (KubeObject, APIStatus)

_NULL: Final = msgspec.Raw(b"null")


class Malformed(msgspec.Struct, frozen=True):
    """An object that could not be decoded: what it is, as far as it says, and why it could not.

    `scheduler_name` and `node_name` are those of a pod: they say whom its trouble concerns.
    """

    namespace: str
    name: str
    resource_version: str
    error: str
    uid: str = ""
    scheduler_name: str = ""
    node_name: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``, or the bare name, empty when not even that could be read."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ListPage(msgspec.Struct, Generic[K], frozen=True):
    """A page of a list; watch on from `resource_version`, go on with `continue_token` while there is one."""

    items: list[K]
    malformed: tuple[Malformed, ...] = ()
    resource_version: str = ""
    continue_token: str = ""
    remaining: int | None = None


class WatchEvent(msgspec.Struct, Generic[K], frozen=True):
    """One line of a watch; an `ERROR` carries a status, a line with an unreadable object what is known of it."""

    type: str
    object: K | APIStatus | Malformed


class _List(msgspec.Struct, Generic[T], frozen=True, gc=False):
    items: list[T]
    metadata: ListMeta = ListMeta()


class _RawList(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None
    metadata: msgspec.Raw = _NULL


class _Line(msgspec.Struct, Generic[T], frozen=True, gc=False):
    type: str
    object: T


class _RawLine(msgspec.Struct, frozen=True):
    type: str = ""
    object: msgspec.Raw = _NULL


class _Names(Wire):
    name: Any = None
    namespace: Any = None
    resource_version: Any = None
    uid: Any = None


class _Identity(Wire):
    metadata: _Names = _Names()
    spec: Any = None


def decode(cls: type[T], data: bytes) -> T:
    """Return the object that `data` holds; raise `DecodeError` naming the field that is wrong.

    Works for any wire type, `APIStatus` included.
    """
    try:
        decoded: T = _decoder(cls).decode(data)
    except _UNREADABLE as error:
        return _without_nulls(cls, data, error)
    return decoded


def both(first: Keep | None, second: Keep) -> Keep:
    """Return what hands each object and its text to both."""
    if first is None:
        return second

    def keep(item: KubeObject, text: bytes) -> None:
        first(item, text)
        second(item, text)

    return keep


def decode_list(cls: type[K], data: bytes, keep: Keep | None = None) -> ListPage[K]:
    """Return the page that `data` holds; raise `DecodeError` if `data` is not a list at all.

    `keep` is handed each object with its whole text, fields that are not declared included; that takes longer.
    """
    if keep is not None:
        return _list_item_by_item(cls, data, DecodeError("no list"), keep)
    try:
        page = _list_decoder(cls).decode(data)
    except _UNREADABLE as error:
        return _list_item_by_item(cls, data, error)
    return _page(page.items, (), page.metadata)


def decode_event(cls: type[K], line: bytes, keep: Keep | None = None) -> WatchEvent[K]:
    """Return the event that a line of a watch holds; raise `DecodeError` if it is not an event at all.

    `keep` as in `decode_list`.
    """
    if keep is not None:
        return _event_in_two_steps(cls, line, None, keep)
    try:
        event = _line_decoder(cls).decode(line)
    except _UNREADABLE as error:
        return _event_in_two_steps(cls, line, error)
    if event.type == ERROR:  # the status happened to look like an object of this kind
        return _event_in_two_steps(cls, line, None)
    return WatchEvent(event.type, event.object)


def encode(value: Wire) -> bytes:
    """Return the JSON of `value`, defaults left out; kinds begin with ``apiVersion`` and ``kind``."""
    body = msgspec.json.encode(value)
    if not isinstance(value, _WITH_KIND):
        return body
    head = _head(type(value))
    return head + b"}" if body == b"{}" else head + b"," + body[1:]


@cache
def _head(cls: type[KubeObject | APIStatus]) -> bytes:
    return f'{{"apiVersion":"{cls.api_version}","kind":"{cls.kind}"'.encode()


@cache
def _decoder(cls: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(cls)


@cache
def _list_decoder(cls: type[T]) -> msgspec.json.Decoder[_List[T]]:
    return msgspec.json.Decoder(_List[cls])  # type: ignore[valid-type]  # a class in a variable is beyond mypy


@cache
def _line_decoder(cls: type[T]) -> msgspec.json.Decoder[_Line[T]]:
    return msgspec.json.Decoder(_Line[cls])  # type: ignore[valid-type]  # a class in a variable is beyond mypy


def _without_nulls(cls: type[T], data: bytes, error: Exception) -> T:
    """Decode with every null taken for the default; report `error` when that was not the trouble."""
    try:
        return msgspec.convert(strip_nulls(msgspec.json.decode(data)), cls)
    except msgspec.ValidationError as second:
        # The first error may be about a null; this one is about what is really wrong.
        raise DecodeError(f"{_what(cls)}: {second}") from second
    except _UNREADABLE:
        raise DecodeError(f"{_what(cls)}: {error}") from error


def strip_nulls(value: Any) -> Any:
    """Return JSON data without the entries of maps that are null."""
    if isinstance(value, dict):
        return {key: strip_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [strip_nulls(inner) for inner in value]
    return value


def _list_item_by_item(cls: type[K], data: bytes, error: Exception, keep: Keep | None = None) -> ListPage[K]:
    try:
        raw = msgspec.json.decode(data, type=_RawList)
        metadata = ListMeta() if raw.metadata == _NULL else decode(ListMeta, bytes(raw.metadata))
    except (*_UNREADABLE, DecodeError):
        raise DecodeError(f"list of {_what(cls)}: {error}") from error
    items: list[K] = []
    malformed: list[Malformed] = []
    for item in raw.items or ():
        text = bytes(item)
        try:
            items.append(decode(cls, text))
        except DecodeError as failure:
            malformed.append(_describe(text, failure))
            continue
        if keep is not None:
            keep(items[-1], text)
    return _page(items, tuple(malformed), metadata)


def _event_in_two_steps(cls: type[K], line: bytes, error: Exception | None, keep: Keep | None = None) -> WatchEvent[K]:
    try:
        raw = msgspec.json.decode(line, type=_RawLine)
    except _UNREADABLE as second:
        raise DecodeError(f"watch of {_what(cls)}: {error or second}") from second
    if not raw.type:
        raise DecodeError(f"watch of {_what(cls)}: a line without a type")
    payload = bytes(raw.object)
    if raw.type == ERROR:
        return WatchEvent(raw.type, decode(APIStatus, payload))
    try:
        item = decode(cls, payload)
    except DecodeError as failure:
        return WatchEvent(raw.type, _describe(payload, failure))
    if keep is not None and raw.type not in {BOOKMARK, DELETED}:
        keep(item, payload)
    return WatchEvent(raw.type, item)


def _describe(data: bytes, failure: DecodeError) -> Malformed:
    try:
        identity = decode(_Identity, data)
    except DecodeError:
        identity = _Identity()
    names = identity.metadata
    spec = identity.spec if isinstance(identity.spec, dict) else {}
    return Malformed(
        namespace=_text(names.namespace),
        name=_text(names.name),
        resource_version=_text(names.resource_version),
        error=str(failure),
        uid=_text(names.uid),
        scheduler_name=_text(spec.get("schedulerName")),
        node_name=_text(spec.get("nodeName")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _page(items: list[K], malformed: tuple[Malformed, ...], metadata: ListMeta) -> ListPage[K]:
    return ListPage(items, malformed, metadata.resource_version, metadata.continue_, metadata.remaining_item_count)


def _what(cls: type) -> str:
    return getattr(cls, "kind", "") or cls.__name__
