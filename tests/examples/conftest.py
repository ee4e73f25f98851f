"""What examples need to run as a reader would run them: the commands, as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


class Command:
    """A `pyscheduler` command that runs until it is stopped; its log goes to a file."""

    def __init__(self, log: Path, *arguments: str, env: dict[str, str]) -> None:
        self._log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pyscheduler", *arguments],
                cwd=ROOT,
                env=os.environ | env,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

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
            return self.process.wait(timeout=20)


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


def bound_pod(server: str, name: str, *, seconds: int = 20) -> dict[str, Any]:
    """Watch the API until the pod has a node, and return it; the server ends the watch after `seconds`."""
    url = f"{server}/api/v1/namespaces/default/pods?watch=1&timeoutSeconds={seconds}"
    with urllib.request.urlopen(url, timeout=seconds + 5) as answer:
        for line in answer:
            pod: dict[str, Any] = json.loads(line)["object"]
            if pod.get("metadata", {}).get("name") == name and pod["spec"].get("nodeName"):
                return pod
    raise AssertionError(f"pod {name} has no node after {seconds} seconds")
