"""The Dockerfile: linted, and its instructions carried out in a scratch folder, where no container engine is needed."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from tests import processes
from tests.deploy.conftest import FOLDER, ROOT, instructions, manifest

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STEPS = list(instructions(TEXT))
HADOLINT = Path(sys.executable).with_name("hadolint")

#: The limit for installing everything anew, in seconds; it only ends what hangs.
TIMEOUT_SECONDS = 1200


def last(word: str) -> str:
    """Return what the last instruction of that name says; it is the one of the final stage that counts."""
    return next(step.rest for step in reversed(STEPS) if step.word == word)


def test_the_linter_has_nothing_to_say() -> None:
    """Hadolint, which reads the shell commands, too; what it is told to overlook is said at the line."""
    done = processes.run(HADOLINT, "--no-color", ROOT / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_base_is_pinned_and_the_stages_share_it() -> None:
    """One base, by digest, that the builder may change; the first stage leaves nothing but what is copied from it."""
    assert STEPS[0].word == "ARG"
    assert re.fullmatch(r"BASE=python:3\.13\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", STEPS[0].rest)
    assert [step.rest for step in STEPS if step.word == "FROM"] == ["${BASE} AS build", "${BASE}"]
    final = STEPS[max(number for number, step in enumerate(STEPS) if step.word == "FROM") + 1 :]
    assert [step.rest for step in final if step.word == "COPY"] == ["--from=build /opt/pyscheduler /opt/pyscheduler"]
    assert not [step for step in final if step.word in {"RUN", "ADD"}]


def test_the_image_runs_as_the_deployment_says() -> None:
    """User, port and program are those of the manifest, and the tag is the version."""
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    context = pod["securityContext"]
    assert last("USER") == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert last("EXPOSE") == str(container["ports"][0]["containerPort"])
    assert json.loads(last("ENTRYPOINT")) == ["pyscheduler"]
    assert json.loads(last("CMD")) == container["args"][:1]
    assert "command" not in container
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert container["image"] == f"pyscheduler:{version}"
    assert f"--tag pyscheduler:{version} " in TEXT


def test_only_what_is_copied_is_sent() -> None:
    """The ignore file lets through what the Dockerfile copies, and nothing else."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        name
        for step in STEPS
        if step.word == "COPY" and not step.rest.startswith("--from")
        for name in step.rest.split()[:-1]
    }
    assert allowed == copied
    assert lines[1] == "*"


def replayed(scratch: Path) -> dict[str, str]:
    """Carry out the instructions below `scratch` instead of `/`; return the final environment."""
    workdir = scratch
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(scratch), "PLUGINS": ""}
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    # An environment to build in for each distribution would be the same six times, and this one has what it takes.
    kept["PIP_NO_BUILD_ISOLATION"] = "0"  # as pip reads it, this means no isolation

    def moved(text: str) -> str:
        """Put the image's own folders below the scratch folder."""
        return re.sub(r"(?<![\w.}/])/(?=(opt|src|wheels)\b)", f"{scratch}/", text)

    for step in STEPS:
        match step.word:
            case "FROM":
                env.pop("PYTHONDONTWRITEBYTECODE", None)
            case "WORKDIR":
                workdir = Path(moved(step.rest))
                workdir.mkdir(parents=True)
            case "COPY" if not step.rest.startswith("--from"):
                *sources, target = step.rest.split()
                for source in sources:
                    copy(ROOT / source, workdir / target / ("" if target != "./" else source))
            case "RUN":
                command = ("/bin/sh", "-ec", moved(step.rest))
                done = processes.run(*command, cwd=workdir, env=env | kept, seconds=TIMEOUT_SECONDS)
                assert done.returncode == 0, f"{step.rest}\n{done.stdout}{done.stderr}"
            case "ENV":
                for name, value in re.findall(r"(\w+)=(\"[^\"]*\"|\S+)", step.rest):
                    env[name] = moved(value.strip('"')).replace("${PATH}", "/usr/bin:/bin")
    return env


def copy(source: Path, target: Path) -> None:
    """Copy as COPY does, without what the ignore file keeps back."""
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "tests")
        shutil.copytree(source, target, ignore=ignored if source.name == "plugins" else ignored_in_package)
    else:
        shutil.copy(source, target)


ignored_in_package = shutil.ignore_patterns("__pycache__", "*.egg-info")


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_its_steps_make_a_scheduler(tmp_path: Path) -> None:
    """The very lines of the file, below a scratch folder: what comes out is quick to start, complete and read-only."""
    env = replayed(tmp_path)
    prefix = tmp_path / "opt" / "pyscheduler"
    (program,) = json.loads(last("ENTRYPOINT"))
    shutil.rmtree(tmp_path / "src")
    shutil.rmtree(tmp_path / "wheels")

    def says(*arguments: str) -> str:
        path = shutil.which(program, path=env["PATH"])
        assert path == str(prefix / "bin" / program)
        done = processes.run(path, *arguments, cwd=Path("/"), env=env)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    before = {path: path.stat().st_mtime_ns for path in prefix.rglob("*")}
    assert says("--version").startswith("pyscheduler ")
    assert says("config", "--rbac", "--config", str(ROOT / "configs/gangsort.yaml")).startswith("# Made by: ")
    assert "queuesort" in says("plugins")
    assert "plugin NodeFreeze" in says("new", "plugin", "NodeFreeze", "--dir", str(tmp_path / "made"))
    # A user without a name and a file system that cannot be written make no difference.
    assert {path: path.stat().st_mtime_ns for path in prefix.rglob("*")} == before
    assert not [path for path in before if not path.is_symlink() and not path.stat().st_mode & 0o004]
    assert list(prefix.glob("lib/python*/site-packages/pyscheduler/__pycache__/*.pyc"))
    assert not [path for path in prefix.glob("bin/*") if path.name.startswith("pip")]
    # The template of `pyscheduler new plugin` brings the tests of the new plugin.
    tests = prefix.glob("lib/python*/site-packages/pyscheduler/**/tests")
    assert [path.parent.name for path in tests] == ["every_point"]


def test_the_folder_of_the_deployment_is_what_its_page_says() -> None:
    """Each file is in the table, and the table names no other."""
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| \[`([\w.]+)`\]", page, re.MULTILINE))
    assert named == {path.name for path in FOLDER.iterdir()} - {"README.md"}
