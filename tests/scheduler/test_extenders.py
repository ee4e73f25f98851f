"""What extenders decide, and what becomes of pods where they fail; on a virtual clock, without a network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.api import Node
from pyscheduler.cluster.real.connect import ConnectingTransport
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.evaluation import evaluate
from pyscheduler.scheduler.ports import Response
from pyscheduler.testing import make_pod, node_manifest
from tests.scheduler.extending import Scripted, config, extender, extenders, only

if TYPE_CHECKING:
    from pyscheduler.config.types import Extender
    from pyscheduler.testing import FakeCluster

__all__ = ["extenders"]

FILTER = "http://one/filter"


def nodes(cluster: FakeCluster, number: int = 3, **keywords: Any) -> None:
    """Add so many equal nodes."""
    for index in range(1, number + 1):
        cluster.add_node(f"n{index}", **keywords)


async def test_an_extender_narrows_what_the_filters_left(pyscheduler_cluster: FakeCluster, extenders: Scripted) -> None:
    """Only the nodes that fit are shown to it, with the pod, and the pod goes where it says."""
    cluster = pyscheduler_cluster
    nodes(cluster)
    cluster.add_node("full", allocatable={"cpu": "0"})
    extenders.answers[FILTER] = only("n2")
    framework = cluster.framework(config=config(extender(filterVerb="filter")))
    result = await framework.schedule("p", requests={"cpu": "1"}, annotations={"example.com/a": "b"})
    assert (result.state, result.node) == ("bound", "n2")
    ((_, args),) = extenders.calls
    assert args["Nodes"] is None
    assert sorted(args["NodeNames"]) == ["n1", "n2", "n3"]
    assert args["Pod"]["metadata"]["annotations"] == {"example.com/a": "b"}
    assert args["Pod"]["kind"] == "Pod"
    assert args["Pod"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


async def test_whole_nodes_for_an_extender_without_a_cache(
    pyscheduler_cluster: FakeCluster, extenders: Scripted
) -> None:
    """It is sent nodes and may send some of them back; a node that changed is sent as it is now."""
    cluster = pyscheduler_cluster
    nodes(cluster, labels={"tier": "a"})
    extenders.answers[FILTER] = lambda args: {
        "Nodes": {"items": [node for node in args["Nodes"]["items"] if node["metadata"]["labels"]["tier"] == "b"]}
    }
    framework = cluster.framework(config=config(extender(filterVerb="filter", nodeCacheCapable=False)))
    result = await framework.schedule("p", spec={"preemptionPolicy": "Never"})
    assert result.state == "pending"
    assert result.message.startswith("0/3 nodes are available: ")
    args = extenders.asked(FILTER)[0]
    assert args["NodeNames"] is None
    assert {node["metadata"]["name"] for node in args["Nodes"]["items"]} == {"n1", "n2", "n3"}
    assert all(node["status"]["allocatable"] for node in args["Nodes"]["items"])
    cluster.patch(Node, "n3", {"metadata": {"labels": {"tier": "b"}}})
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n3"


async def test_extenders_are_told_what_the_scheduler_itself_does_not_read(
    pyscheduler_cluster: FakeCluster, extenders: Scripted
) -> None:
    """Pods and nodes are sent whole, as the API server has them; their managed fields are not."""
    cluster = pyscheduler_cluster
    manifest = node_manifest("n1", status={"nodeInfo": {"kernelVersion": "6.1"}})
    manifest["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    cluster.add(manifest, Node)
    extenders.answers[FILTER] = lambda args: {"Nodes": args["Nodes"]}
    framework = cluster.framework(config=config(extender(filterVerb="filter", nodeCacheCapable=False)))
    container = {"name": "c", "image": "app", "env": [{"name": "A", "value": "b"}]}
    assert (await framework.schedule("p", spec={"containers": [container]})).node == "n1"
    (args,) = extenders.asked(FILTER)
    assert args["Pod"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "b"}]
    (node,) = args["Nodes"]["items"]
    assert node["status"]["nodeInfo"]["kernelVersion"] == "6.1"
    assert "managedFields" not in node["metadata"]
    cluster.patch(Node, "n1", {"metadata": {"annotations": {"rack": "7"}}})
    await framework.schedule("q")
    assert extenders.asked(FILTER)[-1]["Nodes"]["items"][0]["metadata"]["annotations"] == {"rack": "7"}


async def test_extenders_are_asked_in_turn_and_ignorable_ones_last(
    pyscheduler_cluster: FakeCluster, extenders: Scripted
) -> None:
    """Each sees what the one before it left; where nothing is left, the next is not asked."""
    cluster = pyscheduler_cluster
    nodes(cluster)
    one, two, three = (f"http://{name}/f" for name in ("one", "two", "three"))
    extenders.answers = {one: only("n1", "n2"), two: only("n2", "n3"), three: only("n1", "n2", "n3")}
    framework = cluster.framework(
        config=config(
            extender("http://three", filterVerb="f", ignorable=True),
            extender("http://one", filterVerb="f"),
            extender("http://two/", filterVerb="f"),
        )
    )
    assert (await framework.schedule("p")).node == "n2"
    assert [(url, sorted(args["NodeNames"])) for url, args in extenders.calls] == [
        (one, ["n1", "n2", "n3"]),
        (two, ["n1", "n2"]),
        (three, ["n2"]),
    ]
    extenders.answers[one] = only()
    extenders.calls.clear()
    await framework.schedule("q")
    assert {url for url, _ in extenders.calls} == {one}


async def test_refusals_stand_in_the_message_beside_those_of_plugins(
    pyscheduler_cluster: FakeCluster, extenders: Scripted
) -> None:
    """Reasons are counted; what is in both lists is unresolvable, what is dropped without a word has no reason."""
    cluster = pyscheduler_cluster
    nodes(cluster, 5)
    cluster.add_node("cordoned", unschedulable=True)
    extenders.answers[FILTER] = lambda _: {
        "nodenames": [],
        "failedNodes": {"n1": "busy", "n2": "busy", "n3": "busy"},
        "failedAndUnresolvableNodes": {"n3": "broken", "n4": "broken", "stranger": "who is this"},
    }
    framework = cluster.framework(config=config(extender(filterVerb="filter")))
    result = await framework.schedule("p", priority=10)
    assert result.state == "pending"
    # n1 and n2 might be helped by preemption, the others not.
    assert result.message == (
        "0/6 nodes are available: 1 node(s) were unschedulable, 1 who is this, 2 broken, 2 busy. no new claims to "
        "deallocate, preemption: 0/6 nodes are available: 2 No preemption victims found for incoming pod, 4 Preemption "
        "is not helpful for scheduling."
    )


async def test_any_event_brings_back_a_pod_that_an_extender_refused(
    pyscheduler_cluster: FakeCluster, extenders: Scripted
) -> None:
    """Nobody knows what an extender waits for, so a change that no plugin cares about is worth an attempt."""
    cluster = pyscheduler_cluster
    nodes(cluster)
    extenders.answers[FILTER] = only()
    framework = cluster.framework(config=config(extender(filterVerb="filter")))
    assert (await framework.schedule("p")).state == "pending"
    extenders.answers[FILTER] = only("n1")
    cluster.patch(Node, "n2", {"metadata": {"annotations": {"example.com/free": "yes"}}})
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n1"


async def test_scores_count_with_weight_and_scale(pyscheduler_cluster: FakeCluster, extenders: Scripted) -> None:
    """An extender's 0 to 10 weighs ten times that; several are added up, strangers are passed over."""
    cluster = pyscheduler_cluster
    nodes(cluster)
    extenders.answers = {
        "http://one/score": lambda _: [{"Host": "n1", "Score": 3}, {"Host": "n2", "Score": 1}],
        "http://two/score": lambda _: [{"host": "n2", "score": 10}, {"host": "stranger", "score": 1000}],
    }
    framework = cluster.framework(
        config=config(
            extender("http://one", prioritizeVerb="score", weight=5),
            extender("http://two", prioritizeVerb="score", weight=2),
        )
    )
    assert (await framework.schedule("p")).node == "n2"
    scheduler = framework.scheduler
    found = await evaluate(scheduler, framework.profile, make_pod("q"))
    assert found.scores is not None
    assert found.feasible is not None
    row = found.feasible.index("n2")
    assert row is not None
    assert found.scores.by_plugin["http://one"].weighted[row] == 50
    assert found.scores.by_plugin["http://two"].weighted[row] == 200
    plugins = [one for name, one in found.scores.by_plugin.items() if not name.startswith("http")]
    assert found.scores.totals[row] == 250 + sum(one.weighted[row] for one in plugins)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"<html>busy</html>", id="html"),
        pytest.param(b'[{"Host": "n1", "Score": 1.5}]', id="half a point"),
        pytest.param(b'[{"Host": "n1", "Sc', id="half an answer"),
        pytest.param(Response(500, b"", {}), id="500"),
    ],
)
async def test_failing_to_score_ends_nothing(
    pyscheduler_cluster: FakeCluster, extenders: Scripted, answer: object
) -> None:
    """The others decide, whether the extender may be ignored or not."""
    cluster = pyscheduler_cluster
    cluster.add_node("small", allocatable={"cpu": "2"})
    cluster.add_node("large", allocatable={"cpu": "32"})
    extenders.answers["http://one/score"] = lambda _: answer
    framework = cluster.framework(config=config(extender(prioritizeVerb="score", weight=1)))
    assert (await framework.schedule("p", requests={"cpu": "1"})).node == "large"


