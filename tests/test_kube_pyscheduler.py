"""The distribution's name: resolved from an index with a stranger's `pyscheduler` on it, and a conflict is reported."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import attrs
import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from trove_classifiers import classifiers

from tests import distributions, processes

ROOT = Path(__file__).parents[1]
OURS = [ROOT, *distributions.BESIDE]
EXAMPLES = [ROOT / "examples/01-third-party-plugin", ROOT / "examples/10-own-dialect"]

#: The layout of pyScheduler 0.1.0, the project that has the name on the package index: one file is called like ours.
FOREIGN = {
    "pyscheduler/__init__.py": "verbose = False",
    "pyscheduler/serialScheduler.py": "class SerialScheduler(object):\n    pass\n",
    "pyscheduler/processParallelScheduler.py": "import pyscheduler\nprint pyscheduler.verbose\n",
    "pyscheduler/MPIParallelScheduler.py": "from mpi4py import MPI\n",
    "pyscheduler/test/__init__.py": "",
}
REINSTALL = "pip install --force-reinstall --no-deps kube-pyscheduler"
HIDDEN = (
    'error: {path} belongs to another project, the distribution "pyscheduler" of the package index, and hides '
    f'kube-pyscheduler; run "pip uninstall pyscheduler", then "{REINSTALL}"\n'
)
MISSING = (
    "error: pyscheduler/__init__.py of kube-pyscheduler is missing, as after an uninstallation of another project, the "
    f'distribution "pyscheduler"; run "{REINSTALL}"\n'
)
SHARED = (
    'warning: another project, the distribution "pyscheduler", is installed into the same folder {path}; '
    f'run "pip uninstall pyscheduler", then "{REINSTALL}"\n'
)


def python(*arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with a folder before all others on its path."""
    env = os.environ | {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    return processes.run(sys.executable, *arguments, cwd=path, env=env)


@pytest.mark.parametrize("script", ["main", "podgroup"])
@pytest.mark.parametrize("content", ["verbose = False", "print 'Python 2'", "import absent", "raise KeyError(1)"])
def test_a_foreign_package_is_reported(tmp_path: Path, script: str, content: str) -> None:
    """All console scripts name the file that hides this project's package, whatever it holds."""
    (tmp_path / "pyscheduler").mkdir()
    file = tmp_path / "pyscheduler/__init__.py"
    file.write_text(content, encoding="utf-8")
    done = python("-c", f"import kube_pyscheduler; kube_pyscheduler.{script}(['--help'])", path=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", HIDDEN.format(path=file))


# --- with pip, from an index --------------------------------------------------------------------


def wheel_of(files: dict[str, str], folder: Path, *, name: str, version: str) -> None:
    """Write a wheel as an installer wants it, with a record of its files."""
    info = f"{name}-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{info}/RECORD,,\n"]
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        for path, text in content.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(text.encode())}\n")
            file.writestr(path, text)
        file.writestr(f"{info}/RECORD", "".join(record))


@attrs.frozen
class Environment:
    """A virtual environment with third-party libraries and nothing of this project, and an index to install from."""

    folder: Path
    index: Path

    def pip(self, *arguments: str | Path) -> str:
        """Run pip on this environment, with no other index and no settings of the machine."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
        done = processes.run(
            *(sys.executable, "-m", "pip", "--python", self.folder / "bin/python", "--disable-pip-version-check"),
            *arguments,
            cwd=self.folder,
            env=env | {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": self.index.as_uri()},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return processes.run(self.folder / "bin" / program, *arguments, cwd=self.folder, env=env)

    @property
    def site(self) -> Path:
        """Return the folder into which pip installs."""
        (folder,) = self.folder.glob("lib/python*/site-packages")
        return folder


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the distributions of this repository; give a simple index of them and of the stranger's project."""
    folder = tmp_path_factory.mktemp("index")
    wheels = folder / "wheels"
    wheels.mkdir()
    for source in OURS:
        command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", wheels)
        processes.run(*command, cwd=source, check=True)
    wheel_of(FOREIGN, wheels, name="pyScheduler", version="0.1.0")
    simple = folder / "simple"
    for path in wheels.iterdir():
        project = simple / path.name.partition("-")[0].lower().replace("_", "-")
        project.mkdir(parents=True, exist_ok=True)
        with (project / "index.html").open("a", encoding="utf-8") as file:
            file.write(f'<a href="{path.as_uri()}">{path.name}</a>\n')
    return simple


@pytest.fixture(scope="module")
def archives(index: Path) -> Path:
    """Give the folder of wheels and source archives."""
    return index.parent / "wheels"


