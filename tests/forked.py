"""Start `pyscheduler` in processes that are forked from one that has imported it.

To import its modules takes four fifths of the CPU time of a program that a test starts. A forked process has a session,
an environment, signal handlers and files of its own, as a started one has. What only a new interpreter shows, such as
the time that a start takes and signals that are ignored from the start, is tested with `tests.processes`.

Run as a program, this file is the process to fork from. It takes requests from its first argument, a socket, until the
other end is closed. Each process that runs tests starts it once, and ends it in `tests/conftest.py`.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

#: Modules that the programs import, directly or not; all of `_FOLDERS` are imported, too.
_MODULES = (
    "kube_pyscheduler",
    "kubernetes.aio.config.kube_config",
    "pyscheduler.cli.main",
    "pyscheduler.cli.offline_scheduler",
    "kube_testserver.cluster",
    "kube_testserver.serving.http_server",
    "pyscheduler.cluster.real.http",
    "pyscheduler.scheduler.assembly",
    "pyscheduler_batch.hooks",
    "pyscheduler_coscheduling.hooks",
    "pyscheduler_fgd.hooks",
    "pyscheduler_gang.hooks",
    "pyscheduler_kai.hooks",
    "pyscheduler_kube_batch.hooks",
    "pyscheduler_podgrouper.hooks",
    "pyscheduler_queuesort.hooks",
    "pyscheduler_quota.cli.webhook_server",
    "pyscheduler_volcano.hooks",
)
_FOLDERS = ("pyscheduler.cli", "pyscheduler.flags", "pyscheduler.plugins", "pyscheduler.serving")
#: Whether processes can be forked here: coverage follows only programs that are started, and the socket is Linux's.
IS_POSSIBLE = sys.platform == "linux" and not any(name.startswith("COVERAGE_PROCESS") for name in os.environ)
#: The largest request: the arguments and the environment.
_MOST_BYTES = 1 << 20


class Forked:
    """A process that was forked; it has the part of `asyncio.subprocess.Process` that tests use."""

    def __init__(
        self, pid: int, stdout: asyncio.StreamReader, stderr: asyncio.StreamReader, control: asyncio.StreamReader
    ) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._ending = asyncio.create_task(self._wait(control))

    async def _wait(self, control: asyncio.StreamReader) -> int:
        self.returncode = int(await control.readline())
        await control.read()  # until its end, so that the pipe is closed
        return self.returncode

    async def wait(self) -> int:
        """Wait for the end; return the exit code, or minus the number of the signal."""
        return await asyncio.shield(self._ending)

    def send_signal(self, number: int) -> None:
        """Send a signal; raise ProcessLookupError if the process has ended."""
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)


async def start(*arguments: str, env: Mapping[str, str], code: str = "", folder: Path | None = None) -> Forked:
    """Start `pyscheduler` with these arguments; its output is read by the caller.

    With `code`, run that instead of the module `pyscheduler`; in `folder`, by default in this working directory.
    """
    starting = asyncio.create_task(_start(arguments, env, code, folder or Path.cwd()))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:  # the caller has no process that it could kill
        process = await starting
        os.killpg(process.pid, signal.SIGKILL)
        await asyncio.gather(process.stdout.read(), process.stderr.read(), process.wait())
        raise


def run_pytest(*arguments: str, folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run pytest to its end in a folder, in a forked process; in a new one where none can be forked."""
    command = [sys.executable, "-m", "pytest", *arguments]
    if not IS_POSSIBLE:
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return asyncio.run(_run_pytest(command, folder, env))


async def _run_pytest(command: list[str], folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    process = await start(*command[3:], env=env, code="import pytest, sys; sys.exit(pytest.main())", folder=folder)
    try:
        out, err, code = await asyncio.gather(process.stdout.read(), process.stderr.read(), process.wait())
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, code, out.decode(), err.decode())


