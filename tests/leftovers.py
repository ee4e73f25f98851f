"""Find and end the processes that a test run has left behind.

A test run marks its environment, which every process that is started in it inherits: by a test or by the program under
test, at any depth and in any session. At the end of the run `tests/conftest.py` looks for the mark. When pytest itself
is killed, nobody is left to look: the watchdog, which is this file run as a program, then ends the marked processes.

Processes are found in /proc; where there is none, nothing is found.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple

#: The variable that holds the mark of a test run.
VARIABLE = "PYSCHEDULER_TEST_RUN"

#: The process that multiprocessing starts once and keeps until its parent ends.
_RESOURCE_TRACKER = "multiprocessing.resource_tracker"


class Leftover(NamedTuple):
    """A process that still runs: its id, its command line, and the test that started it."""

    pid: int
    command: str
    test: str

    def __str__(self) -> str:
        return f"process {self.pid} of {self.test}: {self.command}"


def find(mark: str) -> list[Leftover]:
    """Return the processes that carry the mark, without this process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # ended meanwhile, or another user's
            continue
        if pid == os.getpid() or f"{VARIABLE}={mark}".encode() not in variables or _RESOURCE_TRACKER in command:
            continue
        tests = [each.partition(b"=")[2] for each in variables if each.startswith(b"PYTEST_CURRENT_TEST=")]
        found.append(Leftover(pid, command, tests[0].decode() if tests else "no test"))
    return found


def left_behind(mark: str, *, seconds: float) -> list[Leftover]:
    """Wait so long for the marked processes to end by themselves; kill the others and return them."""
    until = time.monotonic() + seconds
    while (found := find(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    kill(mark)
    return found


def kill(mark: str) -> None:
    """Kill the marked processes, and those that they start meanwhile."""
    while found := find(mark):
        for each in found:
            try:
                os.kill(each.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)


def mark_run() -> tuple[str, subprocess.Popen[bytes]]:
    """Mark the environment of this process and start the watchdog; return the mark and the watchdog."""
    mark = uuid.uuid4().hex
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    # A session of its own: Ctrl-C in a terminal goes to pytest, and the watchdog outlives it.
    watchdog = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, mark],
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    os.environ[VARIABLE] = mark
    return mark, watchdog


if __name__ == "__main__":
    sys.stdin.buffer.read()  # ends with the process at the other end, however that ends
    kill(sys.argv[1])
