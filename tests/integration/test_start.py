"""How fast the program is there, with a margin for busy machines; `make bench` has the numbers."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.integration.programs import Api, free_port, nodes, program, served


def test_help_answers_at_once() -> None:
    """The best of a few runs is far below what a person notices."""
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "pyscheduler", "--help"], check=True, capture_output=True)
        seconds.append(time.perf_counter() - begun)
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
