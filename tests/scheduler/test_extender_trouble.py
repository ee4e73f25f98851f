"""What becomes of pods where extenders fail, hang, lie or take their time; on a virtual clock, without a network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.cluster.real.base_transport import ConnectingTransport
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.ports import Response
from tests.scheduler.extending import FILTER, Scripted, config, extender, extenders, nodes, only

if TYPE_CHECKING:
    from pyscheduler.config.types import Extender
    from pyscheduler.testing import FakeCluster

__all__ = ["extenders"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"<html>busy</html>", id="html"),
        pytest.param(Response(500, b"", {}), id="500"),
    ],
)
async def test_failing_to_score_ends_nothing(cluster: FakeCluster, extenders: Scripted, answer: object) -> None:
    """The others decide, whether the extender may be ignored or not."""
    cluster.add_node("small", allocatable={"cpu": "2"})
    cluster.add_node("large", allocatable={"cpu": "32"})
    extenders.answers["http://one/score"] = lambda _: answer
    framework = cluster.framework(config=config(extender(prioritizeVerb="score", weight=1)))
    assert (await framework.schedule("p", requests={"cpu": "1"})).node == "large"


async def test_scores_beyond_all_bounds_are_taken_as_they_are(cluster: FakeCluster, extenders: Scripted) -> None:
    """Negative and huge scores shift the choice and break nothing."""
    nodes(cluster, 2)
    extenders.answers["http://one/score"] = lambda _: [{"Host": "n1", "Score": -(2**62)}, {"Host": "n2", "Score": -7}]
    framework = cluster.framework(config=config(extender(prioritizeVerb="score", weight=1)))
    assert (await framework.schedule("p")).state == "bound"
    extenders.answers["http://one/score"] = lambda _: [{"Host": "n1", "Score": -700}, {"Host": "n2", "Score": 9000}]
    assert (await framework.schedule("q")).node == "n2"


BAD = [
    pytest.param(b"<html>", "invalid character '<' looking for beginning of value", id="html"),
    pytest.param({"Error": "out of licences"}, "out of licences", id="its own error"),
    pytest.param(
        {"NodeNames": ["n1", "moon"]},
        'extender "http://one" claims a filtered node "moon" which is not found in the input node list',
        id="a node that was not asked about",
    ),
    pytest.param(Response(503, b"", {}), "failed filter with extender at URL http://one/filter, code 503", id="503"),
    pytest.param(
        None, 'Post "http://one/filter": dial tcp 10.0.0.1:80: connect: connection refused', id="nobody there"
    ),
]


@pytest.mark.parametrize(("answer", "message"), BAD)
async def test_a_failing_extender_costs_the_attempt_and_no_pod(
    cluster: FakeCluster, extenders: Scripted, answer: object, message: str
) -> None:
    """The pod's user reads what was wrong, and the pod is tried again after its backoff."""
    nodes(cluster)
    if answer is not None:
        extenders.answers[FILTER] = lambda _: answer
    framework = cluster.framework(config=config(extender(filterVerb="filter")))
    result = await framework.schedule("p")
    assert (result.state, result.message) == ("pending", message)
    (event,) = cluster.events("FailedScheduling")
    assert event["note"] == message
    condition = next(c for c in result.pod.status.conditions if c.type == "PodScheduled")
    assert condition.reason == "SchedulerError"
    extenders.answers[FILTER] = only("n3")
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n3"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("answer", "message"), BAD)
async def test_an_ignorable_extender_that_fails_is_left_out(
    cluster: FakeCluster,
    extenders: Scripted,
    answer: object,
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The pod is bound as if it were not there; the log says why it was passed over."""
    cluster.add_node("n1")
    if answer is not None:
        extenders.answers[FILTER] = lambda _: answer
    framework = cluster.framework(config=config(extender(filterVerb="filter", ignorable=True)))
    with caplog.at_level("INFO", logger="pyscheduler.scheduler.extenders"):
        assert (await framework.schedule("p")).node == "n1"
    assert (
        f'Skipped extender, as it failed extender=http://one verb=filter pod=default/p err="{message}"' in caplog.text
    )


async def test_an_extender_that_hangs_is_given_up_in_time(cluster: FakeCluster, extenders: Scripted) -> None:
    """After `httpTimeout` the attempt ends, after five seconds where there is none; pods behind it have their turn."""
    nodes(cluster)
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def hang(_: object) -> None:
        await asyncio.shield(never)

    extenders.answers = {"http://slow/f": hang, "http://slower/f": hang}
    managed = [{"name": "example.com/a", "ignoredByScheduler": True}]
    framework = cluster.framework(
        config=config(
            extender("http://slow", filterVerb="f", httpTimeout="2s", managedResources=managed),
            extender("http://slower", filterVerb="f", managedResources=[{"name": "example.com/b"}]),
        )
    )
    await framework.start()
    cluster.add_pod("p", requests={"example.com/a": "1"})
    await cluster.clock.advance(0)
    cluster.add_pod("q")
    await cluster.clock.advance(1.9)
    assert framework.result("q").state == "pending"
    await cluster.clock.advance(0.2)
    assert framework.result("q").state == "bound"
    text = 'Post "http://slow/f": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
    assert framework.result("p").message == text
    assert not never.cancelled()


async def test_watches_go_on_while_an_extender_is_asked(cluster: FakeCluster, extenders: Scripted) -> None:
    """What happens meanwhile reaches the cache, but not the snapshot of the cycle."""
    nodes(cluster, 2)
    told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def think(args: dict[str, Any]) -> dict[str, Any]:
        await told
        return {"NodeNames": args["NodeNames"]}

    extenders.answers[FILTER] = think
    framework = cluster.framework(config=config(extender(filterVerb="filter")))
    await framework.start()
    cluster.add_pod("p")
    await cluster.clock.advance(0)
    scheduler = framework.scheduler
    generation = scheduler.snapshot.generation
    for index in range(300):
        cluster.add_node(f"new{index}")
    await cluster.clock.advance(0)
    assert scheduler.cache.node_count == 302
    assert (scheduler.snapshot.generation, len(scheduler.snapshot.nodes)) == (generation, 2)
    told.set_result(None)
    await cluster.clock.advance(0)
    assert framework.result("p").node in {"n1", "n2"}


@pytest.mark.parametrize("fate", ["deleted", "bound", "node gone"])
async def test_what_happens_to_a_pod_while_an_extender_is_asked_about_it(
    cluster: FakeCluster, extenders: Scripted, fate: str
) -> None:
    """A pod that goes, is bound by another, or loses its node, is bound at most once, and nothing stays reserved."""
    nodes(cluster, 2)
    told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def think(_: object) -> dict[str, Any]:
        await told
        return {"NodeNames": ["n1"]}

    extenders.answers[FILTER] = think
    framework = cluster.framework(config=config(extender(filterVerb="filter")))
    await framework.start()
    cluster.add_pod("p")
    await cluster.clock.advance(0)
    if fate == "deleted":
        cluster.delete_pod("p")
    elif fate == "bound":
        await cluster.transport().request(
            "POST",
            "/api/v1/namespaces/default/pods/p/binding",
            body=b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"kind":"Node","name":"n2"}}',
        )
    else:
        cluster.delete_node("n1")
    await cluster.clock.advance(0)
    told.set_result(None)
    await cluster.clock.advance(30)
    scheduler = framework.scheduler
    if fate == "deleted":
        assert scheduler.cache.pod_count == 0
    elif fate == "bound":
        assert (framework.result("p").node, scheduler.cache.pod_count) == ("n2", 1)
    assert scheduler.idle
    scheduler.check_invariants()


@pytest.mark.parametrize("ignorable", [False, True])
async def test_an_extender_that_cannot_bind(cluster: FakeCluster, extenders: Scripted, *, ignorable: bool) -> None:
    """The attempt fails with its words and the node is free again, or the plugins bind if it is ignorable."""
    nodes(cluster, 1)
    extenders.answers["http://one/bind"] = lambda _: {"Error": "the lock is taken"}
    framework = cluster.framework(config=config(extender(bindVerb="bind", ignorable=ignorable)))
    result = await framework.schedule("p")
    if ignorable:
        assert result.node == "n1"
    else:
        assert (result.state, result.message) == ("pending", "the lock is taken")
        assert framework.scheduler.cache.pod_count == 0
        extenders.answers["http://one/bind"] = lambda _: None
        await cluster.clock.advance(3)
        assert len(extenders.asked("http://one/bind")) == 2


async def test_failures_are_counted(cluster: FakeCluster, extenders: Scripted) -> None:
    """What is passed over is a warning of a kind of its own."""

    class Warnings(NullRecorder):
        def __init__(self) -> None:
            self.kinds: list[str] = []

        def warning(self, kind: str) -> None:
            self.kinds.append(kind)

    nodes(cluster)
    framework = cluster.framework(
        config=config(extender(filterVerb="filter", prioritizeVerb="s", weight=1, ignorable=True))
    )
    warnings = Warnings()
    assert framework.scheduler.extenders is not None
    framework.scheduler.extenders.recorder = warnings
    assert (await framework.schedule("p")).bound
    assert warnings.kinds == ["extender_ignored", "extender_ignored"]


async def test_stopping_does_not_wait_for_an_extender(cluster: FakeCluster, extenders: Scripted) -> None:
    """A scheduler that is told to stop while an extender hangs does so in time, and leaves the pod as it was."""
    nodes(cluster)
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    extenders.answers[FILTER] = lambda _: asyncio.shield(never)
    framework = cluster.framework(config=config(extender(filterVerb="filter", httpTimeout="600s")))
    await framework.start()
    cluster.add_pod("p")
    await cluster.clock.advance(0)
    scheduler = framework.scheduler
    stop = asyncio.create_task(scheduler.stop())
    await cluster.clock.advance(11)
    assert stop.done()
    assert extenders.closed == 1
    assert (framework.result("p").state, scheduler.cache.pod_count) == ("pending", 0)


def test_tls_that_cannot_be_used_is_told_with_its_path(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every extender with such a mistake is named at once."""

    def refuse(self: ConnectingTransport, config: Extender) -> None:
        raise ConfigError(f"no certificate for {config.url_prefix}")

    monkeypatch.setattr(ConnectingTransport, "extender", refuse)
    with pytest.raises(ConfigError) as told:
        cluster.framework(config=config(extender("https://a"), extender("https://b")))
    assert told.value.problems == (
        "no certificate for https://a @ $.extenders[0].tlsConfig",
        "no certificate for https://b @ $.extenders[1].tlsConfig",
    )
