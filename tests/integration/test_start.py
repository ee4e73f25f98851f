"""How much the program's start costs, and when it is ready; `make bench` has the numbers."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests import processes
from tests.integration.programs import Api, free_port, nodes, pods, program, served


def test_help_answers_at_once() -> None:
    """The best of a few runs costs less than a second of CPU, however busy the machine is."""
    seconds = []
    for _ in range(3):
        before = os.times()
        processes.run(sys.executable, "-m", "pyscheduler", "--help", check=True)
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(seconds) < 1.0


async def test_it_is_ready_when_its_caches_are(tmp_path: Path) -> None:
    """The probe turns to 200, and the log says how much was listed."""
    port = free_port()
    async with served(tmp_path, nodes(300)) as api:
        arguments = ("--master", api.url, "--health-port", str(port), "--log-format", "json")
        async with program("run", *arguments) as scheduler:
            line = await scheduler.said("Caches are synced")
            assert '"nodes":300' in line
            assert await Api(f"http://127.0.0.1:{port}")("GET", "/readyz") == (200, "ok")


async def test_an_api_server_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    """Not ready and not leading meanwhile, with one line in the log; then it schedules as if it had come later."""
    health, port = free_port(), free_port()
    waiting = ("run", "--master", f"http://127.0.0.1:{port}", "--health-port", str(health), "--secure-port=0")
    async with program(*waiting) as scheduler:
        line = await scheduler.said("Waiting for the API server")
        assert "connection refused" in line
        probes = Api(f"http://127.0.0.1:{health}")
        status, text = await probes("GET", "/readyz")
        assert (status, "[-]sched-handler-sync failed" in text) == (500, True)
        assert await probes("GET", "/livez") == (200, "ok")
        async with served(tmp_path, [*nodes(1), *pods(1)], options=("--port", str(port))) as api:
            await scheduler.said("The API server answers")
            await api.until_bound(1)
            assert await probes("GET", "/readyz") == (200, "ok")
            assert scheduler.count("Waiting for the API server") == 1
            assert scheduler.count("warning") == 1, scheduler.err
            scheduler.send(signal.SIGTERM)
            assert await scheduler.ended() == 0
