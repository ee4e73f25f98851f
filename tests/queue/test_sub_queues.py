"""Gates: PreEnqueue before activeQ and backoffQ, what opens a gate, and what a gated pod costs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from pyscheduler.api import PodSchedulingGate
from pyscheduler.framework import ActionType, ClusterEvent, Code, EventResource, QueueingHint, Status
from pyscheduler.queue.sub_queues import QueuePlace

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.api import Pod
    from tests.queue.conftest import Kit

NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
PV_ADD = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.ADD)
GATES_GONE = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)


@pytest.fixture
def gated(make_kit: Callable[..., Kit]) -> Kit:
    """Make a queue in which G may gate pods until a node comes, H until a volume does, and A rejects for nodes."""
    return make_kit(
        hints={NODE_ADD: [("A", None), ("G", None)], PV_ADD: [("H", None)], GATES_GONE: [("SchedulingGates", None)]},
        gating_events={"G": [NODE_ADD], "H": [PV_ADD], "SchedulingGates": [GATES_GONE]},
    )


def test_a_pod_that_pre_enqueue_rejects_is_gated(gated: Kit) -> None:
    """It waits among the unschedulable pods under its plugin's name, and was never ready."""
    gated.shut["p"] = "G"
    gated.add()
    info = gated.get()
    assert gated.place() is QueuePlace.UNSCHEDULABLE
    assert (info.gating_plugin, info.gating_plugin_events) == ("G", (NODE_ADD,))
    assert info.unschedulable_plugins == {"G"}
    assert info.first_attempt_at is None
    assert gated.recorder.incoming == {("unschedulable", "UnschedulablePodAdd"): 1}
    assert gated.queue.sub_queues.rejections == {("G", gated.PROFILE): 1}


@pytest.mark.parametrize(
    ("event", "runs"),
    [
        pytest.param(NODE_ADD, 2, id="an event that the gating plugin registered"),
        pytest.param(PV_ADD, 1, id="an event that others registered"),
        pytest.param(ClusterEvent(EventResource.CSI_NODE, ActionType.ADD), 1, id="an event that nobody registered"),
    ],
)
def test_only_events_of_the_gate_run_pre_enqueue(gated: Kit, event: ClusterEvent, runs: int) -> None:
    """Ten thousand gated pods cost nothing at events that cannot open their gate."""
    gated.shut["p"] = "G"
    gated.add()
    gated.queue.move_all(event, None, None)
    assert gated.pre_enqueue_runs["p"] == runs
    assert gated.place() is QueuePlace.UNSCHEDULABLE


def test_the_hint_of_the_gating_plugin_is_asked_first(make_kit: Callable[..., Kit]) -> None:
    """A hint that says skip spares PreEnqueue."""

    def only_big(pod: Pod, old: object, new: object) -> QueueingHint:
        return QueueingHint.QUEUE if new == "big" else QueueingHint.SKIP

    kit = make_kit(hints={NODE_ADD: [("G", only_big)]}, gating_events={"G": [NODE_ADD]})
    kit.shut["p"] = "G"
    kit.add()
    kit.queue.move_all(NODE_ADD, None, "small")
    assert kit.pre_enqueue_runs["p"] == 1
    kit.queue.move_all(NODE_ADD, None, "big")
    assert kit.pre_enqueue_runs["p"] == 2


def test_a_pod_can_be_gated_by_one_plugin_after_another(gated: Kit) -> None:
    """Only the events of the plugin that holds it now count; both are known to have refused it."""
    gated.shut["p"] = "G"
    gated.add()
    gated.shut["p"] = "H"
    gated.queue.move_all(NODE_ADD, None, None)
    assert gated.get().gating_plugin == "H"
    assert gated.queue.sub_queues.rejections == {("G", gated.PROFILE): 1, ("H", gated.PROFILE): 1}
    gated.queue.move_all(NODE_ADD, None, None)
    assert gated.pre_enqueue_runs["p"] == 2
    del gated.shut["p"]
    gated.queue.move_all(PV_ADD, None, None)
    assert gated.place() is QueuePlace.ACTIVE


def test_an_update_that_removes_the_last_gate_lets_the_pod_in(gated: Kit) -> None:
    """The update becomes the event that SchedulingGates registered; one that leaves a gate does not."""
    gated.shut["p"] = "SchedulingGates"
    both, one, none = (
        gated.pod(scheduling_gates=tuple(PodSchedulingGate(name=name) for name in names)) for names in ("ab", "a", "")
    )
    gated.queue.add(gated.info(both))
    gated.update(both, one)
    assert gated.pre_enqueue_runs["p"] == 1
    assert gated.get().pod is one
    del gated.shut["p"]
    gated.update(one, none)
    assert gated.place() is QueuePlace.ACTIVE
    assert gated.recorder.incoming["active", "UnschedulablePodUpdatePodSchedulingGatesEliminated"] == 1


def test_a_gated_pod_is_nominated_once_it_is_ready(gated: Kit) -> None:
    """A nomination in the status of a pod that cannot be scheduled yet holds no room."""
    gated.shut["p"] = "SchedulingGates"
    gate = (PodSchedulingGate(name="g"),)
    before, after = gated.pod(nominated="n1", scheduling_gates=gate), gated.pod(nominated="n1")
    gated.queue.add(gated.info(before))
    assert not gated.nominator.nodes
    del gated.shut["p"]
    gated.update(before, after)
    assert gated.nominator.node_of("uid-p") == "n1"


def test_gating_leaves_the_set_of_the_diagnosis_alone(gated: Kit) -> None:
    """The failure handler lends its set of plugins to the queue; it is not the queue's to change."""
    gated.add()
    info = gated.pop()
    diagnosis = {"A"}
    info.unschedulable_plugins = diagnosis
    gated.queue.move_all(NODE_ADD, None, None)
    gated.shut["p"] = "G"
    gated.queue.requeue_failed(info)
    assert info.unschedulable_plugins == {"A", "G"}
    assert diagnosis == {"A"}


def test_a_pre_enqueue_that_errs_gates_and_is_reported(
    make_kit: Callable[..., Kit], caplog: pytest.LogCaptureFixture
) -> None:
    """An error holds the pod back like a refusal, and is logged."""
    error = Status(Code.ERROR, "no connection", plugin="G")
    kit = make_kit(pre_enqueue={make_kit().PROFILE: lambda _: error})
    with caplog.at_level(logging.ERROR):
        kit.add()
    assert kit.get().gating_plugin == "G"
    assert "plugin=G pod=default/p err=no connection" in caplog.text


def test_a_status_of_success_passes(make_kit: Callable[..., Kit]) -> None:
    """Success may be None or a status that says so."""
    kit = make_kit(pre_enqueue={make_kit().PROFILE: lambda _: Status(Code.SUCCESS)})
    kit.add()
    assert kit.place() is QueuePlace.ACTIVE


def test_moves_are_logged_at_debug_level(gated: Kit, caplog: pytest.LogCaptureFixture) -> None:
    """At debug level each move says why, in kube-scheduler's words."""
    with caplog.at_level(logging.DEBUG):
        gated.add()
    message = "Pod moved to an internal scheduling queue pod=default/p event=UnschedulablePodAdd queue=active"
    assert message in caplog.text
