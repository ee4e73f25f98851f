"""Small cases of batch scheduling, decided by a scheduler that reads them as API objects."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler_lab.simulation.batch_cases import kai, volcano

FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
GIB = 1024**3
NODE = {"name": "n1", "allocatable": {"cpu": 4000, "memory": 8 * GIB, "pods": 10}}


def run(policies: list[dict[str, Any]], actions: list[str], **objects: Any) -> dict[str, Any]:
    """Run a session of Volcano with one tier; `objects`: lists of the case."""
    configuration = {"actions": actions, "tiers": [policies]}
    defaults = {"nodes": [NODE], "queues": [{"name": "q", "weight": 1}]}
    case = {"id": "x", "family": "x", "configuration": configuration, **defaults, **objects}
    found: dict[str, Any] = volcano.run_case(case)["actual"]
    return found


def pod(name: str, group: str, state: str = "Pending", *, cpu: int = 1000, **fields: Any) -> dict[str, Any]:
    """Return a pod of a case; what runs is on the first node unless `node` says otherwise."""
    place = {} if state == "Pending" else {"node": "n1"}
    return {"name": name, "group": group, "requests": {"cpu": cpu}, "state": state, **place, **fields}


def group(name: str, **fields: Any) -> dict[str, Any]:
    """Return a group of one member in the queue `q`."""
    return {"name": name, "queue": "q", "minMember": 1, "phase": "Inqueue", **fields}


def test_consolidation_moves_a_pod_to_another_node() -> None:
    """The filters accept other nodes for a running pod that was evicted in the pass, and a full node becomes free."""
    queue = {"name": "q", "gpu": FREE, "cpuMillis": FREE, "memoryBytes": FREE}
    nodes = [{"name": name, "gpu": 2, "cpuMillis": 8000, "memoryBytes": GIB, "maxPods": 10} for name in ("n1", "n2")]
    running = [
        {
            "name": f"r{at}",
            "queue": "q",
            "tasks": [{"name": f"r{at}-0", "gpu": 1, "state": "Running", "node": f"n{at}"}],
        }
        for at in (1, 2)
    ]
    large = {"name": "large", "queue": "q", "tasks": [{"name": "large-0", "gpu": 2}]}
    case = {"actions": ["allocate", "consolidation"], "nodes": nodes, "queues": [queue], "jobs": [*running, large]}
    actual = kai.run_case(case)["actual"]
    assert actual["movedTotal"] == 1
    assert actual["tasks"]["large-0"]["state"] == "pipelined"
    (moved,) = [name for name, each in actual["tasks"].items() if name != "large-0" and each["state"] == "pipelined"]
    assert actual["tasks"][moved]["node"] != {"r1-0": "n1", "r2-0": "n2"}[moved]


def test_two_jobs_may_take_the_room_of_each_other_in_a_case() -> None:
    """A case decides as the original, which lets a job take back a promise of the job that evicted it."""

    def queue(name: str, quota: int, age: int) -> dict[str, Any]:
        """Return a queue in which only GPUs are limited."""
        gpu = {**FREE, "quota": quota}
        return {"name": name, "createdSecondsAgo": age, "gpu": gpu, "cpuMillis": FREE, "memoryBytes": FREE}

    def job(name: str, queue: str, age: int, *tasks: str | None, gpu: int = 1, **fields: Any) -> dict[str, Any]:
        """Return a job; each task is the node on which it runs, or None if it waits."""
        specs = [
            {"name": f"{name}-{at}", "gpu": gpu, **({"state": "Running", "node": node} if node else {})}
            for at, node in enumerate(tasks)
        ]
        return {"name": name, "queue": queue, "createdSecondsAgo": age, "tasks": specs, **fields}

    nodes = [
        {"name": f"n{at}", "gpu": gpu, "cpuMillis": 8000, "memoryBytes": GIB, "maxPods": 10}
        for at, gpu in enumerate((1, 1, 2))
    ]
    jobs = [
        job("gang", "a", 900, None, "n0", "n1", minMember=3),
        job("large", "a", 800, "n2", gpu=2, priority=60),
        job("one", "b", 700, None),
    ]
    case = {"actions": ["reclaim"], "nodes": nodes, "queues": [queue("a", 3, 90), queue("b", -1, 80)], "jobs": jobs}
    actual = kai.run_case(case)["actual"]
    assert {each["by"] for name in ("gang-1", "gang-2") for each in actual["evictions"][name]} == {"one"}
    assert actual["tasks"]["gang-0"] == {"state": "pipelined", "node": "n1"}


def test_answer_names_a_job_whose_tasks_have_all_ended() -> None:
    """A job without living tasks is in the answer, with the states and nodes of its tasks."""
    queue = {"name": "q", "gpu": FREE, "cpuMillis": FREE, "memoryBytes": FREE}
    node = {"name": "n1", "gpu": 2, "cpuMillis": 8000, "memoryBytes": GIB, "maxPods": 10}
    states = {"old-0": "Succeeded", "old-1": "Failed"}
    tasks = [{"name": name, "gpu": 1, "state": state, "node": "n1"} for name, state in states.items()]
    old = {"name": "old", "queue": "q", "tasks": tasks}
    actual = kai.run_case({"actions": ["allocate"], "nodes": [node], "queues": [queue], "jobs": [old]})["actual"]
    assert actual["jobs"] == {"old": {"succeeded": 1, "failed": 1}}
    assert actual["tasks"] == {name: {"state": state.lower(), "node": "n1"} for name, state in states.items()}


def test_priorities_of_pods_do_not_count_for_their_group() -> None:
    """A group without a priority class has the priority 0, so a group with a class may take its room."""
    groups = [group("low", phase="Running"), group("high", priority=1)]
    pods = [pod(f"low-{at}", "low", "Running", priority=5) for at in range(4)] + [pod("high-0", "high")]
    policies = [{"name": "priority"}, {"name": "gang"}, {"name": "predicates"}]
    actual = run(policies, ["allocate", "preempt"], podGroups=groups, pods=pods)
    assert actual["podGroups"]["low"]["evictedCount"] == 1
    assert actual["pods"]["high-0"] == {"result": "pipelined", "node": "n1"}


def test_a_group_without_pods_is_enqueued() -> None:
    """Volcano's controllers create the pods of an Inqueue group; one that needs what no node has stays Pending."""
    groups = [
        group("fits", phase="Pending", minResources={"cpu": 2000}, created=1),
        group("large", phase="Pending", minResources={"cpu": 9000}, created=2),
        group("other", phase="Pending", minResources={"cpu": 1, "example.com/nobody": 1}, created=3),
    ]
    actual = run([{"name": "gang"}, {"name": "overcommit"}], ["enqueue"], podGroups=groups, pods=[])
    phases = {name: each["phase"] for name, each in actual["podGroups"].items()}
    assert phases == {"fits": "Inqueue", "large": "Pending", "other": "Pending"}


