"""Replays whose nodes are drained, lost, added and removed, and node groups that grow and shrink."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.config.load import load
from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.clusters.failures import read_failures
from pyscheduler_lab.simulation.replay import Progress, Replay
from pyscheduler_lab.simulation.replay_cluster import Fidelity, ServedCluster
from pyscheduler_lab.simulation.replay_report import ReplayReport
from pyscheduler_lab.traces import Job

HOUR = 3600.0
#: The longest wait of a pod after room came, in seconds: its backoff.
BACKOFF = 11.0


def job(name: str, at: float, duration: float, **fields: Any) -> Job:
    """Return a job, by default of a whole node."""
    return Job(name=name, arrival=at, duration=duration, **{"gpus": 8, **fields})


def play(
    jobs: list[Job],
    nodes: str,
    text: str,
    folder: Path,
    *,
    seed: int = 0,
    fidelity: Fidelity = "full",
    progress: Callable[[Progress], object] = lambda _: None,
) -> tuple[ReplayReport, Replay]:
    """Replay jobs with the failures of a text."""
    path = folder / "failures.yaml"
    path.write_text(text)
    cluster = Cluster.read(nodes)
    failures = read_failures(path, cluster)
    played = Replay(jobs, cluster, load(None), registry=discover(), seed=seed, failures=failures, fidelity=fidelity)
    return asyncio.run(played.run(progress)), played


def served(played: Replay) -> EmbeddedCluster:
    """Return the API server of a replay."""
    assert isinstance(played.cluster, ServedCluster)
    return played.cluster.server


def presence(played: Replay) -> dict[str, list[tuple[float, float | None]]]:
    """Return by node when it came and left; None if it is still there."""
    assert played.node_changes is not None
    found: dict[str, list[tuple[float, float | None]]] = {}
    for node, began, ended in played.node_changes.presence():
        found.setdefault(node.name, []).append((began, ended))
    return found


def test_drained_node_gives_up_its_pods_and_returns(tmp_path: Path) -> None:
    """The job begins anew on the other node; nothing is placed on the drained one until it returns."""
    text = "events:\n- {at: 100, drain: node-0, for: 1h}\n- {at: 100, drain: node-1, for: 10m}\n"
    jobs = [job("a", 0, 1000), job("b", 200, 10)]
    report, played = play(jobs, "2x8gpu", text, tmp_path)
    runs = played.meter.runs
    assert report.finished == 2
    assert runs["a"].spans[0] == (0, 100)
    assert 700 <= runs["a"].spans[-1][0] <= 700 + BACKOFF
    assert runs["b"].started is not None
    assert runs["b"].started >= 1700
    node = served(played).get("v1", "Node", "node-1")
    assert "unschedulable" not in node["spec"]


def test_lost_node_evicts_after_the_tolerated_time(tmp_path: Path) -> None:
    """Pods tolerate a lost node for five minutes; if it is back by then, the job goes on."""
    text = "events:\n- {at: 100, lose: 'node-*', for: 299}\n- {at: 1000, lose: node-0, for: 1h}\n"
    report, played = play([job("a", 0, 2000)], "1x8gpu", text, tmp_path)
    spans = played.meter.runs["a"].spans
    assert report.finished == 1
    assert spans[0] == (0, 1300)
    assert 1000 + HOUR <= spans[1][0] <= 1000 + HOUR + BACKOFF
    assert len(spans) == 2
    node = served(played).get("v1", "Node", "node-0")
    assert node["status"]["conditions"][-1]["status"] == "True"
    assert not node["spec"].get("taints")


def test_lost_node_is_tainted_while_it_is_away(tmp_path: Path) -> None:
    """Without an end, the job waits forever, and its pods say that the node is unreachable."""
    _, played = play([job("a", 0, 1000)], "1x8gpu", "events:\n- {at: 1, lose: node-0}\n", tmp_path)
    assert "untolerated taint" in played.waiting_messages()["a"]
    (condition,) = served(played).get("v1", "Node", "node-0")["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "Unknown")


def test_added_and_removed_nodes_count_while_they_are_there(tmp_path: Path) -> None:
    """A replay waits for nodes that are announced, however late; the table of nodes says when each was there."""
    text = "events:\n- {at: 12h, add: 1x8gpu:A100}\n- {at: 100, remove: node-0}\n"
    report, played = play([job("a", 0, 1000)], "1x8gpu", text, tmp_path)
    assert report.finished == 1
    spans = played.meter.runs["a"].spans
    assert spans[0] == (0, 100)
    assert 12 * HOUR <= spans[1][0] <= 12 * HOUR + BACKOFF
    assert presence(played) == {"node-0": [(0.0, 100)], "added-0": [(12 * HOUR, None)]}


def test_random_failures_follow_their_seed(tmp_path: Path) -> None:
    """Equal seeds lose the same nodes at the same times; the file's own seed counts before the replay's."""
    text = "rates:\n- {lose: '*', every: 2h, for: 20m}\n- {drain: node-0, every: 20h, for: 1m}\n"

    def spans(text: str, seed: int) -> list[tuple[float, float]]:
        report, played = play([job("a", 0, 4 * HOUR)], "1x8gpu", text, tmp_path, seed=seed)
        assert report.finished == 1
        return played.meter.runs["a"].spans

    first = spans(text, 2)
    assert len(first) > 1
    assert spans(text, 2) == first
    assert spans(text, 1) != first
    assert spans(f"{text}seed: 2\n", 1) == first


@pytest.mark.parametrize(
    ("rate", "ended"),
    [
        pytest.param("{lose: '*', every: 1h, for: 5m}", 13 * HOUR, id="often"),
        pytest.param("{drain: '*', every: 2h, for: 1h}", 15 * HOUR, id="away-half-of-the-time"),
        pytest.param("{lose: '*', every: 30d, for: 60d}", 13 * HOUR, id="rarely-and-long"),
    ],
)
def test_random_failures_do_not_prolong_a_replay(rate: str, ended: float, tmp_path: Path) -> None:
    """A replay with a job that never fits ends twelve hours after its last event, whichever nodes fail."""
    times: list[float] = []
    report, _ = play(
        [job("runs", 0, 100), job("never", 0, 100, gpus=9)],
        "3x8gpu",
        f"rates: [{rate}]",
        tmp_path,
        fidelity="decisions",
        progress=lambda each: times.append(each.time),
    )
    assert report.finished == 1
    assert 12 * HOUR <= times[-1] <= ended


def test_replay_waits_for_nodes_that_failed_at_random(tmp_path: Path) -> None:
    """A job that loses its node runs again once the node returns, also after more than twelve hours."""
    text = "rates: [{drain: node-0, every: 20h, for: 3d}]"
    report, played = play([job("a", 0, 2 * 86400)], "1x8gpu", text, tmp_path, seed=1, fidelity="decisions")
    spans = played.meter.runs["a"].spans
    assert report.finished == 1
    assert len(spans) > 1
    assert all(after[0] - before[1] >= 3 * 86400 for before, after in pairwise(spans))


def test_node_group_grows_for_pods_that_wait_and_shrinks(tmp_path: Path) -> None:
    """Nodes come after the delay of the group, as many as the pods need and the group may have, and leave when idle."""
    text = "groups:\n- {name: burst, shape: '8gpu,32cpu', max: 2, delay: 3m, idle: 10m}\n"
    jobs = [
        job("fits", 0, 100),
        job("half-a", 10, 600, gpus=4),
        job("half-b", 10, 600, gpus=4),
        job("one", 10, 600),
        job("third", 10, 300),
        job("huge", 10, 10, gpus=1, cpu_milli=64_000),
        job("later", 5 * HOUR, 60, gpus=9),
    ]
    report, played = play(jobs, "1x8gpu,32cpu", text, tmp_path)
    started = {name: run.spans[0][0] for name, run in played.meter.runs.items() if run.spans}
    assert report.finished == 5
    assert sorted(name for name, run in played.meter.runs.items() if not run.spans) == ["huge", "later"]
    # 10 s until the group looks, and three minutes until the nodes are there.
    joined = 10 + 10 + 180
    waited = sorted(started[name] for name in ("half-a", "half-b", "one", "third"))
    assert 100 <= waited[0] <= 100 + BACKOFF  # on the node that became free
    assert joined - 15 <= waited[-1] <= joined + 610
    ((began, ended),) = presence(played)["burst-0"]
    assert began == pytest.approx(joined, abs=15)
    assert ended is not None
    assert ended < HOUR
    assert [node["metadata"]["name"] for node in served(played).nodes()] == ["node-0"]


def test_node_group_grows_for_an_evicted_worker(tmp_path: Path) -> None:
    """The job goes on with its minimum of workers; the worker of the removed node gets a node of the group."""
    text = "events:\n- {at: 100, remove: node-1}\ngroups:\n- {name: burst, shape: 8gpu, max: 1, delay: 1m, idle: 10m}\n"
    report, played = play([job("a", 0, 1000, workers=2, min_workers=1)], "2x8gpu", text, tmp_path)
    assert report.finished == 1
    assert played.meter.runs["a"].spans == [(0, 1000)]
    ((began, _),) = presence(played)["burst-0"]
    assert began == pytest.approx(100 + 1 + 10 + 60, abs=1)
    assert {pod.node for pod in played.meter.pods} == {"node-0", "node-1", "burst-0"}


def test_node_group_keeps_its_minimum(tmp_path: Path) -> None:
    """The minimum is there from the beginning, and stays although it is idle."""
    text = "groups:\n- {name: spare, shape: 8gpu, min: 1, max: 3, delay: 1m, idle: 1m}\n"
    report, played = play([job("a", HOUR, 10), job("b", HOUR, 10)], "1x8gpu", text, tmp_path)
    assert report.finished == 2
    assert [run.spans for run in played.meter.runs.values()] == [[(HOUR, HOUR + 10)]] * 2
    assert [node["metadata"]["name"] for node in served(played).nodes()] == ["node-0", "spare-0"]


@pytest.mark.slow
def test_both_fidelities_decide_the_same(tmp_path: Path) -> None:
    """With drains, losses, additions, removals and a group: equal runs, equal nodes."""
    text = """
