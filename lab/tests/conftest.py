"""Commands in the process of the test."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from pyscheduler.cli.main import main

#: Runs `pyscheduler`; returns exit code, output and complaints.
Run = Callable[..., tuple[int, str, str]]


def other_hash_seed() -> dict[str, str]:
    """Return an environment in which Python orders sets of text otherwise than in this process."""
    return {**os.environ, "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Return a function that runs `pyscheduler`."""

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            main([*map(str, arguments)])
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return run
