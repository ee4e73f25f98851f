"""The Protocols through which the scheduler reaches the API server and extenders.

The package `cluster` implements them: over HTTP, and for an API server in the same process.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

from kube_objects.http import Response, Stream
from pyscheduler.framework.handle import Client, EventRecorder
from pyscheduler.framework.watches import Lister

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from kube_objects.clock import Clock
    from pyscheduler.api import KubeObject, Malformed, ResourceKind
    from pyscheduler.config.types import Extender
    from pyscheduler.framework.plugin_failures import PluginFailures
    from pyscheduler.framework.recorder import Recorder

__all__ = [
    "ClientSettings",
    "ClusterClient",
    "ExtenderConnection",
    "Informer",
    "Response",
    "Stream",
    "Transport",
    "Writer",
]

T_co = TypeVar("T_co", covariant=True)
K = TypeVar("K", bound="KubeObject")


@attrs.frozen(kw_only=True)
class ClientSettings:
    """Settings of the client path. `qps` 0 or less means unlimited; `burst` in requests."""

    qps: float = 50.0
    burst: int = 100
    #: Name in events' `reportingController`; the instance adds the host name.
    component: str = "pyscheduler"
    host_name: str = ""
    #: A watch without any bytes for that many seconds counts as broken: bookmarks come every minute.
    silence_seconds: float = 180.0
    #: A request that fails later than that many seconds after its first try is not tried again. Commands, for which a
    #: user waits, set it. Their client does not log that the API server is busy: the error says so.
    patience_seconds: float = math.inf


class Transport(Protocol):
    """Carries one API request or one watch; knows bytes, not objects."""

    @abstractmethod
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> Response:
        """Send a request and return the answer, whatever its HTTP status; raise `TransportError` if none comes."""
        ...

    @abstractmethod
    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, timeout_seconds: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a watch. `timeout_seconds` bounds the silence before the answer begins, not the stream."""
        ...

    def connect(
        self, settings: ClientSettings, *, clock: Clock, rng: random.Random, recorder: Recorder
    ) -> ClusterClient:
        """Return the client path on this transport: informers, writes, events, rate limits, retries."""
        ...

    def extender(self, config: Extender) -> ExtenderConnection:
        """Return the connection to an extender, opened at first use; raise `ConfigError` for unusable TLS settings."""
        ...

    @abstractmethod
    async def close(self) -> None:
        """Release connections; idempotent."""
        ...


class ExtenderConnection(Protocol):
    """The connection to one extender."""

    async def post(self, url: str, body: Sequence[bytes]) -> Response:
        """Send JSON, given in pieces, and return the answer, whatever its HTTP status.

        Raises `TransportError` if no answer comes. Has no timeout: a caller that cannot wait cancels.
        """
        ...

    async def close(self) -> None:
        """Release the connections; idempotent."""
        ...


class Informer(Lister[T_co], Protocol[T_co]):
    """A lister that is fed by list and watch."""

    def start(self) -> None:
        """Start to list and watch, in a task of its own."""
        ...

    async def wait_synced(self) -> None:
        """Return when the first list has been delivered to the handlers."""
        ...

    async def catch_up(self) -> None:
        """Return when the watch is open; if it is broken, reconnect at once."""
        ...

    def add_unreadable_handler(self, callback: Callable[[Malformed, bool], None]) -> None:
        """Call back with every object that cannot be decoded, and whether it is gone."""
        ...

    def report_to(self, failures: PluginFailures) -> None:
        """Report the failures of event handlers there, which may be plugins'; call this first."""
        ...

    def keep_texts(self, callback: Callable[[KubeObject, bytes], object]) -> None:
        """Call back with each version of each object and its whole text, before the handlers; call this first."""
        ...


class ClusterClient(Client, Protocol):
    """The client path: everything the scheduler reads and writes."""

    @property
    def idle(self) -> bool:
        """Return True if no event waits to be written."""
        ...

    def informer(self, kind: ResourceKind, *, field_selector: str = "", optional: bool = False) -> Informer[KubeObject]:
        """Return the one informer of that kind, not started.

        `optional`: the kind's CRD may be absent, and may appear and disappear.
        """
        ...

    def pages(
        self,
        kind: type[K],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        keep: Callable[[KubeObject, bytes], object] | None = None,
    ) -> AsyncIterator[Sequence[K]]:
        """Read all objects a page at a time; raise `GoneError` if the server no longer has the next page.

        `keep` is called with each object and its whole text.
        """
        ...

    def event_recorder(self, reporting_controller: str) -> EventRecorder:
        """Return a recorder that writes events with that reporting controller (the profile's `schedulerName`)."""
        ...

    async def close(self) -> None:
        """Stop informers, flush events for at most two seconds, and close the transport."""
        ...


class Writer(Protocol):
    """Writes to the API server in the background."""

    @property
    def idle(self) -> bool:
        """Return True if nothing is left to write."""
        ...

    async def flush(self) -> None:
        """Return when everything is written."""
        ...

    def cancel(self) -> None:
        """Write nothing more."""
        ...
