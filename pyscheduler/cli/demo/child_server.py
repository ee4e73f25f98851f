"""Start and stop an embedded API server in a child process, for the demos."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["end_server", "start_server"]

_START_SECONDS = 60.0


async def start_server(manifests: Sequence[object], *options: str) -> tuple[asyncio.subprocess.Process, str]:
    """Start `pyscheduler cluster` with these objects as a child process; return the process and its URL.

    Raises `ConfigError` if the server does not start within a minute.
    """
    import msgspec

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": manifests}))
        return await _start(file, *options)


async def _start(manifests: Path, *options: str) -> tuple[asyncio.subprocess.Process, str]:
    from pyscheduler.framework.errors import ConfigError

    # The child ends when its stdin closes, which happens however this process ends. The child has its own session,
    # because Ctrl-C is sent to the whole process group, and this process still has bindings to finish then.
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
        raise ConfigError(f"the embedded API server did not start within a minute (exit code {process.returncode})")
    return process, line.split()[1]


async def end_server(process: asyncio.subprocess.Process) -> None:
    """Kill the API server; it has no data to save."""
    if process.returncode is None:
        process.kill()
    await process.wait()
