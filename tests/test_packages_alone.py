"""Each distribution works alone, with the libraries that it declares."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections import deque
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import attrs
import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import distributions, processes

#: What tests may use beside what their distribution and its dependency group `test` require.
TEST_TOOLS = ("hypothesis", "pytest", "pytest-asyncio", "pytest-timeout")
#: The settings of pytest and hypothesis, and the configurations that replays in `lab` load.
SHARED = ("configs", "conftest.py", "pyproject.toml")
#: The limit for the tests of one distribution: with the slow ones they take minutes, and longer on a busy machine.
SECONDS = 3600.0
OURS = {distributions.name_of(folder) for folder in (distributions.ROOT, *distributions.BESIDE)}

#: A stranger's program: the official client against the server, and nothing else of this project.
SCRIPT = """
import importlib.util
import sys

from kubernetes import client, config
from kube_testserver import TestServer

with TestServer(tls=True, authorization="rbac") as server:
    with config.new_client_from_config(server.kubeconfig) as api_client:
        core = client.CoreV1Api(api_client)
        core.create_namespaced_config_map("default", {"metadata": {"name": "c"}, "data": {"a": "1"}})
        print(core.read_namespaced_config_map("c", "default").data)
print(sorted({name.partition(".")[0] for name in sys.modules if name.startswith(("kube_", "pyscheduler"))}))
print([name for name in ("kube_pyscheduler", "pyscheduler") if importlib.util.find_spec(name)])
"""


def closure(names: Iterable[Requirement]) -> dict[str, None]:
    """Return the installed distributions that these need, by name, without our own."""
    found: dict[str, None] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(one, extra) for one in names for extra in ("", *one.extras)]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        if name not in OURS:
            found[name] = None
        for line in distribution(name).requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(needed, inner) for inner in ("", *needed.extras)]
    return found


def is_installed(requirement: str) -> bool:
    """Return whether some version of the distribution is installed here."""
    try:
        distribution(Requirement(requirement).name)
    except PackageNotFoundError:
        return False
    return True


@attrs.frozen
class Alone:
    """A virtual environment that sees some of the libraries of this one."""

    folder: Path

    @property
    def site(self) -> Path:
        """Return the folder of its libraries."""
        (folder,) = self.folder.glob("lib/python*/site-packages")
        return folder

    def give(self, *requirements: str) -> None:
        """Show it these libraries and what they need."""
        for name in closure(map(Requirement, requirements)):
            given = distribution(name)
            for top in {file.parts[0] for file in given.files or ()} - {"..", "__pycache__"}:
                link = self.site / top
                if not link.exists():
                    link.symlink_to(given.locate_file(top))

    def install(self, *requirements: str, wheels: Path) -> None:
        """Install wheels and those of ours that they require; fails where a library is missing."""
        command = (
            sys.executable,
            "-m",
            "pip",
            "--python",
            self.folder / "bin/python",
            "install",
            "--quiet",
            "--no-index",
        )
        environment = {**clean(), "PIP_CONFIG_FILE": os.devnull}
        done = processes.run(*command, "--find-links", wheels, *requirements, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr

    def python(self, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run its Python."""
        return processes.run(self.folder / "bin/python", *arguments, cwd=cwd, env=clean(), seconds=SECONDS)


def clean() -> dict[str, str]:
    """Return this environment without variables that lead back to this checkout, and without settings of pip."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "COVERAGE"))}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build all distributions."""
    folder = tmp_path_factory.mktemp("wheels")
    for source in (distributions.ROOT, *distributions.BESIDE):
        deque(WheelBuilder(str(source)).build(directory=str(folder)), maxlen=0)
    return folder


@pytest.fixture(params=distributions.BESIDE, ids=lambda folder: folder.name)
def source(request: pytest.FixtureRequest) -> Path:
    """Give the folder of a distribution."""
    assert isinstance(request.param, Path)
    return request.param


@pytest.fixture
def alone(tmp_path: Path, source: Path, wheels: Path) -> Alone:
    """Give an environment with a distribution, its extras, what its tests require, and the test tools.

    Left out are extras whose libraries are not installed here: Ray, which has a test of its own.
    """
    read = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
    project, needed = read["project"], read.get("dependency-groups", {}).get("test", [])
    named = project.get("optional-dependencies", {})
    extras = {extra: lines for extra, lines in named.items() if all(map(is_installed, lines))}
    declared = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    made = Alone(tmp_path / "env")
    venv.create(made.folder, with_pip=False)
    made.give(*TEST_TOOLS, *declared, *needed)
    whole = f"{project['name']}[{','.join(extras)}]" if extras else project["name"]
    made.install(whole, *needed, wheels=wheels)
    return made


@pytest.mark.timeout(SECONDS)
def test_tests_of_a_distribution_pass_alone(alone: Alone, source: Path, tmp_path: Path) -> None:
    """The distribution's own tests pass with its wheel and what it declares, away from this checkout.

    The slow ones run in a nightly job only, with the profile `thorough`, and where a distribution has no others.
    """
    folder = tmp_path / "copy"
    own = ("README.md", "examples", "pyproject.toml", "tests")
    for path in (*map(distributions.ROOT.joinpath, SHARED), *map(source.joinpath, own)):
        target = folder / path.relative_to(distributions.ROOT)
        if path.is_dir():
            shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    assert alone.python("-c", "import pyscheduler", cwd=folder).returncode == (source in distributions.PACKAGES)
    tests = source.relative_to(distributions.ROOT) / "tests"
    # `make test` runs the slow ones with all distributions installed; what is missing here, the others show as well.
    is_thorough = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
    for marks in ("",) if is_thorough else ("not slow and not sampled", ""):
        done = alone.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks, tests, cwd=folder)
        if done.returncode != pytest.ExitCode.NO_TESTS_COLLECTED:
            break
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr


@pytest.mark.parametrize("source", [distributions.ROOT / "packages/kube-testserver"], indirect=True, ids=["testserver"])
def test_a_script_with_the_official_client_runs_alone(alone: Alone, tmp_path: Path) -> None:
    """The server and the official client need no scheduler, and load nothing of ours but the wire objects."""
    alone.give("kubernetes")
    done = alone.python("-c", SCRIPT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["{'a': '1'}", "['kube_objects', 'kube_testserver']", "[]"]
    helped = processes.run(alone.folder / "bin/kube-testserver", "--help", cwd=tmp_path, env=clean())
    assert (helped.returncode, helped.stdout[:23]) == (0, "Usage: kube-testserver "), helped.stderr
