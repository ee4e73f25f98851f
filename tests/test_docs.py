"""The documentation tells the truth: what it quotes, names and links is there, and what there is, it names."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import cast

import click
import pytest

import pyscheduler
from kube_testserver.cluster import EmbeddedCluster
from pyscheduler import testing
from pyscheduler.cli.main import cli
from pyscheduler.config.load import load, loads
from pyscheduler.framework import Handle
from pyscheduler.telemetry.families import FAMILIES
from pyscheduler.testing import VirtualClock
from pyscheduler.testing.fake_framework import FakeFramework
from tests import distributions, forked, processes

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pyscheduler"
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs/tutorial/first-plugin.md"
PAGES = [
    README,
    ROOT / "configs/deploy/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(ROOT.glob("examples/[!.]*/README.md")),
]
REFERENCE = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs/reference").glob("*.md")}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def relative(path: Path) -> str:
    """Name a file as messages should."""
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[str]:
    """Return the code blocks of a page in these languages."""
    return [text for language, text in BLOCK.findall(page.read_text(encoding="utf-8")) if language in languages]


#: The plugins of the page about plugins that misbehave.
WRONG = ("wrong_plugins.py", "contract_breakers.py")

#: Where code that is shown has to come from: what the suite runs or type-checks.
SOURCES = [
    path.read_text(encoding="utf-8")
    for folder in ("examples", "tests/typing", "configs", "lab", "plugins")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".toml", ".yaml"}
]
SOURCES += [(ROOT / "tests/testing" / name).read_text(encoding="utf-8") for name in WRONG]


# --- what is quoted -----------------------------------------------------------------------------


def test_code_is_quoted_from_files_that_are_run() -> None:
    """Python, TOML and YAML in a page stand word for word in an example; tests run README and the tutorial instead."""
    run_here = {README, TUTORIAL}
    assert all(blocks(page, "python") for page in run_here)
    for page in [each for each in PAGES if each not in run_here]:
        shown = [*blocks(page, "python", "toml"), *(each for each in blocks(page, "yaml") if "apiVersion" not in each)]
        assert not [text for text in shown if not any(text in source for source in SOURCES)], relative(page)


def test_configurations_load() -> None:
    """Each whole configuration that a page shows is accepted as it stands."""
    for page in PAGES:
        for text in blocks(page, "yaml"):
            if "kind: KubeSchedulerConfiguration" in text:
                assert loads(text, source=relative(page)).profiles


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the `pyscheduler` commands of a page's shell blocks, as arguments."""
    for text in blocks(page, "sh"):
        for line in text.replace("\\\n", " ").splitlines():
            words = [word for word in shlex.split(line.removesuffix("&"), comments=True) if ">" not in word]
            if words[:1] == ["pyscheduler"]:
                yield words[1 : words.index("|") if "|" in words else None]


def test_commands_are_accepted() -> None:
    """The options of each `pyscheduler` command in a page exist, and the files of this repository that it names."""
    for arguments in (each for page in PAGES for each in commands(page)):
        name, *rest = arguments
        if name.startswith("-"):
            continue
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, arguments
        command.make_context(name, [word.replace("FILE", "file") for word in rest], resilient_parsing=False)
        files = [word for word in rest if word.startswith(("configs/", "examples/"))]
        assert not [file for file in files if not (ROOT / file).exists()]
        if "--config" in rest and (config := rest[rest.index("--config") + 1]) in files:
            load(ROOT / config)


