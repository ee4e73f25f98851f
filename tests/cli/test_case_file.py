"""Cases from a file: one answer a line, in the form of kube-scheduler's recorded answers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.cli import case_file
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
def test_a_file_is_answered_in_its_order_by_any_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Packed or not, with blank lines between."""
    monkeypatch.setattr(case_file, "_SHARE", 10)
    names = [f"case-{number}" for number in range(23)]
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
