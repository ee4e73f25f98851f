"""The seam: any transport brings the whole client path along."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.base_transport import ConnectingTransport
from pyscheduler.cluster.real.client import RealClient
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.ports import ClientSettings


async def test_both_transports_connect_alike(stage: Any) -> None:
    """HTTP and in-process differ in how bytes travel, and in nothing else."""
    for transport in (InProcessTransport(stage.cluster.router), HTTPTransport(auth.plain("http://127.0.0.1:1"))):
        client = transport.connect(
            ClientSettings(), clock=VirtualClock(), rng=random.Random(0), recorder=NullRecorder()
        )
        assert type(client) is RealClient
        assert client.idle
        await client.close()


def test_a_transport_has_to_carry() -> None:
    """The base alone is no transport."""
    with pytest.raises(TypeError, match="abstract"):
        ConnectingTransport()  # type: ignore[abstract]  # that is the point
