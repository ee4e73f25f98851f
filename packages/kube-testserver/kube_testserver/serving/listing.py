"""Answer list requests (GET of a collection) with one list, or with pages.

All pages show the objects as they were when the first page was read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_testserver import errors
from kube_testserver.errors import FieldProblem
from kube_testserver.serving.selectors import compile_selection
from kube_testserver.store import ExpiredVersionError, Page, Record, decode, encode
from kube_testserver.wire import go_json_error, is_true

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_testserver.registry import Registry
    from kube_testserver.resources.table import Resource

__all__ = ["ListOptions", "Listing", "list_page", "read_list_options", "render_list"]

_FORMAT: Final = "meta.k8s.io/v1"


class ListOptions(msgspec.Struct, frozen=True):
    """The query of a list or watch, read. `version` None: not given. `matches` None: everything."""

    matches: Callable[[Record], bool] | None = None
    limit: int = 0
    continue_token: str = ""
    version: int | None = None
    version_match: str = ""
    timeout_seconds: float | None = None
    bookmarks: bool = False
    initial_events: bool | None = None
    include_object: str = "Metadata"


class Listing(msgspec.Struct, frozen=True):
    """A page, and the token that leads to the next one (empty on the last)."""

    page: Page
    continue_token: str = ""
    remaining: int | None = None


def read_list_options(resource: Resource, query: Mapping[str, str]) -> ListOptions:
    """Read the query of a list or watch; refuse (400, 422) what contradicts itself."""
    get = query.get
    version = get("resourceVersion", "")
    initial = get("sendInitialEvents")
    options = ListOptions(
        matches=compile_selection(resource, get("labelSelector", ""), get("fieldSelector", "")),
        limit=_integer("limit", get("limit", "")) or 0,
        continue_token=get("continue", ""),
        version=_integer("resourceVersion", version) if version else None,
        version_match=get("resourceVersionMatch", ""),
        timeout_seconds=_integer("timeoutSeconds", get("timeoutSeconds", "")) or None,
        bookmarks=is_true(get("allowWatchBookmarks", "")),
        initial_events=is_true(initial) if initial else None,
        include_object=get("includeObject") or "Metadata",
    )
    _check_options(options, watch=is_true(get("watch", "")))
    return options


def _integer(name: str, text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise errors.bad_request(
            f'{name}: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def _check_options(options: ListOptions, *, watch: bool) -> None:
    match = options.version_match
    forbidden = FieldProblem.forbidden
    problems: list[FieldProblem] = []
    if watch and options.initial_events is not None and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        problems.append(forbidden("resourceVersionMatch", why))
    if not watch and options.initial_events is not None:
        problems.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if match:
        if watch and options.initial_events is None:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            problems.append(forbidden("resourceVersionMatch", why))
        if not watch and options.version is None:
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            problems.append(forbidden("resourceVersionMatch", why))
        if options.continue_token:
            why = "resourceVersionMatch is forbidden when continue is provided"
            problems.append(forbidden("resourceVersionMatch", why))
        known = ["NotOlderThan"] if watch else ["Exact", "NotOlderThan", ""]
        if match not in known:
            problems.append(FieldProblem.unsupported("resourceVersionMatch", match, known))
        if match == "Exact" and options.version == 0:
            why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            problems.append(forbidden("resourceVersionMatch", why))
    if problems:
        raise errors.invalid("meta.k8s.io", "ListOptions", "", problems)


def list_page(registry: Registry, resource: Resource, namespace: str, options: ListOptions) -> Listing:
    """Return one page of a list; refuse (410) a version that is forgotten, (504) one that is yet to come."""
    prefix = f"{namespace}/" if namespace else ""
    start, version = "", 0
    current = registry.store.version
    if options.continue_token:
        start, version = _read_token(options.continue_token, prefix)
        version = max(version, 0)  # -1: go on with what is there now
    elif options.version is not None and options.version > current:
        raise errors.too_large_version(options.version, current)
    elif options.version_match == "Exact":
        version = options.version or 0
    try:
        page = registry.collection(resource).page(
            prefix=prefix, start=start, limit=options.limit, version=version, matches=options.matches
        )
    except ExpiredVersionError as error:
        if options.continue_token:
            token = _write_token(-1, start, prefix)
            raise errors.expired(errors.CONTINUE_EXPIRED, continue_token=token) from error
        raise errors.expired(errors.LIST_EXPIRED) from error
    if not page.remaining:
        return Listing(page)
    token = _write_token(page.version, page.records[-1].key + "\0", prefix)
    # The number behind the page is only exact when nothing is filtered out of it.
    return Listing(page, token, page.remaining if options.matches is None else None)


def render_list(registry: Registry, resource: Resource, listing: Listing) -> bytes:
    """Return a page as a List object."""
    metadata = list_metadata(listing)
    head = (
        f'{{"kind":"{resource.list_kind}","apiVersion":"{resource.api_version}","metadata":'.encode()
        + encode(metadata)
        + b',"items":['
    )
    records = listing.page.records
    if resource.custom:  # items of custom resources say what they are, the built-in ones do not
        items = [registry.render(resource, record) for record in records]
    elif resource.from_stored is None:
        items = [record.body for record in records]
    else:
        items = [registry.render_bare(resource, record) for record in records]
    return head + b",".join(items) + b"]}"


def list_metadata(listing: Listing) -> dict[str, Any]:
    """Return the metadata of a list."""
    metadata: dict[str, Any] = {"resourceVersion": str(listing.page.version)}
    if listing.continue_token:
        metadata["continue"] = listing.continue_token
        if listing.remaining is not None:
            metadata["remainingItemCount"] = listing.remaining
    return metadata


def _write_token(version: int, key: str, prefix: str) -> str:
    """Make a token; within a namespace the key loses the namespace but keeps the slash."""
    start = key.removeprefix(prefix.rstrip("/")) if prefix else key
    token = encode({"v": _FORMAT, "rv": version, "start": start})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _read_token(token: str, prefix: str) -> tuple[str, int]:
    """Return the key and version of a token; refuse (400) what is none."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise _bad_token("illegal base64 data at input byte 0") from error
    try:
        content: Any = decode(raw)
    except ValueError as error:
        raise _bad_token(go_json_error(raw)) from error
    known = content if isinstance(content, dict) and content.get("v") == _FORMAT else {}
    version, start = known.get("rv"), known.get("start")
    if not isinstance(version, int) or not version or not isinstance(start, str) or not start:
        raise _bad_token("server does not recognize this encoded version")
    return prefix + start.removeprefix("/"), version


def _bad_token(why: str) -> errors.StatusError:
    return errors.bad_request(f"invalid continue token: continue key is not valid: {why}")
