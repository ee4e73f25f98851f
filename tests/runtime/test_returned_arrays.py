"""Arrays that plugins return: of whatever dtype, shape and kind, they are taken as meant, or named as wrong."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pyscheduler import (
    CycleState,
    FilterPlugin,
    NodeStatuses,
    Pod,
    PreFilterPlugin,
    ScorePlugin,
    SignPlugin,
    Status,
)
from pyscheduler.framework import Nodes, PluginError, PreFilterResult, Reuse
from pyscheduler.runtime.extension_points.arrays import score_array, statuses_problem
from pyscheduler.testing import FakeCluster, FakeFramework, make_pod
from pyscheduler_batch.model.answers import mask_of, scores_of

SIZE = 6
DTYPES = ("?", "i1", "i2", "i4", "i8", ">i8", "u1", "u4", "u8", "f2", "f4", "f8", "c8", "O", "U3", "M8[s]")
SHAPES = ("n", "n-1", "n+1", "empty", "0-d", "n by 1", "1 by n")
KINDS = ("plain", "strided", "reversed", "read-only", "masked", "subclass", "list", "none", "text", "NaN", "huge")
NO = Status.unschedulable("no")


class Subclass(np.ndarray):  # type: ignore[type-arg]
    """An array that may mean more than its numbers."""


def some_answer(rng: random.Random, size: int = SIZE) -> tuple[Any, str]:
    """Return something that a plugin may return for an array, and what it is."""
    dtype, shape, kind = rng.choice(DTYPES), rng.choice(("n", "n", "n", *SHAPES)), rng.choice(("plain", *KINDS))
    shapes = {
        "n": size,
        "n-1": size - 1,
        "n+1": size + 1,
        "empty": 0,
        "0-d": (),
        "n by 1": (size, 1),
        "1 by n": (1, size),
    }
    array: Any = np.array(np.random.default_rng(rng.getrandbits(32)).integers(0, 2, shapes[shape])).astype(dtype)
    if kind in {"strided", "reversed"} and array.ndim == 1:
        array = np.repeat(array, 2)[::2] if kind == "strided" else array[::-1]
    elif kind == "read-only":
        array.flags.writeable = False
    elif kind == "masked" and dtype != "O":
        array = np.ma.masked_array(array, mask=False)
    elif kind == "subclass":
        array = array.view(Subclass)
    elif kind == "list":
        array = array.tolist()
    elif kind == "none":
        array = None
    elif kind == "text":
        array = "all"
    elif kind == "NaN" and dtype in {"f2", "f4", "f8"} and array.size:
        array.flat[0] = np.nan
    elif kind == "huge" and dtype == "u8" and array.size:
        array.flat[0] = 2**63 + 1
    return array, f"{dtype} {shape} {kind}"


def is_plain(answer: object, kinds: str) -> bool:
    """Return True for a plain array of the right length, of a dtype of these kinds."""
    return type(answer) is np.ndarray and answer.shape == (SIZE,) and answer.dtype.kind in kinds


@pytest.mark.slow
def test_score_arrays_are_taken_as_meant_or_not_at_all() -> None:
    """Integers of each size are scores; what is taken is the plugin's numbers, and shares nothing with them."""
    rng = random.Random(1)
    taken: Counter[bool] = Counter()
    for _ in range(4000):
        answer, what = some_answer(rng)
        scores = score_array(answer, SIZE)
        wanted = is_plain(answer, "iu") and int(answer.max()) < 2**63
        assert (scores is not None) == wanted, what
        taken[wanted] += 1
        if scores is not None:
            assert scores.dtype == np.int64, what
            assert scores.tolist() == answer.tolist(), what
            assert scores.flags.writeable, what
            assert scores is answer or not np.shares_memory(scores, answer), what
            assert scores is not answer or answer.base is None, what
    assert min(taken.values()) > 200, taken


@pytest.mark.slow
def test_masks_are_taken_as_meant_or_refused() -> None:
    """`fail` and `failing` take a bool per node; whatever else is an error that says what to write."""
    rng = random.Random(2)
    taken: Counter[bool] = Counter()
    for _ in range(4000):
        answer, what = some_answer(rng)
        wanted = is_plain(answer, "b")
        statuses = NodeStatuses(SIZE)
        taken[wanted] += 1
        if wanted:
            statuses.fail(answer, NO)
            assert (~statuses.passed()).tolist() == answer.tolist(), what
            failing = NodeStatuses.failing(answer, NO)
            assert (failing is None) == (not answer.any()), what
            assert failing is None or statuses_problem(failing, SIZE) == "", what
        else:
            with pytest.raises((TypeError, ValueError), match="`failed` must be a numpy array with one bool for each"):
                statuses.fail(answer, NO)
            assert statuses.passed().all(), what
    assert min(taken.values()) > 50, taken


@pytest.mark.slow
def test_answers_of_batch_policies_are_taken_as_meant_or_refused() -> None:
    """Masks are bools, scores are numbers without NaN; the error names policy and method."""
    rng = random.Random(3)

    class Policy:
        name = "toy"

        def may_evict(self) -> None: ...

    method = Policy().may_evict
    taken: Counter[str] = Counter()
    for _ in range(4000):
        answer, what = some_answer(rng)
        for take, kinds in ((mask_of, "b"), (scores_of, "fiu")):
            wanted = is_plain(answer, kinds) and not (kinds == "fiu" and np.isnan(answer).any())
            taken[f"{take.__name__} {wanted}"] += 1
            if wanted:
                found: NDArray[Any] = take(answer, SIZE, method)
                assert found is answer, what
            else:
                with pytest.raises(PluginError, match=r'policy "toy": may_evict returned .*, expected '):
                    take(answer, SIZE, method)
    assert len(taken) == 4
    assert min(taken.values()) > 50, taken


