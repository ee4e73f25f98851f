"""Answer API requests: the HTTP server and the in-process client both call `Router.handle`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kube_objects.http import Response
from kube_testserver import errors
from kube_testserver.access.attributes import attributes_of
from kube_testserver.access.authorizer import RbacAuthorizer
from kube_testserver.access.reviews import REVIEWS, request_token, review
from kube_testserver.manifests import decode_yaml
from kube_testserver.patching.requests import apply_patch, patched_scale, read_patch_options
from kube_testserver.printing.tables import make_table, partial_metadata
from kube_testserver.protobuf import PROTOBUF, BadProtobufError, UnknownKindError, decode_protobuf
from kube_testserver.requests import ResourcePath, split_path
from kube_testserver.resources.devices import DEVICE_GROUP
from kube_testserver.resources.rbac import RBAC_GROUP
from kube_testserver.resources.scale import scale_of, with_scale
from kube_testserver.resources.table import Resource, ScalePaths
from kube_testserver.rules.admission_requests import AdmissionRequest
from kube_testserver.rules.deletion import read_options
from kube_testserver.schema.unknown_fields import FieldCheck, field_check
from kube_testserver.serving import discovery, openapi
from kube_testserver.serving.accept import Form, accepted_form
from kube_testserver.serving.listing import (
    ListOptions,
    list_metadata,
    list_page,
    read_list_options,
    render_list,
)
from kube_testserver.serving.watching import WatchStream, WatchView, event_line
from kube_testserver.serving.webhooks.run import AdmissionRun, has_webhooks
from kube_testserver.store import ExpiredVersionError, encode
from kube_testserver.subresources import binding, eviction
from kube_testserver.wire import decode_body, is_true

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kube_objects.clock import Clock
    from kube_testserver.access.gate import AccessGate
    from kube_testserver.registry import Registry
    from kube_testserver.requests import Request
    from kube_testserver.serving.faults import Faults
    from kube_testserver.store import Object, Record

__all__ = ["Router", "Target", "UnansweredError"]

_JSON_HEADERS: Final = {"content-type": "application/json"}
_TEXT_HEADERS: Final = {"content-type": "text/plain; charset=utf-8"}
_SHORTEST_WATCH_SECONDS: Final = 1800.0
_GOLDEN_RATIO: Final = 0.618034
_HEALTH_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz"})
_READS: Final = frozenset({"GET", "HEAD"})
_YAML_TYPES: Final = frozenset({"application/yaml", "application/apply-patch+yaml"})
_WHOLE_SUBRESOURCES: Final = frozenset({"status", "resize", "finalize"})
#: Groups in which a write is checked against the rights of its user.
_GUARDED: Final = frozenset({RBAC_GROUP, DEVICE_GROUP})
_INITIAL_EVENTS_END: Final = b',"annotations":{"k8s.io/initial-events-end":"true"}'


class Target(msgspec.Struct, frozen=True, gc=False):
    """The target of a path; an empty name is the collection, an empty namespace all of them."""

    resource: Resource
    namespace: str
    name: str
    subresource: str


class UnansweredError(Exception):
    """The connection is to be cut instead of answering: a fault says so."""


class Router:
    """Answers requests from a registry. `faults` None: nothing goes wrong on purpose. /version names the `release`."""

    def __init__(
        self,
        registry: Registry,
        *,
        clock: Clock,
        gate: AccessGate,
        faults: Faults | None = None,
        release: str = discovery.RELEASE,
    ) -> None:
        self.registry = registry
        self.faults = faults
        self.gate = gate
        self._clock = clock
        self._version = discovery.version(release)
        self._openapi = openapi.Documents(registry.table)
        #: Seconds between the bookmarks of a watch.
        self.bookmark_seconds = 60.0
        self._opened = 0
        self._streams: dict[int, tuple[str, WatchStream]] = {}

    async def handle(self, request: Request) -> Response | WatchStream:
        """Answer a request, after whatever the faults have in store for it (`UnansweredError`: cut the connection)."""
        fault = self.faults.choose(request.method, request.path) if self.faults is not None else None
        if fault is None:
            return await self._answer(request)
        if fault.delay_seconds:
            await self._clock.sleep(fault.delay_seconds)
        if fault.lose == "request":
            raise UnansweredError
        if fault.status:
            return refusal(fault.response_error(request.path))
        answer = await self._answer(request)
        if fault.lose == "answer":
            raise UnansweredError
        return answer

    async def _answer(self, request: Request) -> Response | WatchStream:
        """Answer a request; wait for webhooks if any is configured."""
        if request.method in _READS or not has_webhooks(self.registry):
            return self.answer(request)
        run = AdmissionRun(self.registry, request.query)
        try:
            return await run.answer(lambda: self.answer(request, run))
        except errors.StatusError as error:
            return refusal(error)

    def answer(self, request: Request, run: AdmissionRun | None = None) -> Response | WatchStream:
        """Answer a request at once; with a `run`, only if it has the answers of all webhooks."""
        try:
            if self.gate.closed:
                request = msgspec.structs.replace(request, user=self.gate.admit(request))
            if run is not None:
                run.user = self.gate.identify(request)
            target = self._locate(request.path)
            if target is None:
                return self._answer_without_resource(request)
            return self._answer_resource(request, target)
        except errors.StatusError as error:
            return refusal(error)

    def drop_watches(self, path: str = "", *, how: str = "end") -> int:
        """End the open watches whose path contains `path`: ``end`` them, ``cut`` them, or cut ``within`` a line.

        Return how many there were.
        """
        chosen = [stream for where, stream in self._streams.values() if path in where]
        for stream in chosen:
            if how == "end":
                stream.end()
            else:
                stream.cut(within_line=how == "within")
        return len(chosen)

    # --- paths -----------------------------------------------------------------------------------

    def _locate(self, path: str) -> Target | None:
        """Return what a path is about, or None outside the served resources; refuse (404) what no resource has."""
        where, table = split_path(path), self.registry.table
        if where is None:
            return None
        resource = table.find(where.group, where.version, where.plural)
        if resource is None and not table.has_version(where.group, where.version):
            return None
        if resource is None or where.rest or not _fits(resource, where):
            raise errors.path_not_found()
        return Target(resource, where.namespace, where.name, where.subresource)

    def _answer_without_resource(self, request: Request) -> Response:
        table = self.registry.table
        path = request.path.rstrip("/")
        parts = path.strip("/").split("/")
        document: Object | None = None
        if request.method not in ("GET", "HEAD"):
            return _page_not_found()
        if path in _HEALTH_PATHS:
            return Response(200, b"ok", _TEXT_HEADERS)
        if path == "/version":
            document = self._version
        elif path in ("/api", "/apis"):
            form = accepted_form(request.accept, discovery=True)
            if form is not Form.JSON:
                document = discovery.aggregated(table, core=path == "/api")
                kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
                return Response(200, encode(document), {"content-type": kind})
            document = discovery.core_versions(request.host) if path == "/api" else discovery.group_list(table)
        elif path == "/debug/rbac" and isinstance(self.gate.authorizer, RbacAuthorizer):
            document = self.gate.authorizer.as_document(request.query)
        elif parts[0] == "openapi":
            return self._answer_openapi(request, path)
        elif parts[0] == "api" and len(parts) == 2:
            document = discovery.resource_list(table, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            document = discovery.group(table, parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            document = discovery.resource_list(table, parts[1], parts[2])
        return _page_not_found() if document is None else _json(200, encode(document))

    def _answer_openapi(self, request: Request, path: str) -> Response:
        if path == "/openapi/v3":
            return _json(200, encode(self._openapi.index()))
        if path == "/openapi/v2":
            if request.accept.startswith(openapi.V2_PROTOBUF):
                return Response(200, b"", openapi.V2_PROTOBUF_HEADERS)
            return _json(200, encode(openapi.V2))
        body = self._openapi.document(path.removeprefix("/openapi/v3/"))
        return _page_not_found() if body is None else _json(200, body)

    # --- operations ------------------------------------------------------------------------------

    def _answer_resource(self, request: Request, target: Target) -> Response | WatchStream:
        method, resource = request.method, target.resource
        if request.content_type.startswith(PROTOBUF) and request.body:
            request = _in_json(request)
        if target.subresource == "scale" and resource.scale is not None:
            return self._scale(request, target, resource.scale)
        if target.subresource and target.subresource not in _WHOLE_SUBRESOURCES:
            if method != "POST":
                raise errors.method_not_allowed()
            return self._post_subresource(request, target)
        verb = _verb(method, target, request.query)
        subresource = resource.subresource(target.subresource)
        if verb not in (resource if subresource is None else subresource).verbs:
            raise errors.method_not_allowed()
        if resource.group in _GUARDED and request.user is not None:
            with self.gate.acting(request.user, attributes_of(method, request.path, request.query)):
                return _OPERATIONS[verb](self, request, target)
        return _OPERATIONS[verb](self, request, target)

    def _get(self, request: Request, target: Target) -> Response:
        wanted, current = request.query.get("resourceVersion", ""), self.registry.store.version
        if wanted.isdecimal() and int(wanted) > current:
            raise errors.too_large_version(int(wanted), current)
        return self._object(200, request, target, self.registry.get(target.resource, target.namespace, target.name))

    def _list(self, request: Request, target: Target) -> Response:
        resource = target.resource
        options = read_list_options(resource, request.query)
        form = accepted_form(request.accept)
        listing = list_page(self.registry, resource, target.namespace, options)
        if form is Form.JSON:
            return _json(200, render_list(self.registry, resource, listing))
        objects = [resource.view(record.decode()) for record in listing.page.records]
        metadata = list_metadata(listing)
        if form is Form.TABLE:
            return _json(200, self._table(target, objects, metadata, options.include_object))
        items = [partial_metadata(obj) for obj in objects]
        partial_list = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        return _json(200, encode({**partial_list, "metadata": metadata, "items": items}))

    def _create(self, request: Request, target: Target) -> Response:
        resource = target.resource
        body = self._body(request, resource.kind)
        if resource.plural == "bindings":
            return self._bind(target.namespace, "", body, request)
        if resource.plural in REVIEWS:
            user, now = self.gate.identify(request), self.registry.wall()
            return _json(201, encode(review(self.gate, resource, user, target.namespace, body, now=now)))
        fields = field_check(request.query, "CreateOptions")
        record = self.registry.create(resource, target.namespace, body, dry_run=_dry_run(request), fields=fields)
        return self._object(201, request, target, record, fields)

    def _update(self, request: Request, target: Target) -> Response:
        body = self._body(request, target.resource.kind)
        fields = field_check(request.query, "UpdateOptions")
        record, created = self.registry.update(
            target.resource,
            target.namespace,
            target.name,
            body,
            subresource=target.subresource,
            dry_run=_dry_run(request),
            fields=fields,
        )
        return self._object(201 if created else 200, request, target, record, fields)

    def _patch(self, request: Request, target: Target) -> Response:
        content_type = request.content_type.partition(";")[0].strip()
        options = read_patch_options(request.query, content_type, subresource=target.subresource)
        record, created = apply_patch(
            self.registry, target.resource, target.namespace, target.name, request.body, options
        )
        return self._object(201 if created else 200, request, target, record, options.fields)

    def _delete(self, request: Request, target: Target) -> Response:
        resource = target.resource
        options = read_options(request.query, request.body)
        if self.registry.webhooks is not None:
            found = self.registry.get(resource, target.namespace, target.name)
            self.registry.review_deletion(resource, found, dry_run=options.dry_run)
        record, gone = self.registry.delete(resource, target.namespace, target.name, options)
        if resource.returns_deleted or not gone:
            return self._object(200, request, target, record)
        details: Object = {"name": record.name}
        if resource.group:
            details["group"] = resource.group
        return _json(200, encode(errors.success(details={**details, "kind": resource.plural, "uid": record.uid})))

    def _delete_collection(self, request: Request, target: Target) -> Response:
        resource = target.resource
        options = read_options(request.query, request.body)
        selection = read_list_options(resource, {k: v for k, v in request.query.items() if k != "limit"})
        listing = list_page(self.registry, resource, target.namespace, selection)
        answer = render_list(self.registry, resource, listing)
        for record in listing.page.records:  # all before the first goes: a request may have to be answered anew
            self.registry.review_deletion(resource, record, dry_run=options.dry_run)
        for record in listing.page.records:
            self.registry.delete(resource, record.namespace, record.name, options)
        return _json(200, answer)

    def _post_subresource(self, request: Request, target: Target) -> Response:
        if target.subresource == "binding":
            body = self._reviewed(request, target, self._body(request, "Binding"))
            return self._bind(target.namespace, target.name, body, request)
        if target.subresource == "token":
            account = self.registry.get(target.resource, target.namespace, target.name)
            body = self._reviewed(request, target, self._body(request, "TokenRequest"))
            return _json(201, encode(request_token(self.gate, self.registry, account, body)))
        eviction.evict(
            self.registry,
            target.namespace,
            target.name,
            self._reviewed(request, target, self._body(request, "Eviction")),
            dry_run=_dry_run(request),
        )
        return _json(201, encode(errors.success(201)))

    def _scale(self, request: Request, target: Target, paths: ScalePaths) -> Response:
        resource = target.resource
        record = self.registry.get(resource, target.namespace, target.name)
        verb = _OBJECT_VERBS.get(request.method, "")
        scale = scale_of(paths, record)
        if verb == "get":
            return _json(200, encode(scale))
        if verb == "update":
            scale = self._body(request, "Scale")
        elif verb == "patch":
            scale = patched_scale(resource, scale, request.body, request.content_type)
        else:
            raise errors.method_not_allowed()
        scale = self._reviewed(request, target, scale, scale_of(paths, record))
        new = with_scale(resource, paths, record, scale)
        with self.registry.unreviewed():
            record = self.registry.change(resource, record, new, dry_run=_dry_run(request))
        return _json(200, encode(scale_of(paths, record)))

    def _bind(self, namespace: str, name: str, body: Object, request: Request) -> Response:
        binding.bind(self.registry, namespace, name, body, dry_run=_dry_run(request))
        return _BOUND

    def _reviewed(self, request: Request, target: Target, body: Object, old: Object | None = None) -> Object:
        """Return what a client sent to a subresource of another kind, as webhooks want it."""
        resource, subresource = target.resource, target.resource.subresource(target.subresource)
        if self.registry.webhooks is None or subresource is None:
            return body
        group, version = subresource.group or resource.group, subresource.version or resource.version
        api_version = f"{group}/{version}" if group else version
        metadata = {"namespace": target.namespace, **(body.get("metadata") or {})}
        asked = AdmissionRequest(
            "CREATE" if old is None else "UPDATE",
            resource,
            target.namespace,
            target.name,
            {**body, "kind": subresource.kind, "apiVersion": api_version, "metadata": metadata},
            old,
            target.subresource,
            _dry_run(request),
            (group, version, subresource.kind),
        )
        return self.registry.review(asked) or body

    # --- watches ---------------------------------------------------------------------------------

    def _watch(self, request: Request, target: Target) -> WatchStream:
        registry, resource = self.registry, target.resource
        options = read_list_options(resource, request.query)
        collection = registry.collection(resource)
        render = self._event_renderer(request, target, options)
        current = registry.store.version
        initial: list[bytes] = []
        after = options.version or 0
        from_version = min(after or current, current)  # a version that is yet to come is waited for
        state_first = options.initial_events or (options.initial_events is None and not options.version)
        if state_first:
            from_version = current
            prefix = f"{target.namespace}/" if target.namespace else ""
            page = collection.page(prefix=prefix, matches=options.matches)
            initial = [event_line("ADDED", render(record)) for record in page.records]
            if options.initial_events and options.bookmarks:
                initial.append(event_line("BOOKMARK", _bookmark(resource, current, _INITIAL_EVENTS_END)))
        refused = state_first and after > current
        if refused:  # the stream opens all the same; what comes out of it is the refusal
            initial = [event_line("ERROR", encode(errors.too_large_version(after, current).as_status()))]
        try:
            position = collection.position_after(from_version)
        except ExpiredVersionError as error:
            refused = True
            too_old = errors.too_old_version(error.version, error.oldest)
            initial = [event_line("ERROR", encode(too_old.as_status()))]
            position = collection.position_after(current)
        bookmark = (lambda version: _bookmark(resource, version)) if options.bookmarks else None
        stream = WatchStream(
            collection,
            WatchView(target.namespace, options.matches, render, bookmark),
            position=position,
            initial=initial,
            clock=self._clock,
            after=after if after > current else 0,
            timeout_seconds=options.timeout_seconds or self._longest_watch(),
            bookmark_seconds=self.bookmark_seconds,
        )
        self._streams[id(stream)] = (request.path, stream)
        stream.on_close = lambda: self._streams.pop(id(stream), None)
        if refused:
            stream.end()
        return stream

    def _longest_watch(self) -> float:
        """Return how long a watch lasts that names no time: thirty minutes to an hour, so that not all end at once."""
        self._opened += 1
        return _SHORTEST_WATCH_SECONDS * (1 + self._opened * _GOLDEN_RATIO % 1)

    def _event_renderer(self, request: Request, target: Target, options: ListOptions) -> Callable[[Record], bytes]:
        registry, resource = self.registry, target.resource
        form = accepted_form(request.accept)
        if form is Form.JSON:
            return lambda record: registry.render(resource, record)
        if form is Form.METADATA:
            return lambda record: encode(partial_metadata(resource.view(record.decode())))
        first = True

        def render_row(record: Record) -> bytes:
            nonlocal first
            with_columns, first = first, False
            obj, metadata = resource.view(record.decode()), {"resourceVersion": str(record.version)}
            return self._table(target, [obj], metadata, options.include_object, with_columns=with_columns)

        return render_row

    def _table(
        self, target: Target, objects: list[Object], metadata: Object, include: str, *, with_columns: bool = True
    ) -> bytes:
        now = self.registry.wall()
        made = make_table(
            target.resource, objects, metadata, now=now, include_object=include, with_columns=with_columns
        )
        return encode(made)

    # --- answers ---------------------------------------------------------------------------------

    def _object(
        self, status: int, request: Request, target: Target, record: Record, fields: FieldCheck | None = None
    ) -> Response:
        form = accepted_form(request.accept)
        if form is Form.JSON:
            body = self.registry.render(target.resource, record)
            if fields is not None and fields.warnings:
                return Response(status, body, {**_JSON_HEADERS, **fields.headers()})
            return _json(status, body)
        obj = target.resource.view(record.decode())
        if form is Form.METADATA:
            return _json(status, encode(partial_metadata(obj)))
        include = request.query.get("includeObject") or "Metadata"
        return _json(status, self._table(target, [obj], {"resourceVersion": str(record.version)}, include))

    def _body(self, request: Request, kind: str) -> Object:
        content_type = request.content_type.partition(";")[0].strip()
        if content_type in _YAML_TYPES:
            return decode_yaml(request.body)
        if content_type not in ("", "application/json"):
            raise errors.unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: application/json, "
                "application/yaml"
            )
        return decode_body(request.body, kind)


def _fits(resource: Resource, where: ResourcePath) -> bool:
    """Return True if the resource has the path's scope and subresource."""
    scoped = resource.namespaced if where.namespace else not (where.name and resource.namespaced)
    return scoped and (not where.subresource or resource.subresource(where.subresource) is not None)


