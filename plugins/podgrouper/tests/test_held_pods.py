"""Pods that wait: whatever happens to their namespace, their group or themselves, they are not forgotten."""

from __future__ import annotations

import pytest

from plugins.podgrouper.tests.conftest import GrouperCluster
from plugins.podgrouper.tests.test_plugin import PYTORCH, pytorch, worker
from plugins.podgrouper.tests.workloads import Json
from pyscheduler.api import Namespace
from pyscheduler_kai.objects import KAI_QUEUES
from pyscheduler_podgrouper.kinds import PODGROUPS

SELECTED = "{namespaceLabelSelector: {team: x}}"
NOWHERE = {"nodeSelector": {"no": "node"}}


def label_namespace(grouper: GrouperCluster, team: str | None) -> None:
    """Change the label of the namespace."""
    grouper.cluster.patch(Namespace, "ml", {"metadata": {"labels": {"team": team}}})


def lost_job(grouper: GrouperCluster) -> Json:
    """Return an owner that does not exist: its pods cannot be grouped."""
    grouper.serve(PYTORCH)
    job = grouper.add(pytorch())
    grouper.cluster.delete(PYTORCH.type, "train", namespace="ml")
    return job


async def test_pod_is_scheduled_once_its_namespace_is_not_selected_any_more(grouper: GrouperCluster) -> None:
    """A pod that waited for its group is then none of the plugin's pods."""
    grouper.cluster.add_node("n1")
    grouper.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": {"team": "x"}}})
    await grouper.start(SELECTED)
    grouper.pod("lost", lost_job(grouper), labels=worker(0))
    await grouper.pass_time(2.0)
    assert grouper.cluster.pod("lost", namespace="ml").node_name == ""
    label_namespace(grouper, None)
    await grouper.pass_time(2.0)
    assert grouper.cluster.pod("lost", namespace="ml").node_name == "n1"


async def test_waiting_pods_are_grouped_once_their_namespace_is_selected(grouper: GrouperCluster) -> None:
    """Nothing about the pods themselves has to change."""
    await grouper.start(SELECTED)
    grouper.pod("p", spec=NOWHERE)
    await grouper.pass_time()
    assert grouper.groups() == {}
    label_namespace(grouper, "x")
    await grouper.pass_time()
    assert grouper.membership("p")[0] in grouper.groups()


async def test_group_that_waiting_pods_need_is_made_again(grouper: GrouperCluster) -> None:
    """Somebody deletes the group of a pod that waits for a node; no event of the pod follows."""
    grouper.serve(KAI_QUEUES)
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"gpu": free, "cpu": free, "memory": free}}
    grouper.add(
        {"apiVersion": KAI_QUEUES.type.api_version, "kind": "Queue", "metadata": {"name": "vision"}, "spec": spec}
    )
    await grouper.start(plugins="{name: PodGrouper}, {name: Batch}", batch=True)
    grouper.pod("p", labels={"kai.scheduler/queue": "vision"})
    await grouper.pass_time(1.0)
    (name,) = grouper.groups()
    grouper.cluster.delete(PODGROUPS.type, name, namespace="ml")
    await grouper.pass_time(1.0)
    assert list(grouper.groups()) == [name]
    grouper.cluster.add_node("n1")
    await grouper.pass_time(60.0)
    assert grouper.cluster.pod("p", namespace="ml").node_name == "n1"


async def test_deleted_pods_do_not_count_as_failing(grouper: GrouperCluster) -> None:
    """A pod that is deleted while its owner is read leaves nothing behind."""
    scheduler = await grouper.start()
    grouper.fault("GET", r"/pytorchjobs/train", delay_seconds=5.0)
    grouper.pod("w0", lost_job(grouper), labels=worker(0))
    await grouper.pass_time(0.2)
    grouper.cluster.delete_pod("w0", namespace="ml")
    await grouper.pass_time(10.0)
    assert scheduler.metric("podgrouper_failing_pods") == 0
    assert grouper.warnings() == []


@pytest.mark.slow
@pytest.mark.parametrize("change", ["annotations", "labels"])
async def test_updates_of_unschedulable_members_do_not_bypass_their_backoff(
    grouper: GrouperCluster, change: str
) -> None:
    """Only the update that opens the gate of a pod makes the queue try it at once."""
    scheduler = await grouper.start()
    uid = grouper.pod("p", annotations={"pod-group-name": "users"}, spec=NOWHERE)["metadata"]["uid"]
    grouper.cluster.add_node("n1")
    await grouper.pass_time(2.0)
    waiting = scheduler.scheduler.queue.get(uid)
    assert waiting is not None
    before = waiting.attempts
    for number in range(5):
        grouper.patch_pod("p", {"metadata": {change: {"x": str(number)}}})
        await grouper.pass_time(0.1)
    assert scheduler.scheduler.queue.get(uid) is waiting
    assert 0 < waiting.attempts == before
