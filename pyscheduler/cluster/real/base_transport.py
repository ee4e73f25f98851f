"""The base class of transports, which carry requests to an API server; `connect` makes the client on a transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.cluster.real.client import RealClient
from pyscheduler.cluster.real.request_metrics import MeteredTransport
from pyscheduler.scheduler.ports import Transport

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from kube_objects.clock import Clock
    from pyscheduler.config.types import Extender
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import ClientSettings, ExtenderConnection

__all__ = ["NOT_LEADING", "ConnectingTransport"]

#: Why a request was held back at the last moment.
NOT_LEADING: Final = "not sent, because this replica does not lead"


class ConnectingTransport(Transport):
    """Base of the transports: subclasses carry bytes, this adds the client path."""

    @property
    def host(self) -> str:
        """Return what the server is called in metrics, `host:port` where there is a network."""
        return ""

    def measure(self, *, clock: Clock, recorder: Recorder) -> None:
        """Begin to tell `recorder` about connections; nothing where there are none."""

    def fence(self, may_send: Callable[[str, str], bool]) -> None:
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