async def test_scores_beyond_all_bounds_are_taken_as_they_are(
    pyscheduler_cluster: FakeCluster, extenders: Scripted
) -> None:
    """Negative and huge scores shift the choice and break nothing."""
    cluster = pyscheduler_cluster
    nodes(cluster, 2)
    extenders.answers["http://one/score"] = lambda _: [{"Host": "n1", "Score": -(2**62)}, {"Host": "n2", "Score": -7}]
    framework = cluster.framework(config=config(extender(prioritizeVerb="score", weight=1)))
    assert (await framework.schedule("p")).state == "bound"
    extenders.answers["http://one/score"] = lambda _: [{"Host": "n1", "Score": -700}, {"Host": "n2", "Score": 9000}]
    assert (await framework.schedule("q")).node == "n2"


BAD = [
    pytest.param(b"<html>", "invalid character '<' looking for beginning of value", id="html"),
    pytest.param(b'{"NodeNames": ["n1"', "unexpected EOF", id="half an answer"),
    pytest.param(b"", "EOF", id="nothing"),
    pytest.param({"Error": "out of licences"}, "out of licences", id="its own error"),
    pytest.param(
        {"NodeNames": ["n1", "moon"]},
        'extender "http://one" claims a filtered node "moon" which is not found in the input node list',
        id="a node that was not asked about",
    ),
    pytest.param(
        {"NodeNames": "n1"},
        "json: cannot unmarshal string into Go struct field ExtenderFilterResult.NodeNames of type []string",
        id="a text for a list",
    ),
    pytest.param(Response(503, b"", {}), "failed filter with extender at URL http://one/filter, code 503", id="503"),
    pytest.param(
        None, 'Post "http://one/filter": dial tcp 10.0.0.1:80: connect: connection refused', id="nobody there"
    ),
]


