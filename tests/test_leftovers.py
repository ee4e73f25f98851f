"""No test run leaves a process behind, and signals reach the processes of a test however pytest was started."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests import forked, leftovers
from tests.processes import PATIENCE_SECONDS, kill, popen, run

ROOT = Path(__file__).parents[1]
OPTIONS = "-q -c /dev/null -p tests.conftest -p no:cacheprovider -p no:randomly"
NESTED = ("-m", "pytest", *OPTIONS.split())

#: A test that leaves a grandchild behind, in a session of its own and without its parent.
FORGETFUL = """
import subprocess, sys, time

def test_it():
    sleeper = "import subprocess; subprocess.Popen(['sleep', '{seconds}'], start_new_session=True)"
    subprocess.run([sys.executable, "-c", sleeper], check=True)
    print("started", file=sys.__stdout__, flush=True)
    time.sleep({longer})
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc"),
]


def sleepers(seconds: str) -> list[str]:
    """Return the processes that sleep for so long."""
    wanted = b"sleep\0" + seconds.encode() + b"\0"
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == wanted:
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@pytest.fixture
def seconds() -> str:
    """Return a duration by which a sleeping process is recognized."""
    return str(10_000_000 + uuid.uuid4().int % 1_000_000)


@pytest.mark.parametrize("workers", [pytest.param((), id="no workers"), pytest.param(("-n", "1"), id="xdist")])
def test_a_process_left_behind_fails_the_run(tmp_path: Path, seconds: str, workers: tuple[str, ...]) -> None:
    """The run ends the process, names its command line and the test that started it, and fails."""
    (tmp_path / "conftest.py").write_text("import tests.conftest\ntests.conftest.ENDING_SECONDS = 0.5\n")
    (tmp_path / "test_forgetful.py").write_text(FORGETFUL.format(seconds=seconds, longer=0))
    done = run(sys.executable, *NESTED, *workers, "--rootdir", tmp_path, tmp_path, cwd=ROOT)
    assert "1 passed" in done.stdout
    assert done.returncode == 1
    assert f"of test_forgetful.py::test_it (call): sleep {seconds}" in done.stdout
    assert sleepers(seconds) == []


def test_a_process_ends_when_pytest_is_killed(tmp_path: Path, seconds: str) -> None:
    """Nobody is left to look for processes; the watchdog ends them."""
    (tmp_path / "test_forgetful.py").write_text(FORGETFUL.format(seconds=seconds, longer=1000))
    pytest_run = popen(sys.executable, *NESTED, "-s", "--rootdir", tmp_path, tmp_path, cwd=ROOT)
    assert pytest_run.stdout is not None
    try:
        assert "started" in pytest_run.stdout.readline()
        assert len(sleepers(seconds)) == 1
    finally:
        kill(pytest_run)
    pytest_run.communicate()
    until = time.monotonic() + PATIENCE_SECONDS
    while sleepers(seconds):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_children_do_not_inherit_ignored_signals(tmp_path: Path) -> None:
    """Started where SIGINT, SIGQUIT and SIGHUP are ignored, pytest gives its children the default dispositions."""
    (tmp_path / "test_signals.py").write_text(
        "import re, subprocess\n"
        "def test_it():\n"
        "    status = subprocess.run(['cat', '/proc/self/status'], check=True, capture_output=True, text=True).stdout\n"
        "    assert int(re.search(r'SigIgn:\\s+(\\w+)', status)[1], 16) & 0b111 == 0  # HUP, INT, QUIT\n"
    )
    ignoring = ("sh", "-c", 'trap "" INT QUIT HUP; exec "$@"', "sh")
    done = run(*ignoring, sys.executable, *NESTED, "-n", "1", "--rootdir", tmp_path, tmp_path, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_only_marked_processes_are_found() -> None:
    """A process with the mark is found with its command line; other processes are not touched."""
    mark = uuid.uuid4().hex
    with popen("sleep", "1000") as other, popen("sleep", "1001", env={leftovers.VARIABLE: mark}) as marked:
        found: list[leftovers.Leftover] = []
        try:
            # After vfork, Popen returns before the kernel has set the environment of the new program.
            while not leftovers.find(mark):
                time.sleep(0.01)
            found = leftovers.left_behind(mark, seconds=0)
            assert other.poll() is None
        finally:
            kill(other)
            kill(marked)
    assert found == [leftovers.Leftover(marked.pid, "sleep 1001", "no test")]


@pytest.mark.skipif(not forked.IS_POSSIBLE, reason="programs are forked on Linux only")
@pytest.mark.parametrize("turns", [1, 2, 3, 5, 8])
async def test_a_start_that_is_cancelled_leaves_no_process(turns: int) -> None:
    """The caller has no process to kill yet, so the start kills it and closes its pipes."""
    starting = asyncio.create_task(forked.start("cluster", "--port", "0", env=os.environ))
    for _ in range(turns):
        await asyncio.sleep(0)
    if not starting.cancel():  # on a busy machine, the other process may be done by then
        program = starting.result()
        kill(program)
        await asyncio.gather(program.stdout.read(), program.stderr.read(), program.wait())
        assert turns > 3
        return
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert forked.programs() == []
    gc.collect()  # pytest fails a test that leaves a file open
