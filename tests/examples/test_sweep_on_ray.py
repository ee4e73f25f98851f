"""`lab sweep --on ray` with two workers of this machine: the bundles have the bytes of those of one process."""

from __future__ import annotations

import hashlib
import os
import sys
import tomllib
from pathlib import Path

import pytest

from tests import distributions, processes
from tests.examples.conftest import ROOT

#: Ray has 100 MB, and starts a dozen processes.
SECONDS = 900.0


@pytest.mark.timeout(3 * SECONDS)
def test_ray_writes_the_bundles_of_one_process(tmp_path: Path) -> None:
    """Ray comes from the package index, as the extra `sweep` of the lab names it."""
    project = tomllib.loads((distributions.LAB / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (ray,) = (each for each in project["optional-dependencies"]["sweep"] if each.startswith("ray"))
    install = "-m pip install --quiet --disable-pip-version-check --target"
    processes.run(sys.executable, *install.split(), tmp_path / "site", ray, check=True, seconds=SECONDS)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "RAY_USAGE_STATS_ENABLED": "0"}
    (tmp_path / "sweep.yaml").write_text(
        f"traces: [{{trace: {ROOT}/examples/21-sweep/jobs.csv, jobs: 30}}]\n"
        "clusters: 2x8gpu\nprofiles: [default, fifo]\nseeds: 2\n"
    )

    def hashes(out: str, *options: str) -> dict[str, str]:
        """Run the sweep; return the SHA-256 of each Parquet file."""
        command = ("-m", "pyscheduler", "lab", "sweep", "sweep.yaml", "--out", out, *options)
        done = processes.run(sys.executable, *command, env=environment, cwd=tmp_path, seconds=SECONDS)
        assert done.returncode == 0, done.stderr
        files = sorted((tmp_path / out).rglob("*.parquet"))
        return {
            path.relative_to(tmp_path / out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        }

    on_ray = hashes("ray", "--on", "ray", "--workers", "2")
    assert len(on_ray) == 4 * 4 + 1
    assert on_ray == hashes("one", "--workers", "1")
