"""The gang demo's judge: it believes a clean record, and finds each way in which a gang could have been partial."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from click.testing import CliRunner

from pyscheduler.config.load import loads
from pyscheduler_lab.demo import gang_demo
from pyscheduler_lab.demo.gang_record import GPU, GROUP_LABEL, LONGEST_BURST_SECONDS, Change, Judge, Verdict
from pyscheduler_lab.demo.gang_workload import GANG_PROFILE, GPUS_PER_NODE, gang_manifests, make_gangs

CAPACITY = {"n1": 2, "n2": 2}
MINIMA = {"a": 3, "b": 2}


def bind(name: str, node: str, *, at: float = 0.0, gpus: int = 1) -> dict[str, object]:
    """Describe a binding; the gang is the first letter of the name."""
    return {"name": name, "node": node, "gpus": gpus, "at": at}


def end(name: str, node: str, *, succeeded: bool = True) -> dict[str, object]:
    """Describe the end of a pod."""
    return {"name": name, "node": node, "ended": True, "succeeded": succeeded}


def judged(steps: Iterable[dict[str, object]]) -> list[str]:
    """Return what a judge finds in a record."""
    judge = Judge(CAPACITY, MINIMA)
    defaults = {"gpus": 1, "at": 0.0, "ended": False, "succeeded": False}
    for revision, step in zip(itertools.count(1), steps, strict=False):
        judge.take(Change(**{**defaults, "revision": revision, "gang": str(step["name"])[0], **step}))
    return judge.verdict().problems


A = [bind("a1", "n1"), bind("a2", "n1"), bind("a3", "n2")]
A_ENDS = [end("a1", "n1"), end("a2", "n1"), end("a3", "n2")]
B = [bind("b1", "n1"), bind("b2", "n2")]
B_ENDS = [end("b1", "n1"), end("b2", "n2")]


def test_record_without_problems_passes() -> None:
    """One gang after the other, each whole: nothing to complain about."""
    assert judged([*A, *A_ENDS, *B, *B_ENDS]) == []


def test_bursts_may_overlap_where_there_is_room_for_both() -> None:
    """Bindings of two gangs in turns, and others ending meanwhile, are no proof of anything bad."""
    judge = Judge({"n1": 4, "n2": 4}, MINIMA)
    steps = [A[0], B[0], A[1], B[1], A[2], *A_ENDS, *B_ENDS]
    for revision, step in enumerate(steps, 1):
        defaults = {"gpus": 1, "at": 0.0, "ended": False, "succeeded": False}
        judge.take(Change(**{**defaults, "revision": revision, "gang": str(step["name"])[0], **step}))
    assert judge.verdict().problems == []
    assert judge.verdict().pods == 5


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        pytest.param([*A, *A_ENDS, *B[:1]], "gang b stayed partial: 1 of 2 members were bound", id="partial for ever"),
        pytest.param([*A, *A_ENDS], "gang b was never started", id="starved"),
        pytest.param(
            [*B, *A[:1], *B_ENDS, *A[1:], *A_ENDS],
            "gang a was started at revision 3 without room for all of it: 2 GPUs of n1, where 1 were free",
            id="completed with room that came later",
        ),
        pytest.param(
            [*A[:2], bind("a3", "n2", at=LONGEST_BURST_SECONDS + 1), *A_ENDS, *B, *B_ENDS],
            "gang a was partly bound for 6.0 s",
            id="a long time between first and last",
        ),
        pytest.param(
            [*A[:2], end("a1", "n1"), A[2], *A_ENDS[1:], *B, *B_ENDS],
            "pod a1 ended before its gang a was complete",
            id="did not run together",
        ),
        pytest.param(
            [*A, bind("b1", "n1"), bind("b2", "n2"), *A_ENDS, *B_ENDS],
            "node n1 was overcommitted by 1 GPUs at revision 4",
            id="overcommitted",
        ),
        pytest.param(
            [*A, bind("a1", "n2"), *A_ENDS, *B, *B_ENDS],
            "pod a1 was bound to n1, and then to n2",
            id="bound twice",
        ),
        pytest.param(
            [*A[:2], bind("a3", "n9"), *A_ENDS, *B, *B_ENDS],
            "pod a3 was bound to n9, which does not exist",
            id="no such node",
        ),
        pytest.param(
            [*A, *A_ENDS[:2], end("a3", "n2", succeeded=False), *B, *B_ENDS],
            "pod a3 did not succeed",
            id="killed",
        ),
        pytest.param(
            [*A, *A_ENDS[:2], *B, *B_ENDS],
            "gang a did not finish: 2 of 3 succeeded",
            id="still running",
        ),
    ],
)
def test_each_kind_of_problem_is_found(steps: list[dict[str, object]], problem: str) -> None:
    """The problem is named, with gang, pod or node."""
    assert problem in judged(steps)


def test_record_with_descending_revisions_fails() -> None:
    """Revisions come in their order, or something was missed."""
    judge = Judge(CAPACITY, MINIMA)
    for revision in (5, 4):
        judge.take(
            Change(revision=revision, at=0.0, name="a1", gang="a", node="n1", gpus=1, ended=False, succeeded=False)
        )
    assert "the record is out of order: revision 4 after 5" in judge.verdict().problems


def test_watch_line_is_decoded() -> None:
    """Gang, node, GPUs and the end come from the API's own fields; a deletion is an end, too."""
    pod = {
        "metadata": {"name": "a1", "resourceVersion": "7", "labels": {GROUP_LABEL: "a"}},
        "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {GPU: "2"}}}, {}]},
        "status": {"phase": "Running"},
    }
    change = Change.of({"type": "MODIFIED", "object": pod}, 1.5)
    assert (change.revision, change.name, change.gang, change.node, change.gpus) == (7, "a1", "a", "n1", 2)
    assert not change.ended
    assert Change.of({"type": "DELETED", "object": pod}, 1.5).ended


