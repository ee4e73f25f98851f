"""The kubelet in miniature: bound pods run, deleted ones go."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"


def node(name: str = "n", *, labels: Any = None, **allocatable: str) -> dict[str, Any]:
    """Return a node with room for ten pods, and what else it offers."""
    status = {
        "allocatable": {"pods": "10", **{key.replace("_", "-"): value for key, value in allocatable.items()}},
        "addresses": [{"type": "InternalIP", "address": "192.168.0.1"}],
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}, "status": status}


async def bind(api: Any, name: str) -> None:
    """Bind a pod."""
    await api.ok("POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": {"name": "n"}})


async def phase(api: Any, name: str) -> str:
    """Return the phase of a pod, or that it is gone."""
    status, found = await api("GET", f"{PODS}/{name}")
    return found["status"]["phase"] if status == 200 else "gone"


@pytest.fixture
def lifecycle(cluster: Any) -> Any:
    """Yield a lifecycle that takes two seconds to start a pod and five to stop it."""
    cluster.add(node())
    made = cluster.lifecycle(start_seconds=2.0, stop_seconds=5.0)
    yield made
    made.check_invariants()
    made.stop()


async def test_a_bound_pod_becomes_running(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """After its time to start, a bound pod is running and ready; an unbound one stays pending."""
    lifecycle.start()
    await api.ok("POST", PODS, pod("p"))
    await api.ok("POST", PODS, pod("unbound"))
    await bind(api, "p")
    await clock.advance(1.9)
    assert await phase(api, "p") == "Pending"
    await clock.advance(0.2)
    assert await phase(api, "unbound") == "Pending"
    running = await api.ok("GET", f"{PODS}/p")
    assert (running["status"]["phase"], running["status"]["startTime"]) == ("Running", "2027-01-15T08:00:02Z")
    conditions = {one["type"]: one["status"] for one in running["status"]["conditions"]}
    assert conditions["Ready"] == conditions["PodScheduled"] == "True"
    assert running["status"]["containerStatuses"][0]["ready"]


async def test_a_deleted_pod_goes_after_its_grace(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """A pod on its way out is let go after the time to stop, or its own shorter grace."""
    lifecycle.start()
    for name, grace in (("long", 30), ("short", 1)):
        await api.ok("POST", PODS, pod(name, terminationGracePeriodSeconds=grace))
        await bind(api, name)
    await clock.advance(3)
    for name in ("long", "short"):
        await api.ok("DELETE", f"{PODS}/{name}")
    await clock.advance(1.5)
    assert [await phase(api, name) for name in ("long", "short")] == ["Running", "gone"]
    await clock.advance(4)
    assert await phase(api, "long") == "gone"


async def test_a_pod_deleted_before_it_started_never_runs(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """Being on the way out wins over starting, and a pod that is gone is left alone."""
    lifecycle.start()
    for name in ("marked", "gone"):
        await api.ok("POST", PODS, pod(name))
        await bind(api, name)
    await clock.advance(1)
    await api.ok("DELETE", f"{PODS}/marked")
    await api.ok("DELETE", f"{PODS}/gone", gracePeriodSeconds="0")
    await clock.advance(2)
    assert [await phase(api, name) for name in ("marked", "gone")] == ["Pending", "gone"]


async def test_pods_from_before_are_taken_up(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """What was bound or marked before the start is dealt with as well."""
    for name in ("bound", "marked"):
        await api.ok("POST", PODS, pod(name))
        await bind(api, name)
    await api.ok("DELETE", f"{PODS}/marked")
    lifecycle.start()
    await clock.advance(6)
    assert [await phase(api, name) for name in ("bound", "marked")] == ["Running", "gone"]


async def test_being_overtaken_by_the_log_costs_nothing(
    api: Any, pod: Any, clock: Any, lifecycle: Any, cluster: Any
) -> None:
    """When the log forgets what was not read yet, everything is looked at again."""
    lifecycle.start()
    await api.ok("POST", PODS, pod("p"))
    await bind(api, "p")
    cluster.store.compact()
    await clock.advance(3)
    assert await phase(api, "p") == "Running"


async def test_a_stopped_lifecycle_does_nothing_more(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """After stop, nothing starts and nothing goes; stopping twice is fine."""
    lifecycle.start()
    await api.ok("POST", PODS, pod("p"))
    await bind(api, "p")
    await clock.advance(1)
    await api.ok("POST", PODS, pod("q"))
    lifecycle.stop()
    lifecycle.stop()
    await clock.advance(10)
    assert await phase(api, "p") == "Pending"


async def test_a_pod_of_the_same_name_is_another_pod(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """What was planned for a pod does not befall its successor."""
    lifecycle.start()
    await api.ok("POST", PODS, pod("p"))
    await bind(api, "p")
    await clock.advance(1.5)
    await api.ok("DELETE", f"{PODS}/p", gracePeriodSeconds="0")
    await api.ok("POST", PODS, pod("p"))
    await clock.advance(1)
    assert await phase(api, "p") == "Pending"


def asking(pod: Any, name: str, *, node: str = "n", **requests: str) -> dict[str, Any]:
    """Return a pod bound to a node that asks for something."""
    asked = {key.replace("_", "-").replace("gpu", "example.com/gpu"): value for key, value in requests.items()}
    made: dict[str, Any] = pod(name, containers=[{"name": "c", "image": "i", "resources": {"requests": asked}}])
    made["spec"]["nodeName"] = node
    return made


async def test_a_running_pod_has_addresses_and_container_states(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """The status has what kubectl shows: addresses of node and pod, a state per container, init containers done."""
    lifecycle.start()
    init = [{"name": "i", "image": "i"}, {"name": "side", "image": "i", "restartPolicy": "Always"}]
    await api.ok("POST", PODS, pod("p", initContainers=init, readinessGates=[{"conditionType": "ours"}]))
    await api.ok("POST", PODS, pod("q", hostNetwork=True))
    for name in ("p", "q"):
        await bind(api, name)
    await clock.advance(3)
    status = (await api.ok("GET", f"{PODS}/p"))["status"]
    assert (status["hostIP"], status["podIPs"]) == ("192.168.0.1", [{"ip": status["podIP"]}])
    assert [next(iter(one["state"])) for one in status["initContainerStatuses"]] == ["terminated", "running"]
    [ready] = [one for one in status["conditions"] if one["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "ReadinessGatesNotReady")
    assert (await api.ok("GET", f"{PODS}/q"))["status"]["podIP"] == "192.168.0.1"
    table = await api.ok("GET", PODS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [row["cells"][1:3] for row in table["rows"]] == [["2/2", "Running"], ["1/1", "Running"]]


async def test_a_pod_succeeds_after_the_duration_it_asks_for(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """The annotation ends a pod well and frees its room; one that cannot be read is told in an event."""
    lifecycle.start()
    await api.ok("POST", PODS, pod("p", annotations={"pyscheduler.io/run-duration": "1m30s"}))
    await api.ok("POST", PODS, pod("odd", annotations={"pyscheduler.io/run-duration": "soon"}))
    for name in ("p", "odd"):
        await bind(api, name)
    await clock.advance(91)
    assert await phase(api, "p") == "Running"
    await clock.advance(2)
    done = await api.ok("GET", f"{PODS}/p")
    assert done["status"]["phase"] == "Succeeded"
    assert done["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
    assert await phase(api, "odd") == "Running"
    [event] = (await api.ok("GET", "/api/v1/events", fieldSelector="reason=InvalidRunDuration"))["items"]
    assert "write it like 90s" in event["message"]


@pytest.mark.parametrize(
    ("changes", "reason", "message"),
    [
        pytest.param(
            {"cpu": "1500m"},
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000",
            id="cpu",
        ),
        pytest.param(
            {"memory": "1Gi"},
            "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 1073741824, used: 0, capacity: 1048576",
            id="memory",
        ),
        pytest.param(
            {"ephemeral_storage": "2Ki"},
            "OutOfephemeral-storage",
            "Node didn't have enough resource: ephemeral-storage, requested: 2048, used: 0, capacity: 1024",
            id="storage",
        ),
        pytest.param(
            {"gpu": "3"},
            "OutOfexample.com/gpu",
            "Node didn't have enough resource: example.com/gpu, requested: 3, used: 0, capacity: 2",
            id="extended",
        ),
    ],
)
async def test_a_pod_that_does_not_fit_fails(
    api: Any, pod: Any, clock: Any, cluster: Any, changes: Any, reason: str, message: str
) -> None:
    """A bound pod for which the node has no room fails in the kubelet's words, and takes no room."""
    made = node("big", cpu="2", memory="1Mi", ephemeral_storage="1Ki")
    made["status"]["allocatable"]["example.com/gpu"] = "2"
    cluster.add(made, asking(pod, "first", node="big", cpu="1"))
    lifecycle = cluster.lifecycle()
    lifecycle.start()
    cluster.add(asking(pod, "second", node="big", **changes), asking(pod, "third", node="big", cpu="1"))
    await clock.advance(1)
    assert [await phase(api, name) for name in ("first", "second", "third")] == ["Running", "Failed", "Running"]
    status = (await api.ok("GET", f"{PODS}/second"))["status"]
    assert (status["reason"], status["message"]) == (reason, f"Pod was rejected: {message}")
    [event] = (await api.ok("GET", "/api/v1/events", fieldSelector="involvedObject.name=second"))["items"]
    assert (event["reason"], event["message"], event["source"]["host"]) == (reason, message, "big")
    assert lifecycle.rejections == 1
    lifecycle.check_invariants()
    lifecycle.stop()