#: The tests that run the commands of a page, or compare what it shows with what they run.
RUN_BY = {
    "configs/deploy/README.md": "tests/deploy/test_apply.py",
    "docs/how-to/debug-a-plugin.md": "tests/examples/test_debugging.py",
    "docs/how-to/install-with-helm.md": "tests/deploy/test_chart.py",
    "docs/how-to/operate.md": "tests/deploy/test_operating.py",
    "docs/how-to/runbooks.md": "tests/deploy/test_monitoring.py",
    "docs/tutorial/first-plugin.md": "tests/test_docs.py",
    "docs/tutorial/gpu-cluster.md": "tests/examples/test_three_teams.py",
    "examples/01-third-party-plugin/README.md": "tests/examples/test_third_party_plugin.py",
    "examples/02-embedded-cluster/README.md": "tests/examples/test_embedded_cluster.py",
    "examples/03-on-a-cluster/README.md": "tests/examples/test_on_a_cluster.py",
    "examples/04-small-plugins/README.md": "tests/examples/test_small_plugins.py",
    "examples/05-scenarios/README.md": "tests/cli/test_simulate.py",
    "examples/06-coscheduling/README.md": "tests/examples/test_groups.py",
    "examples/07-ming-compatible/README.md": "tests/examples/test_groups.py",
    "examples/08-gang/README.md": "tests/examples/test_groups.py",
    "examples/09-in-tree-gang/README.md": "tests/examples/test_groups.py",
    "examples/10-own-dialect/README.md": "tests/test_kube_pyscheduler.py",
    "examples/11-devices/README.md": "tests/examples/test_devices.py",
    "examples/12-batch-policy/README.md": "tests/examples/test_batch_policy.py",
    "examples/14-own-workload-kind/README.md": "tests/examples/test_own_workload_kind.py",
    "examples/15-cookbook/README.md": "tests/examples/test_cookbook.py",
    "examples/18-results-in-ci/README.md": "tests/cli/test_results_in_ci.py",
    "examples/19-gym-policy/README.md": "tests/examples/test_gym_policy.py",
    "examples/21-sweep/README.md": "tests/cli/test_sweep_example.py",
}
#: How a block of commands says that no test runs it. `pyscheduler` and `make` commands in it are checked all the same.
NOT_TESTED = re.compile(r"\A# needs (.+)\n")
#: Commands that this file or test_repository.py checks, and commands of the shell that only prepare them.
CHECKED = {"make", "pyscheduler"}
PREPARING = {".", "cd", "export", "kill", "mkdir", "printf", "sed"}


def test_commands_are_tested_or_say_why_not() -> None:
    """A test runs or checks each command of a page, or the first line of the block says why none does."""
    for page in PAGES:
        if relative(page) in RUN_BY:
            test = (ROOT / RUN_BY[relative(page)]).read_text(encoding="utf-8")
            assert page.stem in test or page.parent.name in test, relative(page)
            continue
        unmarked = [text for text in blocks(page, "sh", "bash", "console") if not NOT_TESTED.match(text)]
        lines = [line for text in unmarked for line in text.replace("\\\n", " ").splitlines() if line.strip()]
        assert not [line for line in lines if line.split()[0] not in CHECKED | PREPARING], relative(page)


def test_blocks_that_are_not_tested_are_counted() -> None:
    """What no test runs does not become more unnoticed: the number of blocks for each thing that is missing."""
    marks = (NOT_TESTED.match(text) for page in PAGES for text in blocks(page, "sh", "console", "yaml"))
    reasons = Counter(mark[1] for mark in marks if mark)
    assert reasons == {
        "a cluster": 28,
        "a package index": 6,
        "the definitions of Koordinator": 1,
    }


#: Named in pages, and made by the administrators of a cluster.
PRIORITY_CLASS = b"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: training}\nvalue: 100\n"


def test_manifests_are_accepted() -> None:
    """The API server of the test kit, with the definitions in configs/crds, accepts each object that a page shows."""
    shown = [(page, text) for page in PAGES for text in blocks(page, "yaml") if re.match(r"apiVersion: ", text)]
    manifests = [(page, text) for page, text in shown if "kind: KubeSchedulerConfiguration" not in text]
    assert len(manifests) > 3
    for page, text in manifests:
        server = EmbeddedCluster(clock=VirtualClock(), pod_groups=True)
        for definition in sorted((ROOT / "configs/crds").glob("*.yaml")):
            server.load(definition.read_bytes())
        server.load(PRIORITY_CLASS)
        assert server.load(text.encode()), relative(page)


