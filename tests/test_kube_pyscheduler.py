"""The distribution's name: resolved from an index with a stranger's `pyscheduler` on it, and a conflict is reported."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import attrs
import pytest

from tests import processes

ROOT = Path(__file__).parents[1]
OURS = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
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


@pytest.mark.parametrize("script", ["main", "podgroup", "queue"])
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
        command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels)
        processes.run(*command, cwd=source, check=True)
    wheel_of(FOREIGN, wheels, name="pyScheduler", version="0.1.0")
    simple = folder / "simple"
    for path in wheels.iterdir():
        project = simple / path.name.partition("-")[0].lower().replace("_", "-")
        project.mkdir(parents=True)
        (project / "index.html").write_text(f'<a href="{path.as_uri()}">{path.name}</a>', encoding="utf-8")
    return simple


@pytest.fixture
def environment(tmp_path: Path, index: Path) -> Environment:
    """Give an environment in which the examples were installed from the index."""
    made = Environment(tmp_path / "env", index)
    venv.create(made.folder, with_pip=False)
    libraries = tmp_path / "libraries"  # so that pip finds them, and none of this project's
    libraries.mkdir()
    for path in {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}:
        for entry in path.iterdir():
            if entry.suffix != ".pth" and "pyscheduler" not in entry.name.lower():
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
        "kube-pyscheduler",
        "kube-pyscheduler-coscheduling",
    }
    shown = environment.run("pyscheduler", "plugins", "-o", "json")
    assert (shown.returncode, shown.stderr) == (0, "")
    plugins = {row["name"]: row["distribution"] for row in json.loads(shown.stdout)["plugins"]}
    assert plugins["CheapestNode"] == "cheapest-node"
    assert plugins["Coscheduling"] == "kube-pyscheduler-coscheduling"
    assert plugins["NodeName"] == "kube-pyscheduler"


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