@pytest.mark.parametrize(("answer", "message"), BAD)
async def test_a_failing_extender_costs_the_attempt_and_no_pod(
    pyscheduler_cluster: FakeCluster, extenders: Scripted, answer: object, message: str
) -> None:
    """The pod's user reads what was wrong, and the pod is tried again after its backoff."""
    cluster = pyscheduler_cluster
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


@pytest.mark.parametrize(("answer", "message"), BAD)
async def test_an_ignorable_extender_that_fails_is_left_out(
    pyscheduler_cluster: FakeCluster,
    extenders: Scripted,
    answer: object,
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The pod is bound as if it were not there; the log says why it was passed over."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    if answer is not None:
        extenders.answers[FILTER] = lambda _: answer
    framework = cluster.framework(config=config(extender(filterVerb="filter", ignorable=True)))
    with caplog.at_level("INFO", logger="pyscheduler.scheduler.extenders"):
        assert (await framework.schedule("p")).node == "n1"
    assert (
        f'Skipped extender, as it failed extender=http://one verb=filter pod=default/p err="{message}"' in caplog.text
    )


async def test_an_extender_that_hangs_is_given_up_in_time(
    pyscheduler_cluster: FakeCluster, extenders: Scripted
) -> None:
    """After `httpTimeout` the attempt ends, after five seconds where there is none; pods behind it have their turn."""
    cluster = pyscheduler_cluster
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


async def test_watches_go_on_while_an_extender_is_asked(pyscheduler_cluster: FakeCluster, extenders: Scripted) -> None:
    """What happens meanwhile reaches the cache, but not the snapshot of the cycle."""
    cluster = pyscheduler_cluster
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
    pyscheduler_cluster: FakeCluster, extenders: Scripted, fate: str
) -> None:
    """A pod that goes, is bound by another, or loses its node, is bound at most once, and nothing stays reserved."""
    cluster = pyscheduler_cluster
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
        await cluster.server.transport().request(
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


async def test_an_extender_binds_in_place_of_the_plugins(pyscheduler_cluster: FakeCluster, extenders: Scripted) -> None:
    """It is told pod, uid and node; the scheduler itself posts no binding."""
    cluster = pyscheduler_cluster
    nodes(cluster, 1)
    transport = cluster.server.transport()

    async def bind(args: dict[str, Any]) -> dict[str, Any]:
        body = '{"apiVersion":"v1","kind":"Binding","metadata":{"name":"%s"},"target":{"kind":"Node","name":"%s"}}'
        path = f"/api/v1/namespaces/{args['PodNamespace']}/pods/{args['PodName']}/binding"
        await transport.request("POST", path, body=(body % (args["PodName"], args["Node"])).encode())
        return {}

    extenders.answers["http://one/bind"] = bind
    framework = cluster.framework(config=config(extender(bindVerb="bind")))
    result = await framework.schedule("p")
    assert (result.state, result.node) == ("bound", "n1")
    assert [args for _, args in extenders.calls] == [
        {"PodName": "p", "PodNamespace": "default", "PodUID": result.pod.uid, "Node": "n1"}
    ]
    (event,) = cluster.events("Scheduled")
    assert event["note"] == "Successfully assigned default/p to n1"


@pytest.mark.parametrize("ignorable", [False, True])
async def test_an_extender_that_cannot_bind(
    pyscheduler_cluster: FakeCluster, extenders: Scripted, *, ignorable: bool
) -> None:
    """The attempt fails with its words and the node is free again, or the plugins bind if it is ignorable."""
    cluster = pyscheduler_cluster
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


async def test_only_pods_that_use_its_resources_concern_an_extender(
    pyscheduler_cluster: FakeCluster, extenders: Scripted
) -> None:
    """Requests and limits of containers and init containers count; what it accounts for alone the filters ignore."""
    cluster = pyscheduler_cluster
    nodes(cluster)
    extenders.answers = {FILTER: only("n2"), "http://one/score": lambda _: [], "http://one/bind": lambda _: {}}
    framework = cluster.framework(
        config=config(
            extender(
                filterVerb="filter",
                prioritizeVerb="score",
                weight=1,
                managedResources=[{"name": "example.com/fpga", "ignoredByScheduler": True}],
            )
        )
    )
    assert (await framework.schedule("plain", requests={"cpu": "1"})).state == "bound"
    assert not extenders.calls
    assert (await framework.schedule("p", requests={"example.com/fpga": "4"})).node == "n2"
    assert [url for url, _ in extenders.calls] == [FILTER]  # one node is left, so nobody is asked for scores
    # By the books of the nodes, which do not know of it, this is more than there is.
    cluster.delete_pod("p")


async def test_a_promised_node_is_asked_about_first(pyscheduler_cluster: FakeCluster, extenders: Scripted) -> None:
    """The nominated node alone is shown; if the extender refuses or fails, all nodes are."""
    cluster = pyscheduler_cluster
    nodes(cluster)
    extenders.answers[FILTER] = only("n1", "n2")
    framework = cluster.framework(config=config(extender(filterVerb="filter")))
    await framework.start()
    for name, node in (("p", "n2"), ("q", "n3")):
        cluster.add_pod(name, status={"nominatedNodeName": node})
        await cluster.clock.advance(0)
    assert framework.result("p").node == "n2"
    assert framework.result("q").node in {"n1", "n2"}
    assert [args["NodeNames"] for _, args in extenders.calls[:2]] == [["n2"], ["n3"]]
    assert sorted(extenders.calls[2][1]["NodeNames"]) == ["n1", "n2", "n3"]


async def test_an_extender_that_scores_makes_one_feasible_node_too_few(
    pyscheduler_cluster: FakeCluster, extenders: Scripted
) -> None:
    """Where no plugin scores the first node would do; an extender that does wants to see them all."""
    cluster = pyscheduler_cluster
    nodes(cluster)
    extenders.answers["http://one/score"] = lambda _: [{"Host": "n3", "Score": 1}]
    text = config(extender(prioritizeVerb="score", weight=1)).replace(
        "{schedulerName: pyscheduler}",
        "{schedulerName: pyscheduler, plugins: {multiPoint: {disabled: [{name: '*'}]}, queueSort: {enabled: "
        "[{name: PrioritySort}]}, bind: {enabled: [{name: DefaultBinder}]}}}",
    )
    assert (await cluster.framework(config=text).schedule("p")).node == "n3"


async def test_preemption_goes_on_where_the_extender_says(
    pyscheduler_cluster: FakeCluster, extenders: Scripted
) -> None:
    """It sees the candidates with the uids of their victims and chooses among them."""
    cluster = pyscheduler_cluster
    nodes(cluster, 3, allocatable={"cpu": "1"})
    extenders.answers["http://one/preempt"] = lambda args: {
        "NodeNameToMetaVictims": {"n2": args["NodeNameToMetaVictims"]["n2"]}
    }
    framework = cluster.framework(config=config(extender(preemptVerb="preempt")))
    for index in range(3):
        pod = cluster.add_pod(f"low{index}", requests={"cpu": "1"}, spec={"terminationGracePeriodSeconds": 0})
        assert (await framework.schedule(pod)).bound
    victims = {framework.result(f"low{index}").node: framework.result(f"low{index}").pod.uid for index in range(3)}
    await framework.schedule("high", requests={"cpu": "1"}, priority=10)
    await cluster.clock.advance(60)
    assert framework.result("high").node == "n2"
    args = extenders.asked("http://one/preempt")[0]
    assert args["NodeNameToVictims"] is None
    assert args["NodeNameToMetaVictims"] == {
        node: {"Pods": [{"UID": uid}], "NumPDBViolations": 0} for node, uid in victims.items()
    }


async def test_preemption_tells_whole_victims_to_an_extender_without_a_cache(
    pyscheduler_cluster: FakeCluster, extenders: Scripted
) -> None:
    """Victims are pods then; an answer that names a pod that is not there ends the attempt, with a word about it."""
    cluster = pyscheduler_cluster
    nodes(cluster, 1, allocatable={"cpu": "1"})
    extenders.answers["http://one/preempt"] = lambda _: {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "nobody"}]}}}
    framework = cluster.framework(config=config(extender(preemptVerb="preempt", nodeCacheCapable=False)))
    await framework.schedule("low", requests={"cpu": "1"})
    result = await framework.schedule("high", requests={"cpu": "1"}, priority=10)
    (args,) = extenders.asked("http://one/preempt")
    assert [pod["metadata"]["name"] for pod in args["NodeNameToVictims"]["n1"]["Pods"]] == ["low"]
    assert args["NodeNameToMetaVictims"] is None
    assert (
        "extender: http://one claims to preempt pod (UID: &{nobody}) on node: n1, but the pod is not found on that node"
    ) in result.message
    assert framework.result("low").bound


