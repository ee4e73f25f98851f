"""Logs that keep all rules."""

from __future__ import annotations

from tests.batch.checker.broken_logs import evicted_twice_around_news, reclaim_beside_a_promise, young_job_with_a_loss
from tests.batch.checker.log import Log, situation

__all__ = ["CLEAN"]


def whole_gangs() -> Log:
    """Bind gangs with and without sub-groups as a whole, and then one surplus member."""
    log = situation()
    log.job("j", "a", 3, 2)
    log.group("s", "b", minSubGroup=1, subGroups=[{"name": "x", "minMember": 1}, {"name": "y", "minMember": 2}])
    log.pod("s-0", "s", sub_group="x")
    log.bind("j-0", "j-1", "s-0")
    log.wait(20.0)
    log.bind("j-2")
    return log


def repaired_gang() -> Log:
    """Lose a member and bind its replacement within the grace period."""
    log = situation()
    log.job("j", "a", 3, node="n1")
    log.delete("Pod", "j-0")
    log.wait(30.0)
    log.pod("j-0", "j")
    log.bind("j-0")
    log.wait(300.0)
    return log


def evicted_broken_gang() -> Log:
    """Lose a member and evict the others after the grace period, though they are not preemptible."""
    log = situation()
    log.job("j", "a", 3, node="n1", preemptibility="non-preemptible")
    log.delete("Pod", "j-0")
    log.wait(61.0)
    log.evict("j-1", "j-2", action="stalegangeviction")
    return log


def evicted_gang_with_a_member_on_a_lost_node() -> Log:
    """Lose a node with a member; its pod is deleted only half a minute later, as the garbage collector does it."""
    log = situation()
    log.node("n2")
    log.job("j", "a", 2)
    log.bind("j-0")
    log.bind("j-1", node="n2")
    log.delete("Node", "n2")
    log.wait(30.0)
    log.delete("Pod", "j-1")
    log.wait(31.0)
    log.evict("j-0", action="stalegangeviction")
    return log


def gang_whose_minimum_was_raised() -> Log:
    """Raise the minimum of a running gang; there is no room for more."""
    log = situation()
    log.job("j", "a", 2, node="n1")
    log.wait(1.0)
    log.update("PodGroup", "j", spec={"queue": "a", "minMember": 4})
    log.wait(300.0)
    return log


def gang_with_a_success_that_was_removed() -> Log:
    """Let a member succeed and remove its pod; the others go on."""
    log = situation()
    log.job("j", "a", 2, node="n1")
    log.update("Pod", "j-0", status={"phase": "Succeeded"})
    log.delete("Pod", "j-0")
    log.wait(300.0)
    return log


def gang_whose_queue_was_deleted() -> Log:
    """Bind a part of a gang; its queue is deleted before the rest is bound."""
    log = situation()
    log.job("k", "a", 3)
    log.bind("k-0", "k-1")
    log.wait(0.1)
    log.delete("Queue", "a")
    log.reason("k-2", message='QueueDoesNotExist: queue "a" does not exist')
    log.wait(30.0)
    return log


def gang_with_a_success() -> Log:
    """Keep a gang whose members succeed one after the other."""
    log = situation()
    log.job("j", "a", 3, node="n1")
    log.update("Pod", "j-0", status={"phase": "Succeeded"})
    log.wait(300.0)
    return log


def fair_reclaim() -> Log:
    """Reclaim what a queue has above its share, for a gang that then starts."""
    log = situation()
    log.job("v", "a", 8, 0, node="n1")
    log.job("k", "b", 4)
    log.nominate("k-0", "k-1", "k-2", "k-3")
    log.evict("v-4", "v-5", "v-6", "v-7", action="reclaim", by="k", gone=False)
    log.wait(30.0)
    for index in range(4, 8):
        log.delete("Pod", f"v-{index}")
        log.pod(f"v-{index}", "v")
        log.reason(f"v-{index}")
    log.bind("k-0", "k-1", "k-2", "k-3")
    log.wait(60.0)
    return log


def reclaim_by_a_pass_that_does_not_know_of_a_lost_node() -> Log:
    """Reclaim for a queue that has just come, on a node that has just gone: their watches are not equally fast."""
    log = situation()
    log.node("n2")
    log.queue("c", quota=0, overQuotaWeight=0)
    log.job("w", "c", 8, 0, node="n1")
    log.job("large", "a", 8)
    log.reason(*(f"large-{index}" for index in range(8)))
    log.job("k", "b", 6)
    log.delete("Queue", "b")
    log.wait(30.0)
    log.delete("Node", "n2")
    log.queue("b", quota=2)
    log.wait(0.1)
    log.reason(*(f"k-{index}" for index in range(6)))
    log.evict(*(f"w-{index}" for index in range(6)), action="reclaim", by="k")
    log.wait(300.0)
    return log


