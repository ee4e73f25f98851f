"""What the scheduler needs of the outside, as Protocols: a transport that carries requests, and the client path on it.

`cluster` implements them: two transports (HTTP; in-process, into the embedded store) and one client path for both,
so that what is simulated is what ships. `Transport.connect` is the seam: it puts the client path on a transport.
Extenders are the one thing besides the API server that is talked to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs
import msgspec

from pyscheduler.framework.handle import Client, EventRecorder
from pyscheduler.framework.watches import Lister

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from pyscheduler.api import KubeObject, Malformed, ResourceKind
    from pyscheduler.config.types import Extender
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.recorder import Recorder

__all__ = ["ClientSettings", "ClusterClient", "ExtenderConnection", "Informer", "Response", "Stream", "Transport"]

T_co = TypeVar("T_co", covariant=True)
K = TypeVar("K", bound="KubeObject")


class Response(msgspec.Struct, frozen=True):
    """An answer of the API server: any HTTP status; header names in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Stream(Protocol):
    """An open watch: chunks of bytes, cut anywhere, lines end in a newline. Any status but 200 brings an error body."""

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers, names in lower case."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over chunks until the server ends the stream; raise `TransportError` when it breaks."""
        ...


@attrs.frozen(kw_only=True)
class ClientSettings:
    """How the client path may use a transport. `qps` 0 or less means unlimited; `burst` in requests."""

    qps: float = 50.0
    burst: int = 100
    #: Name in events' `reportingController`; the instance adds the host name.
    component: str = "pyscheduler"
    host_name: str = ""
    #: A watch that brings nothing for so long is taken for dead, in seconds: bookmarks come every minute.
    silence_seconds: float = 180.0


class Transport(Protocol):
    """Carries one API request or one watch; knows bytes, not objects."""

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
        """Send a request; any HTTP status is an answer. Raise `TransportError` when none came."""
        ...

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
        """Return the way to an extender, opened when first needed; raise `ConfigError` for TLS that cannot be used."""
        ...

    async def close(self) -> None:
        """Release connections; idempotent."""
        ...


class ExtenderConnection(Protocol):
    """The way to one extender."""

    async def post(self, url: str, body: Sequence[bytes]) -> Response:
        """Send JSON, given in pieces; any HTTP status is an answer. Raise `TransportError` when none came.

        Takes as long as it takes: who cannot wait, cancels.
        """
        ...

    async def close(self) -> None:
        """Release the connections; idempotent."""
        ...


class Informer(Lister[T_co], Protocol[T_co]):
    """A lister that is fed by list and watch."""

    def start(self) -> None:
        """Begin to list and watch, in a task of its own."""
        ...

    async def wait_synced(self) -> None:
        """Return when the first list has been delivered to the handlers."""
        ...

    async def catch_up(self) -> None:
        """Return when it hears of changes as they happen; where it is cut off, it tries again at once."""
        ...

    def add_unreadable_handler(self, callback: Callable[[Malformed, bool], None]) -> None:
        """Call back with every object that cannot be decoded, and whether it is gone."""
        ...

    def keep_texts(self, callback: Callable[[KubeObject, bytes], object]) -> None:
        """Hand over every state of every object with its whole text, before the handlers are told; call it first."""
        ...


class ClusterClient(Client, Protocol):
    """The client path: everything the scheduler reads and writes."""

    @property
    def idle(self) -> bool:
        """Tell whether no event waits to be written."""
        ...

    def informer(self, kind: ResourceKind, *, field_selector: str = "", optional: bool = False) -> Informer[KubeObject]:
        """Return the one informer of that kind, made but not started.

        `optional`: its CRD may be absent, and may appear and disappear.
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
        """Read all objects a page at a time; raise `GoneError` where the server forgot where the next page begins.

        `keep` is handed each with its whole text.
        """
        ...

    def event_recorder(self, reporting_controller: str) -> EventRecorder:
        """Return a recorder that writes events in that controller's name (the profile's `schedulerName`)."""
        ...

    async def close(self) -> None:
        """Stop informers, flush events for at most two seconds, and close the transport."""
        ...
