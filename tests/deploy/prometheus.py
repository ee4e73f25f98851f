"""Prometheus and promtool: from the path, or from Debian's package, unpacked into a folder of the test run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.processes import run

#: The longest download and unpacking, in seconds.
_SECONDS = 300


def tools(folder: Path) -> Path:
    """Return the folder with `prometheus` and `promtool`; skip the test, with the reason, if there are none."""
    found = shutil.which("promtool")
    if found and shutil.which("prometheus"):
        return Path(found).parent
    unpacked = folder / "prometheus" / "usr" / "bin"
    if not (unpacked / "promtool").exists():
        _unpack(folder)
    return unpacked


def _unpack(folder: Path) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        pytest.skip("no prometheus and promtool on the path, and no apt-get to fetch them with: alerts are NOT tested")
    folder.mkdir(parents=True, exist_ok=True)
    fetched = run("apt-get", "download", "prometheus", cwd=folder, seconds=_SECONDS)
    if fetched.returncode:
        run("apt-get", "update", cwd=folder, seconds=_SECONDS)
        fetched = run("apt-get", "download", "prometheus", cwd=folder, seconds=_SECONDS)
    packages = list(folder.glob("prometheus_*.deb"))
    if fetched.returncode or not packages:
        pytest.skip(f"apt-get has no package prometheus: alerts are NOT tested: {fetched.stderr.strip()[-200:]}")
    unpacked = run("dpkg", "-x", str(packages[0]), str(folder / "prometheus"), cwd=folder, seconds=_SECONDS)
    assert unpacked.returncode == 0, unpacked.stderr