def test_blocks_have_a_known_language() -> None:
    """Each language has a test that reads its blocks; `text` and no language are for what programs print."""
    for page in PAGES:
        languages = {language for language, _ in BLOCK.findall(page.read_text(encoding="utf-8"))}
        assert languages <= {"", "console", "json", "python", "sh", "sql", "text", "toml", "yaml"}, relative(page)


def test_links_lead_somewhere() -> None:
    """A relative link names a file, and its fragment a heading in it."""
    for page in PAGES:
        check_links(page)


def check_links(page: Path) -> None:
    """Check that the relative links of a page lead to a file, and to a heading of it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), (relative(page), target)
        assert not fragment or fragment in anchors_of(file), (relative(page), target)


@cache
def anchors_of(file: Path) -> set[str]:
    """Return the fragments that the headings of a page have."""
    headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_page_can_be_found() -> None:
    """From README and the index of the documentation, links lead to every page and example."""
    index = "".join((ROOT / each).read_text(encoding="utf-8") for each in ("README.md", "docs/README.md"))
    names = {relative(page) for page in PAGES} - {"README.md", "docs/README.md"}
    assert not {name for name in names if name.removeprefix("docs/") not in index}


@pytest.mark.slow
def test_readme_shows_a_plugin_with_a_test_that_passes(tmp_path: Path) -> None:
    """The test in README passes and prints the quoted line; it fails if the plugin is not enabled."""
    (code,) = blocks(README, "python")
    (printed,) = blocks(README, "text")
    file = tmp_path / "test_few_pods.py"
    options = "-v", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error", file.name
    file.write_text(code, encoding="utf-8")
    result = python("-m", "pytest", *options, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert printed.split() in [line.split() for line in result.stdout.splitlines()]
    assert "enable=[FewPods]" in code
    file.write_text(code.replace("enable=[FewPods]", ""), encoding="utf-8")
    in_fork = "-W", "ignore::pytest.PytestAssertRewriteWarning"
    assert forked.run_pytest(*options, *in_fork, folder=tmp_path, env=os.environ).returncode == 1


def test_readme_is_short() -> None:
    """README has at most 130 lines, and its generated table at most five rows."""
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 130
    assert len(re.findall(r"^\| ", sections(text)["How fast it is"], re.MULTILINE)) - 1 <= 5


@pytest.mark.slow
def test_the_tutorial_works_to_the_letter(tmp_path: Path) -> None:
    """Files are made as the page says; the test fails before the plugin is there, and the package is found."""
    text = TUTORIAL.read_text(encoding="utf-8")
    parts = re.split(r"(?:Put|Add) this (?:into|to) `([^`]+)`:\n", text)
    files: list[tuple[str, str]] = []
    for name, rest in zip(parts[1::2], parts[2::2], strict=True):
        block = BLOCK.search(rest)
        assert block is not None
        files.append((name, block[2]))
    assert len(files) == len(re.findall(r"```(?:python|toml|yaml)", text))
    pytest_command = next(line for line in text.splitlines() if line.startswith("python -m pytest"))
    options = pytest_command.split()[3:]
    outcomes = []
    for name, code in files:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n\n{code}" if path.exists() and path.stat().st_size else code)
        if name in {"few.py", "tests/test_few.py"}:
            env = os.environ | {"PYTHONPATH": str(tmp_path)}
            outcomes.append(forked.run_pytest(*options, folder=tmp_path, env=env).returncode)
    assert outcomes == [2, 0, 0]
    install = "-m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --target"
    assert not python(*install.split(), "site", ".", cwd=tmp_path).stderr
    shown = python("-m", "pyscheduler", "plugins", "-o", "json", cwd=tmp_path, path=tmp_path / "site")
    assert '"few-pods"' in shown.stdout, shown.stderr
    enabled = "-m", "pyscheduler", "plugins", "--config", "profile.yaml", "-o", "json"
    assert "FewPods" in python(*enabled, cwd=tmp_path, path=tmp_path / "site").stdout


def python(*arguments: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with another on its path."""
    env = os.environ | ({"PYTHONPATH": str(path)} if path is not None else {})
    return processes.run(sys.executable, *arguments, cwd=cwd, env=env)


