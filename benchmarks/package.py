"""Measure the CPU time of importing pyscheduler, and the package's size on disk."""

from __future__ import annotations

import statistics
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

__all__ = ["imports", "installed"]

_ROOT = Path(__file__).parents[1]
_MIB = 2**20
#: What is imported, by the figure that says what it cost.
_IMPORTS = {
    "import_ms": "import pyscheduler",
    "contract_import_ms": "from pyscheduler import FilterPlugin, NodeStatuses",
    "test_kit_import_ms": "from pyscheduler.testing import FakeCluster, FakeFramework",
    "run_import_ms": "import pyscheduler.cli.run, pyscheduler.scheduler.assembly",
}


def imports(runs: int) -> dict[str, float]:
    """Return the CPU time of some imports, each in new processes: the median of some runs, in milliseconds."""
    return {name: statistics.median(_import_ms(statement) for _ in range(runs)) for name, statement in _IMPORTS.items()}


def _import_ms(statement: str) -> float:
    code = f"import time; begun = time.process_time(); {statement}; print(time.process_time() - begun)"
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout) * 1000


def installed() -> dict[str, float]:
    """Return the size of the package without bytecode, and that of all libraries it requires, in MiB."""
    files = [path for path in (_ROOT / "pyscheduler").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    package = sum(path.stat().st_size for path in [*files, _ROOT / "kube_pyscheduler.py"])
    libraries = _required("kube-pyscheduler") - {"kube-pyscheduler"}
    return {"package_mib": package / _MIB, "libraries_mib": sum(map(_size, libraries)) / _MIB}


def _required(name: str) -> set[str]:
    """Return the names of a distribution and of all that it requires, without extras."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        try:
            requirements = distribution(name).requires or ()
        except PackageNotFoundError:
            continue  # for another platform
        if name not in found:
            found.add(name)
            parsed = (Requirement(text) for text in requirements)
            waiting += [each.name for each in parsed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


def _size(name: str) -> int:
    paths = (Path(str(file.locate())) for file in distribution(name).files or () if file.suffix != ".pyc")
    return sum(path.stat().st_size for path in paths if path.is_file())
