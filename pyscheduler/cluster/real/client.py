"""The client path: informers, reads, writes, events, with rate limits, retries and conflict handling.

Everything goes through one `_call`, which waits for its turn, sends, and tries again where that is safe: reads and
patches after any broken connection, everything after 429 or 503 (the server refused before it did anything). A binding
whose answer was lost is not repeated blindly; the pod is read, and its node says what happened.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from pyscheduler.api import BUILT_IN_KINDS, DecodeError, KindTable, KubeObject, Pod, decode, decode_list
from pyscheduler.api.kinds import PODS
from pyscheduler.cluster.real.events import EventWriter, NamedEventRecorder
from pyscheduler.cluster.real.informer import RealInformer
from pyscheduler.cluster.real.rate_limit import TokenBucket
from pyscheduler.cluster.real.responses import raise_for_status
from pyscheduler.framework.errors import APIError, ConflictError, TransportError

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import ClientSettings, Transport

__all__ = ["RealClient"]

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=KubeObject)

_TRIES: Final = 5
_BACKOFF_SECONDS: Final = 0.1
#: Answers that say the request was not carried out.
_NOT_DONE: Final = frozenset({429, 503})
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
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._kinds = KindTable(BUILT_IN_KINDS)
        self._limiter = TokenBucket(qps=settings.qps, burst=settings.burst, clock=clock)
        self._informers: list[RealInformer[KubeObject]] = []
        # A bucket of their own, so that a burst of events never makes a binding wait.
        self._events = EventWriter(
            transport,
            limiter=TokenBucket(qps=settings.qps, burst=settings.burst, clock=clock),
            clock=clock,
            recorder=recorder,
            host_name=settings.host_name,
        )

    # Reads

    def informer(
        self, kind: ResourceKind, *, field_selector: str = "", optional: bool = False
    ) -> RealInformer[KubeObject]:
        """Return an informer of that kind, not started; the kind is known to reads and writes from then on."""
        self._kinds.register(kind)
        informer: RealInformer[KubeObject] = RealInformer(
            self._transport,
            kind,
            kind.type,
            clock=self._clock,
            rng=self._rng,
            recorder=self._recorder,
            field_selector=field_selector,
            optional=optional,
        )
        self._informers.append(informer)
        return informer

    async def get(self, kind: type[K], name: str, namespace: str = "") -> K:
        """Read one object from the API server; raise `NotFoundError` where it is not there."""
        path = self._kinds.of(kind).path(namespace, name)
        return self._decoded(kind, await self._call("GET", path))

    async def list(self, kind: type[K], namespace: str = "", *, label_selector: str = "") -> Sequence[K]:
        """Read all objects, page by page; those that cannot be read are reported and left out."""
        path = self._kinds.of(kind).path(namespace)
        query = {"limit": str(_PAGE)} | ({"labelSelector": label_selector} if label_selector else {})
        items: list[K] = []
        while True:
            body = await self._call("GET", path, query=query)
            try:
                page = decode_list(kind, body)
            except DecodeError as error:
                raise TransportError(f"GET {path}: the answer is not a list: {error}") from error
            items.extend(page.items)
            for failure in page.malformed:
                self._recorder.warning(f"malformed_{kind.kind.lower()}")
                _log.warning("Passing over an object that cannot be read key=%s err=%s", failure.key, failure.error)
            if not page.continue_token:
                return items
            query["continue"] = page.continue_token

    # Writes

    async def patch(
        self, kind: type[K], name: str, namespace: str = "", *, patch: Mapping[str, object], status: bool = False
    ) -> K:
        """Apply a JSON merge patch, to the `status` subresource where asked."""
        path = self._kinds.of(kind).path(namespace, name, "status" if status else "")
        return self._decoded(kind, await self._call("PATCH", path, body=patch, content_type=MERGE_PATCH))

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
        """POST the pod's binding; raise `ConflictError` where it is bound already, to another node.

        Where no answer came, or the answer says that it is bound, the pod itself is asked: bound to `node_name` is
        what was wanted.
        """
        path = PODS.path(pod.namespace, pod.name, "binding")
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node_name},
        }
        try:
            await self._call("POST", path, body=body)
        except (TransportError, ConflictError) as error:
            if await self._bound_to(pod) != node_name:
                raise
            _log.info("Binding had been made though its answer said otherwise pod=%s err=%s", pod.key, error)

    async def _bound_to(self, pod: Pod) -> str:
        """Return the node the API server has for the pod, "" where it has none or cannot be asked."""
        try:
            found = await self.get(Pod, pod.name, pod.namespace)
        except (APIError, TransportError):
            return ""
        return found.node_name if found.uid == pod.uid else ""

    async def patch_pod_status(self, pod: Pod, patch: Mapping[str, object]) -> None:
        """Apply a strategic merge patch to the pod's status; refused where the pod was made anew meanwhile."""
        path = PODS.path(pod.namespace, pod.name, "status")
        body = {**patch, "metadata": {"uid": pod.uid}}
        await self._call("PATCH", path, body=body, content_type=STRATEGIC_PATCH)

    def event_recorder(self, reporting_controller: str) -> NamedEventRecorder:
        """Return a recorder that writes events in that controller's name."""
        return self._events.named(reporting_controller)

    @property
    def idle(self) -> bool:
        """Tell whether no event waits to be written."""
        return self._events.idle

    async def close(self) -> None:
        """Stop informers, flush events for at most two seconds, and close the transport."""
        for informer in self._informers:
            await informer.stop()
        await self._events.close(timeout_seconds=_FLUSH_SECONDS)
        await self._transport.close()

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Send a request in its turn and return the body; retry where that cannot do a thing twice."""
        data = msgspec.json.encode(body) if body is not None else None
        repeatable = method in {"GET", "PATCH", "DELETE"}
        for attempt in range(1, _TRIES + 1):
            await self._limiter.acquire()
            try:
                response = await self._transport.request(
                    method, path, query=query, body=data, content_type=content_type
                )
                return raise_for_status(response, f"{method} {path}")
            except TransportError:
                if not repeatable or attempt == _TRIES:
                    raise
                delay = _BACKOFF_SECONDS * 2**attempt
            except APIError as error:
                if error.status not in _NOT_DONE or attempt == _TRIES:
                    raise
                delay = error.retry_after_seconds or _BACKOFF_SECONDS * 2**attempt
            self._recorder.warning("request_retried")
            await self._clock.sleep(delay * (0.75 + 0.5 * self._rng.random()))
        raise AssertionError("unreachable: the last try returns or raises")

    def _decoded(self, kind: type[K], body: bytes) -> K:
        try:
            return decode(kind, body)
        except DecodeError as error:
            raise TransportError(f"the answer is not a {kind.kind}: {error}") from error
