"""examples/19-gym-policy: installed with pip, it prints the table of its page, and its profile binds pods."""

from __future__ import annotations

import importlib

import pytest

from pyscheduler.api import Node
from pyscheduler.testing import FakeCluster
from pyscheduler_lab.clusters import Cluster
from tests.examples.conftest import ROOT, install, run

EXAMPLE = ROOT / "examples/19-gym-policy"
PAGE = (EXAMPLE / "README.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the environment variables of a program that has the example's distribution installed."""
    return install(EXAMPLE, tmp_path_factory.mktemp("example"))


def test_it_beats_random_placement(installed: dict[str, str]) -> None:
    """By five points of GPU allocation and more, over five seeds; the page has the output."""
    done = run("-m", "gym_policy.train", "compare", env=installed)
    assert done.returncode == 0, done.stderr
    assert done.stdout in PAGE
    assert float(done.stdout.split()[-2]) >= 5


def test_its_profile_is_accepted(installed: dict[str, str]) -> None:
    """The plugin is found by its entry point."""
    done = run("-m", "pyscheduler", "config", "--config", EXAMPLE / "profile.yaml", env=installed)
    assert done.returncode == 0, done.stderr
    assert "Learned" in done.stdout


async def test_its_profile_binds_where_the_policy_prefers(
    pyscheduler_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy fills a node before it takes a GPU of another one."""
    monkeypatch.syspath_prepend(EXAMPLE)
    hooks = importlib.import_module("gym_policy.hooks")
    for manifest in Cluster.read("3x4gpu").manifests(shares_gpus=True):
        pyscheduler_cluster.add(manifest, Node)
    framework = pyscheduler_cluster.framework(
        config=(EXAMPLE / "profile.yaml").read_text(encoding="utf-8"), register=hooks.pyscheduler_register
    )
    found = []
    for name in ("a", "b", "c"):
        result = await framework.schedule(
            name, requests={"cpu": "1", "nvidia.com/gpu": "1"}, spec={"schedulerName": "learned"}
        )
        found.append(result.node)
    assert found[0] is not None
    assert found == [found[0]] * 3
