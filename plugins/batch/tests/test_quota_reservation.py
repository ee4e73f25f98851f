"""Jobs whose groups declare amounts wait until the quotas of their namespace have room for the whole job."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyscheduler.api import ResourceQuota
from pyscheduler_quota.claims import RESERVED

SCARCE = "insufficient quota for the whole group: compute lacks requests.cpu: needed 3, limit 4, used 2"
TIERS = "[{plugins: [{name: gang}, {name: resourcequota}]}, {plugins: [{name: predicates}, {name: proportion}]}]"


@pytest.fixture(params=["volcano", "kube-batch"])
def batch(request: pytest.FixtureRequest) -> Any:
    """Return a cluster of a system whose groups declare amounts."""
    found = request.getfixturevalue(request.param.replace("-", "_"))
    found.nodes(1, cpu="8")
    found.queue("default")
    return found


def add_quota(batch: Any, hard: str, used: str) -> None:
    """Create the quota of the namespace."""
    status = {"hard": {"requests.cpu": hard}, "used": {"requests.cpu": used}}
    metadata = {"name": "compute", "namespace": "default"}
    batch.cluster.add(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "status": status}, ResourceQuota
    )


def use(batch: Any, used: str) -> None:
    """Change how much of the quota is used."""
    batch.cluster.patch(ResourceQuota, "compute", {"status": {"used": {"requests.cpu": used}}}, status=True)


def reserved(batch: Any, name: str) -> Any:
    """Return what the annotation of a group holds; None without it."""
    text = batch.raw(batch.group_kind, name)["metadata"].get("annotations", {}).get(RESERVED)
    return None if text is None else json.loads(text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("field", ["minResources", "totalResources"])
async def test_job_waits_for_quota_and_starts_when_there_is_room(batch: Any, field: str) -> None:
    """Its pods say why they wait; the group's annotation has the reservation."""
    add_quota(batch, "4", "2")
    await batch.start()
    batch.group("one", "default", 2, **{field: {"cpu": "5"}})
    batch.pods("one", 2)
    batch.job("other", "default", 1)
    await batch.pass_time()
    assert (batch.nodes_of("one"), batch.nodes_of("other")) == (["", ""], ["n0"])
    (message,) = {
        condition.message
        for pod in batch.cluster.pods()
        if pod.name.startswith("one-")
        for condition in pod.status.conditions
    }
    assert message.endswith(f"WaitingForQuota: {SCARCE}")
    assert batch.events("one") == [("Warning", "Unschedulable", SCARCE)]
    assert batch.condition("one", "Unschedulable")["reason"] == "WaitingForQuota"
    use(batch, "1")
    await batch.pass_time()
    assert batch.nodes_of("one") == ["n0", "n0"]
    assert reserved(batch, "one") == {"cpu": "5", "pods": "2"}


async def test_group_without_pods_is_not_enqueued_before_its_quota_is_reserved(volcano: Any) -> None:
    """Volcano's controllers create pods once the phase is Inqueue, so the gang is complete when it begins."""
    volcano.nodes(1, cpu="8")
    volcano.queue("default")
    add_quota(volcano, "4", "2")
    await volcano.start("actions: 'enqueue, allocate'")
    volcano.group("one", "default", 2, minResources={"cpu": "3"})
    volcano.group("small", "default", 1, minResources={"cpu": "1"})
    await volcano.pass_time()
    assert volcano.group_status("one").get("phase", "Pending") == "Pending"
    assert volcano.group_status("small")["phase"] == "Inqueue"
    assert (reserved(volcano, "one"), reserved(volcano, "small")) == (None, {"cpu": "1", "pods": "1"})
    use(volcano, "0")
    await volcano.pass_time()
    assert volcano.group_status("one")["phase"] == "Inqueue"


@pytest.mark.parametrize("args", ["quotaReservation: none", f"actions: 'enqueue, allocate', tiers: {TIERS}"])
async def test_none_and_the_policy_of_volcano_leave_groups_alone(volcano: Any, args: str) -> None:
    """With `resourcequota`, Volcano's own rule counts: only resources that are named as in the quota."""
    volcano.nodes(1, cpu="8")
    volcano.queue("default")
    add_quota(volcano, "4", "4")
    await volcano.start(args)
    volcano.group("one", "default", 2, minResources={"cpu": "3"})
    volcano.pods("one", 2)
    await volcano.pass_time()
    assert volcano.nodes_of("one") == ["n0", "n0"]
    assert reserved(volcano, "one") is None
