"""`pyscheduler explain` of a member of a pod group has the steps of its group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.testing import node_manifest, pod_manifest
from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]
Object = dict[str, Any]

#: By configuration: the labels and annotations, and the spec, by which a pod names the group `g`; its object.
DIALECTS: dict[str, tuple[Object, Object, Object]] = {
    "coscheduling": (
        {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
        {},
        {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 3}},
    ),
    "gang": (
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
        {},
        {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 3}},
    ),
    "in-tree-gang": (
        {},
        {"schedulingGroup": {"podGroupName": "g"}},
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        },
    ),
}


def cluster(folder: Path, dialect: str, members: int, *, cpu: str = "3", status: Object | None = None) -> Path:
    """Write two nodes of four cores, a group of three, and some of its members; the first has the `status`."""
    metadata, spec, group = DIALECTS[dialect]
    name = yaml.safe_load((ROOT / f"configs/{dialect}.yaml").read_text())["profiles"][0]["schedulerName"]
    objects = [node_manifest(f"n{number}", allocatable={"cpu": "4", "pods": "9"}) for number in (1, 2)]
    objects.append({**group, "metadata": {"name": "g", "namespace": "default", "uid": "g"}})
    for number in range(members):
        own = status if not number else None
        pod = pod_manifest(f"g-{number}", requests={"cpu": cpu}, scheduler_name=name, status=own)
        pod["metadata"] |= metadata
        pod["spec"] |= spec
        objects.append(pod)
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return file


def explained(run: Run, file: Path, dialect: str) -> str:
    """Return the answer about the first member."""
    gates = ("--feature-gates", "GenericWorkload=true,GangScheduling=true") if dialect == "in-tree-gang" else ()
    config = ROOT / f"configs/{dialect}.yaml"
    code, out, err = run("explain", "g-0", "--objects", file, "--config", config, *gates)
    assert (code, err) == (0, "")
    return " ".join(out.split())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_gang_that_lacks_room_for_one_member_says_which(tmp_path: Path, run: Run, dialect: str) -> None:
    """The member itself fits; the step of its group names the member that does not, and counts the others."""
    text = explained(run, cluster(tmp_path, dialect, 3), dialect)
    assert "Verdict: waits: Unschedulable" in text
    assert "needs 3 members, and 3 exist" in text
    assert "2 of 3 members without a node fit at the same time; 3 must; default/g-2: 0/2 nodes" in text
    assert "Next: the group is tried again after an event that can make room" in text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_gang_that_lacks_a_member_counts_them(tmp_path: Path, run: Run, dialect: str) -> None:
    """Nothing is said about places, because the group is not tried."""
    text = explained(run, cluster(tmp_path, dialect, 2), dialect)
    assert "Verdict: waits: " in text
    assert "holds GroupIncomplete group default/g" in text
    assert "needs 3 members, but 2 exist: 0 bound, 0 with an intended node, 2 without a node" in text
    assert "at the same time" not in text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_gang_that_fits_has_no_step_that_holds(tmp_path: Path, run: Run, dialect: str) -> None:
    """The verdict is that of the member."""
    text = explained(run, cluster(tmp_path, dialect, 3, cpu="1"), dialect)
    assert "Verdict: fits" in text
    assert "3 of 3 members without a node fit at the same time" in text


def test_condition_of_a_waiting_member_agrees_with_the_steps_of_its_group(tmp_path: Path, run: Run) -> None:
    """A member at Permit waits for another member; the group says for which one."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "WaitingOnPermit", "message": "waits for 1 more"}
    file = cluster(tmp_path, "coscheduling", 3, status={"conditions": [condition], "nominatedNodeName": "n1"})
    text = explained(run, file, "coscheduling")
    assert "Verdict: waits: WaitingOnPermit" in text
    assert "permit holds WaitingOnPermit for n1: waits for 1 more" in text
    assert "default/g-2: 0/2 nodes" in text


def test_group_is_described_without_its_plugin(tmp_path: Path, run: Run) -> None:
    """Without the configuration, the plugin of the group is missing, and the steps say so; they hold nothing."""
    code, out, err = run("explain", "g-0", "--objects", cluster(tmp_path, "coscheduling", 2))
    text = " ".join(out.split())
    assert (code, "no profile has the schedulerName" in err) == (0, True)
    assert "the plugin Coscheduling for such groups is not in the pod's profile" in text
    assert "info - group default/g" in text


def test_member_with_another_scheduler_name_is_not_placed(tmp_path: Path, run: Run) -> None:
    """It would fit, but no profile serves it, so the gang waits for it."""
    file = cluster(tmp_path, "coscheduling", 3, cpu="1")
    *objects, last = yaml.safe_load_all(file.read_text())
    last["spec"]["schedulerName"] = "default-scheduler"
    file.write_text(yaml.safe_dump_all([*objects, last]))
    text = explained(run, file, "coscheduling")
    assert "Verdict: waits: Unschedulable" in text
    assert "2 of 3 members without a node fit at the same time; 3 must; default/g-2 has the schedulerName " in text
    assert "Next: correct the schedulerName of default/g-2, or serve it" in text


def test_group_without_an_object_is_named(tmp_path: Path, run: Run) -> None:
    """A typo in the label is such a group."""
    file = cluster(tmp_path, "coscheduling", 1)
    file.write_text(file.read_text().replace("pod-group: g\n", "pod-group: typo\n"))
    text = explained(run, file, "coscheduling")
    assert "group default/typo" in text
    assert "does not exist, so its minimum is not known; 1 pods name it" in text
    assert "Next: create the PodGroup default/typo" in text


def test_failing_steps_of_a_distribution_cost_a_note(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod is evaluated, and the next package is asked."""

    async def fail(question: object) -> None:
        raise LookupError("no ledger")

    monkeypatch.setattr("pyscheduler_batch.cli.queue.pod_steps.steps_of_pod", fail)
    file = cluster(tmp_path, "coscheduling", 3)
    config = ROOT / "configs/coscheduling.yaml"
    code, out, err = run("explain", "g-0", "--objects", file, "--config", config)
    assert code == 0
    assert "note: the steps of the pod's job are left out, because of batch: no ledger" in err
    assert "needs 3 members" in " ".join(out.split())
