"""`pyscheduler podgroup plan`, as typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

CASES = """\
defaults: {schedulerName: kai-scheduler}
cases:
- id: one
  pods:
  - {metadata: {name: p, namespace: ml, uid: u, creationTimestamp: 2026-01-01T00:00:00Z}, spec: {schedulerName: other}}
  - {metadata: {name: q, namespace: ml, uid: v}, spec: {schedulerName: kai-scheduler}}
  expected: [{pod: p, error: wrong}]
"""


def plan(run: Run, *arguments: str) -> tuple[int, list[Any], str]:
    """Run the command and return its exit code, the JSON lines on standard output, and standard error."""
    code, out, err = run("podgroup", "plan", *arguments)
    return code, [json.loads(line) for line in out.splitlines()], err


def test_each_pod_of_a_case_gets_an_answer(tmp_path: Path, run: Run) -> None:
    """Pods of other schedulers are skipped; what a case expects changes nothing."""
    path = tmp_path / "cases.yaml"
    path.write_text(CASES, encoding="utf-8")
    code, answers, err = plan(run, "--cases", str(path), "-o", "jsonl")
    assert (code, err) == (0, "")
    (answer,) = answers
    other, own = answer["actual"]
    assert (answer["id"], other) == ("one", {"pod": "p", "skipped": True})
    assert (own["podGroup"]["name"], own["podSubGroup"]) == ("pg-q-v", None)


def test_a_case_that_cannot_be_read_is_an_error_among_answers(tmp_path: Path, run: Run) -> None:
    """The other cases are answered, and the exit code is 1."""
    path = tmp_path / "cases.yaml"
    path.write_text(CASES + "- {id: two, pods: [5]}\n- three\n", encoding="utf-8")
    code, answers, _ = plan(run, "--cases", str(path))
    assert (code, [answer["id"] for answer in answers]) == (1, ["one", "two", "case 3"])
    assert [sorted(answer) for answer in answers] == [["actual", "id"], ["error", "id"], ["error", "id"]]


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        pytest.param(None, (), "cannot be read: No such file or directory", id="no file"),
        pytest.param("a: [", (), "is not YAML", id="no YAML"),
        pytest.param("a: 1", (), 'has no list "cases"', id="no cases"),
        pytest.param(
            CASES,
            ("--block", "kube-pyscheduler-podgrouper"),
            'the plugin "PodGrouper" is not installed; run "pip install kube-pyscheduler-podgrouper"',
            id="no plugin",
        ),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, run: Run, text: str | None, arguments: tuple[str, ...], said: str
) -> None:
    """The message says what is wrong and what to do."""
    path = tmp_path / "cases.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    code, answers, err = plan(run, "--cases", str(path), *arguments)
    assert (code, answers, err.count("\n")) == (1, [], 1)
    assert said in err