async def test_a_node_takes_only_so_many_pods(api: Any, pod: Any, clock: Any, cluster: Any) -> None:
    """The number of pods is a resource too; a pod that has ended makes room, and a resize is counted."""
    made = node("tiny", cpu="4")
    made["status"]["allocatable"]["pods"] = "1"
    cluster.add(made)
    lifecycle = cluster.lifecycle()
    lifecycle.start()
    cluster.add(asking(pod, "a", node="tiny"), asking(pod, "b", node="tiny"))
    await clock.advance(1)
    failed = await api.ok("GET", f"{PODS}/b")
    assert failed["status"]["reason"] == "OutOfpods"
    assert failed["status"]["message"].endswith("pods, requested: 1, used: 1, capacity: 1")
    cluster.remove("v1", "Pod", "a", namespace="default")
    cluster.add(asking(pod, "c", node="tiny", cpu="1"))
    await clock.advance(1)
    assert await phase(api, "c") == "Running"
    resized = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]}}
    strategic = "application/strategic-merge-patch+json"
    await api.ok("PATCH", f"{PODS}/c/resize", resized, content_type=strategic)
    cluster.remove("v1", "Node", "tiny")
    made["status"]["allocatable"]["pods"] = "5"
    cluster.add(made, asking(pod, "d", node="tiny", cpu="1"))
    await clock.advance(1)
    assert (await api.ok("GET", f"{PODS}/d"))["status"]["message"].endswith("used: 4000, capacity: 4000")
    lifecycle.check_invariants()
    lifecycle.stop()