def test_gangs_exceed_the_cluster_and_each_fits_alone() -> None:
    """Forty gangs of mixed size, none larger than the cluster; the same seed gives the same ones."""
    gangs = make_gangs(40, largest=8 * GPUS_PER_NODE, seed=0)
    assert gangs == make_gangs(40, largest=8 * GPUS_PER_NODE, seed=0)
    assert len({gang.size for gang in gangs}) >= 5
    assert sum(gang.size for gang in gangs) > 3 * 8 * GPUS_PER_NODE
    assert max(gang.size for gang in make_gangs(40, largest=GPUS_PER_NODE, seed=1)) <= GPUS_PER_NODE


def test_pods_of_a_wave_come_in_turns() -> None:
    """The first members of all gangs come before the second of any: the order that provokes deadlocks."""
    gangs = make_gangs(4, largest=8, seed=0)
    (wave,) = gang_manifests(gangs, "s")
    assert [each["kind"] for each in wave[:4]] == ["PodGroup"] * 4
    pods = [each["metadata"]["name"] for each in wave[4:]]
    assert pods[:4] == [f"gang-{number:02}-0" for number in range(1, 5)]
    assert len(pods) == sum(gang.size for gang in gangs)


def test_failed_check_prints_problems_and_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty problems are enough to read; their number is told, and the code is 1."""

    async def play(*_: object, **__: object) -> Verdict:
        problems = [f"problem {number}" for number in range(25)]
        return Verdict(gangs=1, pods=1, bursts_seconds=[], problems=problems)

    monkeypatch.setattr(gang_demo, "play", play)
    result = CliRunner().invoke(gang_demo.command, [])
    assert result.exit_code == 1
    assert result.output.splitlines()[-2:] == ["error: problem 19", "error: the check found 25 problems"]


def test_its_profile_loads() -> None:
    """What stands in the module is a configuration."""
    (profile,) = loads(GANG_PROFILE).profiles
    assert profile.scheduler_name == "pyscheduler-demo-gang"
