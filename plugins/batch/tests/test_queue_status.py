"""The status of queues: sums of bound requests, counts of groups, states; and the pace of the writes."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import PriorityClass

UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def _priority_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


async def test_kai_queues_show_what_their_jobs_hold_and_request(kai: Any) -> None:
    """Sums go up the tree; protected jobs count apart, waiting ones only as requested; an ended pod gives back."""
    kai.nodes(1, cpu="4")
    kai.cluster.add(_priority_class("high", 200), PriorityClass)
    kai.queue("dept")
    kai.queue("a", parentQueue="dept")
    kai.queue("b", parentQueue="dept")
    scheduler = await kai.start()
    kai.job("one", "a", 2, requests={"cpu": "500m", "memory": "1Gi"})
    kai.group("two", "b", 1, priorityClassName="high")
    kai.pods("two", 1)
    kai.job("large", "b", 2, requests={"cpu": "3"})
    await kai.pass_time()
    assert kai.nodes_of("one") == ["n0", "n0"]
    assert kai.nodes_of("large") == ["", ""]
    one, two = {"cpu": "1", "memory": "2Gi"}, {"cpu": "1"}
    assert kai.queue_status("a") == {"allocated": one, "requested": one}
    assert kai.queue_status("b") == {"allocated": two, "allocatedNonPreemptible": two, "requested": {"cpu": "7"}}
    assert kai.queue_status("dept") == {
        "childQueues": ["a", "b"],
        "allocated": {"cpu": "2", "memory": "2Gi"},
        "allocatedNonPreemptible": two,
        "requested": {"cpu": "8", "memory": "2Gi"},
    }
    kai.go("Succeeded", "one-0", "one-1", "two-0")
    kai.cluster.delete_pod("large-0")
    kai.cluster.delete_pod("large-1")
    await kai.pass_time()
    status = kai.queue_status("dept")
    assert [status[name] for name in ("allocated", "allocatedNonPreemptible", "requested")] == [{}, {}, {}]
    assert scheduler.warnings == {}


async def test_profiles_with_one_preset_share_the_sums(kai: Any) -> None:
    """The status of a queue counts the jobs of all profiles that use it."""
    kai.nodes(1, cpu="4")
    kai.queue("a")
    await kai.start(profiles=("batch", "other"))
    kai.job("one", "a", 1)
    kai.job("two", "a", 2, profile="other")
    await kai.pass_time()
    assert kai.queue_status("a")["allocated"] == {"cpu": "3"}


async def test_volcano_queues_count_groups_by_phase(volcano: Any) -> None:
    """Each queue has its state, the number of groups in each phase, and what bound pods hold, places included."""
    volcano.nodes(1, cpu="4")
    for name in ("default", "x"):
        volcano.queue(name, weight=1, reclaimable=False)
    await volcano.start()
    volcano.job("one", "default", 2)
    volcano.group("empty", "x", 3)
    await volcano.pass_time()
    volcano.go("Running", "one-0", "one-1")
    await volcano.pass_time()
    assert volcano.queue_status("default") == {
        "state": "Open",
        "unknown": 0,
        "pending": 0,
        "running": 1,
        "inqueue": 0,
        "completed": 0,
        "allocated": {"cpu": "2", "memory": "0", "pods": "2"},
    }
    assert {name: volcano.queue_status("x")[name] for name in ("inqueue", "running")} == {"inqueue": 1, "running": 0}


async def test_a_closing_queue_is_closed_once_it_has_no_groups(volcano: Any) -> None:
    """A queue that somebody closes stays Closing while it has groups; a closed one is not opened again."""
    volcano.nodes(1, cpu="4")
    volcano.queue("default")
    await volcano.start()
    volcano.job("one", "default", 1)
    await volcano.pass_time()
    volcano.patch_status(volcano.queue_kind, "default", {"state": "Closing"})
    await volcano.pass_time()
    assert volcano.queue_status("default")["state"] == "Closing"
    volcano.cluster.delete(volcano.group_kind.type, "one")
    await volcano.pass_time()
    assert volcano.queue_status("default")["state"] == "Closed"
    await volcano.pass_time()
    assert volcano.queue_status("default")["state"] == "Closed"


async def test_a_queue_is_closed_and_opened_with_its_parent(volcano: Any) -> None:
    """Queues below a closed one are closed, and open again with it, but for those that somebody else closed."""
    volcano.nodes(1, cpu="4")
    for name, parent in (("root", ""), ("dept", "root"), ("a", "dept"), ("b", "dept"), ("shut", "dept")):
        volcano.queue(name, **({"parent": parent} if parent else {}))
    await volcano.start()
    volcano.job("one", "b", 1)
    await volcano.pass_time()

    def states() -> dict[str, str]:
        return {name: volcano.queue_status(name)["state"] for name in ("dept", "a", "b", "shut")}

    volcano.patch_status(volcano.queue_kind, "shut", {"state": "Closed"})
    await volcano.pass_time()
    assert states() == {"dept": "Open", "a": "Open", "b": "Open", "shut": "Closed"}
    volcano.patch_status(volcano.queue_kind, "dept", {"state": "Closed"})
    await volcano.pass_time(5)
    assert states() == {"dept": "Closed", "a": "Closed", "b": "Closing", "shut": "Closed"}
    volcano.patch_status(volcano.queue_kind, "dept", {"state": "Open"})
    await volcano.pass_time(5)
    assert states() == {"dept": "Open", "a": "Open", "b": "Open", "shut": "Closed"}


async def test_kube_batch_queues_have_three_counts(kube_batch: Any) -> None:
    """kube-batch's queues count groups, and have no amounts."""
    kube_batch.nodes(1, cpu="4")
    kube_batch.queue("default", weight=1)
    await kube_batch.start()
    kube_batch.job("one", "default", 2)
    await kube_batch.pass_time()
    kube_batch.go("Running", "one-0", "one-1")
    await kube_batch.pass_time()
    assert kube_batch.queue_status("default") == {"unknown": 0, "pending": 0, "running": 1}


