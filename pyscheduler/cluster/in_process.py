"""Send requests to an API server inside this process, as simulations and most tests do."""

from __future__ import annotations

from kube_testserver.serving.in_process import InProcessClient
from pyscheduler.cluster.real.base_transport import ConnectingTransport

__all__ = ["InProcessTransport"]


class InProcessTransport(InProcessClient, ConnectingTransport):
    """Carries requests into the router of an `EmbeddedCluster`; takes the arguments of `InProcessClient`."""
