"""Send requests to an embedded API server, which runs in the same process, for simulations and most tests."""

from __future__ import annotations

from kube_testserver.serving.in_process import InProcessClient
from pyscheduler.cluster.real.base_transport import ConnectingTransport

__all__ = ["InProcessTransport"]


class InProcessTransport(InProcessClient, ConnectingTransport):
    """Carries requests into the router of an `EmbeddedCluster`; takes the arguments of `InProcessClient`."""
