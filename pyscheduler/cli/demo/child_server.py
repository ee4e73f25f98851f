"""An embedded API server in a process of its own, for the demos: what they schedule on is as far away as a real one."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["end_server", "start_server"]

_START_SECONDS = 60.0


async def start_server(manifests: Path, *options: str) -> tuple[asyncio.subprocess.Process, str]:
    """Start `pyscheduler cluster` with these objects as a child; return it and its URL.

    Raises `ConfigError` where it does not come up within a minute.
    """
    from pyscheduler.framework.errors import ConfigError

    # Its stdin ends with this process, however that ends, and it goes with its stdin. A session of its own, because
    # Ctrl-C goes to whole groups: this process still has bindings to finish when it hears of it.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pyscheduler", "cluster",
        "--port", "0", "--load", str(manifests), "--stop-with-stdin", "-v", "0", *options,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)).decode()
    except TimeoutError:
        line = ""
    except asyncio.CancelledError:
        await end_server(process)
        raise
    if not line.startswith("serving "):
        await end_server(process)
        raise ConfigError(f"the embedded API server did not come up (exit code {process.returncode})")
    return process, line.split()[1]


async def end_server(process: asyncio.subprocess.Process) -> None:
    """End the API server, which has nothing to save."""
    if process.returncode is None:
        process.kill()
    await process.wait()
