"""Promises that hold for the repository as a whole: size, words, documentation, licences, and names that must agree."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests import distributions

ROOT = Path(__file__).parents[1]
LONGEST_MODULE = 600
LONGEST_FUNCTION = 80

#: Made by tools, and none of ours.
NOT_OURS = re.compile(r"^(\..*|__pycache__|build|dist|htmlcov|.*\.egg-info)$")
TEXT = {".cfg", ".json", ".md", ".py", ".pyi", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}


def files() -> Iterator[Path]:
    """Yield every file of the repository, leaving out what tools made and what they keep."""
    folders = [ROOT, ROOT / ".ci"]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if path.is_file():
                if path.name != ".git" and not path.name.startswith(".coverage"):  # a file in a second work tree
                    yield path
            elif not NOT_OURS.match(path.name):
                folders.append(path)


def relative(path: Path) -> str:
    """Name a file as messages should."""
    return path.relative_to(ROOT).as_posix()


FILES = list(files())
MODULES = [path for path in FILES if path.suffix == ".py"]
OURS = ("kube_pyscheduler.py", "lab/", "packages/", "plugins/", "pyscheduler/")
SHIPPED = [path for path in MODULES if relative(path).startswith(OURS)]
TEXTS = {path: path.read_text(encoding="utf-8") for path in FILES if path.suffix in TEXT}
PAGES = [path for path in FILES if path.suffix == ".md"]


def is_beside(path: Path) -> bool:
    """Return True for the tests and examples of a distribution, which are not installed."""
    return re.search("/(?:tests|examples)/", relative(path)) is not None


def lines_matching(pattern: str, *, suffixes: set[str] = TEXT) -> list[str]:
    """List every line of the repository in which `pattern` is found."""
    regex = re.compile(pattern)
    return [
        f"{relative(path)}:{number}: {line.strip()[:120]}"
        for path, text in TEXTS.items()
        if path.suffix in suffixes and regex.search(text)
        for number, line in enumerate(text.splitlines(), start=1)
        if regex.search(line)
    ]


def test_no_module_is_too_long() -> None:
    """Past 600 lines a module holds a second idea."""
    lengths = {relative(path): len(TEXTS[path].splitlines()) for path in MODULES}
    assert not {name: length for name, length in lengths.items() if length > LONGEST_MODULE}


@pytest.mark.slow
def test_no_function_is_too_long() -> None:
    """Past 80 lines a function does more than one thing."""
    # A shorter module has no longer function, and need not be parsed.
    paths = [path for path in MODULES if TEXTS[path].count("\n") > LONGEST_FUNCTION]
    lengths = {
        f"{relative(path)}::{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in paths
        for node in statements(ast.parse(TEXTS[path]))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert len(lengths) > 1000
    assert not {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION}


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements, also those in others; to walk through their expressions takes four times as long."""
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        for each in getattr(node, field, ()):
            yield each
            yield from statements(each)


# Character classes keep these patterns from finding themselves.
@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"(?<![\w.~-])/(?:roo[t]|wor[k]|hom[e]/\w+|User[s])/", id="a folder of one machine"),
        pytest.param(r"/op[t]/(?:pypi|wheels)|[.]pyen[v]|/tm[p]/(?:k8s|brief)", id="a tool of one machine"),
        pytest.param(
            r"[.][.]/share[d]\b|\bshare[d]/(?:data|spec|vectors|kube-scheduler|apiserver)\b", id="a neighbour"
        ),
        pytest.param(r"pyp[i][.]org|pythonhoste[d][.]org", id="a host of a package index"),
        pytest.param(r"\bissue[s] show\b|(?i:co-authore[d]-by|generate[d] with)", id="a trace of how it was made"),
    ],
)
def test_nothing_points_out_of_the_repository(pattern: str) -> None:
    """A clone works and reads the same on any machine."""
    assert not lines_matching(pattern)


