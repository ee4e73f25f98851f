"""CarbonIntensity: clean regions first; flexible pods wait for one, but not for ever and not on stale data."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from carbon_intensity.plugin import INTENSITIES, CarbonIntensity, RegionIntensity
from pyscheduler import ConfigError, Node, Pod
from pyscheduler.api import KubeObject
from pyscheduler.testing import FakeCluster, Step, check_plugin, make_pod

CRD = Path(__file__).parents[1] / "crd.yaml"
REGION, FLEXIBLE, HOUR = "topology.kubernetes.io/region", {"example.com/carbon-flexible": "true"}, 3600


def report(cluster: FakeCluster, region: str, grams: float, *, hours: float | None = None) -> None:
    """Store the intensity of a region; it is valid for so many hours."""
    spec = {"gramsPerKilowattHour": grams}
    if hours is not None:
        until = datetime.fromtimestamp(cluster.clock.wall() + hours * HOUR, UTC)
        spec["validUntil"] = until.strftime("%Y-%m-%dT%H:%M:%SZ")
    if any(each.name == region for each in cluster.objects(RegionIntensity)):
        cluster.patch(RegionIntensity, region, {"spec": spec})
    else:
        body = {"apiVersion": "example.com/v1", "kind": "RegionIntensity", "metadata": {"name": region}, "spec": spec}
        cluster.add(body, RegionIntensity)


@pytest.fixture
def cluster(pyscheduler_cluster):
    """Give a cluster with a node in each of two regions, and the definition of the resource."""
    pyscheduler_cluster.server.add(yaml.safe_load(CRD.read_text()))
    for name in ("north", "south"):
        pyscheduler_cluster.add_node(name, labels={REGION: name})
    return pyscheduler_cluster


def scores(framework):
    """Return the plugin's scores by node."""
    return {name: each["CarbonIntensity"] for name, each in framework.run_score(make_pod("p")).items()}


def test_the_definition_is_that_of_the_plugin(cluster):
    assert cluster.serves(INTENSITIES)


def test_scores_follow_the_intensity(cluster):
    """A region without a current value counts like the unknown ones, here 500 g."""
    cluster.add_node("elsewhere")
    report(cluster, "north", 50)
    report(cluster, "south", 400)
    framework = cluster.framework(enable=[CarbonIntensity])
    scores = framework.run_score(make_pod("p"))
    assert {name: each["CarbonIntensity"] for name, each in scores.items()} == {
        "north": 90,
        "south": 20,
        "elsewhere": 0,
    }
    report(cluster, "north", 50, hours=-1)
    scores = framework.run_score(make_pod("p"))
    assert {name: each["CarbonIntensity"] for name, each in scores.items()} == {"north": 0, "south": 20, "elsewhere": 0}


async def test_a_flexible_pod_waits_for_a_clean_region(cluster):
    report(cluster, "north", 300)
    report(cluster, "south", 400)
    framework = cluster.framework(enable=[CarbonIntensity])
    assert (await framework.schedule("urgent")).node == "north"
    waiting = await framework.schedule("batch", labels=FLEXIBLE)
    assert "2 node(s) were in a region with too much carbon dioxide" in waiting.message
    await cluster.clock.advance(HOUR)
    assert not framework.result("batch").bound
    report(cluster, "south", 120)
    await cluster.clock.advance(20)
    assert framework.result("batch").node == "south"


async def test_it_does_not_wait_for_ever(cluster):
    report(cluster, "north", 300)
    report(cluster, "south", 400)
    framework = cluster.framework(enable=[CarbonIntensity], args={"CarbonIntensity": {"maxDelay": "2h"}})
    await framework.schedule("batch", labels=FLEXIBLE)
    await cluster.clock.advance(2 * HOUR - 1)
    assert not framework.result("batch").bound
    await cluster.clock.advance(2)
    assert framework.result("batch").node == "north"


async def test_stale_values_hold_no_pod(cluster):
    report(cluster, "north", 300, hours=2)
    report(cluster, "south", 400, hours=1)
    framework = cluster.framework(enable=[CarbonIntensity])
    await framework.schedule("batch", labels=FLEXIBLE)
    await cluster.clock.advance(HOUR - 1)
    assert not framework.result("batch").bound
    await cluster.clock.advance(2)
    assert framework.result("batch").node == "south"


async def test_other_changes_that_help_wake_it(cluster):
    """A node moves to a clean region; a pod stops being flexible. Other labels wake no pod."""
    for region, grams in (("north", 300), ("south", 400), ("east", 10)):
        report(cluster, region, grams)
    framework = cluster.framework(enable=[CarbonIntensity])
    waiting = await framework.schedule("batch", labels=FLEXIBLE)
    await framework.schedule("other", labels=FLEXIBLE)
    cluster.patch(Node, "north", {"metadata": {"labels": {"colour": "blue"}}})
    cluster.patch(Pod, "other", {"metadata": {"labels": {"example.com/carbon-flexible": "false"}}})
    await cluster.clock.advance(20)
    assert framework.result("other").bound
    assert framework.scheduler.queue.get(waiting.pod.uid).attempts == 1
    cluster.patch(Node, "south", {"metadata": {"labels": {REGION: "east"}}})
    await cluster.clock.advance(20)
    assert framework.result("batch").node == "south"


async def test_without_the_definition_nothing_waits(pyscheduler_cluster):
    pyscheduler_cluster.add_node("n1", labels={REGION: "north"})
    framework = pyscheduler_cluster.framework(enable=[CarbonIntensity])
    assert (await framework.schedule("batch", labels=FLEXIBLE)).bound


def test_args_are_checked(pyscheduler_cluster):
    with pytest.raises(ConfigError, match=r"limitGrams.*-5.*args\.limitGrams"):
        pyscheduler_cluster.framework(enable=[CarbonIntensity], args={"CarbonIntensity": {"limitGrams": -5}})


def draw(rng, draft):
    """Report values of two regions, and change one."""
    body = {"apiVersion": "example.com/v1", "kind": "RegionIntensity"}
    draft.setup.append(Step("add", yaml.safe_load(CRD.read_text()), KubeObject))
    for region in ("north", "south"):
        manifest = {**body, "metadata": {"name": region}, "spec": {"gramsPerKilowattHour": 300}}
        draft.setup.append(Step("add", manifest, RegionIntensity))
    draft.events.append(Step("patch", RegionIntensity, "north", {"spec": {"gramsPerKilowattHour": 50}}))
    draft.node_labels[REGION] = ["north", "south"]
    draft.pod_labels["example.com/carbon-flexible"] = ["true"]


def test_the_contract_of_plugins():
    check_plugin(CarbonIntensity, {"maxDelay": "1m"}, draw=draw)