@pytest.fixture
def environment(tmp_path: Path, index: Path) -> Environment:
    """Give an environment in which the examples were installed from the index."""
    made = Environment(tmp_path / "env", index)
    venv.create(made.folder, with_pip=False)
    libraries = tmp_path / "libraries"  # so that pip finds them, and none of this project's
    libraries.mkdir()
    ours = {distributions.package_of(source) for source in (ROOT, *distributions.PACKAGES)}
    for path in {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}:
        for entry in path.iterdir():
            if entry.suffix != ".pth" and not any(package in entry.name.lower() for package in ours):
                (libraries / entry.name).symlink_to(entry)
    (made.site / "libraries.pth").write_text(f"{libraries}\n", encoding="utf-8")
    sources = [shutil.copytree(example, tmp_path / example.name) for example in EXAMPLES]
    made.pip("install", "--no-build-isolation", *sources)
    return made


@pytest.mark.slow
def test_examples_install_from_an_index_with_a_foreign_pyscheduler(environment: Environment) -> None:
    """Pip resolves an example's requirements to this project, leaves the stranger's out, and the command works."""
    installed = json.loads(environment.pip("list", "--path", str(environment.site), "--format", "json"))
    assert {each["name"] for each in installed} == {
        "acme-teams",
        "cheapest-node",
        "kube-cel",
        "kube-objects",
        "kube-pyscheduler",
        "kube-pyscheduler-coscheduling",
        "kube-pyscheduler-quota",
        "kube-testserver",
    }
    shown = environment.run("pyscheduler", "plugins", "-o", "json")
    assert (shown.returncode, shown.stderr) == (0, "")
    plugins = {row["name"]: row["distribution"] for row in json.loads(shown.stdout)["plugins"]}
    assert plugins["CheapestNode"] == "cheapest-node"
    assert plugins["Coscheduling"] == "kube-pyscheduler-coscheduling"
    assert plugins["NodeName"] == "kube-pyscheduler"

    environment.pip("install", "kube-pyscheduler[batch,dra,lab]")
    listed = json.loads(environment.pip("list", "--path", str(environment.site), "--format", "json"))
    ours = {each["name"] for each in listed if each["name"].startswith("kube-")}
    assert ours == {distributions.name_of(source) for source in OURS}