async def test_explaining_asks_extenders_too(pyscheduler_cluster: FakeCluster, extenders: Scripted) -> None:
    """Its refusals stand among those of the plugins, in its own name; a failure is the answer."""
    cluster = pyscheduler_cluster
    nodes(cluster)
    cluster.add_node("cordoned", unschedulable=True)
    extenders.answers[FILTER] = lambda args: {"NodeNames": args["NodeNames"][:0], "FailedNodes": {"n1": "not mine"}}
    framework = cluster.framework(config=config(extender(filterVerb="filter")))
    await framework.start()
    found = await evaluate(framework.scheduler, framework.profile, make_pod("p", spec={"preemptionPolicy": "Never"}))
    assert found.message.startswith("0/4 nodes are available: 1 node(s) were unschedulable, 1 not mine. ")
    assert found.feasible is None
    assert found.statuses is not None
    assert found.filtered is not None
    by_name = {found.filtered.name(row): found.statuses.status(row) for row in range(4)}
    assert {name: status and (status.plugin, status.message) for name, status in by_name.items()} == {
        "n1": ("Extender", "not mine"),
        "n2": ("Extender", ""),
        "n3": ("Extender", ""),
        "cordoned": ("NodeUnschedulable", "node(s) were unschedulable"),
    }
    extenders.answers[FILTER] = lambda _: {"Error": "not today"}
    found = await evaluate(framework.scheduler, framework.profile, make_pod("p"))
    assert (found.message, found.feasible) == ("not today", None)


