"""The stand-in: a pod that uses what is not implemented yet waits, and the message says for which plugin."""

from __future__ import annotations

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import Code, CycleState
from pyscheduler.plugins.missing import GangScheduling
from pyscheduler.testing import make_pod

MEMBER = make_pod("p", spec={"schedulingGroup": {"podGroupName": "g"}})
OTHERS = [
    pytest.param(make_pod("p"), id="nothing"),
    pytest.param(
        make_pod("p", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}), id="claim"
    ),
    pytest.param(make_pod("p", spec={"affinity": {"nodeAffinity": {}}}), id="node affinity"),
]


def test_a_member_of_a_group_is_rejected() -> None:
    """The plugin that would decide rejects, names itself, and cannot be helped by preemption."""
    status = GangScheduling().pre_filter(CycleState(), MEMBER, [])
    assert status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == (
        "pod uses spec.schedulingGroup, which plugin GangScheduling would decide; it is not implemented yet"
    )


@pytest.mark.parametrize("pod", OTHERS)
def test_other_pods_are_skipped(pod: Pod) -> None:
    """A pod that does not use the field is left to the plugins that exist."""
    assert GangScheduling().pre_filter(CycleState(), pod, []).is_skip
    assert GangScheduling().filter_nodes(CycleState(), pod, [None]) is None


def test_nothing_that_happens_helps() -> None:
    """A rejected pod is not tried again at every event, only when the queue is flushed."""
    assert list(GangScheduling().events_to_register()) == []


def test_without_pre_filter_the_nodes_are_refused() -> None:
    """A profile may disable PreFilter of the stand-in; the pod waits all the same."""
    statuses = GangScheduling().filter_nodes(CycleState(), MEMBER, [None, None])
    assert not statuses.passed().any()
