"""`pyscheduler explain --history`: a pod's story from files of logs, without a cluster."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

NO_NODE = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
#: As `kubectl logs --prefix` prints the lines of two replicas: one logs text, and was killed; the other logs JSON.
FIRST = f"""\
[pod/a/scheduler] 2026-11-29T09:00:00.000000Z info pyscheduler.cli.run Starting scheduler version=1
[pod/a/scheduler] 2026-11-29T09:00:01.000000Z info decision Pod story changed pod=web/p uid=1 profile=pyscheduler \
reason=SchedulingGated firstSeen=2026-11-29T09:00:00.900000Z plugins=SchedulingGates queue=gated message="wait"
[pod/a/scheduler] 2026-11-29T09:01:01.000000Z info decision Pod story changed pod=web/p uid=1 profile=pyscheduler \
reason=Unschedulable firstSeen=2026-11-29T09:00:00.900000Z plugins=NodeResourcesFit,TaintToleration \
before=SchedulingGated beforeCount=1 beforeLast=2026-11-29T09:00:01.000000Z beforeWokenBy=PodUpdate:1 \
message="{NO_NODE}"
[pod/a/scheduler] 2026-11-29T09:02:01.000000Z info decision Pod story changed pod=web/p uid=1 profile=pyscheduler rea
"""
SECOND = {
    "ts": 1795943000000.0,  # 2026-11-29T09:03:20Z
    "level": "info",
    "logger": "decision",
    "msg": "Pod story changed",
    "pod": "web/p",
    "uid": "1",
    "profile": "pyscheduler",
    "reason": "Scheduled",
    "firstSeen": "2026-11-29T09:03:00.000000Z",
    "node": "n1",
    "before": "Unschedulable",
    "beforeCount": 2,
    "beforeLast": "2026-11-29T09:03:10.000000Z",
    "beforeWokenBy": "NodeAdd:1,NodeUpdateLabel:2",
    "message": "",
}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a file of both replicas."""
    file = tmp_path / "logs.txt"
    file.write_text(f"{FIRST}[pod/b/scheduler] {json.dumps(SECOND)}\n")
    return file


def test_table_of_a_story(logs: Path, run: Run) -> None:
    """A row for each reason, in order of time, with the message unbroken at its end."""
    code, out, err = run("explain", "--history", "web/p", "--from", logs)
    assert (code, err) == (0, "note: 1 line that names p is incomplete, and left out\n")
    title, verdict, header, *rows = out.splitlines()
    assert title == "pod web/p, uid 1, profile pyscheduler"
    assert verdict == "Verdict: Scheduled, after a wait of 3m19.1s"
    assert header.split() == ["SINCE", "LAST", "REASON", "COUNT", "PLUGINS", "NODE", "WOKEN-BY", "MESSAGE"]
    assert [" ".join(row.split()) for row in rows] == [
        "2026-11-29T09:00:01Z 2026-11-29T09:00:01Z SchedulingGated 1 SchedulingGates - PodUpdate 1 wait",
        (
            "2026-11-29T09:01:01Z 2026-11-29T09:03:10Z Unschedulable 3+ NodeResourcesFit,TaintToleration - "
            f"NodeAdd 1, NodeUpdateLabel 2 {NO_NODE}"
        ),
        "2026-11-29T09:03:20Z 2026-11-29T09:03:20Z Scheduled 1 - n1 - -",
    ]


def test_verdict_of_a_pod_that_waits(tmp_path: Path, run: Run) -> None:
    """It says how often the reason was found, at least, and when last."""
    repeated = (
        FIRST.splitlines()[2]
        .replace("changed", "repeated")
        .replace(" message=", " since=2026-11-29T09:01:01Z last=2026-11-29T12:03:04.5Z count=16 message=")
    )
    file = tmp_path / "logs.txt"
    file.write_text(f"{FIRST}\n{repeated}")
    _, out, _ = run("explain", "--history", "web/p", "--from", file)
    since = "Verdict: waits: Unschedulable, since 2026-11-29T09:00:00Z"
    assert out.splitlines()[1] == f"{since}, found at least 16 times, last seen 2026-11-29T12:03:04Z"