async def test_failures_are_counted(pyscheduler_cluster: FakeCluster, extenders: Scripted) -> None:
    """What is passed over is a warning of a kind of its own."""

    class Warnings(NullRecorder):
        def __init__(self) -> None:
            self.kinds: list[str] = []

        def warning(self, kind: str) -> None:
            self.kinds.append(kind)

    cluster = pyscheduler_cluster
    nodes(cluster)
    framework = cluster.framework(
        config=config(extender(filterVerb="filter", prioritizeVerb="s", weight=1, ignorable=True))
    )
    warnings = Warnings()
    assert framework.scheduler.extenders is not None
    framework.scheduler.extenders.recorder = warnings
    assert (await framework.schedule("p")).bound
    assert warnings.kinds == ["extender_ignored", "extender_ignored"]


async def test_stopping_does_not_wait_for_an_extender(pyscheduler_cluster: FakeCluster, extenders: Scripted) -> None:
    """A scheduler that is told to stop while an extender hangs does so in time, and leaves the pod as it was."""
    cluster = pyscheduler_cluster
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


def test_tls_that_cannot_be_used_is_told_with_its_path(
    pyscheduler_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every extender with such a mistake is named at once."""

    def refuse(self: ConnectingTransport, config: Extender) -> None:
        raise ConfigError(f"no certificate for {config.url_prefix}")

    monkeypatch.setattr(ConnectingTransport, "extender", refuse)
    with pytest.raises(ConfigError) as told:
        pyscheduler_cluster.framework(config=config(extender("https://a"), extender("https://b")))
    assert told.value.problems == (
        "no certificate for https://a @ $.extenders[0].tlsConfig",
        "no certificate for https://b @ $.extenders[1].tlsConfig",
    )