@pytest.mark.slow
def test_a_foreign_pyscheduler_beside_this_one_is_reported(environment: Environment) -> None:
    """Each command names the conflict in one line, and the installation works again after the repair that it names."""
    package = environment.site / "pyscheduler"
    repair = REINSTALL.split()[1:]

    environment.pip("install", "pyscheduler")
    hidden = (1, "", HIDDEN.format(path=package / "__init__.py"))
    for command in (["pyscheduler", "--help"], ["kubectl-podgroup", "get"], ["python", "-m", "pyscheduler", "plugins"]):
        done = environment.run(*command)
        assert (done.returncode, done.stdout, done.stderr) == hidden

    environment.pip(*repair)  # without the first half: the stranger's distribution stays
    done = environment.run("pyscheduler", "--version")
    assert (done.returncode, done.stderr) == (0, SHARED.format(path=package))

    environment.pip("uninstall", "--yes", "pyscheduler")
    done = environment.run("pyscheduler", "--version")
    assert (done.returncode, done.stderr) == (1, MISSING)

    environment.pip(*repair)
    done = environment.run("pyscheduler", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("pyscheduler ")


#: Uses what pip alone installs: the fake cluster, a plugin and the commands.
SCRIPT = """
import asyncio
from pyscheduler.testing import FakeCluster

async def main():
    cluster = FakeCluster()
    cluster.add_node("n1")
    print((await cluster.framework().schedule("p")).node)
    await cluster.close()

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("interpreter", os.environ.get("INSTALL_PYTHONS", "").split())
def test_the_wheel_works_in_an_empty_environment(index: Path, tmp_path: Path, interpreter: str) -> None:
    """Pip installs the scheduler with all libraries; test kit and commands work. `.ci/run` names the interpreters."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    processes.run(interpreter, "-m", "venv", tmp_path / "env", env=clean, check=True)
    program = tmp_path / "env/bin/python"
    install = ("-m", "pip", "install", "--quiet", "--no-compile", "--extra-index-url", index.as_uri())
    done = processes.run(program, *install, "kube-pyscheduler[batch,dra,lab]", env=clean, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert processes.run(program, "-m", "pip", "check", env=clean, cwd=tmp_path).returncode == 0
    scheduled = processes.run(program, "-c", SCRIPT, env=clean, cwd=tmp_path)
    assert scheduled.stdout == "n1\n", scheduled.stderr
    for command in ("run", "cluster", "explain", "simulate"):
        shown = processes.run(program.with_name("pyscheduler"), command, "--help", env=clean, cwd=tmp_path)
        assert (shown.returncode, shown.stderr) == (0, "")
    plugins = processes.run(program.with_name("pyscheduler"), "plugins", env=clean, cwd=tmp_path)
    assert {"Batch", "Coscheduling", "Gang", "GangSort", "PodGrouper"} <= set(re.findall(r"\w+", plugins.stdout))


# --- wheels and source archives -----------------------------------------------------------------


def files_of(archive: Path) -> dict[str, bytes]:
    """Return the files in a source archive, by their paths below its folder."""
    with tarfile.open(archive) as file:
        members = ((member.name, file.extractfile(member)) for member in file)
        return {name.partition("/")[2]: content.read() for name, content in members if content is not None}


def parts_of(archives: Path, source: Path) -> tuple[dict[str, bytes], zipfile.ZipFile]:
    """Return the files in the source archive of a distribution, and its wheel."""
    name = distributions.name_of(source).replace("-", "_")
    (sdist,) = archives.glob(f"{name}-*.tar.gz")
    (wheel,) = archives.glob(f"{name}-*.whl")
    return files_of(sdist), zipfile.ZipFile(wheel)


every_distribution = pytest.mark.parametrize(
    "source", OURS, ids=lambda source: "scheduler" if source == ROOT else source.name
)


@pytest.mark.slow
@every_distribution
def test_archives_hold_the_package_and_what_describes_it(archives: Path, source: Path) -> None:
    """A wheel holds the package; a source archive adds what builds it, and no tests. Both have licence and types."""
    package = distributions.package_of(source)
    sdist, wheel = parts_of(archives, source)
    code = {
        path.relative_to(source).as_posix()
        for path in [*source.glob(f"{package}/**/*"), *source.glob("kube_pyscheduler.py")]
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert f"{package}/py.typed" in code
    example = ROOT / "examples/16-every-point"
    template = {each.relative_to(example).as_posix() for each in example.rglob("*") if each.is_file()}
    template = {path for path in template if source == ROOT and "cache" not in path}
    described = {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
    examples = {f"examples/16-every-point/{path}" for path in template}
    assert set(sdist) - {".gitignore"} == code | examples | described - {".gitignore"}
    (folder,) = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    info = {"METADATA", "WHEEL", "RECORD", "licenses/LICENSE"}
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info |= {"entry_points.txt"} if "entry-points" in project else set()
    code |= {f"{package}/cli/new/every_point/{path}" for path in template}
    assert set(wheel.namelist()) == code | {f"{folder}/{name}" for name in info}
    assert wheel.read(f"{folder}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert sdist["PKG-INFO"] == wheel.read(f"{folder}/METADATA")


@pytest.mark.slow
@every_distribution
def test_metadata_is_what_an_index_accepts(archives: Path, source: Path) -> None:
    """Metadata is valid, with known classifiers, a description in Markdown and a summary of one line."""
    sdist, _ = parts_of(archives, source)
    metadata = Metadata.from_email(sdist["PKG-INFO"])  # raises an exception group that names invalid fields
    assert set(metadata.classifiers or ()) <= classifiers
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.license_files == ["LICENSE"]
    assert metadata.description_content_type == "text/markdown"
    assert (metadata.description or "").startswith("# ")
    assert len(metadata.summary or "") < 128
    assert str(metadata.requires_python) == ">=3.11"


@pytest.mark.slow
def test_a_source_archive_builds_the_same_wheel(archives: Path, tmp_path: Path) -> None:
    """A wheel that somebody builds from the source archive has the files of ours."""
    sdist, wheel = parts_of(archives, ROOT)
    for name, content in sdist.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path)
    processes.run(*command, cwd=tmp_path / "source", check=True)
    (again,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(again) as built:
        assert {name: built.getinfo(name).CRC for name in built.namelist()} == {
            name: wheel.getinfo(name).CRC for name in wheel.namelist()
        }


def imported_packages(folder: Path) -> set[str]:
    """Return the top-level packages that the modules in a folder import, at any place."""
    statement = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
    return {name for path in folder.rglob("*.py") for name in statement.findall(path.read_text(encoding="utf-8"))}


def test_dependencies_are_what_the_package_imports() -> None:
    """Each requirement is imported, and each library that is imported is a requirement; pytest brings its own."""
    required = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {canonicalize_name(Requirement(line).name) for line in required}
    providers = packages_distributions()
    imported = imported_packages(ROOT / "pyscheduler") - set(sys.stdlib_module_names)
    found = {canonicalize_name(each) for package in imported for each in providers.get(package, ())}
    # An editable installation does not say what it provides.
    found |= {distributions.name_of(one) for one in distributions.PACKAGES if distributions.package_of(one) in imported}
    assert names - found - {"opentelemetry-exporter-prometheus"} == set()
    # The packages of OpenTelemetry share one namespace.
    others = {"opentelemetry-api", "opentelemetry-exporter-prometheus", "opentelemetry-semantic-conventions", "pytest"}
    assert found - names - others - {"kube-pyscheduler"} == set()