@pytest.mark.slow
def test_statuses_that_are_set_by_hand_are_checked() -> None:
    """Each way to set `codes` and `reason_ids` wrong is found; each right one is accepted, codes alone included."""
    rng = random.Random(4)
    found: Counter[bool] = Counter()
    for _ in range(3000):
        statuses = NodeStatuses(SIZE)
        reason = statuses.add_reason(NO)
        right = True
        if rng.random() < 0.5:
            statuses.codes[0] = NO.code
            statuses.reason_ids[0] = reason
        for name, dtype in (("codes", np.int8), ("reason_ids", np.int32)):
            if rng.random() < 0.3:
                answer, _ = some_answer(rng)
                setattr(statuses, name, answer)
                right = right and is_plain(answer, "i") and answer.dtype == dtype
        if right:
            codes = [statuses.table[row].code if row in {0, 1} else -1 for row in statuses.reason_ids.tolist()]
            right = all(
                0 <= code <= 6 and number in {0, 1} and (number == 0 or code == wanted)
                for code, number, wanted in zip(
                    statuses.codes.tolist(), statuses.reason_ids.tolist(), codes, strict=True
                )
            )
        found[right] += 1
        assert (statuses_problem(statuses, SIZE) == "") == right, (statuses.codes, statuses.reason_ids)
    assert min(found.values()) > 200, found


# Whole profiles


class Fuzzed(ScorePlugin, FilterPlugin, PreFilterPlugin):
    """Returns `answer` at one extension point; at the others, nothing and zeros."""

    at = ""
    answer: Any = None

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return PreFilterResult(self.answer) if self.at == "pre_filter" else None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        if self.at == "failing":
            return NodeStatuses.failing(self.answer, NO)
        if self.at in {"codes", "reason_ids"}:
            statuses = NodeStatuses(len(nodes))
            statuses.add_reason(NO)
            setattr(statuses, self.at, self.answer)
            return statuses
        return self.answer if self.at == "filter_nodes" else None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return self.answer if self.at == "score_nodes" else np.zeros(len(nodes), dtype=np.int64)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Any) -> Any:
        if self.at == "normalize_scores":
            scores[:] = self.answer
        return self.answer if self.at == "normalize_scores, returned" else None


class FuzzedAndCached(Fuzzed, SignPlugin):
    """The same with the equivalence cache."""

    reuse = Reuse.WHILE_NODE_STAYS

    def sign_pod(self, pod: Pod) -> tuple[()]:
        return ()


POINTS = (
    "pre_filter",
    "failing",
    "codes",
    "reason_ids",
    "filter_nodes",
    "score_nodes",
    "normalize_scores",
    "normalize_scores, returned",
)


def decide(framework: FakeFramework, pod: Pod) -> Status | None:
    """Return why the pod finds no node; None if it does."""
    profile, nodes, state = framework.profile, framework.scheduler.snapshot.nodes, CycleState()
    outcome = profile.run_pre_filter(state, pod, nodes)
    if outcome.status is not None:
        return outcome.status
    found = profile.find_feasible(state, pod, nodes)
    if found.status is not None or not len(found.rows):
        assert found.status is not None or found.statuses is not None
        return found.status or NO
    feasible = nodes.take(found.rows)
    return profile.run_pre_score(state, pod, feasible) or profile.run_score(state, pod, feasible).status


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # NaN into integers
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("plugin", [Fuzzed, FuzzedAndCached])
def test_no_answer_gets_past_the_boundary(plugin: type[Fuzzed]) -> None:
    """Whatever a plugin returns, the pod gets a decision or an error in the plugin's name; nothing else raises."""
    cluster = FakeCluster()
    for number in range(SIZE):
        cluster.add_node(f"n{number}")
    framework = cluster.framework(enable=[plugin], allow_plugin_errors=True)
    rng = random.Random(5)
    made = framework.plugin(plugin.name)
    assert isinstance(made, Fuzzed)
    ended: Counter[str] = Counter()
    framework.nodes()
    for number in range(400):
        made.at = rng.choice(POINTS)
        made.answer, what = some_answer(rng)
        if made.at == "pre_filter" and rng.random() < 0.5:
            made.answer = rng.choice([{"n1"}, {1, 2}, frozenset(), ["n1"], {"gone"}])
        # The cache has a class for each amount, and takes part from the second pod of a class on.
        for name in ("first", "second"):
            framework.plugin_errors.clear()
            status = decide(framework, make_pod(f"{name}-{number}", requests={"cpu": f"{number + 1}m"}))
            text = f"{made.at} {what}: {status}"
            assert status is None or status.is_rejected or status.plugin == plugin.name, text
            assert (status is not None and status.is_error) or not framework.plugin_errors, text
            ended[f"{made.at}: {'taken' if status is None or status.is_rejected else 'refused'}"] += 1
    assert len(ended) == 2 * len(POINTS) - 1, ended
