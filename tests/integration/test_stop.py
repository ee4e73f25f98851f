"""How it ends: not ready first, what is under way finishes, and nobody waits for an API server that is gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kube_testserver.requests import Request
from kube_testserver.serving.faults import Fault
from tests.integration.conftest import Served
from tests.integration.programs import FAST, Api, Program, free_port, nodes, pods, program, served
from tests.processes import IGNORING_SIGINT, PATIENCE_SECONDS

BINDING = r"/binding$"
#: An orderly end may take three seconds instead of ten. The watchdog waits for longer than the two seconds after these:
#: on a busy machine the interpreter itself may take that long.
DEADLINE = """
from pyscheduler.serving import lifecycle, watchdog
lifecycle._STOP_SECONDS = 3.0
watchdog._END_SECONDS, watchdog._LAST_RESORT_SECONDS = 100.0, 120.0
"""


def run(url: str, *more: str) -> tuple[str, ...]:
    """Return the arguments of a scheduler on that server."""
    return ("run", "--config", str(FAST), "--master", url, "--secure-port", "0", *more)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.02)


async def until_hit(fault: Fault) -> None:
    """Wait until a request has met the fault."""

    async def hit() -> bool:
        return fault.hits > 0

    await until(hit)


async def until_not_ready(health: Api) -> None:
    """Wait until the probe has turned."""

    async def turned() -> bool:
        return (await health("GET", "/readyz"))[0] != 200

    await until(turned)


async def test_it_is_not_ready_while_bindings_finish(served_cluster: Served) -> None:
    """The probe turns at the signal, with the reason for who asks; the slow binding is made, and the exit code is 0."""
    router = served_cluster.cluster.router
    handle, arrived, released = router.handle, asyncio.Event(), asyncio.Event()

    async def hold_bindings(request: Request) -> Any:
        if request.path.endswith("/binding"):
            arrived.set()
            await released.wait()
        return await handle(request)

    router.handle = hold_bindings  # type: ignore[method-assign]  # the server is slow
    served_cluster.cluster.add(*nodes(1), *pods(1))
    port = free_port()
    health = Api(f"http://127.0.0.1:{port}")
    async with program(*run(served_cluster.url, "--health-port", str(port))) as scheduler:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await arrived.wait()
        assert await health("GET", "/readyz") == (200, "ok")
        scheduler.send(signal.SIGTERM)
        await until_not_ready(health)
        status, text = await health("GET", "/readyz")
        assert (status, "[-]shutdown failed: reason withheld" in text) == (500, True)
        reason = "internal server error: process is shutting down\n"
        assert await health("GET", "/readyz/shutdown") == (500, reason)
        assert await health("GET", "/livez") == (200, "ok")
        assert not await served_cluster.api.placements()
        released.set()
        assert await scheduler.ended() == 0
    assert len(await served_cluster.api.placements()) == 1


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_a_second_signal_ends_it_at_once(served_cluster: Served, second: signal.Signals) -> None:
    """With code 1, whatever is under way: nothing is logged after the second signal, and no pod is bound."""
    slow = served_cluster.cluster.faults.add(Fault(method="POST", path=BINDING, delay_seconds=3600.0))
    served_cluster.cluster.add(*nodes(1), *pods(1))
    port = free_port()
    health = Api(f"http://127.0.0.1:{port}")
    async with program(*run(served_cluster.url, "--health-port", str(port))) as scheduler:
        await until_hit(slow)
        scheduler.send(signal.SIGTERM)
        await until_not_ready(health)
        scheduler.send(second)
        assert await scheduler.ended() == 1
        assert "Stopping at once, for a second signal" in scheduler.err[-1]
    assert not await served_cluster.api.placements()


@pytest.mark.parametrize("command", ["run", "cluster"])
async def test_sigint_ends_it_where_it_was_ignored_at_the_start(served_cluster: Served, command: str) -> None:
    """SIGINT ends a background job of a shell script, which starts with SIGINT ignored; as with kube-scheduler."""
    arguments = {"run": (*run(served_cluster.url), "--health-port", "0"), "cluster": ("cluster", "--port", "0")}
    text = {"run": "Caches are synced", "cluster": "serving "}
    async with program(*arguments[command], launcher=IGNORING_SIGINT) as started:
        await started.said(text[command])
        started.send(signal.SIGINT)
        assert await started.ended() == 0


async def ends_well(scheduler: Program) -> None:
    """Stop it; what it waits for takes an hour, and it does not wait for that."""
    scheduler.send(signal.SIGTERM)
    assert await scheduler.ended() == 0
    assert not any("Traceback" in line for line in scheduler.err), scheduler.err[-20:]


async def test_an_api_server_that_is_gone_or_hangs_does_not_hold_it(served_cluster: Served, tmp_path: Path) -> None:
    """Bindings, conditions, events and the lease all wait for nothing: one deadline ends it."""
    cluster = served_cluster.cluster
    cluster.add(*nodes(1))
    async with (
        served(tmp_path, [*nodes(2), *pods(200)]) as gone,
        program(*run(gone.url, "--health-port", "0"), patch=DEADLINE) as alone,
        program(*run(served_cluster.url, "--health-port", "0"), patch=DEADLINE) as scheduler,
    ):
        await scheduler.said("Successfully acquired lease")
        slow = cluster.faults.add(Fault(delay_seconds=3600.0))
        cluster.add(*pods(3), *pods(2, prefix="big"))
        await alone.said("Successfully bound", times=5)
        await until_hit(slow)
        await gone.server.kill()
        await asyncio.gather(ends_well(scheduler), ends_well(alone))