def fair_preemption() -> Log:
    """Preempt a job of a lower priority in the same queue."""
    log = situation()
    log.create("scheduling.k8s.io/v1", "PriorityClass", "low", value=10)
    log.job("v", "a", 2, node="n1", priorityClassName="low")
    log.job("k", "a", 2)
    log.evict("v-0", "v-1", action="preempt", by="k")
    log.bind("k-0", "k-1")
    return log


def lowered_limit() -> Log:
    """Bind by a limit that was lowered half a second before."""
    log = situation(limit=2)
    log.job("j", "a", 2)
    log.wait(5.0)
    resources = log.objects["Queue", "a"]["spec"]["resources"]
    log.update("Queue", "a", spec={"resources": resources | {"gpu": {"quota": 1, "limit": 1, "overQuotaWeight": 1}}})
    log.wait(0.5)
    log.bind("j-0", "j-1")
    return log


def evictor_deleted() -> Log:
    """Evict for a job that its user deletes before it starts."""
    log = situation()
    log.job("v", "a", 8, 0, node="n1")
    log.job("k", "b", 1)
    log.evict("v-7", action="reclaim", by="k")
    log.delete("Pod", "k-0")
    log.wait(300.0)
    return log


def news_between_evictions() -> Log:
    """Evict a pod and its replacement, with a new job in between."""
    log = situation()
    log.job("v", "a", 8, 0, node="n1")
    log.job("k", "b", 1)
    log.evict("v-7", action="reclaim", by="k")
    log.bind("k-0")
    log.pod("v-7", "v")
    log.bind("v-7")
    log.wait(20.0)
    log.job("l", "b", 1)
    log.evict("v-7", action="reclaim", by="l")
    log.bind("l-0")
    return log


def news_between_decision_and_eviction() -> Log:
    """Decide an eviction; a new job comes before its deletion is written, and the replacement is evicted later."""
    return evicted_twice_around_news(is_decided_before=True)


def reclaim_from_what_the_pass_placed(*, is_last: bool = False) -> Log:
    """Place a job of queue ``a`` and reclaim from ``a`` in one pass; the eviction is written before the binding.

    `is_last`: the binding fails at first, so that it comes after those of the job that reclaims.
    """
    log = situation()
    log.job("full", "b", 2, node="n1")
    log.job("v", "a", 2, node="n1")
    log.job("w", "a", 2, node="n1")
    log.job("x", "a", 2)
    log.job("k", "b", 2)
    log.wait(10.0)
    log.evict("v-0", "v-1", action="reclaim", by="k")
    for name in "kx" if is_last else "xk":
        log.wait(0.2)
        log.bind(f"{name}-0", f"{name}-1")
    return log


def reclaim_from_what_the_pass_placed_and_bound_last() -> Log:
    """Do the same, with the binding of the job that was placed at the end."""
    return reclaim_from_what_the_pass_placed(is_last=True)


def reclaim_of_a_gang_that_is_deleted_later() -> Log:
    """Reclaim a whole gang from a queue above its share; its user deletes the group a moment later."""
    log = situation()
    log.job("v", "a", 3, node="n1", gpus=2)
    log.job("k", "b", 4)
    log.wait(10.0)
    log.evict("v-0", "v-1", "v-2", action="reclaim", by="k")
    log.wait(0.1)
    log.bind("k-0", "k-1", "k-2", "k-3")
    log.wait(0.1)
    log.delete("PodGroup", "v")
    return log


def promise_that_another_job_took() -> Log:
    """Evict for a job whose promise a later decision gives to a job of its queue, which starts."""
    log = situation()
    log.create("scheduling.k8s.io/v1", "PriorityClass", "high", value=90)
    log.job("v", "a", 8, 1, node="n1")
    log.job("k", "b", 1)
    log.job("m", "b", 1, priorityClassName="high")
    log.evict("v-7", action="reclaim", by="k")
    condition = {"type": "DisruptionTarget", "status": "True", "message": "action=preempt by=team/m"}
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    log.update("Pod", "k-0", status={"conditions": [condition, unschedulable]})
    log.bind("m-0")
    log.wait(300.0)
    return log


