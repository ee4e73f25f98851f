"""Processes that share the work of a command: Ctrl-C, and one that is killed."""

from __future__ import annotations

import os
import sys

import pytest

from pyscheduler.cli.worker_pool import LostCall, WorkerPool
from pyscheduler.framework.errors import PySchedulerError
from tests import processes

#: Interrupts the command when a process of it has started, but has not read what it needs; prints whether it is over.
INTERRUPTED = """
import os, signal
from multiprocessing import active_children, util
from threading import Event, Thread
from pyscheduler.cli.worker_pool import LostCall, WorkerPool

start = util.spawnv_passfds
# The kernel may give a signal to any thread that does not block it, such as those of numpy.
Thread(target=Event().wait, daemon=True).start()

def interrupted(path, arguments, *others):
    process = start(path, arguments, *others)
    if "spawn_main" in str(arguments):
        os.killpg(0, signal.SIGINT)
    return process

util.spawnv_passfds = interrupted
try:
    with WorkerPool(2) as pool:
        print([*pool.map(abs, range(9))])
except KeyboardInterrupt:
    print("interrupted", active_children())
"""


#: Interrupts the command from a process that works.
INTERRUPTING = """
import os, signal
from multiprocessing import active_children
from pyscheduler.cli.worker_pool import WorkerPool

try:
    with WorkerPool(2) as pool:
        print([*pool.map(os.killpg, [0, 0], [signal.SIGINT] * 2)])
except KeyboardInterrupt:
    print("interrupted", active_children())
"""


@pytest.mark.slow
@pytest.mark.parametrize("script", [INTERRUPTED, INTERRUPTING], ids=["start", "work"])
def test_interrupt_ends_all_processes_without_a_word(script: str) -> None:
    """Only the main process gets it, and when the others can be ended."""
    command = processes.popen(sys.executable, "-c", script)
    try:
        text, err = command.communicate(timeout=processes.PATIENCE_SECONDS)
        assert (command.returncode, text, err) == (0, "interrupted []\n", "")
    finally:
        processes.kill(command)


@pytest.mark.slow
def test_killed_process_loses_its_call_only() -> None:
    """Also if it is killed while it sends a result. Further calls get a new process; `map` needs all results."""
    with WorkerPool(2) as pool:
        results = pool.results(bytes, [(10_000_000,)] * 2)
        first, _ = next(results)
        (other,) = (each for each in pool._workers if each.pipe in pool._busy)
        assert other.pipe.poll(processes.PATIENCE_SECONDS)  # nobody reads on: it waits in the middle of its result
        other.process.kill()
        ((number, result),) = results
        assert ({first, number}, type(result)) == ({0, 1}, LostCall)
        assert [*pool.map(abs, [-1, -2, -3])] == [1, 2, 3]
        with pytest.raises(PySchedulerError, match="a process ended without a result"):
            [*pool.map(os._exit, [3])]
