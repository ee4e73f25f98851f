"""The reasons of `Status.wait` are shown while the pod waits: in its condition, in an event, and by `explain`."""

from __future__ import annotations

import pytest

from pyscheduler.api import Pod
from pyscheduler.cli.explain_json import explain_json
from pyscheduler.cli.explanation import Answer, explanation_of
from pyscheduler.framework import CycleState, PermitPlugin, Status
from pyscheduler.scheduler.evaluation import evaluate
from pyscheduler.testing import FakeCluster


class Patient(PermitPlugin):
    """Holds pods for the reason in their label."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if "why" not in pod.labels or state.trial is not None:
            return None
        return Status.wait(*filter(None, [pod.labels["why"]]), timeout=float(pod.labels.get("seconds", "60")))


class Other(Patient):
    """Does the same, with a reason of its own."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait("other", timeout=60) if "two" in pod.labels else None


@pytest.fixture(name="cluster")
def _cluster(cluster: FakeCluster) -> FakeCluster:
    """Give a cluster of one node."""
    cluster.add_node("n1")
    return cluster


def condition(cluster: FakeCluster, name: str) -> tuple[str, str, str] | None:
    """Return status, reason and message of the pod's PodScheduled condition."""
    found = [each for each in cluster.pod(name).status.conditions if each.type == "PodScheduled"]
    return (found[0].status, found[0].reason, found[0].message) if found else None


@pytest.mark.parametrize("gates", ["", "NominatedNodeNameForExpectation=false"])
async def test_reason_is_shown_while_the_pod_waits(cluster: FakeCluster, gates: str) -> None:
    """After half a second at Permit, condition and event have the reason; the binding replaces the condition."""
    framework = cluster.framework(enable=[Patient], feature_gates=gates)
    pod = (await framework.schedule("p", labels={"why": "licence"})).pod
    assert condition(cluster, "p") is None
    await cluster.clock.advance(5)
    assert condition(cluster, "p") == ("False", "WaitingOnPermit", "licence")
    assert cluster.pod("p").status.nominated_node_name == ("" if gates else "n1")
    assert framework.result("p").message == "licence"
    (event,) = cluster.events("WaitingOnPermit")
    assert event["note"] == "Waiting with a reserved place on n1: licence"
    assert event["type"] == "Normal"
    found = await evaluate(framework.scheduler, framework.profile, cluster.pod("p"))
    explanation = explanation_of(found, "a file", [found.profile.name])
    answer = explain_json(Answer(pod=found.pod.key, evaluation=found, explanation=explanation))
    assert answer["permit"] == {"code": "Wait", "message": "licence"}
    assert (answer["reason"], answer["contradicts"]) == ("WaitingOnPermit", False)

    waiting = framework.profile.handle.get_waiting_pod(pod.uid)
    assert waiting is not None
    waiting.allow("Patient")
    await cluster.clock.advance(5)
    assert framework.result("p").bound
    bound = condition(cluster, "p")
    assert bound is not None
    assert bound[0] == "True"


async def test_rejection_replaces_the_reason_of_the_wait(cluster: FakeCluster) -> None:
    """When the wait times out, the condition says so."""
    framework = cluster.framework(enable=[Patient])
    await framework.schedule("p", labels={"why": "licence", "seconds": "3"})
    await cluster.clock.advance(2)
    assert condition(cluster, "p") == ("False", "WaitingOnPermit", "licence")
    await cluster.clock.advance(1)
    now = condition(cluster, "p")
    assert now is not None
    assert now[1] == "Unschedulable"
    assert "rejected due to timeout after waiting 3s at plugin Patient" in now[2]


async def test_short_and_silent_waits_write_no_condition(cluster: FakeCluster) -> None:
    """A wait of less than half a second, or without a reason, costs no condition and no event."""
    framework = cluster.framework(enable=[Patient])
    short = (await framework.schedule("short", labels={"why": "licence"})).pod
    await framework.schedule("silent", labels={"why": ""})
    await cluster.clock.advance(0.25)
    framework.profile.handle.get_waiting_pod(short.uid).allow("Patient")  # type: ignore[union-attr] # it waits
    await cluster.clock.advance(5)
    assert framework.result("silent").state == "waiting"
    assert condition(cluster, "silent") is None
    assert not cluster.events("WaitingOnPermit")


async def test_reasons_of_all_plugins_are_shown(cluster: FakeCluster) -> None:
    """If several plugins hold a pod, the reasons of all are shown, in profile order."""
    framework = cluster.framework(enable=[Patient, Other])
    await framework.schedule("p", labels={"why": "licence", "two": ""})
    await cluster.clock.advance(1)
    assert condition(cluster, "p") == ("False", "WaitingOnPermit", "licence, other")
