"""What extenders decide; on a virtual clock, without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyscheduler.api import Node
from pyscheduler.scheduler.evaluation import evaluate
from pyscheduler.testing import make_pod, node_manifest
from tests.scheduler.extending import FILTER, Scripted, config, extender, extenders, nodes, only

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster

__all__ = ["extenders"]


#: A profile that can sort and bind, and filters by name.
FEW_PLUGINS = (
    "{schedulerName: pyscheduler, plugins: {multiPoint: {disabled: [{name: '*'}]}, queueSort: {enabled: "
    "[{name: PrioritySort}]}, filter: {enabled: [{name: NodeName}]}, bind: {enabled: [{name: DefaultBinder}]}}}"
)


async def test_an_extender_narrows_what_the_filters_left(cluster: FakeCluster, extenders: Scripted) -> None:
    """Only the nodes that fit are shown to it, with the pod, and the pod goes where it says."""
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


async def test_whole_nodes_for_an_extender_without_a_cache(cluster: FakeCluster, extenders: Scripted) -> None:
    """It is sent nodes and may send some of them back; a node that changed is sent as it is now."""
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
    cluster: FakeCluster, extenders: Scripted
) -> None:
    """Pods and nodes are sent whole, as the API server has them; their managed fields are not."""
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


async def test_extenders_are_asked_in_turn_and_ignorable_ones_last(cluster: FakeCluster, extenders: Scripted) -> None:
    """Each sees what the one before it left; where nothing is left, the next is not asked."""
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


async def test_refusals_stand_in_the_message_beside_those_of_plugins(cluster: FakeCluster, extenders: Scripted) -> None:
    """Reasons are counted; what is in both lists is unresolvable, what is dropped without a word has no reason."""
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


async def test_any_event_brings_back_a_pod_that_an_extender_refused(cluster: FakeCluster, extenders: Scripted) -> None:
    """Nobody knows what an extender waits for, so a change that no plugin cares about is worth an attempt."""
    nodes(cluster)
    extenders.answers[FILTER] = only()
    framework = cluster.framework(config=config(extender(filterVerb="filter")))
    assert (await framework.schedule("p")).state == "pending"
    extenders.answers[FILTER] = only("n1")
    cluster.patch(Node, "n2", {"metadata": {"annotations": {"example.com/free": "yes"}}})
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n1"


async def test_scores_count_with_weight_and_scale(cluster: FakeCluster, extenders: Scripted) -> None:
    """An extender's 0 to 10 weighs ten times that; several are added up, strangers are passed over."""
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


async def test_an_extender_binds_in_place_of_the_plugins(cluster: FakeCluster, extenders: Scripted) -> None:
    """It is told pod, uid and node; the scheduler itself posts no binding."""
    nodes(cluster, 1)
    transport = cluster.transport()

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


async def test_only_pods_that_use_its_resources_concern_an_extender(cluster: FakeCluster, extenders: Scripted) -> None:
    """Requests and limits of containers and init containers count; what it accounts for alone the filters ignore."""
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


async def test_a_promised_node_is_asked_about_first(cluster: FakeCluster, extenders: Scripted) -> None:
    """The nominated node alone is shown; if the extender refuses or fails, all nodes are."""
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
    cluster: FakeCluster, extenders: Scripted
) -> None:
    """Where no plugin scores the first node would do; an extender that does wants to see them all."""
    nodes(cluster)
    extenders.answers["http://one/score"] = lambda _: [{"Host": "n3", "Score": 1}]
    text = config(extender(prioritizeVerb="score", weight=1)).replace("{schedulerName: pyscheduler}", FEW_PLUGINS)
    assert (await cluster.framework(config=text).schedule("p")).node == "n3"


async def test_preemption_goes_on_where_the_extender_says(cluster: FakeCluster, extenders: Scripted) -> None:
    """It sees the candidates with the uids of their victims and chooses among them."""
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
    cluster: FakeCluster, extenders: Scripted
) -> None:
    """Victims are pods then; an answer that names a pod that is not there ends the attempt, with a word about it."""
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


async def test_explaining_asks_extenders_too(cluster: FakeCluster, extenders: Scripted) -> None:
    """Its refusals stand among those of the plugins, in its own name; a failure is the answer."""
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


async def test_no_two_pods_are_alike_to_an_extender(cluster: FakeCluster, extenders: Scripted) -> None:
    """Signatures, by which answers are used for several pods, are off."""
    for told in ([], [extender(bindVerb="bind")]):
        text = config(*told).replace("{schedulerName: pyscheduler}", FEW_PLUGINS)
        signature = cluster.framework(config=text).profile.sign_pod(make_pod("p"))
        assert (signature is None) == bool(told)
