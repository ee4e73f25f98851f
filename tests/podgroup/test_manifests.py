"""Manifests in every dialect are read into their groups."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from pyscheduler.api import DecodeError, Pod, decode
from pyscheduler.podgroup import DIALECTS, GroupDirectory, Origin

FOLDER = Path(__file__).parent / "manifests"
TYPES = {(kind.api_version, kind.kind): kind.type for dialect in DIALECTS for kind in dialect.kinds}
#: How many pods a workload's controller makes of its template.
REPLICAS = {"Job": "parallelism", "StatefulSet": "replicas"}
#: Kinds of files that are read here. Controllers make the pods or the groups of all others
#: (`tests/integration/test_manifests.py`).
READ = {"Pod", "PodGroup", "Job", "StatefulSet", "Queue", "PriorityClass", "Workload", "ElasticQuota"}
MADE_BY_CONTROLLERS = {
    "28-kai-batch-job-queue-label.yaml",
    "41-job-suspended-kueue.yaml",
    "45-statefulset-ordered.yaml",
}


def is_read(row: dict[str, str]) -> bool:
    """Return True if a manifest writes out its groups, and its pods or a template of them."""
    kinds = row["kinds"].split("|")
    made = any(kind.rpartition("/")[2] not in READ or kind.startswith("batch.volcano.sh") for kind in kinds)
    return not made and row["file"] not in MADE_BY_CONTROLLERS


with (FOLDER / "index.csv").open(encoding="utf-8") as file:
    INDEX = {row["file"]: row for row in csv.DictReader(file) if is_read(row)}


def documents(name: str) -> list[dict[str, Any]]:
    """Read a manifest."""
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def pods_of(workload: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Make the pods that a controller would make."""
    template, meta = workload["spec"]["template"], workload["metadata"]
    for number in range(workload["spec"][REPLICAS[workload["kind"]]]):
        metadata = {**template.get("metadata", {}), "name": f"{meta['name']}-{number}", "namespace": meta["namespace"]}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def uid_of(document: dict[str, Any]) -> str:
    """Make up a uid; nobody has given the manifest's objects one."""
    return f"{document['kind']}-{document['metadata']['namespace']}-{document['metadata']['name']}"


def directory_of(name: str) -> tuple[GroupDirectory, list[str]]:
    """Feed a manifest to a directory; return it with what could not be read at all."""
    directory, unreadable = GroupDirectory(), []
    for document in documents(name):
        made = list(pods_of(document)) if document["kind"] in REPLICAS else [document]
        for each in made:
            each["metadata"] = {"namespace": "", **each["metadata"]}
            each["metadata"]["uid"] = uid_of(each)
            kind = (each["apiVersion"], each["kind"])
            cls = Pod if kind == ("v1", "Pod") else TYPES.get(kind)
            if cls is None:
                continue
            try:
                item = decode(cls, msgspec.json.encode(each))
            except DecodeError:
                unreadable.append(each["metadata"]["name"])
                continue
            if isinstance(item, Pod):
                directory.pod_added(item)
            else:
                directory.object_added(item)
    directory.check_invariants()
    return directory, unreadable


def as_in_the_index(directory: GroupDirectory) -> set[str]:
    """Write down the groups that are declared without a fault, and partners that they wait for in vain."""
    found = set()
    for state in directory:
        group = state.group
        if not group.is_declared or not group.is_gang or group.problems:
            continue
        found.add(f"{group.id}:min={group.min}:members={state.child_count}")
        # Nothing is known of such a partner; it takes one member at least.
        found |= {f"{partner}:min=1:members=0" for partner, known in directory.partners(state) if known is None}
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", INDEX)
def test_manifests_are_read_into_their_groups(name: str) -> None:
    """Group, minimum and members are as the index says."""
    expected = {each.strip() for each in INDEX[name]["groups"].split(";") if each.strip()}
    directory, _ = directory_of(name)
    assert as_in_the_index(directory) == expected


def test_the_order_of_events_does_not_matter() -> None:
    """Objects before pods, pods before objects: the groups are the same."""
    directory, _ = directory_of("13-koordinator-podgroup-annotations.yaml")
    other = GroupDirectory()
    for document in reversed(documents("13-koordinator-podgroup-annotations.yaml")):
        document["metadata"]["uid"] = uid_of(document)
        cls = Pod if document["kind"] == "Pod" else TYPES[document["apiVersion"], document["kind"]]
        item = decode(cls, msgspec.json.encode(document))
        (other.pod_added if isinstance(item, Pod) else other.object_added)(item)
    assert {state.id: state.group for state in directory} == {state.id: state.group for state in other}


def test_malformed_values_are_problems_and_others_count() -> None:
    """A gang with a word as minimum is undeclared; bad groups and totals count as absent."""
    directory, _ = directory_of("47-malformed-values.yaml")
    groups = {state.id.name: state.group for state in directory}
    assert {name: [str(problem) for problem in group.problems] for name, group in groups.items()} == {
        "zero": ["spec.minMember: '0' is less than 1; it counts as 0"],
        "negative": ["spec.minMember: '-2' is less than 1; it counts as 0"],
        "bad-gang": [
            (
                "gang.scheduling.koordinator.sh/min-available: 'three' is not an integer of 32 bits; "
                "without a minimum the group is not declared"
            )
        ],
        "bad-gang2": [
            (
                "gang.scheduling.koordinator.sh/groups: 'not-json' is not a JSON list like "
                '["namespace/name"]; the group stands alone'
            )
        ],
        "bad-gang3": ["gang.scheduling.koordinator.sh/total-number: '2' is less than the minimum; 4 counts"],
        "bad-light": [
            (
                "pod-group.scheduling.sigs.k8s.io/min-available: 'x' is not an integer of 32 bits; "
                "without a minimum the group is not declared"
            )
        ],
    }
    assert {name for name, group in groups.items() if not group.is_declared} == {"bad-gang", "bad-light"}
    assert groups["bad-gang2"].gang_group == ("bad/bad-gang2",)
    assert (groups["bad-gang3"].min, groups["bad-gang3"].total) == (4, 4)


def test_a_group_that_nobody_declared_is_known_with_its_pods() -> None:
    """Pods whose object does not exist make an undeclared group."""
    directory, _ = directory_of("07-sigs-label-without-podgroup.yaml")
    (state,) = directory
    assert state.group.origin is Origin.NOBODY
    assert not state.group.is_declared
    assert len(state.pending) == 2