@pytest.mark.parametrize(
    ("spec", "reason", "why"),
    [
        pytest.param({"nodeSelector": {"zone": "b"}}, "NodeAffinity", "match Pod's node affinity/selector", id="label"),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}
                            ]
                        }
                    }
                }
            },
            "NodeAffinity",
            "match Pod's node affinity/selector",
            id="affinity",
        ),
        pytest.param(
            {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
            "NodePorts",
            "have free ports for the requested pod ports",
            id="port",
        ),
        pytest.param({}, "TaintToleration", "taints that the pod didn't tolerate", id="taint"),
    ],
)
async def test_a_pod_that_does_not_match_fails(
    api: Any, pod: Any, clock: Any, cluster: Any, spec: Any, reason: str, why: str
) -> None:
    """What the node is, and what others have of it, counts as well as amounts."""
    ports = [{"containerPort": 1, "hostPort": 80, "hostIP": "127.0.0.1"}]
    made = node("n", labels={"zone": "a"})
    if reason == "TaintToleration":
        made["spec"] = {"taints": [{"key": "k", "effect": "NoExecute"}, {"key": "l", "effect": "NoSchedule"}]}
    tolerations = [{"key": "k", "operator": "Exists"}]
    good = pod("good", nodeName="n", tolerations=tolerations, nodeSelector={"zone": "a"})
    good["spec"]["containers"][0]["ports"] = ports
    cluster.add(made, good, pod("bad", nodeName="n", **spec))
    lifecycle = cluster.lifecycle()
    lifecycle.start()
    await clock.advance(1)
    assert await phase(api, "good") == "Running"
    status = (await api.ok("GET", f"{PODS}/bad"))["status"]
    assert (status["phase"], status["reason"]) == ("Failed", reason)
    assert status["message"].startswith(f"Pod was rejected: Predicate {reason} failed: node(s)")
    assert status["message"].endswith(why)
    lifecycle.stop()


async def test_a_pod_waits_for_a_node_that_is_not_there(
    api: Any, pod: Any, clock: Any, lifecycle: Any, cluster: Any
) -> None:
    """No node, no kubelet: the pod stays pending until the node comes."""
    lifecycle.start()
    cluster.add(asking(pod, "p", node="later"))
    await clock.advance(5)
    assert await phase(api, "p") == "Pending"
    cluster.add(node("later"))
    await clock.advance(5)
    assert await phase(api, "p") == "Running"


async def test_nodes_can_reject_without_running_pods(api: Any, pod: Any, clock: Any, cluster: Any) -> None:
    """The alarm alone: pods that fit stay as they are, pods that do not fail."""
    cluster.add(node("n", cpu="1"), asking(pod, "fits", cpu="1"), asking(pod, "not", cpu="1"))
    lifecycle = cluster.lifecycle(run_pods=False)
    lifecycle.start()
    await clock.advance(5)
    assert [await phase(api, name) for name in ("fits", "not")] == ["Pending", "Failed"]
    lifecycle.stop()


async def test_running_pods_are_admitted_before_pending_ones(api: Any, pod: Any, clock: Any, cluster: Any) -> None:
    """Pods that were running at the start are counted, not asked; who is pending must fit beside them."""
    cluster.add(node("n", cpu="1"))
    for name in ("a", "b"):
        cluster.add({**asking(pod, name, cpu="800m"), "status": {"phase": "Running" if name == "b" else "Pending"}})
    lifecycle = cluster.lifecycle()
    lifecycle.start()
    await clock.advance(1)
    assert [await phase(api, name) for name in ("a", "b")] == ["Failed", "Running"]
    lifecycle.stop()
