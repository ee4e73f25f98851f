"""Processes that share the work of a command: Ctrl-C, and one that is killed."""

from __future__ import annotations

import os
import sys

import pytest

from pyscheduler.cli.worker_pool import WorkerPool
from pyscheduler.framework.errors import PySchedulerError
from tests import processes

#: Interrupts the command when a process of it has started, but has not read what it needs; prints whether it is over.
INTERRUPTED = """
import os, signal
from multiprocessing import active_children, util
from threading import Event, Thread
from pyscheduler.cli.worker_pool import WorkerPool

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


@pytest.mark.slow
def test_interrupt_during_a_start_ends_all_processes_without_a_word() -> None:
    """Only the main process gets it, and when the others can be ended."""
    command = processes.popen(sys.executable, "-c", INTERRUPTED)
    try:
        text, err = command.communicate(timeout=processes.PATIENCE_SECONDS)
        assert (command.returncode, text, err) == (0, "interrupted []\n", "")
    finally:
        processes.kill(command)


@pytest.mark.slow
def test_killed_process_is_an_error() -> None:
    """The other results would not come: a pool has one queue for all of its processes."""
    with pytest.raises(PySchedulerError, match="a process ended without a result"), WorkerPool(2) as pool:
        [*pool.map(os._exit, [3])]