# --- what is there must be named ----------------------------------------------------------------


def sections(text: str) -> dict[str, str]:
    """Return the text under each second-level heading."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_option_is_in_the_reference() -> None:
    """The page names every command, in its section each of its options, and no option that the command lacks."""
    page = sections(REFERENCE["cli"])
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    for name, group in list(commands.items()):
        if isinstance(group, click.Group):
            subs = {f"{name} {sub}": group.get_command(context, sub) for sub in group.list_commands(context)}
            commands |= {path: each for path, each in subs.items() if path in page}
    assert {"lab whatif", "new plugin"} <= commands.keys()
    for name, command in commands.items():
        assert command is not None
        if name == "new":
            command = cast("click.Group", command).commands["plugin"]
        options = {text for each in command.params for text in (*each.opts, *each.secondary_opts)}
        of = {"binder": "run", "new": "new plugin"}.get(name, name)  # binder has the flags of run
        named = set(re.findall(r"`(--?[a-z][\w-]*)", page[of]))
        long_options = {text for text in options if text.startswith("--")} - {"--v"}
        assert not long_options - named, f"{name}: not in the page"
        assert not named - options, f"{name}: in the page, and nowhere else"


def strings(pattern: str) -> set[str]:
    """Return the string literals of the package that match a pattern as a whole; parse only modules with a match."""
    return {
        node.value
        for folder in (
            *distributions.FOLDERS,
            ROOT / "plugins/batch/pyscheduler_batch/sessions",
            ROOT / "plugins/coscheduling/pyscheduler_coscheduling",
            ROOT / "plugins/quota/pyscheduler_quota",
        )
        for path in folder.rglob("*.py")
        if re.search(pattern, text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(pattern, node.value)
    }


def test_every_row_of_the_threat_model_names_tests_that_exist() -> None:
    """Files and functions that the page names are there, and the page names each file of attacks."""
    page = (ROOT / "docs/explanation/threat-model.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:(?:packages|plugins)/[\w-]+/)?tests/[\w/]+\.py)(?:::(\w+))?`", page))
    files = {path for path, _ in named}
    assert {path for path in files if not (ROOT / path).exists()} == set()
    assert {relative(path) for path in (ROOT / "tests/threats").glob("test_*.py")} <= files
    for path, function in named:
        if function:
            assert re.search(rf"^(?:async )?def {function}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.slow
def test_every_metric_is_in_the_reference() -> None:
    """Each metric that the program records has a row, and each row is a metric."""
    named = strings(r"(?:(py)?scheduler|leader_election|rest_client|kube_pod)_[a-z]+(_[a-z]+)+")
    recorded = set(FAMILIES) | {name for name in named if not name.startswith("pyscheduler_queuesort")}
    assert set(re.findall(r"^\| `(\w+)`", sections(REFERENCE["metrics"])["Warnings"], re.MULTILINE))
    table = REFERENCE["metrics"].partition("## Warnings")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == recorded


def test_every_kind_of_warning_is_in_the_reference() -> None:
    """Each thing that is counted and passed over is explained."""
    folders = (*distributions.FOLDERS, *(folder / distributions.package_of(folder) for folder in distributions.PLUGINS))
    calls = (path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py"))
    kinds = {
        kind for text in calls for kind in re.findall(r"(?:recorder\.warning\(|warning(?:: str )?= ?)\"(\w+)\"", text)
    }
    assert kinds
    rows = re.findall(r"^\| (`[^|]+) \|", sections(REFERENCE["metrics"])["Warnings"], re.MULTILINE)
    named = {kind for row in rows for kind in re.findall(r"`(\w+)`", row)}
    assert not kinds - named
    assert not {kind for kind in named - kinds if not kind.startswith(("malformed_", "kind"))}


def test_every_difference_is_in_the_parity_page() -> None:
    """Each module whose docstrings say that it differs from kube-scheduler is named, and no other."""
    differing = {
        path.relative_to(PACKAGE if package == PACKAGE else package.parent).as_posix()
        for package in distributions.FOLDERS
        for path in package.rglob("*.py")
        if "Differs from kube-scheduler" in path.read_text(encoding="utf-8")
    }
    named = set(re.findall(r"^\|.*\[`([\w/]+\.py)`\]", REFERENCE["parity"], re.MULTILINE))
    assert named == differing


def test_every_public_name_is_in_the_reference() -> None:
    """What plugin authors can import, the handle offers and the test kit does is named in the page."""
    page = REFERENCE["framework-api"]
    wanted = {*pyscheduler.__all__, *testing.__all__}
    for cls in (Handle, testing.FakeCluster, FakeFramework, testing.VirtualClock):
        wanted |= {name for name, _ in inspect.getmembers(cls) if not name.startswith("_")}
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", page))))
    assert not wanted - words - {"cluster"}
    assert not {name for name in wanted if name.endswith("Plugin") and f"`{name}`" not in page}


def test_documented_names_exist() -> None:
    """Modules named in the pages as `pyscheduler.room.module` can be imported, and names in them are there."""
    texts = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = re.findall(r"`((?:kube_(?:cel|objects|testserver)|pyscheduler(?:_lab)?)(?:\.\w+)+)(?![\w/])", texts)
    for dotted in sorted(set(named)):
        if dotted in {"pyscheduler.commands", "pyscheduler.configuration"}:
            continue  # groups of entry points
        module, _, name = dotted.rpartition(".")
        assert hasattr(import_module(module), name) or import_module(dotted), dotted


def test_paths_in_pages_exist() -> None:
    """Files of this repository that are named without a link are there, too."""
    path = re.compile(r"`((?:pyscheduler|configs|lab|packages|examples|docs)/[\w./-]+)`")
    named = {name for page in PAGES for name in path.findall(page.read_text(encoding="utf-8"))}
    assert not [name for name in named if not (ROOT / name).exists()]


# --- news ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_changelog_can_be_built(tmp_path: Path) -> None:
    """Fragments become the notes of the next release."""
    shutil.copytree(ROOT / "changelog.d", tmp_path / "changelog.d")
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "changelog.d" / "+news.feature.md").write_text("**Plugins:** They can fly.\n", encoding="utf-8")
    result = python("-m", "towncrier", "build", "--draft", "--version", "next", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "### Added" in result.stdout
    assert "They can fly." in result.stdout


def test_news_fragments_are_of_a_known_type() -> None:
    """A fragment has a type that towncrier knows, a topic and a sentence; none wait right after a release."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    known = {each["directory"] for each in settings["type"]}
    fragments = sorted((ROOT / "changelog.d").glob("*.*.md"))
    assert [path.name for path in fragments if path.name.split(".")[-2] not in known] == []
    texts = {path.name: path.read_text(encoding="utf-8").strip() for path in fragments}
    assert [name for name, text in texts.items() if not text.endswith((".", ":"))] == []
    topic = re.compile(r"\*\*[^*`]+:\*\* ")
    assert [name for name, text in texts.items() if ".about." not in name and not topic.match(text)] == []


def test_the_release_has_notes_and_one_version() -> None:
    """All distributions have the version whose notes are on top of the changelogs."""
    projects = [ROOT, *sorted((ROOT / "plugins").iterdir())]
    for project in projects:
        version = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
        notes = (project / "CHANGELOG.md").read_text(encoding="utf-8")
        assert re.findall(r"^## (\S+)", notes, re.MULTILINE)[0] == version, project.name
