"""Each rule of the checker reports hand-made logs that break it, and passes logs that keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler_lab.audit import Options, check
from tests.batch.checker.broken_logs import BROKEN
from tests.batch.checker.clean_logs import CLEAN
from tests.batch.checker.log import GPU, KAI_QUEUES, VOLCANO, Log, situation

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler_lab.audit import Verdict


def verdict_of(log: Log, **options: Any) -> Verdict:
    """Return the verdict ten seconds later."""
    log.wait(10.0)
    fields: dict[str, Any] = {"status_seconds": None} | options
    return check(log.history(), Options(**fields))


@pytest.mark.parametrize(
    ("rule", "make", "text"),
    [(rule, make, text) for rule, makes in BROKEN.items() for make, text in makes.items()],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_a_broken_rule_is_reported(rule: int, make: Callable[[], Log], text: str) -> None:
    """Each log breaks its rule; the report names the objects and says what is wrong."""
    verdict = verdict_of(make(), schedulers=frozenset({"batch"}))
    found = [one for one in verdict.violations if one.rule == rule]
    assert any(text in one.text for one in found), [str(one) for one in verdict.violations]
    assert all(one.objects[0] and str(one).startswith(f"rule {rule} at ") for one in found)
    assert not verdict.ok


@pytest.mark.parametrize("make", CLEAN, ids=lambda make: make.__name__)
def test_a_clean_log_passes(make: Callable[[], Log]) -> None:
    """A log that keeps the rules has no violation."""
    verdict = verdict_of(make(), schedulers=frozenset({"batch"}))
    assert verdict.ok, [str(one) for one in verdict.violations]
    assert verdict.judged.total() > 0


def test_the_last_decision_about_a_pod_counts() -> None:
    """An eviction that failed and was decided again for another job belongs to that job."""
    log = situation()
    log.job("low", "a", 1, node="n1")
    failed = {"type": "DisruptionTarget", "status": "True", "message": "action=preempt by=team/first"}
    log.update("Pod", "low-0", status={"conditions": [failed]})
    log.evict("low-0", action="reclaim", by="second")
    (record,) = log.history().eviction_records().values()
    assert (record.action, record.by) == ("reclaim", "team/second")


def test_a_condition_that_was_taken_off_is_no_eviction() -> None:
    """A pod that is deleted long after a failed eviction was not evicted."""
    log = situation()
    log.job("low", "a", 1, node="n1")
    failed = {"type": "DisruptionTarget", "status": "True", "message": "action=preempt by=team/first"}
    log.update("Pod", "low-0", status={"conditions": [failed]})
    log.update("Pod", "low-0", status={"conditions": []})
    log.delete("Pod", "low-0")
    assert not log.history().eviction_records()


def test_evictions_may_break_gangs_if_the_tiers_say_so() -> None:
    """The gang whose member was evicted is no violation then; a gang that was bound in part still is."""
    log = situation()
    log.job("victim", "a", 3, node="n1")
    log.job("k", "b", 1)
    log.evict("victim-0", action="reclaim", by="k")
    log.bind("k-0")
    log.job("half", "a", 3)
    log.bind("half-0")
    found = [one.objects for one in verdict_of(log, breaks_gangs=True).violations if one.rule == 1]
    assert found == [("team/half",)]
    found = [one.objects for one in verdict_of(log).violations if one.rule == 1]
    assert sorted(found) == [("team/half",), ("team/victim",)]


def test_a_status_of_another_shape_is_no_reason() -> None:
    """Other programs may write anything where the definition of the kind allows it."""
    log = situation()
    log.job("k", "b", 1)
    for odd in ("oops", [1, {"type": "Unschedulable", "reasons": "oops"}], {"a": 1}):
        log.update("PodGroup", "k", status={"schedulingConditions": odd})
    assert not verdict_of(log).rules[1]


def test_pods_on_deleted_nodes_hold_nothing() -> None:
    """They do not count against a limit until their node is there again."""
    log = situation(limit=2)
    log.node("n2")
    log.job("old", "a", 2, node="n2")
    log.delete("Node", "n2")
    log.job("new", "a", 2)
    log.bind("new-0", "new-1")
    assert verdict_of(log).rules[2] == 0
    log.node("n2")
    log.job("third", "a", 1)
    log.bind("third-0")
    assert verdict_of(log).rules[2] == 1


# --- rule 9: status -------------------------------------------------------------------------------


def status_log(written: float, pods: int = 2) -> Log:
    """Bind pods of one GPU each, and write a number of GPUs into the status of their queue."""
    log = situation()
    log.job("j", "a", pods)
    log.bind(*(f"j-{index}" for index in range(pods)))
    amounts = {"cpu": str(pods), "memory": f"{pods}Gi", GPU: str(written)}
    log.update("Queue", "a", status={"allocated": amounts, "requested": amounts})
    log.wait(60.0)
    return log


@pytest.mark.parametrize("written", [0, 1, 3])
def test_a_wrong_queue_status_is_reported(written: float) -> None:
    """A status that differs from the pods is a violation of rule 9, once per field."""
    verdict = verdict_of(status_log(written), status_seconds=10.0)
    assert {one.rule for one in verdict.violations} == {9}
    assert f"allocated says {written:g} of nvidia.com/gpu, and the pods have 2" in verdict.violations[0].text
    assert len(verdict.violations) == 2


def test_a_late_queue_status_is_reported() -> None:
    """A status that was right must follow when a pod ends."""
    log = status_log(2)
    log.delete("Pod", "j-1")
    log.wait(5.0)
    assert verdict_of(log, status_seconds=30.0).ok
    log.wait(60.0)
    assert {one.rule for one in verdict_of(log, status_seconds=30.0).violations} >= {9}


def test_a_right_queue_status_passes() -> None:
    """A status that equals the pods passes; a terminating pod may count or not."""
    log = status_log(2)
    assert verdict_of(log, status_seconds=10.0).judged[9] == 2
    log.evict("j-1", action="stalegangeviction", gone=False)
    log.wait(60.0)
    assert 9 not in verdict_of(log, status_seconds=10.0).rules


def test_a_missing_status_is_reported() -> None:
    """A queue with bound pods and no status is reported; Volcano's status has only the allocated amounts."""
    log = Log()
    log.node("n1")
    log.create(VOLCANO, "Queue", "v", spec={})
    log.create(VOLCANO, "PodGroup", "j", spec={"queue": "v", "minMember": 1})
    log.pod("j-0", "", annotations={"scheduling.k8s.io/group-name": "j"})
    log.bind("j-0")
    log.wait(60.0)
    assert verdict_of(log, status_seconds=10.0).rules == {9: 1}


# --- bad objects ----------------------------------------------------------------------------------


def test_absurd_objects_do_not_end_a_check() -> None:
    """Fields of a wrong type count as unset; the rest of the log is still judged."""
    log = situation()
    absurd = {"quota": "much", "limit": -7, "overQuotaWeight": "1e400x"}
    log.create(
        KAI_QUEUES, "Queue", "bad", spec={"resources": {"gpu": absurd}, "priority": "high", "parentQueue": "bad"}
    )
    log.create(VOLCANO, "PodGroup", "odd", spec={"minMember": None, "minTaskMember": {"x": "y"}, "queue": 3})
    log.job("j", "a", 3)
    log.bind("j-0")
    verdict = verdict_of(log)
    assert {one.rule for one in verdict.violations} == {1}
