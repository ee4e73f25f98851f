"""The rooms keep their contracts, and each contract notices when it is broken."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import distributions, processes

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]

#: For each contract, a module (new, or overwritten in a copy of the packages) and the import that breaks the contract.
OFFENDERS = {
    "Rooms": ("pyscheduler/framework/second_offender.py", "import pyscheduler.queue"),
    "What others use without the scheduler knows nothing of it": (
        "packages/kube-cel/kube_cel/offender.py",
        "import pyscheduler",
    ),
    "The test server stands on the wire objects": (
        "packages/kube-objects/kube_objects/offender.py",
        "import kube_testserver.store",
    ),
    "Nothing that runs a cluster knows the lab": ("pyscheduler/queue/second_offender.py", "import pyscheduler_lab"),
    "Rooms of the lab": ("lab/pyscheduler_lab/simulation/second_offender.py", "import pyscheduler_lab.cli"),
    "The checker shares no code with what it checks": (
        "lab/pyscheduler_lab/audit/offender.py",
        "import pyscheduler.api",
    ),
    "Plugins, ours and theirs, live on the public contract": (
        "plugins/queuesort/pyscheduler_queuesort/offender.py",
        "import pyscheduler.runtime",
    ),
    "A batch system stands on the model, and knows nothing of what runs it": (
        "plugins/kai/pyscheduler_kai/offender.py",
        "import pyscheduler_batch.sessions.source",
    ),
    "Batch systems do not know each other; the scheduler knows neither them nor reserved quota": (
        "plugins/batch/pyscheduler_batch/model/offender.py",
        "import pyscheduler_volcano.session",
    ),
    "The official client stays behind one module": (
        "pyscheduler/cluster/real/offender.py",
        "import kubernetes.client",
    ),
    "The cluster room carries and stores, it decides nothing": (
        "pyscheduler/cluster/offender.py",
        "import pyscheduler.scheduler",
    ),
    "Rooms of the API server in memory": (
        "packages/kube-testserver/kube_testserver/schema/offender.py",
        "import kube_testserver.serving",
    ),
    "The scheduler knows plugins by their interfaces only": (
        "pyscheduler/scheduler/offender.py",
        "import pyscheduler.plugins",
    ),
    "Extension points do not know the equivalence cache": (
        "pyscheduler/runtime/extension_points/filtering.py",
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
        "packages/kube-objects/kube_objects/second_offender.py",
        "import numpy",
    ),
    "HTTP is spoken at the edge": ("pyscheduler/testing/offender.py", "import aiohttp.web"),
    "OpenTelemetry and Prometheus stay in telemetry": (
        "pyscheduler/runtime/offender.py",
        "from opentelemetry import metrics",
    ),
    "Terminal libraries stay in the command line": ("lab/pyscheduler_lab/simulation/offender.py", "import rich"),
    "pluggy discovers and does nothing else": ("pyscheduler/framework/offender.py", "import pluggy"),
}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the import contracts on the checkout in `folder`, which shadows the installed packages."""
    beside = [str(folder / path.relative_to(ROOT)) for path in distributions.BESIDE]
    return processes.run(
        *(sys.executable, "-c", "import importlinter.cli as c; c.lint_imports_command()", "--no-cache", "--no-logo"),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(beside), "COLUMNS": "200"},
    )


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the report on a copy of the packages in which every contract is broken once."""
    copy = tmp_path_factory.mktemp("spoilt")
    shutil.copy(ROOT / "pyproject.toml", copy)
    for folder in ("pyscheduler", "lab", "packages", "plugins"):
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


# --- circles of imports ---------------------------------------------------------------------------

#: No circle of imports has more modules than this; imports that only type checkers see count.
LARGEST_CIRCLE = 5


def imports_of(folders: Iterable[Path]) -> dict[str, set[str]]:
    """Return for each module of the packages in these folders the modules of theirs that it imports, anywhere in it."""
    paths = {
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"): path
        for folder in folders
        for package in folder.iterdir()
        if (package / "__init__.py").exists()
        for path in package.rglob("*.py")
    }
    imports: dict[str, set[str]] = {}
    for name, path in paths.items():
        found = imports[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}: relative imports are not followed"
                inner = {f"{node.module}.{one.name}" for one in node.names}
                found |= {one if one in paths else str(node.module) for one in inner}
        found &= paths.keys() - {name}
    return imports


def circles_of(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that all reach each other through imports, the largest first."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            new = imports[todo.pop()] - seen
            seen |= new
            todo += new
        return seen

    reached = {name: reach(name) for name in imports}
    circles = {frozenset({name} | {one for one in reached[name] if name in reached[one]}) for name in imports}
    return sorted(map(sorted, circles), key=lambda one: (-len(one), one))


@pytest.mark.slow
def test_no_circle_of_imports_is_large() -> None:
    """At most five modules import each other in a circle; the message shows the largest circle."""
    imports = imports_of([ROOT, *distributions.BESIDE])
    imports = {name: found for name, found in imports.items() if not name.startswith("tests")}
    assert "pyscheduler.cli.run" in imports
    assert "pyscheduler_gang" in imports
    largest = circles_of(imports)[0]
    shown = "\n".join(f"{name} imports {', '.join(sorted(imports[name] & set(largest)))}" for name in largest)
    assert len(largest) <= LARGEST_CIRCLE, f"{len(largest)} modules import each other:\n{shown}"


def test_a_type_only_import_closes_a_circle(tmp_path: Path) -> None:
    """A circle is found through functions and type-checking blocks; a module that only leads to it is not in it."""
    package = tmp_path / "pack"
    package.mkdir()
    for name, text in {
        "__init__": "",
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack.b import B",
        "b": "def late():\n    import pack.c",
        "c": "from pack import a",
        "d": "from pack import a",
    }.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    assert circles_of(imports_of([tmp_path]))[0] == ["pack.a", "pack.b", "pack.c"]
