"""`pyscheduler simulate --batch-cases` and `--queue-cases`, as typed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
CASE = {
    "id": "one",
    "actions": ["allocate"],
    "nodes": [{"name": "n1", "gpu": 2, "cpuMillis": 1000, "memoryBytes": 1000, "maxPods": 10}],
    "queues": [{"name": "q", "createdSecondsAgo": 10, "gpu": FREE, "cpuMillis": FREE, "memoryBytes": FREE}],
    "jobs": [{"name": "j", "queue": "q", "createdSecondsAgo": 5, "tasks": [{"name": "t", "gpu": 1}]}],
}
QUEUES = """\
cases:
- id: thirds
  algorithm: kai-proportion
  total: 3
  queues:
  - {name: a, quota: 0, limit: -1, overQuotaWeight: 1}
  - {name: b, quota: 0, limit: -1, overQuotaWeight: 2}
  requested: {a: 9, b: 9}
- id: strange
  algorithm: fifo
- id: loop
  algorithm: kai-proportion
  total: 3
  queues:
  - {name: a, parent: b}
  - {name: b, parent: a}
- id: nameless
  algorithm: kai-proportion
  total: 3
  queues:
  - {name: null}
"""


#: Files that cannot be read, by name.
FILES = {
    "BROKEN": "{",
    "EMPTY": "{}",
    "DATE": "cases: [{id: 2020-13-45}]",
    "TAG": "cases: [{id: !!int x}]",
    "DIGITS": f"cases: [{{id: {'9' * 5000}}}]",
    "DEEP": "cases: " + "[" * 900 + "]" * 900,
}


def simulate(run: Run, *arguments: str) -> tuple[int, list[Any], str]:
    """Run the command and return its exit code, the JSON lines on standard output, and standard error."""
    code, out, err = run("simulate", *arguments)
    return code, [json.loads(line) for line in out.splitlines()], err


@pytest.mark.parametrize("name", ["cases.jsonl", "cases.jsonl.gz"])
def test_each_line_gets_an_answer(tmp_path: Path, run: Run, name: str) -> None:
    """The answer has the case's id; the expected answer of a case changes nothing."""
    text = "".join(
        json.dumps(each) + "\n" for each in (CASE, {**CASE, "id": "two", "expected": {"tasks": {}}})
    ).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    code, answers, err = simulate(run, "--batch-cases", str(path), "-o", "jsonl")
    assert (code, err) == (0, "")
    assert [answer["id"] for answer in answers] == ["one", "two"]
    assert all(answer["actual"]["tasks"] == {"t": {"state": "allocated", "node": "n1"}} for answer in answers)


@pytest.mark.slow
def test_a_case_that_cannot_be_decided_is_an_error_among_answers(tmp_path: Path, run: Run) -> None:
    """The other cases are decided, and the exit code is 1."""
    path = tmp_path / "cases.jsonl"
    late = {"name": "j", "queue": "q", "createdSecondsAgo": 9e18}
    broken = [{"id": "x"}, {**CASE, "actions": ["dance"]}, {**CASE, "jobs": [3]}, {**CASE, "jobs": [late]}]
    path.write_text("\n".join(["[", "3", *map(json.dumps, [*broken, CASE])]))
    code, answers, err = simulate(run, "--batch-cases", str(path))
    assert (code, err) == (1, "")
    assert ["error" in answer for answer in answers] == [True] * 6 + [False]
    assert answers[2]["error"] == 'the case has neither "actions" (KAI) nor "configuration" (Volcano)'
    assert 'no action is called "dance"; known are allocate' in answers[3]["error"]
    assert [answer["error"].partition(":")[0] for answer in answers[4:6]] == ["a field has a wrong type or value"] * 2


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"id": "\xff"}', id="not UTF-8"),
        pytest.param(b'{"id":' + b"[" * 100_000, id="deeply nested"),
        pytest.param(b'{"id":' + b"[" * 500 + b"]" * 500 + b', "actions": ["dance"]}', id="deeply nested id"),
    ],
)
def test_a_line_that_cannot_be_read_is_an_error_among_answers(tmp_path: Path, run: Run, line: bytes) -> None:
    """The number of the line names it, and the next line is decided."""
    path = tmp_path / "cases.jsonl"
    path.write_bytes(line + b"\n" + json.dumps(CASE).encode())
    code, answers, err = simulate(run, "--batch-cases", str(path))
    assert (code, err) == (1, "")
    assert [(answer["id"], "error" in answer) for answer in answers] == [("line 1", True), ("one", False)]


def test_an_id_that_contains_itself_is_replaced(tmp_path: Path, run: Run) -> None:
    """The number of the case names it."""
    path = tmp_path / "queues.yaml"
    path.write_text("cases: [{id: &a [*a]}, {id: *a, algorithm: kai-proportion, total: 1, queues: [{name: q}]}]")
    code, answers, _ = simulate(run, "--queue-cases", str(path))
    assert code == 1
    assert answers == [
        {"id": "case 1", "error": 'no algorithm named "None"'},
        {"id": "case 2", "actual": {"fairShare": {"q": 0.0}}},
    ]


def test_queue_cases_are_computed(tmp_path: Path, run: Run) -> None:
    """What cannot be computed is an error among the answers."""
    path = tmp_path / "queues.yaml"
    path.write_text(QUEUES)
    code, answers, _ = simulate(run, "--queue-cases", str(path))
    assert code == 1
    assert answers[0] == {"id": "thirds", "actual": {"fairShare": {"a": 1.0, "b": 2.0}}}
    assert answers[1:3] == [
        {"id": "strange", "error": 'no algorithm named "fifo"'},
        {"id": "loop", "error": 'the parents of queue "a" do not lead to the top'},
    ]
    assert (answers[3]["id"], "error" in answers[3]) == ("nameless", True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--batch-cases", "none.jsonl"], "none.jsonl: the file with cases cannot be read: No such file or directory"),
        (["--batch-cases", "a", "--queue-cases", "b"], "give either --batch-cases or --queue-cases"),
        (["--batch-cases", "a", "-o", "json"], "cases support only -o jsonl"),
        (["--batch-cases", "a", "file.yaml"], "FILE has no effect on cases"),
        (["--batch-cases", "a", "--nodes", "3"], "--nodes has no effect on cases"),
        (["file.yaml", "-o", "jsonl"], "-o jsonl has no effect without --batch-cases or --queue-cases"),
        (["--queue-cases", "BROKEN"], "the file with cases is not YAML"),
        (["--queue-cases", "DATE"], "the file with cases is not YAML: month must be in 1..12"),
        (["--queue-cases", "TAG"], "the file with cases is not YAML: invalid literal for int()"),
        (["--queue-cases", "DIGITS"], "the file with cases is not YAML: Exceeds the limit (4300 digits)"),
        (["--queue-cases", "DEEP"], "the file with cases is not YAML: maximum recursion depth exceeded"),
        (["--queue-cases", "EMPTY"], 'the file with cases has no list "cases"'),
    ],
)
def test_mistakes_are_one_line_and_code_2(tmp_path: Path, run: Run, arguments: list[str], complaint: str) -> None:
    """Nothing is printed on standard output."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    given = (str(tmp_path / each) if each in FILES else each for each in arguments)
    code, out, err = simulate(run, *given)
    assert (code, out) == (2, [])
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")
    assert complaint in err