events:
- {at: 10m, drain: node-1, for: 30m}
- {at: 20m, lose: node-2, for: 3h}
- {at: 30m, add: 1x8gpu}
- {at: 2h, remove: node-3}
rates:
- {lose: 'node-0', every: 3h, for: 10m}
groups:
- {name: burst, shape: 8gpu, max: 2, delay: 2m, idle: 5m}
"""
    jobs = [job(f"j{number}", 200 * number, 1800 + 100 * number, gpus=2 + number % 7) for number in range(24)]
    jobs += [job(f"g{number}", 1000 * number, 900, workers=2, gpus=6) for number in range(3)]

    def outcome(fidelity: Fidelity) -> object:
        report, played = play(jobs, "4x8gpu", text, tmp_path, fidelity=fidelity)
        assert report.finished == len(jobs)
        return {name: run.spans for name, run in played.meter.runs.items()}, presence(played)

    found = outcome("full")
    assert outcome("decisions") == found


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("events: [{at: 1}]", "events[0]: name one of drain, lose, remove and add"),
        ("events: [{at: 1, drain: a, lose: b}]", "events[0]: name one of drain, lose, remove and add"),
        ("events: [{at: soon, drain: '*'}]", "events[0].at: 'soon' must be seconds, or a duration"),
        ("events: [{at: -1, drain: '*'}]", "events[0].at: -1 must be seconds"),
        ("events: [{at: 1, drain: 'x-*'}]", 'drain: no node matches "x-*"'),
        ("events: [{at: 1, add: many}]", 'events[0].add: "many" must be like 2x8gpu:A100'),
        ("events: [{at: 1, add: 1x8gpu, for: 1h}]", "events[0].for: has no effect on add"),
        ("events: [{at: 1, brake: x}]", "Object contains unknown field `brake`"),
        ("rates: [{every: 1h, for: 1m}]", "rates[0]: name one of drain and lose"),
        ("rates: [{every: 0, for: 1m, lose: '*'}]", "rates[0].every: must be at least a second"),
        ("groups: [{name: g, shape: big, max: 1, delay: 0}]", 'the shape "big" must be like 8gpu'),
        ("groups: [{name: g, shape: 8gpu, max: 1, min: 2, delay: 0}]", "groups[0].min: must be at most max (1)"),
        ("groups: [{name: node, shape: 8gpu, max: 1, delay: 0}]", "two nodes would have the name node-0"),
        ("events: [", "while parsing"),
    ],
)
def test_mistakes_in_failures_are_reported(text: str, complaint: str, tmp_path: Path) -> None:
    """In one line that names the file and the place in it."""
    path = tmp_path / "failures.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_failures(path, Cluster.read("2x8gpu"))
    assert raised.value.source == str(path)
    assert complaint in " ".join(raised.value.problems)
