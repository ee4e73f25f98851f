"""examples/01-third-party-plugin: installed with pip, found, enabled by its profile, and felt by the pods."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.examples.conftest import ROOT, Start, bound_pod, install, run

EXAMPLE = ROOT / "examples/01-third-party-plugin"

#: The smallest test that the plugin kit promises to run, in any package, as it stands here.
PROMISE = """
async def test_spreads(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1", allocatable={"cpu": "4"})
    framework = cluster.framework(enable=[MyPlugin], args={"MyPlugin": {"weight": 2}})
    result = await framework.schedule(make_pod("p", requests={"cpu": "1"}))
    assert result.node == "n1"
    await cluster.clock.advance(60)
    cluster.assert_invariants()
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the environment variables of a program that has the example's distribution installed."""
    return install(EXAMPLE, tmp_path_factory.mktemp("example"))


def plugins(env: dict[str, str]) -> dict[str, Any]:
    """Return what `pyscheduler plugins` shows, by name."""
    shown = run("-m", "pyscheduler", "plugins", "-o", "json", env=env)
    assert shown.returncode == 0, shown.stderr
    return {row["name"]: row for row in json.loads(shown.stdout)["plugins"]}


def test_it_is_discovered_with_its_distribution(installed: dict[str, str]) -> None:
    """`pyscheduler plugins` names plugin, distribution, version, extension points and args; without it, nothing."""
    row = plugins(installed)["CheapestNode"]
    assert (row["distribution"], row["version"], row["error"]) == ("cheapest-node", "1.0.0", "")
    assert row["extensionPoints"] == ["score"]
    assert row["args"] == ["priceLabel", "unpriced"]
    assert "CheapestNode" not in plugins({})


def test_its_profile_loads_only_where_it_is_installed(installed: dict[str, str]) -> None:
    """The profile shows args and weight; where the plugin is missing, one line per mistake says so."""
    shown = run("-m", "pyscheduler", "config", "--config", str(EXAMPLE / "profile.yaml"), env=installed)
    assert shown.returncode == 0, shown.stderr
    assert "name: CheapestNode\n        weight: 10" in shown.stdout
    assert "unpriced: 9.5" in shown.stdout
    missing = run("-m", "pyscheduler", "config", "--config", str(EXAMPLE / "profile.yaml"), env={})
    assert missing.returncode == 1
    assert 'plugin "CheapestNode" does not exist' in missing.stderr.splitlines()[0]
    assert all(line.startswith("error: ") for line in missing.stderr.splitlines())


@pytest.mark.parametrize(
    ("with_plugin", "node"), [pytest.param(True, "small", id="enabled"), pytest.param(False, "large", id="not enabled")]
)
def test_it_changes_placement_over_http(
    installed: dict[str, str], start: Start, tmp_path: Path, with_plugin: bool, node: str
) -> None:
    """The same pod on the same cluster goes elsewhere once the profile enables the plugin; both commands end well."""
    profile = EXAMPLE / "profile.yaml"
    if not with_plugin:
        plain = yaml.safe_load(profile.read_text(encoding="utf-8"))
        for each in plain["profiles"]:
            del each["plugins"], each["pluginConfig"]
        profile = tmp_path / "plain.yaml"
        profile.write_text(yaml.safe_dump(plain), encoding="utf-8")
    server = start("cluster", "--port", "0", "--load", str(EXAMPLE / "cluster.yaml"))
    url = server.line().split()[1]
    scheduler = start("run", "--master", url, "--config", str(profile), "--health-port", "0", env=installed)
    assert bound_pod(url, "job")["spec"]["nodeName"] == node, scheduler.log
    assert scheduler.stop() == 0, scheduler.log
    assert server.stop() == 0, server.log


# pytest-asyncio warns where nobody says which loop its fixtures want.
SCOPE = ["-o", "asyncio_default_fixture_loop_scope=function"]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(SCOPE, id="plain pytest"),
        pytest.param(["-p", "no:asyncio"], id="without pytest-asyncio"),
        pytest.param([*SCOPE, "-o", "asyncio_mode=auto"], id="pytest-asyncio takes over"),
    ],
)
def test_its_own_tests_pass(installed: dict[str, str], tmp_path: Path, options: list[str]) -> None:
    """A stranger's suite runs on the installed package, with no settings of this repository, and warns of nothing."""
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    result = run("-m", "pytest", "--rootdir=.", "-W", "error", *options, "tests", env=installed, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
    assert "skipped" not in result.stdout


def test_the_promise_stands_in_it() -> None:
    """The kit's smallest test is part of the example's suite, word for word."""
    assert PROMISE in (EXAMPLE / "tests/test_as_it_stands.py").read_text(encoding="utf-8")