def _in_json(request: Request) -> Request:
    """Return a request with its protobuf body as JSON; unchanged if the kind has no field numbers here."""
    try:
        body = encode(decode_protobuf(request.body))
    except UnknownKindError:
        return request
    except BadProtobufError as error:
        raise errors.bad_request(f"the object provided is unrecognized: {error}") from error
    return msgspec.structs.replace(request, body=body, content_type="application/json")


def _verb(method: str, target: Target, query: Mapping[str, str]) -> str:
    if target.name:
        return _OBJECT_VERBS.get(method, "")
    if method == "GET" and is_true(query.get("watch", "")):
        return "watch"
    return _COLLECTION_VERBS.get(method, "")


_OBJECT_VERBS: Final = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS: Final = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_OPERATIONS: Final[dict[str, Callable[[Router, Request, Target], Response | WatchStream]]] = {
    "get": Router._get,  # noqa: SLF001 - the table belongs to the class
    "list": Router._list,  # noqa: SLF001
    "watch": Router._watch,  # noqa: SLF001
    "create": Router._create,  # noqa: SLF001
    "update": Router._update,  # noqa: SLF001
    "patch": Router._patch,  # noqa: SLF001
    "delete": Router._delete,  # noqa: SLF001
    "deletecollection": Router._delete_collection,  # noqa: SLF001
}


def refusal(error: errors.StatusError) -> Response:
    """Return the answer that carries a refusal."""
    headers = _JSON_HEADERS
    if error.retry_after_seconds:
        headers = {**headers, "retry-after": str(int(error.retry_after_seconds))}
    return Response(error.status, encode(error.as_status()), headers)


def _json(status: int, body: bytes) -> Response:
    return Response(status, body, _JSON_HEADERS)


_BOUND: Final = _json(201, encode(errors.success(201)))


def _page_not_found() -> Response:
    return Response(404, b"404 page not found\n", _TEXT_HEADERS)


def _dry_run(request: Request) -> bool:
    return bool(request.query.get("dryRun"))


def _bookmark(resource: Resource, version: int, annotations: bytes = b"") -> bytes:
    metadata = b'"metadata":{"resourceVersion":"%d"%b}' % (version, annotations)
    return resource.head + metadata + resource.bookmark_tail + b"}"