async def test_nothing_is_written_while_nothing_changes(volcano: Any) -> None:
    """After the statuses are written, an hour brings no write, although a job waits."""
    volcano.nodes(1, cpu="1")
    volcano.queue("default")
    await volcano.start()
    volcano.job("one", "default", 1)
    volcano.job("two", "default", 2)
    await volcano.pass_time()
    writes = volcano.writes("/(queues|podgroups)/")
    await volcano.pass_time(3600)
    assert writes.hits == 0


@pytest.mark.slow
async def test_an_object_is_written_at_most_once_a_second(kai: Any) -> None:
    """While pods come and go all the time, each queue and each group gets at most one write in a second."""
    kai.nodes(1, cpu="100")
    kai.queue("a")
    await kai.start()
    kai.group("one", "a", 1)
    queues, groups = kai.writes("/queues/a/status$"), None
    for number in range(40):
        kai.pods("one", 1, start=number, requests={"cpu": "1"})
        await kai.pass_time(0.25)
        if groups is None:
            groups = kai.writes("/podgroups/one/status$")
    await kai.pass_time()
    assert groups is not None
    assert 8 <= queues.hits <= 13
    assert 8 <= groups.hits <= 13
    assert kai.queue_status("a")["allocated"] == {"cpu": "40"}


async def test_a_failed_write_is_repeated(kai: Any) -> None:
    """Errors of the server delay a status and are counted; a conflict is resolved without a warning."""
    kai.nodes(1, cpu="4")
    kai.queue("a")
    scheduler = await kai.start()
    await kai.pass_time()
    failing = kai.writes("/queues/a/status$", status=403, times=3)
    kai.job("one", "a", 1)
    await kai.pass_time(30)
    assert failing.hits == 3
    assert kai.queue_status("a")["allocated"] == {"cpu": "1"}
    warned = scheduler.warnings["batch_status_not_written"]
    assert warned
    conflict = kai.writes("/queues/a/status$", status=409, times=1)
    kai.job("two", "a", 1)
    await kai.pass_time(30)
    assert conflict.hits == 1
    assert kai.queue_status("a")["allocated"] == {"cpu": "2"}
    assert scheduler.warnings["batch_status_not_written"] == warned


async def test_a_status_that_another_program_changed_is_written_again(kai: Any) -> None:
    """Sums that somebody overwrites are right again soon."""
    kai.nodes(1, cpu="4")
    kai.queue("a")
    await kai.start()
    kai.job("one", "a", 1)
    await kai.pass_time()
    kai.patch_status(kai.queue_kind, "a", {"allocated": {"cpu": "77", "memory": "1Gi"}})
    kai.patch_status(kai.group_kind, "one", {"resourcesStatus": {"allocated": {"cpu": "77"}}})
    await kai.pass_time()
    assert kai.queue_status("a")["allocated"] == {"cpu": "1"}
    assert kai.group_status("one")["resourcesStatus"]["allocated"] == {"cpu": "1"}


async def test_doubtful_values_of_a_queue_are_logged_once(kai: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A limit that is not set means nothing in KAI; the log says so when the queue appears."""
    kai.nodes(1, cpu="4")
    kai.queue("a", resources={"cpu": UNLIMITED, "memory": UNLIMITED, "gpu": {"quota": 1, "overQuotaWeight": 1}})
    await kai.start()
    kai.job("one", "a", 1)
    await kai.pass_time()
    kai.queue("b")
    await kai.pass_time()
    (line,) = [each.getMessage() for each in caplog.records if each.getMessage().startswith("Queue a: ")]
    assert line == "Queue a: spec.resources.gpu.limit is not set, which means 0: no job of this queue may use gpu"