def surplus_that_was_announced() -> Log:
    """Reclaim the surplus of a young job for two jobs in one pass; the second eviction is written much later."""
    log = situation(quota=0, overQuotaWeight=0)
    log.update("Queue", "a", spec={"reclaimMinRuntime": "10m"})
    log.job("full", "a", 6, node="n1")
    log.job("v", "a", 2, 1)
    log.bind("v-0", "v-1")
    log.job("k", "b", 1)
    log.job("l", "b", 1)
    log.wait(60.0)
    regarding = {"kind": "PodGroup", "namespace": "team", "name": "v"}
    for number, by in enumerate("kl"):
        note = f"Pod team/v-{number} was preempted by workload team/{by} (action=reclaim by=team/{by} pods=1)"
        log.create("events.k8s.io/v1", "Event", f"v.{number}", reason="Evict", regarding=regarding, note=note)
    log.evict("v-0", action="reclaim", by="k")
    log.bind("k-0")
    log.wait(3.0)
    log.evict("v-1", action="reclaim", by="l")
    log.bind("l-0")
    return log


def surplus_with_a_member_that_was_never_bound() -> Log:
    """Preempt a young gang of four down to its minimum; one of the four is evicted before its binding is written."""
    log = situation()
    log.update("Queue", "a", spec={"preemptMinRuntime": "10m"})
    log.create("scheduling.k8s.io/v1", "PriorityClass", "low", value=10)
    log.job("v", "a", 4, 2, priorityClassName="low")
    log.bind("v-0", "v-1", "v-2")
    log.job("k", "a", 2)
    log.wait(60.0)
    log.evict("v-3", "v-0", action="preempt", by="k", gone=False)
    log.evict("v-1", action="preempt", by="k")
    log.delete("Pod", "v-3")
    log.delete("Pod", "v-0")
    log.bind("k-0", "k-1")
    log.pod("v-4", "v")
    log.bind("v-4")
    return log


def surplus_with_a_member_that_is_being_bound() -> Log:
    """Preempt all bound members of a young gang with a surplus while the binding of another one is on its way."""
    log = situation()
    log.update("Queue", "a", spec={"preemptMinRuntime": "10m"})
    log.create("scheduling.k8s.io/v1", "PriorityClass", "low", value=10)
    log.job("v", "a", 3, 1, priorityClassName="low")
    log.bind("v-0", "v-1")
    log.job("k", "a", 2)
    log.wait(0.2)
    log.evict("v-0", "v-1", action="preempt", by="k")
    log.bind("k-0", "k-1", "v-2")
    return log


def victim_whose_queue_protects_it_since_a_moment() -> Log:
    """Reclaim from a young job half a second after its queue got a minimum run time."""
    log = situation()
    log.job("v", "a", 8)
    log.bind(*(f"v-{index}" for index in range(8)))
    log.job("k", "b", 1)
    log.wait(60.0)
    log.update("Queue", "a", spec={"reclaimMinRuntime": "10m"})
    log.wait(0.5)
    log.evict(*(f"v-{index}" for index in range(8)), action="reclaim", by="k")
    log.bind("k-0")
    return log


def gang_that_loses_members_while_it_is_bound() -> Log:
    """Bind a gang; before its last binding is written, the others end with their node."""
    log = situation()
    log.node("n2")
    log.job("j", "a", 3)
    log.bind("j-0", "j-1")
    log.delete("Node", "n1")
    log.delete("Pod", "j-0")
    log.delete("Pod", "j-1")
    log.wait(0.3)
    log.bind("j-2", node="n2")
    log.wait(20.0)
    return log


def gang_whose_room_is_lost_while_it_is_bound() -> Log:
    """Bind a part of a gang; before the rest is bound, the node for it goes."""
    log = situation()
    log.node("n2")
    log.job("j", "a", 3)
    log.bind("j-0", node="n2")
    log.wait(0.3)
    log.delete("Node", "n1")
    log.reason("j-1", "j-2")
    log.wait(20.0)
    return log


def reclaim_from_what_was_never_bound() -> Log:
    """Place a job of queue ``a`` in memory, evict it before its binding, and reclaim a running job of ``a``, too."""
    log = situation()
    log.job("full", "b", 1, node="n1")
    log.job("v", "a", 2, node="n1")
    log.job("w", "a", 2, node="n1")
    log.job("x", "a", 2)
    log.job("k", "b", 3)
    log.wait(10.0)
    log.evict("x-0", "x-1", action="reclaim", by="k", moved=True)
    log.evict("v-0", "v-1", action="reclaim", by="k")
    log.wait(0.1)
    log.bind("k-0", "k-1", "k-2")
    return log


