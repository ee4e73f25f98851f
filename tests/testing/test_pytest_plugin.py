"""The fixtures in a stranger's pytest run: with and without pytest-asyncio, warnings being errors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked, processes

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


def pytest_run(folder: Path, test: str, *options: str, forks: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a test module as a project of its own, in which every warning is an error.

    In a forked process, our modules have been imported before, so that pytest cannot rewrite their assertions.
    """
    (folder / "test_it.py").write_text(PLUGIN + test, encoding="utf-8")
    arguments = ["--rootdir=.", "-p", "no:randomly", "-p", "no:cacheprovider", "-W", "error", *options]
    # PYTHONASYNCIODEBUG: a coroutine that nobody awaits, a task that nobody stops are reported.
    env = os.environ | {"PYTHONASYNCIODEBUG": "1"}
    if forks:
        return forked.run_pytest(*arguments, "-W", "ignore::pytest.PytestAssertRewriteWarning", folder=folder, env=env)
    return processes.run(sys.executable, "-m", "pytest", *arguments, cwd=folder, env=env)


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
    # One of the runs shows that our modules can be imported without a warning.
    result = pytest_run(tmp_path, test, *options, forks=runner != "alone")
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


WRONG = """
from pyscheduler import ClusterEvent, ClusterEventWithHint, EnqueueExtensions, FilterPlugin, PostBindPlugin, Status
from pyscheduler import ActionType, EventResource, Pod

class Filters(FilterPlugin):
    def filter(self, state, pod, node):
        raise LookupError("raised at filter")

class Binds(PostBindPlugin):
    async def post_bind(self, state, pod, node_name):
        raise LookupError("raised at post_bind")

class Runs(PostBindPlugin):
    def post_bind(self, state, pod, node_name):
        pass

    async def run(self):
        raise LookupError("raised in run")

class Spawns(PostBindPlugin):
    def post_bind(self, state, pod, node_name):
        self.handle.spawn(self.fail())

    async def fail(self):
        raise LookupError("raised in a task")

class Hears(PostBindPlugin):
    def __init__(self, args, handle):
        super().__init__(args, handle)
        handle.lister(Pod).add_event_handler(on_add=lambda pod: pod.labels["not there"])

    def post_bind(self, state, pod, node_name):
        pass

class Hints(FilterPlugin, EnqueueExtensions):
    def filter(self, state, pod, node):
        return Status.unschedulable("no")

    def events_to_register(self):
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD), self.hint)]

    def hint(self, pod, old, new):
        raise LookupError("raised in a hint")

class Forgets(PostBindPlugin):
    async def post_bind(self, state, pod, node_name):
        self.handle.client.get(Pod, pod.name, pod.namespace)

class Closes(PostBindPlugin):
    def post_bind(self, state, pod, node_name):
        pass

    def close(self):
        raise LookupError("raised in close")

ALL = [Filters, Binds, Runs, Spawns, Hears, Hints, Forgets, Closes]

async def use(cluster, plugin, **keywords):
    cluster.add_node("n1")
    framework = cluster.framework(enable=[plugin], **keywords)
    await framework.schedule("p")
    cluster.add_node("n2")
    await framework.settle()
    return framework
"""


@pytest.mark.parametrize("runner", ["alone", "one loop for all"])
def test_a_plugin_that_fails_fails_the_test(tmp_path: Path, runner: str) -> None:
    """Wherever a plugin raises, and where it leaves a coroutine, the test has an error at teardown, if not allowed."""
    options, mark = RUNNERS[runner]
    test = f"""{WRONG}
{mark}
@pytest.mark.parametrize("plugin", ALL)
async def test_strict(plugin, pyscheduler_cluster):
    await use(pyscheduler_cluster, plugin)

{mark}
@pytest.mark.parametrize("plugin", ALL)
async def test_allowed(plugin, pyscheduler_cluster):
    framework = await use(pyscheduler_cluster, plugin, allow_plugin_errors=True)
    assert plugin in (Forgets, Closes) or framework.plugin_errors[0].plugin in ("", plugin.__name__)
"""
    result = pytest_run(tmp_path, test, *options)
    assert "16 passed, 8 errors" in result.stdout, result.stdout
    for place in ("filter", "post_bind", "run", "a task", "a hint", "close"):
        assert re.search(f"E +LookupError: raised (at|in) {place}", result.stdout), place
    assert re.search("E +KeyError: 'not there'", result.stdout)
    assert re.search(
        "PluginError: plugin \"Forgets\": coroutine '.*get' was never awaited, made at test_it.py:[0-9]+ in post_bind",
        result.stdout,
    )
    assert 'plugin "Binds" failed at PostBind (pod=default/p): LookupError: raised at post_bind, test_it.py:' in (
        result.stdout
    )
    assert "pass allow_plugin_errors=True" in result.stdout


def test_the_debugger_stops_in_the_plugin(tmp_path: Path) -> None:
    """`pytest --pdb` opens the frame that raised, with its variables."""
    test = f"""{WRONG}
async def test_strict(pyscheduler_cluster):
    await use(pyscheduler_cluster, Filters)
"""
    (tmp_path / ".pdbrc").write_text("p 'node is ' + node.name\nwhere 1\nq\n", encoding="utf-8")
    result = pytest_run(tmp_path, test, "-p", "no:asyncio", "--pdb")
    assert "'node is n1'" in result.stdout, result.stdout + result.stderr
    assert '-> raise LookupError("raised at filter")' in result.stdout


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
    assert request.config.pluginmanager.has_plugin("kube-testserver")
    ours = {name for name in sys.modules if name.startswith(("kube_", "pyscheduler"))}
    scheduler = {"pyscheduler", "pyscheduler.moved", "pyscheduler.testing", "pyscheduler.testing.pytest_plugin"}
    assert ours == {*scheduler, "kube_testserver", "kube_testserver.pytest_plugin"}
    assert not {"aiohttp", "attrs", "kubernetes", "msgspec", "numpy", "yaml"} & set(sys.modules)
"""
    (tmp_path / "test_light.py").write_text(test, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:asyncio", "--rootdir=.", "test_light.py"]
    # hypothesis and xdist bring modules of their own.
    command += ["-p", "no:hypothesispytest", "-p", "no:xdist"]
    result = processes.run(*command, cwd=tmp_path)
    assert result.returncode == 0, result.stdout