async def _start(arguments: Sequence[str], env: Mapping[str, str], code: str, working: Path) -> Forked:
    pipes = [os.pipe() for _ in range(3)]
    readers = [await _reader(source) for source, _ in pipes]
    targets = [target for _, target in pipes]
    request = {"arguments": arguments, "environment": dict(env), "folder": str(working), "code": code}
    try:
        socket.send_fds(_server()[1], [json.dumps(request).encode()], targets)
    finally:
        for target in targets:
            os.close(target)
    stdout, stderr, control = readers
    return Forked(int(await control.readline()), stdout, stderr, control)


async def _reader(source: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb", 0)
    )
    return reader


@functools.cache
def _server() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the process to fork from; return the process and the socket for requests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
            start_new_session=True,
        )
    return process, ours


def programs() -> list[int]:
    """Return the ids of the programs that run."""
    server = _server()[0].pid
    return [int(pid) for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split()]


def end() -> None:
    """End the process to fork from, if it was started."""
    if _server.cache_info().currsize:
        process, requests = _server()
        requests.close()
        process.wait()
        _server.cache_clear()


# --- the process to fork from -------------------------------------------------------------------


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each request; return None at the end of the requests, and in a fork its request."""
    for name in _MODULES:
        importlib.import_module(name)
    for name in _FOLDERS:
        folder = importlib.import_module(name)
        for found in pkgutil.walk_packages(folder.__path__, f"{name}."):
            importlib.import_module(found.name)
    sys.path.insert(0, str(Path.cwd()))  # as in most of the programs
    importlib.import_module("pyscheduler.runtime.assembly.discovery").discover()
    del sys.path[0]
    for kind in importlib.import_module("kube_objects.kinds").BUILT_IN_KINDS:
        importlib.import_module("kube_objects.codec").decode_list(kind.type, b'{"items": []}')
    gc.freeze()  # or each process would copy all of this memory, to look for garbage in it
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    with requests:
        child = _fork_each(requests, woken)
    if child is None:
        return None
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _begin(*child)
    return child[0]


def _fork_each(requests: socket.socket, woken: int) -> tuple[dict[str, Any], list[int]] | None:
    """Fork a process for each request; return None at the end, and in a fork its request and pipes."""
    controls: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                _drain(woken)
            _report(controls)
            if requests not in ready:
                continue
            data, fds, _, _ = socket.recv_fds(requests, _MOST_BYTES, 3)
            if not data:
                return None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of threads: numpy ends its own before a fork
                pid = os.fork()
            if pid == 0:
                return json.loads(data), fds
            stdout, stderr, controls[pid] = fds
            os.close(stdout)
            os.close(stderr)


def _drain(pipe: int) -> None:
    try:
        while os.read(pipe, 512):
            pass
    except BlockingIOError:
        return


def _report(controls: dict[int, int]) -> None:
    """Write the exit codes of the processes that have ended."""
    for pid in list(controls):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            control = controls.pop(pid)
            os.write(control, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(control)


def _begin(request: dict[str, Any], fds: list[int]) -> None:
    """Become a process of its own and write its id."""
    os.setsid()
    stdout, stderr, control = fds
    os.write(control, f"{os.getpid()}\n".encode())
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv[1:] = request["arguments"]
    sys.path[:0] = [request["folder"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def _run(request: dict[str, Any]) -> int:
    """Run the code of a request, or else `pyscheduler`, to its end; return the exit code."""
    try:
        if request["code"]:
            exec(request["code"], {"__name__": "__main__"})  # as `python -c` does
        else:
            runpy.run_module("pyscheduler", run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        if isinstance(leaving.code, int | None):
            return leaving.code or 0
        sys.stderr.write(f"{leaving.code}\n")
        return 1
    return 0


def _leave(code: int) -> NoReturn:
    """End the process as an interpreter does, but leave its modules as they are.

    To take them apart copies all memory that is shared with other processes, in 0.1 s of CPU time.
    """
    # An interpreter does both at its end; nothing public does.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    found = _serve(socket.socket(fileno=int(sys.argv[1])))
    if found is not None:
        _leave(_run(found))
