"""The rules for a failed attempt: which pods return to the queue, with which plugins, event and condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyscheduler.framework import Code, NodeStatuses, PodInfo, QueuedPodInfo, Status
from pyscheduler.framework.diagnosis import Diagnosis, FitError, NoNodesError
from pyscheduler.framework.group_cycle import PodGroupUnschedulableError
from pyscheduler.scheduler.failure import PodState, plan_failure
from pyscheduler.testing import make_pod
from tests.malformed import bad_pod

if TYPE_CHECKING:
    from pyscheduler.api import Pod

POD = make_pod("p", uid="one", requests={"cpu": "1"})


def queued(pod: Pod = POD) -> QueuedPodInfo:
    """Return a popped pod."""
    return QueuedPodInfo(pod_info=PodInfo.of(pod), enqueued_at=0.0)


def fit_error() -> Status:
    """Return the rejection of a pod by A, and by B, which waits for an event of its own."""
    diagnosis = Diagnosis(node_statuses=NodeStatuses(1))
    diagnosis.add_plugin_status(Status(Code.UNSCHEDULABLE, "no", plugin="A"))
    diagnosis.add_plugin_status(Status(Code.PENDING, "not yet", plugin="B"))
    return Status(Code.UNSCHEDULABLE, error=FitError(num_all_nodes=1, diagnosis=diagnosis))


@pytest.mark.parametrize(
    ("newest", "state", "has_event"),
    [
        pytest.param(POD, PodState.PENDING, True, id="pending"),
        pytest.param(None, PodState.DELETED, True, id="deleted"),
        pytest.param(make_pod("p", uid="one", node_name="n"), PodState.BOUND, True, id="bound"),
        pytest.param(make_pod("p", uid="two"), PodState.RECREATED, False, id="recreated"),
        pytest.param(make_pod("p", uid="two", node_name="n"), PodState.BOUND, True, id="recreated and bound"),
    ],
)
def test_only_a_pending_pod_is_retried(newest: Pod | None, state: PodState, has_event: bool) -> None:
    """A bound or deleted pod gets its event; nothing is written about a pod that another one has replaced."""
    plan = plan_failure(queued(), fit_error(), newest)
    assert (plan.state, plan.event_on is not None) == (state, has_event)


@pytest.mark.parametrize(
    ("status", "plugins", "pending", "reason"),
    [
        pytest.param(fit_error(), {"A", "B"}, {"B"}, "Unschedulable", id="a rejection names its plugins"),
        pytest.param(
            Status(Code.UNSCHEDULABLE, error=PodGroupUnschedulableError({"A"})),
            {"A"},
            set(),
            "Unschedulable",
            id="a group names its rejectors",
        ),
        pytest.param(
            Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, error=NoNodesError()),
            set(),
            set(),
            "Unschedulable",
            id="without nodes no plugin was asked",
        ),
        pytest.param(Status(Code.ERROR, "broken", plugin="A"), set(), set(), "SchedulerError", id="an error"),
    ],
)
def test_the_next_attempt_depends_on_the_plugins_that_rejected_the_pod(
    status: Status, plugins: set[str], pending: set[str], reason: str
) -> None:
    """Their hints decide; after an error no plugin is named, so the pod is retried after its backoff."""
    plan = plan_failure(queued(), status, POD)
    assert plan.unschedulable_plugins | plan.pending_plugins == plugins
    assert plan.pending_plugins == pending
    assert plan.reason == reason


def test_the_newest_version_returns_to_the_queue() -> None:
    """The facts are computed again if the pod changed, and reused if it did not."""
    pod = queued()
    assert plan_failure(pod, fit_error(), POD).info is pod.pod_info
    newer = make_pod("p", uid="one", requests={"cpu": "2"}, resource_version="2")
    plan = plan_failure(pod, fit_error(), newer)
    assert (plan.info.pod, plan.info.requests.milli_cpu, plan.event_on) == (newer, 2000, newer)


def test_an_unreadable_version_returns_as_it_was() -> None:
    """A pod whose newest version cannot be read is retried with its last readable version."""
    broken = bad_pod("p", {"cpu": "a lot"}, uid="one", resource_version="2")
    pod = queued()
    plan = plan_failure(pod, fit_error(), broken)
    assert plan.info is pod.pod_info
    assert "a lot" in str(plan.unreadable)
