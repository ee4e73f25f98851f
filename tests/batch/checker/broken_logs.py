"""Logs that break one rule each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.batch.checker.log import GPU, VOLCANO, Log, situation

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BROKEN", "evicted_twice_around_news", "reclaim_beside_a_promise", "young_job_with_a_loss"]


# --- rule 1: gangs --------------------------------------------------------------------------------


def half_a_gang() -> Log:
    """Bind two members of a gang of three."""
    log = situation()
    log.job("j", "a", 3)
    log.bind("j-0", "j-1")
    return log


def half_an_eviction() -> Log:
    """Evict one member of a gang of three, and keep two."""
    log = situation()
    log.job("j", "a", 3, node="n1")
    log.job("k", "b", 1)
    log.evict("j-0", action="reclaim", by="k")
    log.bind("k-0")
    return log


def half_a_sub_group() -> Log:
    """Bind both leaders and one of two workers."""
    log = situation()
    log.group("j", "a", subGroups=[{"name": "lead", "minMember": 1}, {"name": "work", "minMember": 2}])
    log.pod("j-0", "j", sub_group="lead")
    for name in ("j-1", "j-2"):
        log.pod(name, "j", sub_group="work")
    log.bind("j-0", "j-1")
    return log


def half_an_optional_sub_group() -> Log:
    """Bind one whole sub-group, which is enough, and a part of another one."""
    log = situation()
    log.group("j", "a", minSubGroup=1, subGroups=[{"name": "x", "minMember": 1}, {"name": "y", "minMember": 2}])
    log.pod("j-0", "j", sub_group="x")
    log.pod("j-1", "j", sub_group="y")
    log.pod("j-2", "j", sub_group="y")
    log.bind("j-0", "j-1")
    return log


def forgotten_broken_gang() -> Log:
    """Lose a member, and neither replace it nor evict the others for minutes."""
    log = situation()
    log.job("j", "a", 2, node="n1")
    log.delete("Pod", "j-0")
    log.wait(200.0)
    return log


def half_a_role() -> Log:
    """Bind the minimum of a Volcano group, but no member of one task."""
    log = situation()
    log.create(VOLCANO, "Queue", "v", spec={})
    log.create(VOLCANO, "PodGroup", "j", spec={"queue": "v", "minMember": 2, "minTaskMember": {"ps": 1, "worker": 1}})
    for index, role in enumerate(("ps", "worker", "worker")):
        keys = {"scheduling.k8s.io/group-name": "j", "volcano.sh/task-spec": role}
        log.pod(f"j-{index}", "", annotations=keys)
    log.bind("j-1", "j-2")
    return log


# --- rule 2: limits -------------------------------------------------------------------------------


def leaf_over_limit() -> Log:
    """Bind three GPUs in a queue with a limit of two."""
    log = situation(limit=2)
    log.job("j", "a", 3)
    log.bind("j-0", "j-1", "j-2")
    return log


def ancestor_over_limit() -> Log:
    """Stay within the limits of two queues, and exceed that of their parent."""
    log = situation()
    log.queue("top", limit=3)
    for name in ("x", "y"):
        log.queue(name, "top", limit=2)
        log.job(f"j{name}", name, 2)
        log.bind(f"j{name}-0", f"j{name}-1")
    return log


def non_preemptible_over_quota() -> Log:
    """Bind a job that is not preemptible beyond the quota."""
    log = situation(quota=1)
    log.job("j", "a", 2, preemptibility="non-preemptible")
    log.bind("j-0", "j-1")
    return log


def inner_queue() -> Log:
    """Bind a job of a queue that has children."""
    log = situation()
    log.queue("child", "a")
    log.job("j", "a", 1)
    log.bind("j-0")
    return log


def volcano_capability() -> Log:
    """Bind more pods than the capability of a Volcano queue."""
    log = situation()
    log.create(VOLCANO, "Queue", "v", spec={"capability": {GPU: "1"}})
    log.create(VOLCANO, "PodGroup", "j", spec={"queue": "v", "minMember": 2})
    for name in ("j-0", "j-1"):
        log.pod(name, "", annotations={"scheduling.k8s.io/group-name": "j"})
    log.bind("j-0", "j-1")
    return log


# --- rule 3: protection ---------------------------------------------------------------------------


def reclaim_from(victim: Callable[[Log], None], name: str = "v-0") -> Log:
    """Let queue ``b`` reclaim from one of the jobs that `victim` adds to a full queue ``a``."""
    log = situation()
    log.job("full", "a", 7, node="n1")
    victim(log)
    log.job("k", "b", 1)
    log.evict(name, action="reclaim", by="k")
    log.bind("k-0")
    return log


def non_preemptible_victim() -> Log:
    """Reclaim from a job that is not preemptible."""
    return reclaim_from(lambda log: log.job("v", "a", 1, node="n1", preemptibility="non-preemptible"))


def high_priority_victim() -> Log:
    """Reclaim from a job with a priority of 100, which is not preemptible."""

    def victim(log: Log) -> None:
        log.create("scheduling.k8s.io/v1", "PriorityClass", "build", value=100)
        log.job("v", "a", 1, node="n1", priorityClassName="build")

    return reclaim_from(victim)


def foreign_victim() -> Log:
    """Evict a pod of another scheduler."""
    return reclaim_from(lambda log: log.pod("v-0", "", node="n1", scheduler="other"))


def own_queue_victim() -> Log:
    """Reclaim within one queue."""
    return reclaim_from(lambda log: log.job("v", "b", 1, node="n1"))


def equal_priority_victim() -> Log:
    """Preempt a job of the same priority."""
    log = situation()
    log.job("v", "a", 1, node="n1")
    log.job("k", "a", 1)
    log.evict("v-0", action="preempt", by="k")
    log.bind("k-0")
    return log


def young_victim() -> Log:
    """Reclaim from a job within its minimum run time."""
    log = situation()
    log.update("Queue", "a", spec={"reclaimMinRuntime": "10m"})
    log.job("v", "a", 8)
    log.bind(*(f"v-{index}" for index in range(8)))
    log.job("k", "b", 1)
    log.wait(60.0)
    log.evict(*(f"v-{index}" for index in range(8)), action="reclaim", by="k")
    log.bind("k-0")
    return log


def young_job_with_a_loss(seconds: float) -> Log:
    """Reclaim the surplus of a young job `seconds` after it lost a pod, so that it has no surplus any more."""
    log = situation()
    log.update("Queue", "a", spec={"reclaimMinRuntime": "10m"})
    log.job("full", "a", 6, node="n1")
    log.job("v", "a", 2, 1)
    log.bind("v-0", "v-1")
    log.job("k", "b", 2)
    log.wait(60.0)
    log.delete("Pod", "v-1")
    log.wait(seconds)
    log.evict("v-0", action="reclaim", by="k")
    log.bind("k-0", "k-1")
    return log


def young_victim_without_surplus() -> Log:
    """Reclaim from a young job that lost its surplus long before."""
    return young_job_with_a_loss(30.0)


# --- rule 4: purpose ------------------------------------------------------------------------------


def never_used() -> Log:
    """Evict for a job that never binds."""
    log = situation()
    log.job("v", "a", 8, 1, node="n1")
    log.job("k", "b", 1)
    log.evict("v-7", action="reclaim", by="k")
    log.wait(300.0)
    return log


def promise_that_nobody_used() -> Log:
    """Evict for a job whose promise goes to another one, which never binds."""
    log = situation()
    log.job("v", "a", 8, 1, node="n1")
    log.job("k", "b", 1)
    log.job("m", "b", 1)
    log.evict("v-7", action="reclaim", by="k")
    condition = {"type": "DisruptionTarget", "status": "True", "message": "action=preempt by=team/m"}
    log.update("Pod", "k-0", status={"conditions": [condition]})
    log.wait(300.0)
    return log


def used_by_half() -> Log:
    """Evict for a gang of two that binds one member."""
    log = situation()
    log.job("v", "a", 8, 1, node="n1")
    log.job("k", "b", 2)
    log.evict("v-6", "v-7", action="reclaim", by="k")
    log.bind("k-0")
    log.wait(300.0)
    return log


def nameless_eviction() -> Log:
    """Evict for no job."""
    log = situation()
    log.job("v", "a", 8, 1, node="n1")
    log.evict("v-7", action="reclaim")
    return log


def whole_gang_called_broken() -> Log:
    """Evict a whole gang as a broken one."""
    log = situation()
    log.job("v", "a", 1, node="n1")
    log.evict("v-0", action="stalegangeviction")
    return log


def broken_gang_too_early() -> Log:
    """Evict a broken gang before its grace period ends."""
    log = situation()
    log.job("v", "a", 2, node="n1")
    log.delete("Pod", "v-0")
    log.wait(20.0)
    log.evict("v-1", action="stalegangeviction")
    return log


# --- rule 5: shares -------------------------------------------------------------------------------


def victim_below_share() -> Log:
    """Reclaim from a queue that has no more than its fair share."""
    log = situation()
    log.job("full", "b", 4, node="n1")
    log.job("v", "a", 1, node="n1")
    log.job("k", "b", 1)
    log.evict("v-0", action="reclaim", by="k")
    log.bind("k-0")
    return log


def claim_above_share() -> Log:
    """Reclaim more than the fair share of the queue."""
    log = situation()
    log.job("v", "a", 8, 1, node="n1")
    log.job("k", "b", 5)
    log.evict("v-3", "v-4", "v-5", "v-6", "v-7", action="reclaim", by="k")
    log.bind(*(f"k-{index}" for index in range(5)))
    return log


def victim_queue_grows_later() -> Log:
    """Reclaim from a queue that exceeds its fair share only by a binding of a later pass."""
    log = situation()
    log.job("full", "b", 2, node="n1")
    log.job("v", "a", 2, node="n1")
    log.job("w", "a", 2, node="n1")
    log.job("x", "a", 2)
    log.job("k", "b", 2)
    log.wait(10.0)
    log.evict("v-0", "v-1", action="reclaim", by="k")
    log.wait(1.5)
    log.bind("x-0", "x-1", "k-0", "k-1")
    return log


def reclaim_beside_a_promise(
    *, promised: float, withdrawn: float | None = None, minimum: int = 2, has_events: bool = True
) -> Log:
    """Reclaim two members of a gang from a queue with just its share; a third member is promised a node.

    An event announces the reclaim in second 0, and the evictions are written in second 0.5. `promised`: the second in
    which an event tells the promise. `withdrawn`: the second in which an event says that the member waits without a
    promise. Without events the pod is nominated.
    """
    log = situation()
    log.job("full", "b", 2, node="n1")
    log.job("old", "b", 1, node="n1", gpus=2)
    log.update("Pod", "old-0", metadata={"deletionTimestamp": "2023-11-14T22:13:20Z"})
    log.job("v", "a", 2, minimum, node="n1", gpus=2)
    log.pod("v-2", "v", 2)
    log.job("k", "b", 1, gpus=2)
    log.wait(10.0)
    note = "Pods team/v-0, team/v-1 were preempted by workload team/k (action=reclaim by=team/k pods=2)"
    steps: list[tuple[float, Callable[[], None]]] = [(0.5, lambda: log.evict("v-0", "v-1", action="reclaim", by="k"))]
    if has_events:
        steps.append((0.0, lambda: log.event("PodGroup", "v", "Evict", note)))
        steps.append((promised, lambda: log.event("Pod", "v-2", "Pipelined", "Pod team/v-2 was pipelined to node n1")))
    else:
        steps.append((promised, lambda: log.nominate("v-2")))
    if withdrawn is not None:
        waits = "NotReady: 1 of at least 2 pods exist"
        steps.append((withdrawn, lambda: log.event("Pod", "v-2", "Unschedulable", waits)))
    begin = log.now - min(0.0, promised)
    for second, step in sorted(steps, key=lambda one: one[0]):
        log.now = begin + second
        step()
    log.wait(0.1)
    log.bind("k-0")
    return log


def victim_queue_is_promised_room_later() -> Log:
    """Reclaim from a queue that exceeds its fair share only by a promise of a later pass."""
    return reclaim_beside_a_promise(promised=1.5)


def victim_queue_was_promised_room_before() -> Log:
    """Reclaim from a queue that exceeds its fair share only by a promise that was withdrawn."""
    return reclaim_beside_a_promise(promised=-0.4, withdrawn=-0.2)


def more_victims_than_a_promise_justifies() -> Log:
    """Reclaim two surplus pods from a queue that exceeds its fair share by a promise as large as one of them."""
    return reclaim_beside_a_promise(promised=0.01, minimum=0)


def victim_queue_has_a_late_nomination() -> Log:
    """Reclaim from a queue that exceeds its fair share only by a nomination of a later pass."""
    return reclaim_beside_a_promise(promised=1.6, has_events=False)


def too_many_victims() -> Log:
    """Reclaim surplus pods of a queue until it is below its share, and some more."""
    log = situation()
    log.job("v", "a", 8, 0, node="n1")
    log.job("k", "b", 3)
    log.evict(*(f"v-{index}" for index in range(6)), action="reclaim", by="k")
    log.bind("k-0", "k-1", "k-2")
    return log


# --- rules 6 and 7: loops -------------------------------------------------------------------------


def evicted_twice() -> Log:
    """Evict a pod and then its replacement."""
    log = situation()
    log.job("v", "a", 8, 0, node="n1")
    for name in ("k", "l"):
        log.job(name, "b", 1)
    log.evict("v-7", action="reclaim", by="k")
    log.bind("k-0")
    log.pod("v-7", "v")
    log.bind("v-7")
    log.wait(20.0)
    log.evict("v-7", action="reclaim", by="l")
    log.bind("l-0")
    return log


def evicted_twice_around_news(*, is_decided_before: bool) -> Log:
    """Evict a pod and then its replacement; a job comes between the event about the first eviction and its deletion.

    Unless `is_decided_before`: then it comes before the event.
    """
    log = situation()
    log.job("v", "a", 8, 0, node="n1")
    log.job("k", "b", 1)
    note = "Pod team/v-7 was preempted by workload team/k (action=reclaim by=team/k pods=1)"
    steps = [lambda: log.job("l", "b", 1), lambda: log.event("PodGroup", "v", "Evict", note)]
    for step in reversed(steps) if is_decided_before else steps:
        step()
        log.wait(1.0)
    log.evict("v-7", action="reclaim", by="k")
    log.bind("k-0")
    log.pod("v-7", "v")
    log.bind("v-7")
    log.wait(20.0)
    log.evict("v-7", action="reclaim", by="l")
    log.bind("l-0")
    return log


def evicted_twice_after_news() -> Log:
    """Evict a pod and then its replacement; a job came just before the first decision."""
    return evicted_twice_around_news(is_decided_before=False)


def cycle_of_two() -> Log:
    """Let a victim evict its evictor."""
    log = situation()
    log.job("v", "a", 1, node="n1")
    log.job("k", "b", 1)
    log.evict("v-0", action="reclaim", by="k")
    log.bind("k-0")
    log.pod("v-again", "v")
    log.evict("k-0", action="reclaim", by="v")
    log.bind("v-again")
    return log


def cycle_of_three() -> Log:
    """Let three jobs evict each other in turn."""
    log = situation()
    log.job("x", "a", 1, node="n1")
    log.job("y", "b", 1)
    log.job("z", "a", 1)
    for victim, by in (("x", "y"), ("y", "z"), ("z", "x")):
        log.evict(f"{victim}-0", action="reclaim", by=by)
        log.pod(f"{victim}-0", victim)
        log.bind(f"{by}-0")
    return log


def late_eviction() -> Log:
    """Evict an hour after the last change from outside."""
    log = situation()
    log.job("v", "a", 8, 0, node="n1")
    log.job("k", "b", 1)
    log.wait(3600.0)
    log.evict("v-7", action="reclaim", by="k")
    log.bind("k-0")
    return log


def late_eviction_after_others() -> Log:
    """Evict in time, and go on although only replacements arrive."""
    log = situation()
    log.job("v", "a", 8, 0, node="n1")
    for name in ("k", "l"):
        log.job(name, "b", 1)
    log.evict("v-7", action="reclaim", by="k")
    log.bind("k-0")
    log.wait(650.0)
    log.pod("v-7", "v")
    log.evict("v-6", action="reclaim", by="l")
    log.bind("l-0")
    return log


# --- rule 8: reasons ------------------------------------------------------------------------------


def no_reason() -> Log:
    """Leave a pod pending without a word."""
    log = situation()
    log.job("j", "a", 1)
    log.wait(60.0)
    return log


def empty_reason() -> Log:
    """Give a pending pod a condition without a message."""
    log = situation()
    log.job("j", "a", 1)
    log.reason("j-0", message="")
    log.wait(60.0)
    return log


def no_queue() -> Log:
    """Say nothing about a queue that does not exist."""
    log = situation()
    log.job("j", "nowhere", 1)
    log.update("Pod", "j-0", spec={"schedulingGates": [{"name": "wait"}]})
    log.wait(60.0)
    return log


#: By rule: logs that break it, and a part of the report.
BROKEN: dict[int, dict[Callable[[], Log], str]] = {
    1: {
        half_a_gang: "partly bound for more than 5 s: 2 of 3 members",
        half_an_eviction: "partly evicted and kept 2 members",
        half_a_sub_group: "1 of 2 members of sub-group work",
        half_an_optional_sub_group: "1 of 2 members of sub-group y",
        forgotten_broken_gang: "lost members and was not evicted or repaired for 125 s",
        half_a_role: "0 of 1 members of task ps",
    },
    2: {
        leaf_over_limit: "queue a has 3 of nvidia.com/gpu, above its limit 2",
        ancestor_over_limit: "queue top has 4 of nvidia.com/gpu, above its limit 3",
        non_preemptible_over_quota: "queue a has 2 of nvidia.com/gpu not preemptible, above its quota 1",
        inner_queue: "its queue a is not a leaf",
        volcano_capability: "queue v has 2 of nvidia.com/gpu, above its limit 1",
    },
    3: {
        non_preemptible_victim: "its job team/v is not preemptible",
        high_priority_victim: "its job team/v is not preemptible",
        foreign_victim: "it belongs to the scheduler 'other'",
        own_queue_victim: "team/k is in the same queue b",
        equal_priority_victim: "its priority 50 is not below that of team/k",
        young_victim: "has run for 60.0 s of at least 600 s",
        young_victim_without_surplus: "has run for 90.0 s of at least 600 s",
    },
    4: {
        never_used: "team/k, which did not bind its minimum",
        promise_that_nobody_used: "team/k, which did not bind its minimum",
        used_by_half: "team/k, which did not bind its minimum",
        nameless_eviction: "for no job",
        whole_gang_called_broken: "but team/v was whole",
        broken_gang_too_early: "20.0 s after team/v broke, before 60 s",
    },
    5: {
        victim_below_share: "queue a would lose",
        claim_above_share: "queue b would have 5 of nvidia.com/gpu, above its fair share 4",
        too_many_victims: "queue a would lose",
        victim_queue_grows_later: "queue a would lose",
        victim_queue_is_promised_room_later: "queue a would lose",
        victim_queue_was_promised_room_before: "queue a would lose",
        more_victims_than_a_promise_justifies: "queue a would lose",
        victim_queue_has_a_late_nomination: "queue a would lose",
    },
    6: {
        evicted_twice: "team/v-7 was evicted again, 20.0 s later",
        evicted_twice_after_news: "team/v-7 was evicted again, 20.0 s later",
        cycle_of_two: "team/v -> team/k -> team/v",
        cycle_of_three: "team/x -> team/z -> team/y -> team/x",
    },
    7: {
        late_eviction: "3600.0 s after the last change from outside",
        late_eviction_after_others: "650.0 s after the last change from outside",
    },
    8: {
        no_reason: "it has no PodScheduled condition",
        empty_reason: "no reason or no message",
        no_queue: "its queue 'nowhere' does not exist, and nothing says so",
    },
}