@pytest.mark.slow
def test_nothing_is_left_to_do() -> None:
    """What is missing is an issue or a line in the documentation, not a note in the code."""
    assert not lines_matching(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b")


def test_nothing_is_a_placeholder() -> None:
    """No function that ships raises NotImplementedError in place of an answer, but those that plugins define."""
    allowed = (
        "tests/",
        "pyscheduler/framework/interfaces.py",
        "pyscheduler/framework/work_sources.py",
        "plugins/batch/pyscheduler_batch/contract.py",
        "plugins/batch/pyscheduler_batch/model/batch_plugin.py",
    )
    assert not [line for line in lines_matching(r"raise NotImplemente[d]Error") if not line.startswith(allowed)]


def test_every_ignored_type_error_says_why() -> None:
    """A `type: ignore` that mypy sees names its code and is followed by a reason."""
    lines = lines_matching(r"#\s*type:\s*ignor[e](?!\[[\w, -]+\]\s+#\s*\S)", suffixes={".py"})
    checked = (*OURS, "tests/typing/")
    assert not [line for line in lines if line.startswith(checked)]


def test_every_module_tells_its_story() -> None:
    """Modules and packages that ship begin with a docstring that says what belongs there."""
    shipped = [path for path in SHIPPED if not is_beside(path)]
    begins = re.compile(r'(?:\s*#[^\n]*\n)*\s*r?"""\s*[^\s"]')
    assert not [relative(path) for path in shipped if not begins.match(TEXTS[path])]


def imported_by(path: Path) -> set[str]:
    """Name the top-level packages that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(TEXTS[path])):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.slow
def test_one_module_imports_the_official_client() -> None:
    """Credentials come through `cluster/real/auth.py`; nothing else that ships knows the `kubernetes` package."""
    word = re.compile(r"\b(?:from|import)\b[^\n]*\bkubernetes\b")  # parsing every module takes two seconds
    users = {
        relative(path)
        for path in SHIPPED
        if word.search(TEXTS[path]) and "kubernetes" in imported_by(path) and not is_beside(path)
    }
    assert users <= {"pyscheduler/cluster/real/auth.py"}


def test_documented_commands_exist() -> None:
    """Each `make` command in a page is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):(?!=)", TEXTS[ROOT / "Makefile"], re.MULTILINE))
    named = {
        (relative(page), target)
        for page in PAGES
        for code in re.findall(r"```.*?```|`[^`\n]+`", TEXTS[page], re.DOTALL)
        for target in re.findall(r"\bmake ([a-z][a-z-]*)", code)
    }
    assert not {(page, target) for page, target in named if target not in targets}


def test_links_between_pages_lead_somewhere() -> None:
    """Relative links in a page name files that exist."""
    found = [(page, link) for page in PAGES for link in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", TEXTS[page])]
    assert found
    assert not [(relative(page), link) for page, link in found if not (page.parent / link).exists()]


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=relative)
def test_every_ready_configuration_names_its_scheduler(path: Path) -> None:
    """No file in configs/ competes with kube-scheduler for the pods of `default-scheduler`."""
    names = [profile.get("schedulerName") for profile in yaml.safe_load(TEXTS[path])["profiles"]]
    assert names
    assert None not in names
    assert "default-scheduler" not in names


def test_tests_start_processes_in_one_way() -> None:
    """`tests/processes.py` starts a process so that it ends with its test; nothing else in a test starts one."""
    starts = re.compile(r"create_subprocess_(?:exec|shell)\(|subprocess\.(?:run|Popen|call|check_call|check_output)\(")
    starters = {relative(path) for path in MODULES if starts.search(TEXTS[path])}
    tests = {name for name in starters if name.startswith("tests/")}
    # Those of test_leftovers.py are in a test run of its own, which leaves them behind on purpose. The process that
    # forked.py starts forks others.
    assert tests == {"tests/forked.py", "tests/leftovers.py", "tests/processes.py", "tests/test_leftovers.py"}


@pytest.mark.parametrize("folder", distributions.BESIDE, ids=relative)
def test_every_folder_beside_the_scheduler_is_a_distribution_of_its_own(folder: Path) -> None:
    """Each has what a stranger's package would have: metadata, a page, types and tests."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == distributions.name_of(folder)
    # A package may offer fixtures to pytest, and nothing to the scheduler; everything else is found by the scheduler.
    groups = set(project.get("entry-points", {}))
    assert groups <= {"pytest11"} if folder in distributions.PACKAGES else "pyscheduler" in str(groups)
    assert (folder / "README.md").read_text(encoding="utf-8").startswith("# ")
    assert (folder / distributions.package_of(folder) / "py.typed").exists()
    assert list(folder.glob("tests/test_*.py"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"pip install (?:.*[ '\"`])?pyscheduler(?![-\w])", id="a command"),
        pytest.param(r"^dependencies = \[.*[\"']pyscheduler(?![-\w])", id="a requirement"),
        pytest.param(r"(?<![-\w])pyscheduler(?:-\w+)? ?(?:\[\w+\]|[=>~]=\s*\d)", id="an extra or a version"),
        pytest.param(r"pip install (?:.*[ '\"`])?pyscheduler-\w", id="the old name of a plugin"),
    ],
)
def test_nobody_is_told_to_install_another_project(pattern: str) -> None:
    """The distribution is kube-pyscheduler everywhere; `pyscheduler` on the package index is another project."""
    allowed = ("tests/test_kube_pyscheduler.py", "tests/test_repository.py")
    assert not [line for line in lines_matching(pattern) if not line.startswith(allowed)]


def test_one_floor_for_every_distribution() -> None:
    """All distributions of this repository support the same Pythons."""
    projects = [folder / "pyproject.toml" for folder in (ROOT, *distributions.BESIDE)]
    floors = {tomllib.loads(path.read_text(encoding="utf-8"))["project"]["requires-python"] for path in projects}
    assert len(floors) == 1


@pytest.mark.parametrize("source", ["alibaba-2017", "kalos", "openb", "philly"])
def test_traces_come_with_their_notices(source: str) -> None:
    """The data files of others are named, with source and terms, beside them."""
    folder = ROOT / "lab/pyscheduler_lab/data" / source
    notice = (folder / "README.md").read_text(encoding="utf-8")
    files = [path.name for path in folder.glob("*.gz")]
    assert files
    assert all(name in notice for name in files)
    assert "**Terms.**" in notice
