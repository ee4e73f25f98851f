"""`pyscheduler new plugin`: what it writes is complete for every choice of extension points, and its tests pass."""

from __future__ import annotations

import ast
import itertools
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pyscheduler.cli.main import main
from pyscheduler.cli.new.files import POINTS, NewPlugin
from tests.examples.conftest import install, run

#: Written; the first two are installed and run.
SETS = {
    "NodeFreeze": ("filter",),
    "AllOfIt": tuple(POINTS),
    "GPUQueue2": ("queueSort", "preFilter", "preScore", "score", "bind"),
}


def subsets() -> Iterator[Sequence[str]]:
    """Return every choice of up to three extension points, and of all but up to one.

    A rendered file is a union of the parts of its points, and no rule in it depends on more than three points.
    """
    for count in (1, 2, 3, len(POINTS) - 1, len(POINTS)):
        yield from itertools.combinations(POINTS, count)


def names_of(text: str) -> tuple[list[str], set[str]]:
    """Return the imported names of a module, and the names that it uses and does not define."""
    tree = ast.parse(text)
    imported = [
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return ["np" if name == "numpy" else name for name in imported], used


def test_every_choice_of_points_has_the_imports_that_it_uses() -> None:
    """In plugin and tests, nothing is imported twice or in vain, and nothing is missing."""
    constants = {"ON_HOLD", "REJECTED", "CLOSED", "LABEL"}
    for points in subsets():
        files = NewPlugin(name="X1", points=points).files()
        for path in ("x1/plugin.py", "tests/test_x1.py"):
            text = files[path]
            imported, used = names_of(text)
            assert len(imported) == len(set(imported)), (points, path)
            assert set(imported) <= used, (points, path, set(imported) - used)
            missing = {name for name in used - set(imported) if name[0].isupper()} - {"X1", "X1Args"}
            assert missing <= constants, (points, path, missing)
            for constant in missing:
                assert f"\n{constant}" in text, (points, path, constant)
        assert max(map(len, files["x1/plugin.py"].splitlines())) <= 120, points


@pytest.fixture(scope="module", name="written")
def _written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the three packages, each in a folder."""
    folder = tmp_path_factory.mktemp("new")
    for name, points in SETS.items():
        with pytest.raises(SystemExit) as ended:
            main(["new", "plugin", name, "--points", ",".join(points), "--dir", str(folder / name)])
        assert ended.value.code in {0, None}
    return folder


@pytest.mark.slow  # pip, the command and pytest, as processes
@pytest.mark.parametrize("name", ["NodeFreeze", "AllOfIt"])
def test_written_package_is_found_and_its_tests_pass(written: Path, tmp_path: Path, name: str) -> None:
    """Installed with pip, the plugin is found, its profile loads, and its own tests pass."""
    env = install(written / name, tmp_path / "install")
    shown = run("-m", "pyscheduler", "config", "--config", str(written / name / "profile.yaml"), env=env)
    assert shown.returncode == 0, shown.stderr
    assert f"name: {name}\n" in shown.stdout
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error")
    tested = run("-m", "pytest", *options, "tests", env=env, cwd=written / name)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert " passed" in tested.stdout


@pytest.mark.slow  # a start of mypy without a cache
def test_written_packages_have_strict_types(written: Path, tmp_path: Path) -> None:
    """Mypy --strict accepts packages and tests."""
    packages = [written / name / NewPlugin(name=name, points=points).package for name, points in SETS.items()]
    tests = [test for name in SETS for test in (written / name / "tests").glob("*.py")]
    env = {"MYPYPATH": ":".join(str(written / name) for name in SETS)}
    options = ("--strict", "--config-file", "", "--cache-dir", str(tmp_path))
    checked = run("-m", "mypy", *options, *packages, *tests, env=env)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["node-freeze"], "is no class name in CamelCase", id="name"),
        pytest.param(["Pyscheduler"], "would make the package 'pyscheduler', which exists", id="package"),
        pytest.param(["NodeAffinity"], "is the name of a plugin of kube-pyscheduler", id="taken"),
        pytest.param(["A", "--points", "filter,permitt"], "unknown extension points: permitt; choose from", id="point"),
        pytest.param(["A", "--points", ","], "no extension point is given", id="none"),
        pytest.param(["A", "--dir", "."], "--dir: . exists and is not an empty folder", id="folder"),
        pytest.param(["A", "--dir", "taken/x"], "--dir: taken/x: not a directory", id="file"),
    ],
)
def test_mistake_writes_nothing(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A mistake on the command line is one line on stderr, and no file is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    with pytest.raises(SystemExit) as ended:
        main(["new", "plugin", *arguments])
    assert ended.value.code == 1
    assert message in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    ("name", "package", "distribution"),
    [("NodeFreeze", "node_freeze", "node-freeze"), ("GPUQueue2", "gpu_queue2", "gpu-queue2"), ("FGD", "fgd", "fgd")],
)
def test_names_follow_from_the_name_of_the_plugin(name: str, package: str, distribution: str) -> None:
    """The package is in snake_case, the distribution in kebab-case."""
    made = NewPlugin(name=name, points=["filter"])
    assert (made.package, made.distribution) == (package, distribution)


@pytest.mark.parametrize(
    ("installed", "required"),
    [("0.2.0", ">=0.2,<0.3"), ("0.9.12", ">=0.9,<0.10"), ("0.3.0rc1", ">=0.3.0rc1,<0.4"), ("1.4.2", ">=1.4,<2")],
)
def test_package_requires_versions_with_the_same_plugin_api(
    installed: str, required: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The range follows from the version that wrote the package."""
    monkeypatch.setattr("pyscheduler.cli.new.files.version", {"kube-pyscheduler": installed}.__getitem__)
    project = tomllib.loads(NewPlugin(name="NodeFreeze", points=["filter"]).files()["pyproject.toml"])
    assert project["project"]["dependencies"][0] == f"kube-pyscheduler{required}"


def test_source_archive_has_the_tests() -> None:
    """The archive has what git has, and git ignores what tools write."""
    files = NewPlugin(name="NodeFreeze", points=["filter"]).files()
    included = tomllib.loads(files["pyproject.toml"])["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {path.partition("/")[0] for path in files} - {*included} == {
        *(".gitignore", ".github", "README.md", "pyproject.toml"),
    }
    assert "__pycache__/" in files[".gitignore"].splitlines()


def test_spellings_of_points_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Extension points are written as in a profile, in snake_case or in kebab-case, in any order."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["new", "plugin", "A", "--points", "post_bind, pre-filter,Filter"])
    assert "a: plugin A at preFilter, filter, postBind\n" in capsys.readouterr().out
    assert (tmp_path / "a" / "a" / "plugin.py").exists()
