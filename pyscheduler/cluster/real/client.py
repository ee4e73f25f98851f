"""The scheduler's client of an API server: informers, reads, writes and events, with rate limits and retries."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from kube_objects.kinds import PODS
from pyscheduler.api import BUILT_IN_KINDS, DecodeError, KindTable, KubeObject, Pod, decode, decode_list
from pyscheduler.cluster.real.concurrency import RequestWindow
from pyscheduler.cluster.real.event_writer import EventWriter
from pyscheduler.cluster.real.events import EventNames, NamedEventRecorder
from pyscheduler.cluster.real.informer import RealInformer
from pyscheduler.cluster.real.outage_log import Outages
from pyscheduler.cluster.real.rate_limit import TokenBucket
from pyscheduler.cluster.real.response_errors import is_about_budgets, raise_for_status
from pyscheduler.framework.errors import APIError, ConflictError, GoneError, NotFoundError, TransportError

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.api import ListPage, ResourceKind
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import ClientSettings, Transport

__all__ = ["NO_ANSWER", "RealClient"]

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=KubeObject)

#: The `code` of a request that got no answer, in metrics.
NO_ANSWER: Final = "<error>"
_TRIES: Final = 5
#: The same for a request that the server refuses and asks for later (Retry-After): it is alive; as client-go.
_TRIES_WHEN_ASKED: Final = 11
#: Before the first retry; doubled with each, up to 32 times as much.
_BACKOFF_SECONDS: Final = 0.1
_DOUBLINGS: Final = 5
#: What is waited at most because a server said Retry-After.
_RETRY_AFTER_LIMIT_SECONDS: Final = 30.0
#: Answers that say the request was not carried out. A balancer's 408 is meant for a connection that was idle for too
#: long, and meets the request that was just sent on it (RFC 9110, 15.5.9).
_NOT_DONE: Final = frozenset({408, 429, 503})
#: Answers that leave open whether it was.
_PERHAPS_DONE: Final = frozenset({500, 502, 504})
_RETRIED: Final = _NOT_DONE | _PERHAPS_DONE
_FLUSH_SECONDS: Final = 2.0
_PAGE: Final = 500

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"


class RealClient:
    """Everything the scheduler reads and writes, over one transport; see `scheduler.ports.ClusterClient`."""

    def __init__(
        self,
        transport: Transport,
        settings: ClientSettings,
        *,
        clock: Clock,
        rng: random.Random,
        recorder: Recorder,
        host: str = "",
    ) -> None:
        self._transport = transport
        self._host = host
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._kinds = KindTable(BUILT_IN_KINDS)
        self._limiter = TokenBucket(qps=settings.qps, burst=settings.burst, clock=clock)
        self._outages = Outages(clock)
        self._informers: dict[tuple[ResourceKind, str], RealInformer[KubeObject]] = {}
        self._host_name = settings.host_name
        self._silence_seconds = settings.silence_seconds
        self._patience_seconds = settings.patience_seconds
        # A bucket of their own, so that a burst of events never makes a binding wait.
        limiter = TokenBucket(qps=settings.qps, burst=settings.burst, clock=clock)
        self._window = RequestWindow(clock=clock, recorder=recorder, logs=math.isinf(settings.patience_seconds))
        self._events = EventWriter(
            transport, limiter=limiter, window=self._window, clock=clock, recorder=recorder, host=host
        )
        self._event_names = EventNames(rng)
        self._closed = False
        recorder.gauge("pyscheduler_watch_broken_seconds", self._broken_seconds)

    # Reads

    def informer(
        self, kind: ResourceKind, *, field_selector: str = "", optional: bool = False
    ) -> RealInformer[KubeObject]:
        """Return the informer of that kind, not started; the kind is known to reads and writes from then on.

        There is one for each kind and selector. It stays optional until a caller requires the kind.
        """
        self._kinds.register(kind)
        field_selector = field_selector or kind.field_selector
        key = (kind, field_selector)
        informer = self._informers.get(key)
        if informer is None:
            informer = self._informers[key] = RealInformer(
                self._transport,
                kind,
                kind.type,
                clock=self._clock,
                rng=self._rng,
                recorder=self._recorder,
                outages=self._outages,
                silence_seconds=self._silence_seconds,
                field_selector=field_selector,
                optional=optional,
            )
        elif not optional:
            informer.require()
        return informer

    def _broken_seconds(self) -> dict[tuple[tuple[str, str], ...], float]:
        """Return for how long each kind has had no open watch, in seconds; the longest time of its informers."""
        found: dict[tuple[tuple[str, str], ...], float] = {}
        for informer in self._informers.values():
            seconds = informer.broken_seconds
            if seconds is not None:
                labels = (("resource", informer.resource),)
                found[labels] = max(found.get(labels, 0.0), seconds)
        return found

    async def get(self, kind: type[K], name: str, namespace: str = "") -> K:
        """Read one object from the API server; raise `NotFoundError` where it is not there."""
        path = self._kinds.of(kind).path(namespace, name)
        return self._decoded(kind, await self._call("GET", path))

    async def list(self, kind: type[K], namespace: str = "", *, label_selector: str = "") -> Sequence[K]:
        """Read all objects, page by page; those that cannot be read are reported and left out."""
        for attempt in range(1, _TRIES + 1):
            try:
                pages = self.pages(kind, namespace, label_selector=label_selector)
                return [item async for page in pages for item in page]
            except GoneError:
                # The server forgot where the next page was to begin.
                if attempt == _TRIES:
                    raise
                await self._pause(attempt)
        raise AssertionError("unreachable: the last try returns or raises")

    async def pages(
        self,
        kind: type[K],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        keep: Callable[[KubeObject, bytes], object] | None = None,
    ) -> AsyncIterator[Sequence[K]]:
        """Read all objects a page at a time, for those who need not keep them; what cannot be read is left out.

        Raises `GoneError` where the reader took so long that the server forgot where the next page begins.
        """
        row = self._kinds.of(kind)
        path = row.path(namespace)
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector or row.field_selector}
        query = {"limit": str(_PAGE), **{name: text for name, text in selectors.items() if text}}
        while True:
            page = self._decoded_page(kind, path, await self._call("GET", path, query=query), keep)
            for failure in page.malformed:
                self._recorder.warning(f"malformed_{kind.kind.lower()}")
                _log.warning("Ignoring malformed object key=%s err=%s", failure.key, failure.error)
            yield page.items
            if not page.continue_token:
                return
            query["continue"] = page.continue_token

    # Writes

    async def patch(
        self, kind: type[K], name: str, namespace: str = "", *, patch: Mapping[str, object], status: bool = False
    ) -> K:
        """Apply a JSON merge patch, to the `status` subresource where asked."""
        path = self._kinds.of(kind).path(namespace, name, "status" if status else "")
        answer = await self._call("PATCH", path, body=patch, content_type=MERGE_PATCH, deferred=status)
        return self._decoded(kind, answer)

    async def create(self, kind: type[K], body: Mapping[str, object], namespace: str = "") -> K:
        """Create an object."""
        path = self._kinds.of(kind).path(namespace)
        return self._decoded(kind, await self._call("POST", path, body=body))

    async def delete(self, kind: type[K], name: str, namespace: str = "", *, uid: str = "") -> None:
        """Delete an object, only if it has that `uid` where one is given."""
        path = self._kinds.of(kind).path(namespace, name)
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}} if uid else None
        await self._call("DELETE", path, body=options)

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the pod's binding.

        Where no answer came, or one that leaves open what was done, the pod itself is asked: bound to `node_name` is
        what was wanted, not bound means to try again. Raises `ConflictError` where it is bound to another node or may
        not be bound, `NotFoundError` where it is gone.
        """
        given: tuple[object, object] = pod, node_name  # of others' code, types prove nothing
        if not (isinstance(given[0], Pod) and isinstance(given[1], str)):
            names = ", ".join(type(each).__name__ for each in given)
            raise TypeError(f"bind() takes a pod and the name of a node, not ({names}); write bind(pod, node_name)")
        path = PODS.path(pod.namespace, pod.name, "binding")
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node_name},
        }
        for attempt in range(1, _TRIES + 1):
            try:
                await self._call("POST", path, body=body)
                return
            except (TransportError, APIError) as error:
                if isinstance(error, APIError) and error.status not in {409, *_PERHAPS_DONE}:
                    raise
                if await self._is_bound(pod, node_name, error):
                    _log.info("Binding succeeded, but its response was lost pod=%s err=%s", pod.key, error)
                    return
                if isinstance(error, ConflictError) or attempt == _TRIES:
                    raise
            self._recorder.warning("request_retried")
            await self._pause(attempt)

    async def _is_bound(self, pod: Pod, node_name: str, error: APIError | TransportError) -> bool:
        """Ask the API server whether a pod is bound to a node, after a binding that ended with `error`.

        Raises where the answer settles the matter otherwise, and `error` where there is no answer.
        """
        try:
            found = await self.get(Pod, pod.name, pod.namespace)
        except NotFoundError:
            raise
        except (APIError, TransportError):
            raise error from None
        # Users are told what the server said of the binding itself, where it said anything.
        said = error.said if isinstance(error, ConflictError) else ""
        if found.uid != pod.uid:
            raise NotFoundError(
                f"pod {pod.key} was deleted and made anew", status=404, reason="NotFound", said=said
            ) from error
        if found.node_name and found.node_name != node_name:
            raise ConflictError(
                f"pod {pod.key} is bound to {found.node_name}, not to {node_name}",
                status=409,
                reason="Conflict",
                said=said,
            ) from error
        return found.node_name == node_name

    async def patch_pod_status(self, pod: Pod, patch: Mapping[str, object]) -> None:
        """Apply a strategic merge patch to the pod's status; `ConflictError` where the pod was made anew meanwhile."""
        path = PODS.path(pod.namespace, pod.name, "status")
        body = {**patch, "metadata": {"uid": pod.uid}}
        await self._call("PATCH", path, body=body, content_type=STRATEGIC_PATCH, deferred=_only_informs(patch))

    async def evict(self, pod: Pod, *, grace_seconds: int | None = None) -> None:
        """POST the pod's eviction; see `framework.handle.Client`."""
        options: dict[str, object] = {"preconditions": {"uid": pod.uid}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": options,
        }
        path = PODS.path(pod.namespace, pod.name, "eviction")
        try:
            # With its uid given, to evict a pod twice is to evict it once.
            await self._call("POST", path, body=body, repeatable=True)
        except ConflictError as error:
            if "precondition" not in str(error).lower():
                raise
            raise NotFoundError(f"pod {pod.key} was deleted and made anew", status=404, reason="NotFound") from error

    # Events, and the end

    def event_recorder(self, reporting_controller: str) -> NamedEventRecorder:
        """Return a recorder that writes events in that controller's name."""
        return NamedEventRecorder(self._events, self._event_names, reporting_controller, host_name=self._host_name)

    @property
    def idle(self) -> bool:
        """Return True if no event waits to be written."""
        return self._events.idle

    async def close(self) -> None:
        """Stop informers, flush events for at most two seconds, and close the transport; idempotent."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(informer.stop() for informer in self._informers.values()))
        self._outages.close()
        await self._events.close(timeout_seconds=_FLUSH_SECONDS)
        self._window.close()
        await self._transport.close()

    # One request

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        content_type: str = "application/json",
        repeatable: bool = False,
        deferred: bool = False,
    ) -> bytes:
        """Send a request in its turn and return the body; retry where that cannot do a thing twice.

        `repeatable` says so of a POST. `deferred`: most other requests go ahead.
        """
        data = msgspec.json.encode(body) if body is not None else None
        repeatable = repeatable or method in {"GET", "PATCH", "DELETE"}
        retried = _RETRIED if repeatable else _NOT_DONE
        lost, last = False, self._clock.now() + self._patience_seconds
        for attempt in range(1, _TRIES_WHEN_ASKED + 1):
            waited = 0.0 if self._limiter.unlimited else await self._limiter.acquire()
            self._recorder.observe("rest_client_rate_limiter_duration_seconds", waited, method, self._host)
            asked = 0.0
            code = NO_ANSWER
            turn = await self._window.turn(method, deferred=deferred)
            try:
                with turn:
                    response = await self._transport.request(
                        method, path, query=query, body=data, content_type=content_type
                    )
                    return raise_for_status(response, f"{method} {path}")
            except TransportError:
                if not repeatable or attempt >= _TRIES or self._clock.now() >= last:
                    raise
                lost = True
            except APIError as error:
                if lost and method in {"DELETE", "POST"} and _is_gone(error):
                    return b""  # an earlier try deleted it, though its answer was lost
                tried_again = error.status in retried and not is_about_budgets(error)
                tries = _TRIES if error.retry_after_seconds is None else _TRIES_WHEN_ASKED
                asked = error.retry_after_seconds or 0.0
                is_late = self._clock.now() + asked >= last
                if attempt >= tries or is_late or not (tried_again or _is_contention(error, method, body)):
                    raise
                code = str(error.status)
            self._recorder.count("rest_client_request_retries_total", code, method, self._host)
            self._recorder.warning("request_retried")
            await self._pause(attempt, at_least=asked)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _pause(self, attempt: int, *, at_least: float = 0.0) -> None:
        """Wait before the next try, longer with every one; spread, so that many do not come back at once."""
        delay = max(_BACKOFF_SECONDS * 2 ** min(attempt, _DOUBLINGS), min(at_least, _RETRY_AFTER_LIMIT_SECONDS))
        await self._clock.sleep(delay * (1 + 0.25 * self._rng.random()))

    def _decoded(self, kind: type[K], body: bytes) -> K:
        try:
            return decode(kind, body)
        except DecodeError as error:
            raise TransportError(f"the answer is not a {kind.kind}: {error}") from error

    def _decoded_page(
        self, kind: type[K], path: str, body: bytes, keep: Callable[[KubeObject, bytes], object] | None
    ) -> ListPage[K]:
        try:
            return decode_list(kind, body, keep)
        except DecodeError as error:
            raise TransportError(f"GET {path}: the answer is not a list: {error}") from error


def _only_informs(patch: Mapping[str, Any]) -> bool:
    """Return whether a patch of a pod's status says only why the pod waits; evictions wait for other patches."""
    status = patch["status"]
    return status.keys() == {"conditions"} and all(each["type"] == "PodScheduled" for each in status["conditions"])


def _is_gone(error: APIError) -> bool:
    """Return True if there is no object with the name and the uid of a deletion; other conflicts leave it there."""
    return error.status == 404 or (error.status == 409 and "precondition" in str(error).lower())


def _is_contention(error: APIError, method: str, body: Mapping[str, object] | None) -> bool:
    """Return True if a patch lost against other writers inside the server, and not against a condition of its own."""
    if method != "PATCH" or not isinstance(error, ConflictError) or "Precondition failed" in str(error):
        return False
    metadata = (body or {}).get("metadata")
    return not isinstance(metadata, dict) or "resourceVersion" not in metadata
