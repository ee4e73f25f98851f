"""Extenders without a network: what they are asked is written down, what they answer is in the test's hands."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from pyscheduler.cluster.real.base_transport import ConnectingTransport
from pyscheduler.config.types import Extender
from pyscheduler.framework.errors import TransportError
from pyscheduler.scheduler.ports import Response
from pyscheduler.testing import FakeCluster

Answer = Callable[[dict[str, Any]], Any]

#: Where the extender that tests ask most is asked which nodes pass.
FILTER = "http://one/filter"

#: The profile of a fake framework, extenders to be filled in.
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{schedulerName: pyscheduler}}]
extenders: {extenders}
"""


def nodes(cluster: FakeCluster, number: int = 3, **keywords: Any) -> None:
    """Add so many equal nodes."""
    for index in range(1, number + 1):
        cluster.add_node(f"n{index}", **keywords)


def config(*extenders: Mapping[str, Any], **more: Any) -> str:
    """Return a configuration with these extenders; `more` are further fields of it."""
    text = CONFIG.format(extenders=json.dumps(extenders))
    return text + "".join(f"{name}: {json.dumps(value)}\n" for name, value in more.items())


def extender(name: str = "http://one", **fields: Any) -> dict[str, Any]:
    """Return an extender that knows its nodes; fields as in the file."""
    return {"urlPrefix": name, "nodeCacheCapable": True, **fields}


class Scripted:
    """All extenders of a test: `answers` by URL; `calls` is what they were asked, in order."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.closed = 0

    def asked(self, url: str) -> list[dict[str, Any]]:
        """Return what was asked at that URL."""
        return [args for at, args in self.calls if at == url]

    async def post(self, url: str, body: Sequence[bytes]) -> Response:
        """Answer as the test says: data, bytes as they stand, a `Response`, or an exception."""
        args = json.loads(b"".join(body))
        self.calls.append((url, args))
        if url not in self.answers:
            raise TransportError(f'Post "{url}": dial tcp 10.0.0.1:80: connect: connection refused')
        answer = self.answers[url](args)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Response):
            return answer
        return Response(200, answer if isinstance(answer, bytes) else json.dumps(answer).encode(), {})

    async def close(self) -> None:
        """Count."""
        self.closed += 1


@pytest.fixture
def extenders(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Put scripted extenders in the place of those that are reached over HTTP."""
    scripted = Scripted()

    def connect(self: ConnectingTransport, config: Extender) -> Scripted:
        return scripted

    monkeypatch.setattr(ConnectingTransport, "extender", connect)
    return scripted


def only(*names: str) -> Answer:
    """Return a filter that lets only these nodes pass and says so of each other one."""

    def answer(args: dict[str, Any]) -> dict[str, Any]:
        asked = args["NodeNames"]
        return {
            "NodeNames": [name for name in asked if name in names],
            "FailedNodes": {name: "not mine" for name in asked if name not in names},
        }

    return answer
