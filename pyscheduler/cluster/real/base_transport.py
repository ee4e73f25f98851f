"""The seam between transport and client path, shared by both transports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from pyscheduler.cluster.real.client import RealClient
from pyscheduler.cluster.real.request_metrics import MeteredTransport

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from kube_objects.clock import Clock
    from pyscheduler.config.types import Extender
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import ClientSettings, ExtenderConnection, Response, Stream

__all__ = ["NOT_LEADING", "ConnectingTransport"]

#: Why a request was held back at the last moment.
NOT_LEADING: Final = "not sent, because this replica does not lead"


class ConnectingTransport(ABC):
    """Base of the transports: subclasses carry bytes as `scheduler.ports.Transport` says, this adds the client path."""

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
        """Send one request; any HTTP status is an answer. Raise `TransportError` when none came."""

    @abstractmethod
    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, timeout_seconds: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """Open a watch; `timeout_seconds` bounds the wait for the answer to begin."""

    @abstractmethod
    async def close(self) -> None:
        """Release connections; idempotent."""

    @property
    def host(self) -> str:
        """Return what the server is called in metrics, `host:port` where there is a network."""
        return ""

    def measure(self, *, clock: Clock, recorder: Recorder) -> None:  # noqa: B027 - most have nothing to tell
        """Begin to tell `recorder` about connections; nothing where there are none."""

    def fence(self, may_send: Callable[[str, str], bool]) -> None:  # noqa: B027 - for those that wait before they send
        """Ask `may_send(method, path)` where a request has waited, for a connection or for credentials."""

    def connect(self, settings: ClientSettings, *, clock: Clock, rng: random.Random, recorder: Recorder) -> RealClient:
        """Return the client path on this transport; every request is measured."""
        self.measure(clock=clock, recorder=recorder)
        metered = MeteredTransport(self, host=self.host, clock=clock, recorder=recorder)
        return RealClient(metered, settings, clock=clock, rng=rng, recorder=recorder, host=self.host)

    def extender(self, config: Extender) -> ExtenderConnection:
        """Return the way to an extender, which is HTTP whatever leads to the API server."""
        from pyscheduler.cluster.real.extender import HTTPExtenderConnection  # noqa: PLC0415 - few need to load it

        return HTTPExtenderConnection(config)
