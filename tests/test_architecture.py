"""The rooms keep their contracts, and each contract notices when it is broken."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import processes

ROOT = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]

#: For each contract, a module (new, or overwritten in a copy of the packages) and the import that breaks the contract.
OFFENDERS = {
    "Rooms": ("pyscheduler/api/offender.py", "import pyscheduler.queue"),
    "Plugins, ours and theirs, live on the public contract": (
        "plugins/queuesort/pyscheduler_queuesort/offender.py",
        "import pyscheduler.runtime",
    ),
    "The official client stays behind one module": (
        "pyscheduler/cluster/real/offender.py",
        "import kubernetes.client",
    ),
    "The cluster room carries and stores, it decides nothing": (
        "pyscheduler/cluster/embedded/offender.py",
        "import pyscheduler.scheduler",
    ),
    "The scheduler knows plugins by their interfaces only": (
        "pyscheduler/scheduler/offender.py",
        "import pyscheduler.plugins",
    ),
    "Extension points do not know the equivalence cache": (
        "pyscheduler/runtime/filtering.py",
        "import pyscheduler.runtime.equivalence_cache.cache",
    ),
    "In-tree plugins do not know each other": (
        "pyscheduler/plugins/offender.py",
        "import pyscheduler.plugins.other_offender",
    ),
    "No I/O in the rooms that decide": ("pyscheduler/podgroup/offender.py", "import socket"),
    "Wire objects, configuration and the expression language know no event loop": (
        "pyscheduler/config/offender.py",
        "def late() -> None:\n    import asyncio",
    ),
    "Wire objects need msgspec and the standard library": (
        "pyscheduler/api/second_offender.py",
        "import numpy",
    ),
    "HTTP is spoken at the edge": ("pyscheduler/testing/offender.py", "import aiohttp.web"),
    "OpenTelemetry and Prometheus stay in telemetry": (
        "pyscheduler/runtime/offender.py",
        "from opentelemetry import metrics",
    ),
    "Terminal libraries stay in the command line": ("pyscheduler/simulation/offender.py", "import rich"),
    "pluggy discovers and does nothing else": ("pyscheduler/framework/offender.py", "import pluggy"),
}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the import contracts on the checkout in `folder`, which shadows the installed packages."""
    plugins = [str(path) for path in (folder / "plugins").iterdir() if path.is_dir()]
    return processes.run(
        *(sys.executable, "-c", "import importlinter.cli as c; c.lint_imports_command()", "--no-cache", "--no-logo"),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(plugins), "COLUMNS": "200"},
    )


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the report on a copy of the packages in which every contract is broken once."""
    copy = tmp_path_factory.mktemp("spoilt")
    shutil.copy(ROOT / "pyproject.toml", copy)
    for folder in ("pyscheduler", "plugins"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "tests"))
    (copy / "pyscheduler/plugins/other_offender.py").touch()
    for path, line in OFFENDERS.values():
        (copy / path).write_text(f"{line}\n", encoding="utf-8")
    return lint_imports(copy).stdout


def test_the_pages_list_the_rooms_of_the_contract() -> None:
    """The architecture page and CONTRIBUTING.md name every room, in the order of the import contract."""
    layers = next(contract["layers"] for contract in CONTRACTS if contract["name"] == "Rooms")
    rooms = [room for layer in layers for room in layer.split(" | ")]
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    picture = page.partition("```\n")[2].partition("```")[0]
    drawn = [
        room for line in re.findall(r"^ ([a-z]+(?: \| [a-z]+)*)", picture, re.MULTILINE) for room in line.split(" | ")
    ]
    assert drawn == rooms
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.findall(r"`([a-z]+)`", guide.partition("Outermost first:")[2].partition(". ")[0]) == rooms


@pytest.mark.slow
def test_the_packages_keep_every_contract() -> None:
    """No module imports from a room that it must not know."""
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_contract_has_an_offender() -> None:
    """A contract added to pyproject.toml is shown below to be able to fail."""
    assert {contract["name"] for contract in CONTRACTS} == OFFENDERS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", OFFENDERS)
def test_a_wrong_import_breaks_its_contract(name: str, spoilt: str) -> None:
    """Each contract catches the import that it exists to forbid."""
    assert f"{name} BROKEN" in spoilt, spoilt
