"""The files in `configs/` work as they stand: each is read, its plugins are there, and it schedules as it says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyscheduler.config.dump import dump
from pyscheduler.config.load import load, loads
from pyscheduler.config.profiles import profiles
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.testing.fake_cluster import FakeCluster

FOLDER = Path(__file__).parents[2] / "configs"
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Two nodes of eight CPUs, of which `half` has less than half left and `empty` everything."""
    cluster = FakeCluster()
    for name in ("empty", "half"):
        cluster.add_node(name, allocatable={"cpu": "8", "memory": "16Gi", "pods": "10"})
    cluster.add_pod("running", requests={"cpu": "5", "memory": "10Gi"}, node_name="half")
    yield cluster
    cluster.assert_invariants()
    await cluster.close()


def test_there_are_files() -> None:
    """All YAML, the one to begin with among them; folders hold the deployment, definitions, roles and the webhook."""
    assert {path.name for path in FOLDER.iterdir()} - {path.name for path in FILES} == {
        "deploy",
        "crds",
        "rbac",
        "webhook",
    }
    assert FOLDER / "default.yaml" in FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_read_and_begins_with_what_it_is_for(path: Path) -> None:
    """And what it comes to reads back as the same."""
    config = load(path)
    assert loads(dump(config)) == config
    assert path.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_plugin_that_a_file_names_is_installed(path: Path) -> None:
    """Each loads, and takes the args that the file gives."""
    registry = discover()
    config = load(path)
    specs = profiles(config, registry.args_type)
    named = {
        entry.name for profile in config.profiles for _, chosen in profile.plugins.sets() for entry in chosen.enabled
    }
    assert {registry.load(name).name for name in named} == named
    assert [name for spec in specs for name in spec.args if name not in registry] == []


def test_files_can_be_used_side_by_side() -> None:
    """No two files name the same profile, and none takes kube-scheduler's pods."""
    names = [profile.scheduler_name for path in FILES for profile in load(path).profiles]
    assert len(set(names)) == len(names)
    assert [name for name in names if not name.startswith("pyscheduler")] == []


def test_the_file_to_begin_with_is_the_default_but_for_the_limits() -> None:
    """Its profile is the one that a program without a file has."""
    assert load(FOLDER / "default.yaml").profiles == load(None).profiles
    assert load(FOLDER / "default.yaml").client_connection.qps == 5000


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("file", "name", "node"),
    [
        pytest.param("default.yaml", "pyscheduler", "empty", id="the default spreads"),
        pytest.param("bin-packing.yaml", "pyscheduler-bin-packing", "half", id="bin packing packs"),
        pytest.param("two-profiles.yaml", "pyscheduler-services", "empty", id="services are spread"),
        pytest.param("two-profiles.yaml", "pyscheduler-batch", "half", id="batch work is packed"),
        pytest.param("gangsort.yaml", "pyscheduler-gangsort", "empty", id="another queue order"),
    ],
)
async def test_pods_are_placed_as_the_file_says(cluster: FakeCluster, file: str, name: str, node: str) -> None:
    """A pod that both nodes can take goes where the profile wants it."""
    framework = cluster.framework(config=(FOLDER / file).read_text(encoding="utf-8"))
    result = await framework.schedule("pod", scheduler_name=name, requests={"cpu": "1", "memory": "1Gi"})
    assert (result.state, result.node) == ("bound", node)


async def test_gangsort_orders_the_queue(cluster: FakeCluster) -> None:
    """It takes the place of the default order."""
    framework = cluster.framework(config=(FOLDER / "gangsort.yaml").read_text(encoding="utf-8"))
    assert framework.profile.queue_sort_name == "GangSort"
