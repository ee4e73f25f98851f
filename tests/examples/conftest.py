"""What examples need to run as a reader would run them: the commands, as processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.processes import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]


def install(example: Path | Sequence[Path], folder: Path) -> dict[str, str]:
    """Install distributions with pip into a folder; return the environment variables of programs that have them."""
    sources = []
    for each in [example] if isinstance(example, Path) else example:
        sources.append(folder / "source" / each.name)
        shutil.copytree(each, sources[-1])
    command = "-m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --target"
    processes.run(sys.executable, *command.split(), folder / "site", *sources, check=True)
    return {"PYTHONPATH": str(folder / "site")}


def run(*arguments: object, env: dict[str, str], cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run Python with more environment variables, and return what it printed."""
    return processes.run(sys.executable, *map(str, arguments), cwd=cwd, env=os.environ | env)


class Command:
    """A `pyscheduler` command that runs until it is stopped; its log goes to a file."""

    def __init__(self, log: Path, *arguments: str, env: dict[str, str]) -> None:
        self._log = log
        with log.open("wb") as errors:
            command = (sys.executable, "-m", "pyscheduler", *arguments)
            self.process = processes.popen(*command, cwd=ROOT, env=os.environ | env, stderr=errors.fileno())

    @property
    def log(self) -> str:
        """Return what it wrote to stderr so far."""
        return self._log.read_text(encoding="utf-8")

    def line(self) -> str:
        """Wait for the next line on stdout; "" when there will be none."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def stop(self) -> int:
        """Ask it to end, wait, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        with self.process:
            try:
                return self.process.wait(PATIENCE_SECONDS)
            finally:
                processes.kill(self.process)


Start = Callable[..., Command]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Give a function that starts a command; what still runs at the end is stopped."""
    with ExitStack() as stack:
        number = 0

        def begin(*arguments: str, env: dict[str, str] | None = None) -> Command:
            nonlocal number
            number += 1
            command = Command(tmp_path / f"{number}.log", *arguments, env=env or {})
            stack.callback(command.stop)
            return command

        yield begin


def bound_pod(server: str, name: str) -> dict[str, Any]:
    """Watch the API until the pod has a node, and return it; the server ends a watch that takes too long."""
    seconds = int(PATIENCE_SECONDS)
    url = f"{server}/api/v1/namespaces/default/pods?watch=1&timeoutSeconds={seconds}"
    with urllib.request.urlopen(url, timeout=2 * seconds) as answer:
        for line in answer:
            pod: dict[str, Any] = json.loads(line)["object"]
            if pod.get("metadata", {}).get("name") == name and pod["spec"].get("nodeName"):
                return pod
    raise AssertionError(f"pod {name} has no node after {seconds} seconds")
