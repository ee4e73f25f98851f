"""Metrics of plugins: names, labels, profiles, values, and what Prometheus sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import CycleState, Handle, PreFilterPlugin, Status
from pyscheduler.framework.nodes import Nodes
from pyscheduler.framework.plugin_metrics import MetricFamilies, PluginMetrics
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.telemetry.metrics import Metrics
from pyscheduler.testing import FakeCluster

TWO_PROFILES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: one
  plugins: {multiPoint: {enabled: [{name: Counting}]}}
- schedulerName: two
  plugins: {multiPoint: {enabled: [{name: Counting}]}}
"""


class Counting(PreFilterPlugin):
    """Counts its calls."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.calls = handle.metrics.counter("counting_calls_total", "Calls by namespace", labels=["namespace"])
        self.sizes = handle.metrics.histogram("counting_nodes", "Nodes of a call", buckets=[1, 10])
        self.last = handle.metrics.gauge("counting_last_nodes", "Nodes of the last call")

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        self.calls.add(namespace=pod.namespace)
        self.sizes.record(len(nodes))
        self.last.set(len(nodes))
        return None


@pytest.fixture(name="metrics")
def _metrics() -> PluginMetrics:
    """Give the metrics of a plugin in the profile `one`."""
    return PluginMetrics(MetricFamilies(NullRecorder()), "one")


async def test_two_profiles_of_one_plugin_count_apart(cluster: FakeCluster) -> None:
    """Each profile counts under its own name, and a test reads one profile or the sum."""
    cluster.add_node("n")
    framework = cluster.framework(enable=[Counting], config=TWO_PROFILES)
    for name, profile in (("a", "one"), ("b", "one"), ("c", "two")):
        assert (await framework.schedule(name, scheduler_name=profile)).bound
    assert framework.metric("counting_calls_total", profile="one") == 2
    assert framework.metric("counting_calls_total", profile="two", namespace="default") == 1
    assert framework.metric("counting_calls_total") == 3
    assert framework.metric("counting_calls_total", namespace="other") == 0
    assert framework.metric("counting_nodes_count") == framework.metric("counting_nodes_sum") == 3
    assert framework.metric("counting_last_nodes", profile="two") == 1


def test_all_kinds_are_shown_to_prometheus() -> None:
    """Counters, gauges and histograms of two profiles are on the page, with type, help and the label `profile`."""
    recorder = Metrics()
    families = MetricFamilies(recorder)
    for profile, count in (("one", 2), ("two", 3)):
        metrics = PluginMetrics(families, profile)
        metrics.counter("acme_held_total", "Held pods", labels=["why"]).add(count, why="late")
        metrics.gauge("acme_open", "Open windows").set_function(lambda count=count: count)  # type: ignore[misc] # bound now
        metrics.histogram("acme_seconds", "Waits", buckets=[1, 2.5]).record(count)
    page = recorder.render()[0].decode()
    for line in (
        "# HELP acme_held_total Held pods",
        "# TYPE acme_held_total counter",
        'acme_held_total{profile="one",why="late"} 2.0',
        'acme_held_total{profile="two",why="late"} 3.0',
        'acme_open{profile="two"} 3.0',
        "# TYPE acme_seconds histogram",
        'acme_seconds_bucket{le="1",profile="one"} 0.0',
        'acme_seconds_bucket{le="2.5",profile="one"} 1.0',
        'acme_seconds_bucket{le="+Inf",profile="two"} 1.0',
        'acme_seconds_sum{profile="two"} 3.0',
    ):
        assert line in page.splitlines(), line


def test_equal_families_of_two_profiles_are_added_up() -> None:
    """A counter that two profiles register with the recorder itself, without a label, shows their sum."""
    recorder = Metrics()
    recorder.counter("acme_things_total", lambda: {(): 2.0}, description="Things")
    recorder.counter("acme_things_total", lambda: {(): 3.0}, description="Things")
    page = recorder.render()[0].decode()
    assert "acme_things_total 5.0" in page


def test_counter_without_labels_begins_at_zero(metrics: PluginMetrics) -> None:
    """A counter without labels shows 0 before the first event, so that a rate can be computed."""
    metrics.counter("acme_failures_total", "Failures")
    assert metrics._families.value("acme_failures_total", {"profile": "one"}) == 0
    assert metrics._families.family("acme_failures_total", "counter", "", ()).read() == {(("profile", "one"),): 0.0}


def test_gauge_of_an_object_that_is_gone_is_removed(metrics: PluginMetrics) -> None:
    """`remove` drops the value, so that no series of deleted objects are left."""
    gauge = metrics.gauge("acme_load", "Load", labels=["rack"])
    gauge.set(1, rack="a")
    gauge.set(2, rack="b")
    gauge.remove(rack="a")
    assert metrics._families.family("acme_load", "gauge", "", ["rack"]).read() == {
        (("rack", "b"), ("profile", "one")): 2.0
    }


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        pytest.param(lambda m: m.counter("acme_held", ""), "names of counters end in _total", id="counter"),
        pytest.param(lambda m: m.gauge("acme_total", ""), "no other names do", id="gauge"),
        pytest.param(lambda m: m.gauge("acme-load", ""), "letters, digits and underscores", id="name"),
        pytest.param(lambda m: m.gauge("a", "", labels=["profile"]), "must differ, and none is", id="reserved"),
        pytest.param(lambda m: m.gauge("a", "", labels=["x", "x"]), "must differ", id="twice"),
        pytest.param(lambda m: m.histogram("a", "", buckets=[2, 1]), "ascending", id="buckets"),
        pytest.param(lambda m: m.counter("a_total", "").add(-1), "only grows: cannot add -1", id="negative"),
        pytest.param(lambda m: m.counter("a_total", "").add(float("nan")), "only grows", id="nan"),
        pytest.param(lambda m: m.counter("a_total", "").add(x=1), "has no labels, not x", id="unknown label"),
        pytest.param(lambda m: m.gauge("a", "", labels=["x"]).set(1), "has the labels x, not none", id="no label"),
        pytest.param(lambda m: m.gauge("a", "", labels=["x"]).set(1, y=1), "the labels x, not y", id="other label"),
        pytest.param(
            lambda m: (m.gauge("a", ""), m.histogram("a", "")), "exists already as a gauge", id="another kind"
        ),
    ],
)
def test_mistake_says_what_is_wrong(
    metrics: PluginMetrics, mistake: Callable[[PluginMetrics], object], message: str
) -> None:
    """A name, a label or a value that cannot be shown is refused where it is written."""
    with pytest.raises(ValueError, match=message):
        mistake(metrics)


def test_unknown_metric_names_those_that_exist(metrics: PluginMetrics) -> None:
    """Reading a metric that no plugin has lists the metrics that plugins have."""
    metrics.counter("acme_held_total", "")
    metrics.histogram("acme_seconds", "")
    for name in ("acme_seconds", "acme_held", "other"):
        with pytest.raises(KeyError, match="acme_held_total, acme_seconds_count"):
            metrics._families.value(name, {})
    with pytest.raises(ValueError, match="has the labels profile, not why"):
        metrics._families.value("acme_held_total", {"why": "x"})
