"""Start the processes that tests need; every test starts its processes here.

Each runs in a session of its own, which is killed as a whole: what a process has started ends with it. Signals have
their default dispositions, whatever pytest inherited (`tests/conftest.py` takes care of that).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.forked import Forked
from tests.leftovers import VARIABLE

#: The limit for anything that a test waits for, in seconds. It only ends what hangs: machines may be very busy.
PATIENCE_SECONDS = 300.0


#: A launcher that has the command after it start with SIGINT ignored, as a background job of a shell script does.
IGNORING_SIGINT = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")


def _environment(given: Mapping[str, str] | None) -> dict[str, str]:
    """Return the environment for a child: the given one (None: this process's), with the mark of the test run."""
    mark = os.environ.get(VARIABLE)
    return {**({VARIABLE: mark} if mark is not None else {}), **(os.environ if given is None else given)}


async def start(
    *command: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int = asyncio.subprocess.DEVNULL,
    stderr: int = asyncio.subprocess.PIPE,
) -> asyncio.subprocess.Process:
    """Start a process whose output is read by the caller, who also must `kill` it."""
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        env=_environment(env),
        cwd=cwd,
        start_new_session=True,
    )


def popen(
    *command: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, stderr: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start a process without an event loop; the caller must `kill` it."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=_environment(env),
        cwd=cwd,
        start_new_session=True,
    )


def kill(process: asyncio.subprocess.Process | subprocess.Popen[str] | Forked) -> None:
    """Kill the process and all others of its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


async def run_async(
    *command: str | Path,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stderr: int = asyncio.subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end while the event loop goes on."""
    process = await start(*command, env=env, cwd=cwd, stdin=asyncio.subprocess.PIPE, stderr=stderr)
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), PATIENCE_SECONDS)
    finally:
        kill(process)
    assert process.returncode is not None
    return subprocess.CompletedProcess(command, process.returncode, out.decode(), (err or b"").decode())


def run(
    *command: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = False,
    seconds: float = PATIENCE_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; with `check`, raise `CalledProcessError` when it fails."""
    with popen(*command, env=env, cwd=cwd) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            kill(process)
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done
