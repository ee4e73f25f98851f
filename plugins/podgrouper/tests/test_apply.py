"""From a planned group to the object: the body of a new one, and the patch of one that exists."""

from __future__ import annotations

import copy
from typing import Any

import attrs
import pytest

from pyscheduler.api import OwnerReference
from pyscheduler_podgrouper.apply import group_body, group_patch
from pyscheduler_podgrouper.contract import GroupPlan, Owner, Settings, SubGroupPlan, TopologyPlan

OWNER = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="u")
PLAN = GroupPlan(
    name="g",
    namespace="ml",
    owner=OWNER,
    labels={"kai.scheduler/queue": "q", "team": "x"},
    annotations={"a": "1"},
    queue="q",
    priority_class_name="train",
    min_member=3,
    topology=TopologyPlan(topology="dc", required="rack"),
    sub_groups=(
        SubGroupPlan(name="p", min_member=0),
        SubGroupPlan(name="w", min_member=3, parent="p", topology=TopologyPlan(topology="dc", preferred="rack")),
    ),
)
SETTINGS = Settings()


def existing(body: dict[str, Any] | None = None, **changes: Any) -> Owner:
    """Return the group of `PLAN` as it is in the cluster, with some fields of `Owner` changed."""
    body = body or group_body(PLAN)
    metadata = body["metadata"]
    return attrs.evolve(
        Owner(
            api_version=body["apiVersion"],
            kind=body["kind"],
            name="g",
            namespace="ml",
            labels=metadata["labels"],
            annotations=metadata["annotations"],
            owner_references=(OWNER,),
            body={"spec": body["spec"]},
        ),
        **changes,
    )


def merged(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return an object after a JSON merge patch."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key) or {}, value)
        else:
            result[key] = value
    return result


def test_the_body_of_a_new_group() -> None:
    """Empty fields and minima of 0 are not written, because the definition of PodGroups refuses a minimum of 0."""
    body = group_body(PLAN)
    assert body["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"},
    ]
    assert body["spec"] == {
        "minMember": 3,
        "queue": "q",
        "priorityClassName": "train",
        "topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "rack"},
        "subGroups": [
            {"name": "p"},
            {
                "name": "w",
                "minMember": 3,
                "parent": "p",
                "topologyConstraint": {"topology": "dc", "preferredTopologyLevel": "rack"},
            },
        ],
    }
    assert "minMember" not in group_body(attrs.evolve(PLAN, min_member=0))["spec"]


def test_a_group_that_is_as_planned_is_not_written() -> None:
    """Empty fields of the stored object count as missing."""
    assert group_patch(PLAN, existing(), SETTINGS) == {}
    body = group_body(PLAN)
    body["spec"] |= {"preemptibility": "", "markUnschedulable": False}
    body["spec"]["subGroups"][0] |= {"minMember": 0}
    body["spec"]["topologyConstraint"]["preferredTopologyLevel"] = ""
    assert group_patch(PLAN, existing(body), SETTINGS) == {}


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"min_member": 5}, id="minimum"),
        pytest.param({"priority_class_name": "build"}, id="priority"),
        pytest.param({"preemptibility": "preemptible"}, id="preemptibility"),
        pytest.param({"sub_groups": ()}, id="no sub-groups"),
        pytest.param({"sub_groups": PLAN.sub_groups[::-1]}, id="order of sub-groups"),
        pytest.param({"topology": TopologyPlan(topology="dc", preferred="block")}, id="topology"),
        pytest.param({"topology": TopologyPlan()}, id="no topology"),
        pytest.param({"labels": {**PLAN.labels, "team": "y"}}, id="label"),
        pytest.param({"annotations": {"b": "2"}}, id="annotation"),
        pytest.param({"owner": OwnerReference(api_version="v1", kind="Pod", name="p", uid="v")}, id="owner"),
    ],
)
def test_a_change_of_the_workload_reaches_the_group(changed: dict[str, Any]) -> None:
    """The patch makes the object as planned, and a second patch is empty. Labels that are not planned stay."""
    plan = attrs.evolve(PLAN, **changed)
    before = group_body(PLAN)
    before["metadata"]["labels"] = {**before["metadata"]["labels"], "mine": "x"}
    patch = group_patch(plan, existing(before), SETTINGS)
    after = merged(before, patch)
    assert {key: value for key, value in after["spec"].items() if value} == group_body(plan)["spec"]
    assert after["metadata"]["labels"] == {"mine": "x", **plan.labels}
    assert after["metadata"]["annotations"] == {**PLAN.annotations, **plan.annotations}
    again = existing(after, owner_references=(plan.owner,))
    assert group_patch(plan, again, SETTINGS) == {}


@pytest.mark.parametrize("pool", [pytest.param("a100", id="a pool"), pytest.param(None, id="no pool")])
def test_queue_and_node_pool_stay_as_they_are(pool: str | None) -> None:
    """Others may move a group to another queue or pool; backoff and marking are left alone, too."""
    body = group_body(PLAN)
    body["spec"] |= {"queue": "old", "markUnschedulable": False, "schedulingBackoff": 1, "minMember": 1}
    body["metadata"]["labels"] = {
        "kai.scheduler/queue": "old",
        "team": "x",
        **({"kai.scheduler/node-pool": pool} if pool else {}),
    }
    wanted = {**PLAN.labels, "kai.scheduler/node-pool": "h100"}
    patch = group_patch(attrs.evolve(PLAN, labels=wanted), existing(body), SETTINGS)
    assert patch == {"spec": {"minMember": 3}}


def test_a_group_without_a_queue_gets_one() -> None:
    """There is nothing to keep; without the label of a queue the planned one is added."""
    body = copy.deepcopy(group_body(PLAN))
    del body["spec"]["queue"], body["metadata"]["labels"]["kai.scheduler/queue"]
    patch = group_patch(PLAN, existing(body), SETTINGS)
    assert patch == {"metadata": {"labels": {"kai.scheduler/queue": "q"}}, "spec": {"queue": "q"}}
