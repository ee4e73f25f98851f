"""The fixtures in a stranger's pytest run: with and without pytest-asyncio, warnings being errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes

#: How tests may be run: options of pytest, and what stands above an `async def` test.
RUNNERS = {
    "alone": (["-p", "no:asyncio"], ""),
    "strict, unmarked": (["-o", "asyncio_default_fixture_loop_scope=function"], ""),
    "strict, marked": (["-o", "asyncio_default_fixture_loop_scope=function"], "@pytest.mark.asyncio"),
    "auto": (["-o", "asyncio_default_fixture_loop_scope=function", "-o", "asyncio_mode=auto"], ""),
    "one loop for all": (
        ["-o", "asyncio_default_fixture_loop_scope=session", "-o", "asyncio_mode=auto"],
        "@pytest.mark.asyncio(loop_scope='session')",
    ),
}

PLUGIN = """
import asyncio
import pytest
from pyscheduler import ScorePlugin

seen = []

class Busy(ScorePlugin):
    def score(self, state, pod, node):
        return 1

    async def run(self):
        seen.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("stopped")
"""


def pytest_run(folder: Path, test: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a test module as a project of its own, in which every warning is an error."""
    (folder / "test_it.py").write_text(PLUGIN + test, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--rootdir=.", "-p", "no:randomly", "-p", "no:cacheprovider"]
    # PYTHONASYNCIODEBUG: a coroutine that nobody awaits, a task that nobody stops are reported.
    env = os.environ | {"PYTHONASYNCIODEBUG": "1"}
    return processes.run(*command, "-W", "error", *options, cwd=folder, env=env)


pytestmark = pytest.mark.slow


@pytest.mark.parametrize("runner", RUNNERS)
def test_coroutine_tests_run_with_and_without_asyncio_plugins(tmp_path: Path, runner: str) -> None:
    """Each way of running leaves the scheduler stopped, on its own loop, and nothing behind."""
    options, mark = RUNNERS[runner]
    test = f"""
{mark}
async def test_bound(pyscheduler_cluster):
    pyscheduler_cluster.add_node("n1")
    framework = pyscheduler_cluster.framework(enable=[Busy])
    assert (await framework.schedule("p")).node == "n1"
    assert seen == ["started"]

{mark}
async def test_clusters_are_closed_after_the_test(pyscheduler_clock):
    assert seen == ["started", "stopped"]
    others = asyncio.all_tasks() - {{asyncio.current_task()}}
    assert not [task for task in others if "pyscheduler" in repr(task) or "informer" in task.get_name()]

class TestInAClass:
    {mark or "pass"}
    async def test_method(self, pyscheduler_cluster):
        pyscheduler_cluster.add_node("n1")
        assert (await pyscheduler_cluster.framework().schedule("p")).bound

@pytest.fixture
def framework(pyscheduler_cluster):
    pyscheduler_cluster.add_node("n1")
    return pyscheduler_cluster.framework(enable=[Busy])

{mark}
async def test_through_another_fixture(framework):
    assert (await framework.schedule("p")).bound

{mark}
@pytest.mark.parametrize("count", [1, 2])
async def test_with_parameters(count, pyscheduler_cluster, tmp_path):
    assert count in (1, 2) and tmp_path.is_dir()

def test_without_a_loop(pyscheduler_cluster):
    pyscheduler_cluster.add_node("n1")
    framework = pyscheduler_cluster.framework(enable=[Busy])
    from pyscheduler.testing import make_pod
    assert framework.run_score(make_pod("p"))["n1"]["Busy"] == 1
"""
    result = pytest_run(tmp_path, test, *options)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "7 passed" in result.stdout


def test_failure_of_the_test_is_reported(tmp_path: Path) -> None:
    """A failing coroutine test fails with its own assertion, and its cluster is stopped all the same."""
    test = """
async def test_fails(pyscheduler_cluster):
    pyscheduler_cluster.add_node("n1")
    await pyscheduler_cluster.framework(enable=[Busy]).schedule("p")
    assert "this is" == "what went wrong"

def test_after_it():
    assert seen == ["started", "stopped"]
"""
    result = pytest_run(tmp_path, test, "-p", "no:asyncio")
    assert "1 failed, 1 passed" in result.stdout, result.stdout
    assert "what went wrong" in result.stdout


def test_an_overcommitted_node_fails_the_test(tmp_path: Path) -> None:
    """Invariants are checked when a test is over, asked for or not."""
    test = """
async def test_overcommits(pyscheduler_cluster):
    pyscheduler_cluster.add_node("n1", allocatable={"cpu": "1"})
    pyscheduler_cluster.add_pod("p", node_name="n1", requests={"cpu": "2"})
"""
    result = pytest_run(tmp_path, test, "-p", "no:asyncio")
    assert "node n1 is overcommitted: cpu" in result.stdout, result.stdout
    assert "1 passed, 1 error" in result.stdout


def test_other_coroutine_tests_are_left_alone(tmp_path: Path) -> None:
    """Only tests that use the fixtures are run here: others are the business of whoever is responsible."""
    result = pytest_run(tmp_path, "\nasync def test_other():\n    pass\n", "-p", "no:asyncio")
    assert "async def functions are not natively supported" in result.stdout, result.stdout


def test_a_pytest_run_that_uses_no_fixture_imports_nothing(tmp_path: Path) -> None:
    """The plugin is loaded in every run on a machine; it costs next to nothing until a fixture is used."""
    test = """
import sys

def test_imports(request):
    assert request.config.pluginmanager.has_plugin("pyscheduler")
    ours = {name for name in sys.modules if name.partition(".")[0] == "pyscheduler"}
    assert ours == {"pyscheduler", "pyscheduler.testing", "pyscheduler.testing.pytest_plugin"}
    assert not {"aiohttp", "attrs", "kubernetes", "msgspec", "numpy", "yaml"} & set(sys.modules)
"""
    (tmp_path / "test_light.py").write_text(test, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:asyncio", "--rootdir=.", "test_light.py"]
    # hypothesis and xdist bring modules of their own.
    command += ["-p", "no:hypothesispytest", "-p", "no:xdist"]
    result = processes.run(*command, cwd=tmp_path)
    assert result.returncode == 0, result.stdout
