"""Commands in the process of the test."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyscheduler.cli.main import main

#: Runs `pyscheduler`; returns exit code, output and complaints.
Run = Callable[..., tuple[int, str, str]]


def other_hash_seed() -> dict[str, str]:
    """Return an environment in which Python orders sets of text otherwise than in this process."""
    return {**os.environ, "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}


def install(folder: Path, name: str, hooks: str, **modules: str) -> dict[str, str]:
    """Put a distribution of one hook module into `folder`; return the environment that finds it."""
    package = name.replace("-", "_")
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pyscheduler]\n{name} = {package}\n")
    (folder / f"{package}.py").write_text(hooks)
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


def hooks(name: str, target: str) -> str:
    """Return a hook module that offers one plugin."""
    return (
        "from pyscheduler import hookimpl\n\n\n"
        "@hookimpl\n"
        f"def pyscheduler_register(registry):\n    registry.add({name!r}, {target!r})\n"
    )


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
