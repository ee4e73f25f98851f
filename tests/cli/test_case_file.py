"""Cases from a file: one answer a line, in the form of kube-scheduler's recorded answers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.cli.case_file import answer_file, answer_lines
from pyscheduler.framework.errors import ConfigError
from pyscheduler.testing import node_manifest, pod_manifest

Json = dict[str, Any]


def case(name: str, pod: Json | None = None, **fields: Any) -> bytes:
    """Return a line about a pod and two nodes, one of them small."""
    nodes = [node_manifest("small", allocatable={"cpu": "1"}), node_manifest("large", allocatable={"cpu": "8"})]
    pod = pod if pod is not None else pod_manifest("one", requests={"cpu": "2"}, scheduler_name="default-scheduler")
    fields.setdefault("objects", {"nodes": nodes})
    return json.dumps({"id": name, "family": "mixed", "config": None, "pod": pod, **fields}).encode()


def actual(line: bytes) -> Json:
    """Answer one case that can be evaluated."""
    (answer,) = answer_lines([line])
    assert not answer.error
    assert answer.actual is not None
    return answer.actual


def test_answer_has_filters_scores_and_the_choice() -> None:
    """The small node is refused with plugin and reason; the large one is scored by every plugin, and best."""
    found = actual(case("a"))
    assert found["preFilter"]["code"] == "Success"
    assert found["filter"] == {
        "small": {
            "code": "UnschedulableAndUnresolvable",
            "plugin": "NodeResourcesFit",
            "reasons": ["Insufficient cpu"],
        },
        "large": {"code": "Success"},
    }
    assert found["feasible"] == found["best"] == ["large"]
    fit = found["scores"]["NodeResourcesFit"]["large"]
    assert fit["weighted"] == fit["normalized"] == fit["raw"] > 0
    assert found["total"]["large"] == sum(each["large"]["weighted"] for each in found["scores"].values())
    assert found["fitError"] is None


def test_unschedulable_pod_has_the_message() -> None:
    """`fitError` is what the pending pod would say."""
    found = actual(case("a", pod_manifest("one", requests={"cpu": "64"}, scheduler_name="default-scheduler")))
    assert found["fitError"] == "0/2 nodes are available: 2 Insufficient cpu."
    assert found["feasible"] == found["best"] == []
    assert found["scores"] == found["total"] == {}


def test_nodes_excluded_by_prefilter_are_not_filtered() -> None:
    """A pod pinned by node affinity: the other node is marked, without a plugin."""
    pod = pod_manifest("one", scheduler_name="default-scheduler")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["large"]}]}
    pod["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    found = actual(case("a", pod))
    assert found["preFilter"]["nodeNames"] == ["large"]
    assert found["filter"]["small"]["excludedByPreFilter"] is True
    assert found["filter"]["small"]["plugin"] == ""
    assert found["filter"]["large"] == {"code": "Success"}


def test_answer_of_a_gated_pod_has_only_its_gates() -> None:
    """In the family about gates."""
    pod = pod_manifest("one", scheduler_name="default-scheduler")
    pod["spec"]["schedulingGates"] = [{"name": "wait"}]
    found = actual(case("a", pod, family="scheduling-gates"))
    assert list(found) == ["preEnqueue"]
    assert found["preEnqueue"]["plugin"] == "SchedulingGates"


def test_part_of_a_profile_is_merged_over_the_defaults() -> None:
    """A plugin that the fragment disables says nothing; the others stay."""
    found = actual(case("a", config={"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}))
    assert found["feasible"] == ["large", "small"]
    assert "NodeResourcesFit" not in found["scores"]
    assert "ImageLocality" in found["scores"]


def test_nominated_pods_count_on_their_node() -> None:
    """A pod of higher priority that was promised the large node keeps others off it."""
    promised = pod_manifest("promised", requests={"cpu": "7"}, scheduler_name="default-scheduler", priority=10)
    promised["metadata"]["uid"] = "promised"
    promised["status"] = {"nominatedNodeName": "large"}
    nodes = [node_manifest("large", allocatable={"cpu": "8"})]
    found = actual(case("a", objects={"nodes": nodes, "nominatedPods": [promised]}))
    assert found["filter"]["large"]["plugin"] == "NodeResourcesFit"


def test_change_is_split_into_events_with_hints() -> None:
    """A node that grows is an event about allocatable; NodeResourcesFit would try the pod again."""
    event = {
        "resource": "Node",
        "action": "Update",
        "oldObj": node_manifest("small", allocatable={"cpu": "1"}),
        "newObj": node_manifest("small", allocatable={"cpu": "4"}),
    }
    (event_found,) = actual(case("a", family="queueing-hints", event=event))["events"]
    assert event_found["actionType"] == "UpdateNodeAllocatable"
    assert event_found["label"] == "NodeUpdateNodeAllocatable"
    assert event_found["hints"]["NodeResourcesFit"] == "Queue"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "not a case"),
        (b"[]", "not a case"),
        (case("bad", objects={"zebras": []}), "objects.zebras: unknown list"),
        (case("bad", objects={"nodes": [{"metadata": {"name": 7}}]}), "objects.nodes: an object cannot be read"),
        (case("bad", {"metadata": {"name": "x"}, "spec": []}), "Pod:"),
        (case("bad", config={"plugins": {"filter": {"enabled": [{"name": "Nope"}]}}}), "Nope"),
        (case("bad", config=[1]), "expected part of a profile"),
        (case("bad", family="queueing-hints"), "needs an event"),
        (case("bad", family="queueing-hints", event={"resource": "Zebra", "action": "Add", "newObj": {}}), "Zebra"),
        (case("bad", family="queueing-hints", event={"resource": "Node", "action": "Sing"}), "Sing"),
    ],
)
def test_bad_case_does_not_stop_the_others(line: bytes, words: str) -> None:
    """Its answer is an error of one line; the next case is answered."""
    bad, good = answer_lines([line, case("good")])
    assert words in bad.error
    assert "\n" not in bad.error
    assert bad.actual is None
    assert (good.id, good.error) == ("good", "")


def test_expected_answer_is_not_decoded() -> None:
    """Nonsense under `expected`, or nothing, changes no answer."""
    assert actual(case("a", expected={"best": 1})) == actual(case("a"))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_is_answered_in_its_order_by_any_number_of_processes(tmp_path: Path, workers: int) -> None:
    """Packed or not, with blank lines between."""
    names = [f"case-{number}" for number in range(230)]
    file = tmp_path / "cases.jsonl.gz"
    file.write_bytes(gzip.compress(b"\n\n".join(map(case, names))))
    answers = list(answer_file(str(file), workers=workers))
    assert [answer.id for answer in answers] == names
    assert {answer.error for answer in answers} == {""}


def test_missing_file_is_a_mistake(tmp_path: Path) -> None:
    """And one that is no gzip."""
    with pytest.raises(ConfigError, match="No such file"):
        list(answer_file(str(tmp_path / "none.jsonl")))
    (tmp_path / "bad.gz").write_bytes(b"no gzip")
    with pytest.raises(ConfigError, match="cannot be read"):
        list(answer_file(str(tmp_path / "bad.gz")))