def test_story_without_the_wait_says_nothing_of_its_length(tmp_path: Path, run: Run) -> None:
    """A pod of another scheduler has a story only when it is preempted."""
    file = tmp_path / "logs.txt"
    gone = {key: value for key, value in SECOND.items() if not key.startswith("before")} | {"reason": "Preempted"}
    file.write_text(json.dumps(gone))
    _, out, _ = run("explain", "--history", "web/p", "--from", file)
    assert out.splitlines()[1] == "Verdict: Preempted"


def test_wait_that_nobody_saw_end_is_at_most_so_long(tmp_path: Path, run: Run) -> None:
    """A pod of the same name was created later, so the pod of the killed leader was deleted before."""
    file = tmp_path / "logs.txt"
    again = SECOND | {"uid": "2", "created": "2026-11-29T09:03:00Z"}
    file.write_text(f"{FIRST}\n{json.dumps(again)}")
    code, out, _ = run("explain", "--history", "web/p", "--from", file)
    assert (code, "uid 1, profile pyscheduler\nVerdict: Deleted, after a wait of at most 2m59.1s\n" in out) == (0, True)


def test_json_of_a_story(logs: Path, run: Run) -> None:
    """The fields are those of `GET /debug/story`."""
    code, out, _ = run("explain", "--history", "p", "-n", "web", "--from", logs, "-o", "json")
    answer = json.loads(out)
    assert (code, answer["pod"]) == (0, "web/p")
    (story,) = answer["stories"]
    assert (story["reason"], story["pending"], story["firstSeen"]) == (
        "Scheduled",
        False,
        "2026-11-29T09:00:00.900000Z",
    )
    assert [(run["reason"], run["countIsLeast"]) for run in story["runs"]] == [
        ("SchedulingGated", False),
        ("Unschedulable", True),
        ("Scheduled", False),
    ]


def test_several_files_and_standard_input(
    tmp_path: Path, logs: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of all sources are one story; a compressed file and duplicates do no harm."""
    (tmp_path / "b.gz").write_bytes(gzip.compress(json.dumps(SECOND).encode()))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(logs.read_bytes())))
    _, once, _ = run("explain", "--history", "web/p", "--from", logs)
    code, out, _ = run("explain", "--history", "web/p", "--from", tmp_path / "b.gz", "--from", "-")
    assert (code, out) == (0, once)


def test_control_characters_are_escaped(tmp_path: Path, run: Run) -> None:
    """Text of a user cannot begin a line of the output, and cannot move the cursor."""
    file = tmp_path / "logs.txt"
    file.write_text(json.dumps(SECOND | {"message": "a\nb\x1b[2K", "profile": "\x1b[2K"}))
    code, out, _ = run("explain", "--history", "web/p", "--from", file)
    assert code == 0
    assert "\x1b" not in out
    assert "a\\nb^[[2K" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(
            ["web/p", "--from", "gone.txt"], 1, "gone.txt: the logs cannot be read: no such file", id="no file"
        ),
        pytest.param(["web/p", "--from", "not.gz"], 1, "not.gz: the logs cannot be read: not a gzipped", id="no gzip"),
        pytest.param(
            ["web/q", "--from", "logs.txt"],
            1,
            "logs.txt: no story of pod web/q in 5 lines, of which 4 are changes of stories; collect the logs of all "
            "replicas with: kubectl --namespace kube-system logs --selector app.kubernetes.io/name=pyscheduler "
            "--prefix --timestamps --tail=-1; add --previous",
            id="another pod",
        ),
        pytest.param(["p", "--from", "logs.txt"], 1, "there are stories of web/p", id="another namespace"),
        pytest.param(["web/p"], 2, "with --from the logs", id="no logs"),
        pytest.param(["web/p", "web/q", "--from", "logs.txt"], 2, "give one pod", id="two pods"),
        pytest.param(["web/p", "--from", "logs.txt", "-o", "jsonl"], 2, "only -o table and -o json", id="output"),
    ],
)
def test_mistakes_are_one_line(
    logs: Path, run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    """The line says what is missing, and how to get it."""
    (logs.parent / "not.gz").write_text("text")
    monkeypatch.chdir(logs.parent)
    found, out, err = run("explain", "--history", *arguments)
    assert (found, out) == (code, "")
    assert message in err.splitlines()[-1]
    assert code == 2 or len(err.splitlines()) == 1


def test_from_needs_history(run: Run) -> None:
    """Logs without --history are a mistake, because they would not be read."""
    code, _, err = run("explain", "web/p", "--from", "x")
    assert code == 2
    assert "--from is for --history" in err