def reclaim_after_one_that_was_not_written(action: str = "reclaim", by: str = "k") -> Log:
    """Reclaim for queue ``a``, which has its share but for pods that another job was said to evict."""
    log = situation()
    log.job("full", "b", 4, 0, node="n1")
    log.job("w", "a", 4, 0, node="n1")
    log.job("k", "b", 1)
    log.job("l", "a", 1)
    log.wait(10.0)
    regarding = {"kind": "PodGroup", "namespace": "team", "name": "w"}
    note = f"Pods team/w-0, team/w-1 were preempted by workload team/{by} (action={action} by=team/{by} pods=2)"
    log.create("events.k8s.io/v1", "Event", "w.1", reason="Evict", regarding=regarding, note=note)
    log.wait(0.2)
    log.delete("Pod", "k-0")
    log.queue("c", quota=0, overQuotaWeight=0)
    log.job("x", "c", 2, 0, node="n1")
    log.evict("x-0", action="reclaim", by="l")
    log.wait(0.1)
    log.bind("l-0")
    return log


def reclaim_after_a_preemption_that_was_not_written() -> Log:
    """Do the same, but the job itself was said to evict the pods, by another action."""
    return reclaim_after_one_that_was_not_written("preempt", "l")


def reclaim_from_what_was_promised() -> Log:
    """Promise a node to the surplus of a gang and reclaim the gang in one pass; the promise ends before its eviction.

    The log is a part of one of random troubles over HTTP, ``kai``, seed 3015.
    """
    return reclaim_beside_a_promise(promised=0.01, withdrawn=0.4)


def reclaim_from_what_was_nominated_late() -> Log:
    """Do the same without events; the nomination is written after the evictions."""
    return reclaim_beside_a_promise(promised=0.8, has_events=False)


def reclaim_from_what_left_meanwhile() -> Log:
    """Reclaim from a queue above its share; before that is written, another of its pods ends at its user's wish."""
    log = situation()
    log.job("v", "a", 5, 0, node="n1")
    log.pod("v-5", "v")
    log.job("full", "b", 2, 0, node="n1")
    log.job("k", "b", 2)
    log.wait(10.0)
    log.job("late", "b", 1)
    log.wait(0.03)
    log.bind("v-5")
    log.wait(0.02)
    log.delete("Pod", "v-5")
    log.wait(0.1)
    log.evict("v-0", "v-1", action="reclaim", by="k")
    log.wait(0.1)
    log.bind("k-0", "k-1")
    return log


def reclaim_of_surplus_that_was_lost_meanwhile() -> Log:
    """Reclaim the surplus of a young job; another of its pods left a moment before."""
    return young_job_with_a_loss(0.3)


def explained_pods() -> Log:
    """Say why pods are pending: on the pod, on the group, by a gate, or by an event."""
    log = situation()
    for name, queue in (("j", "a"), ("g", "a"), ("m", "nowhere")):
        log.job(name, queue, 1)
    log.reason("j-0")
    reasons = [{"reason": "OverLimit", "message": "queue a is over its limit"}]
    condition = {"type": "UnschedulableOnNodePool", "status": "True", "reasons": reasons}
    log.update("PodGroup", "g", status={"schedulingConditions": [condition]})
    log.update("Pod", "m-0", spec={"schedulingGates": [{"name": "wait"}]})
    regarding = {"kind": "PodGroup", "namespace": "team", "name": "m"}
    log.create("events.k8s.io/v1", "Event", "m.1", reason="QueueDoesNotExist", regarding=regarding, note="no queue")
    log.wait(100.0)
    return log


CLEAN = (
    whole_gangs,
    repaired_gang,
    evicted_broken_gang,
    evicted_gang_with_a_member_on_a_lost_node,
    gang_with_a_success,
    gang_with_a_success_that_was_removed,
    gang_whose_minimum_was_raised,
    gang_whose_queue_was_deleted,
    fair_reclaim,
    reclaim_from_what_was_never_bound,
    reclaim_from_what_the_pass_placed,
    reclaim_from_what_the_pass_placed_and_bound_last,
    reclaim_of_a_gang_that_is_deleted_later,
    promise_that_another_job_took,
    surplus_with_a_member_that_was_never_bound,
    surplus_with_a_member_that_is_being_bound,
    victim_whose_queue_protects_it_since_a_moment,
    gang_that_loses_members_while_it_is_bound,
    gang_whose_room_is_lost_while_it_is_bound,
    surplus_that_was_announced,
    reclaim_after_one_that_was_not_written,
    reclaim_after_a_preemption_that_was_not_written,
    reclaim_from_what_was_promised,
    reclaim_from_what_was_nominated_late,
    reclaim_from_what_left_meanwhile,
    reclaim_by_a_pass_that_does_not_know_of_a_lost_node,
    reclaim_of_surplus_that_was_lost_meanwhile,
    fair_preemption,
    lowered_limit,
    evictor_deleted,
    news_between_evictions,
    news_between_decision_and_eviction,
    explained_pods,
)
