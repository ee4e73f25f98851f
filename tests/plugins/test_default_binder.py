"""DefaultBinder: binds through the client, and reports what the API server says."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pyscheduler.api import ObjectMeta, Pod
from pyscheduler.framework import (
    Code,
    ConflictError,
    CycleState,
    ForbiddenError,
    NotFoundError,
    PySchedulerError,
    TransportError,
)
from pyscheduler.plugins.default_binder import DefaultBinder

POD = Pod(metadata=ObjectMeta(namespace="ns", name="p", uid="u"))


class Bindings:
    """A client that binds, or fails as told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.made: list[tuple[str, str]] = []

    async def bind(self, pod: Pod, node_name: str) -> None:
        if self.error is not None:
            raise self.error
        self.made.append((pod.key, node_name))


async def test_binds_the_pod_to_the_node() -> None:
    """One binding is posted, and that is success."""
    client = Bindings()
    status = await DefaultBinder(None, SimpleNamespace(client=client)).bind(CycleState(), POD, "n1")
    assert status is None
    assert client.made == [("ns/p", "n1")]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ConflictError("pod p is already assigned to node n2", status=409), id="bound already"),
        pytest.param(NotFoundError('pods "p" not found', status=404), id="gone"),
        pytest.param(ForbiddenError("may not create pods/binding", status=403), id="not allowed"),
        pytest.param(TransportError("connection refused"), id="no answer"),
    ],
)
async def test_a_refusal_is_an_error_status(error: PySchedulerError) -> None:
    """The status keeps the error, whose text the user reads."""
    status = await DefaultBinder(None, SimpleNamespace(client=Bindings(error))).bind(CycleState(), POD, "n1")
    assert status is not None
    assert status.code == Code.ERROR
    assert status.as_error() is error
    assert status.message == str(error)


async def test_a_bug_is_not_taken_for_a_refusal() -> None:
    """What no client raises goes through to the runtime, which names the plugin."""
    with pytest.raises(ZeroDivisionError):
        await DefaultBinder(None, SimpleNamespace(client=Bindings(ZeroDivisionError()))).bind(CycleState(), POD, "n1")