def test_a_group_whose_pods_have_ended_completes() -> None:
    """A group takes part until its phase is Completed, and not after that."""
    groups = [group("done", phase="Running"), group("old", phase="Completed")]
    pods = [pod("done-0", "done", "Succeeded"), pod("old-0", "old", "Succeeded")]
    actual = run([{"name": "gang"}], ["allocate"], podGroups=groups, pods=pods)
    assert {name: each["phase"] for name, each in actual["podGroups"].items()} == {"done": "Completed"}


@pytest.mark.slow
def test_a_job_in_an_inner_queue_stops_its_tree() -> None:
    """As in Volcano, hierarchical capacity places nothing while a group is in a queue that has children."""
    queues = [{"name": "root"}, {"name": "a", "parent": "root"}, {"name": "a1", "parent": "a"}]
    policies = [{"name": "gang"}, {"name": "predicates"}, {"name": "capacity", "enableHierarchy": True}]
    groups, pods = [group("leaf", queue="a1")], [pod("leaf-0", "leaf")]
    alone = run(policies, ["allocate"], queues=queues, podGroups=groups, pods=pods)
    assert alone["pods"]["leaf-0"]["result"] == "bound"
    groups, pods = [*groups, group("inner", queue="a")], [*pods, pod("inner-0", "inner")]
    assert not run(policies, ["allocate"], queues=queues, podGroups=groups, pods=pods)["pods"]


def test_pods_that_are_releasing_count_in_scores() -> None:
    """A pod that is being deleted still uses its node, so the other of two nodes is less allocated."""
    nodes = [NODE, {**NODE, "name": "n2"}]
    groups = [group("leaving", phase="Running"), group("new")]
    policies = [{"name": "gang"}, {"name": "predicates"}, {"name": "nodeorder"}]
    for leaves, takes in (("n1", "n2"), ("n2", "n1")):
        pods = [pod("leaving-0", "leaving", "Terminating", node=leaves), pod("new-0", "new")]
        actual = run(policies, ["allocate"], nodes=nodes, podGroups=groups, pods=pods)
        assert actual["pods"]["new-0"] == {"result": "bound", "node": takes}


def test_balanced_allocation_counts_gpus() -> None:
    """The configuration of Volcano gives the profile's balanced allocation GPUs besides cpu and memory."""
    amounts = {"cpu": 4000, "memory": 4 * GIB, "pods": 10}
    nodes = [{"name": f"n{gpus}", "allocatable": {**amounts, "nvidia.com/gpu": gpus}} for gpus in (1, 2, 4)]
    requests = {"cpu": 2000, "memory": 2 * GIB, "nvidia.com/gpu": 1}
    pods = [{**pod("p", "g"), "requests": requests}]
    policies = [{"name": "gang"}, {"name": "predicates"}, {"name": "nodeorder"}]
    actual = run(policies, ["allocate"], nodes=nodes, podGroups=[group("g")], pods=pods)
    assert actual["pods"]["p"]["node"] == "n2", "half of everything"
