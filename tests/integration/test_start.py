"""How much the program's start costs, and when it is ready; `make bench` has the numbers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests import processes
from tests.integration.programs import Api, free_port, nodes, program, served


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
            assert '"nodes":"300"' in line
            assert await Api(f"http://127.0.0.1:{port}")("GET", "/readyz") == (200, "ok")
