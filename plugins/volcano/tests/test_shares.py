"""The formulas of shares: properties, and columns against scalar models written for one queue or job at a time."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler_batch.model.axis import ResourceAxis
from pyscheduler_kube_batch.proportion import divide_by_weight as divide_as_kube_batch
from pyscheduler_lab.simulation.batch_cases.tables import build_tables
from pyscheduler_volcano.amounts import Scale
from pyscheduler_volcano.capacity_tree import queue_shares, tree_table
from pyscheduler_volcano.hierarchy import HierarchyTree
from pyscheduler_volcano.proportion import divide_by_weight
from pyscheduler_volcano.queue_policy import own_capability, share_limit

NAMES = ("cpu", "memory", "pods")
GPU = "nvidia.com/gpu"
Amounts = dict[str, float]

#: How often each rule was met in the test that runs, and the rules that a test must meet at least so often.
COUNTS: Counter[str] = Counter()
_LEAST = settings.default.max_examples // 8
RULES: Mapping[str, tuple[str, ...]] = {
    "test_columns_divide_as_one_queue_at_a_time": (
        "proportion equals the scalar model",
        "  with a guarantee",
        "  with a limit",
    ),
    "test_shares_stay_within_request_limit_and_pool": (
        "guarantees may exceed the pool",
        "sum within the pool",
        "pool given out where it is wanted",
    ),
    "test_equals_get_equal_parts_and_weight_never_hurts": ("twins get the same", "more weight gets no less"),
    "test_a_queue_that_requests_more_deserves_no_less": (
        "more request gets no less",
        "more request gets more",
        "kube-batch: more request gets no less",
        "kube-batch: more request gets more",
    ),
    "test_kube_batch_divides_as_one_queue_at_a_time": ("kube-batch equals the scalar model", "  with a met queue"),
    "test_levels_of_a_tree_equal_the_recursion": ("tree rows equal the recursion",),
    "test_hierarchy_equals_the_recursion": ("saturated inner nodes", "hierarchy jobs equal the recursion"),
}


@pytest.fixture(autouse=True)
def _each_rule_is_met(request: pytest.FixtureRequest) -> Any:
    """Print how often a test met its rules, and fail one that hardly met some of them: it has shown nothing."""
    COUNTS.clear()
    yield
    sys.stdout.write(f"{dict(sorted(COUNTS.items()))}\n")
    rules = RULES.get(request.function.__name__, ())
    assert all(COUNTS[rule] >= _LEAST for rule in rules), (rules, COUNTS)


amount = st.integers(min_value=0, max_value=40).map(lambda units: units * 250.0)
QUEUE = st.fixed_dictionaries(
    {
        "weight": st.integers(min_value=1, max_value=5).map(float),
        "request": st.tuples(amount, amount, amount),
        "guarantee": st.one_of(st.just((0.0, 0.0, 0.0)), st.tuples(amount, amount, st.just(0.0))),
        "limit": st.one_of(st.just((math.inf,) * 3), st.tuples(amount, amount, st.just(math.inf))),
    }
)
TOTAL = st.tuples(amount, amount, amount).map(lambda each: tuple(value + 1000.0 for value in each))


def _scale() -> Scale:
    return Scale(ResourceAxis.of(()))


def _columns(queues: list[dict[str, Any]], total: tuple[float, ...]) -> tuple[np.ndarray, ...]:
    guarantee = np.array([queue["guarantee"] for queue in queues])
    rest = np.maximum(np.array(total) - guarantee.sum(axis=0), 0.0)
    capability = np.minimum(rest + guarantee, np.array([queue["limit"] for queue in queues]))
    weight = np.array([queue["weight"] for queue in queues])
    request = np.array([queue["request"] for queue in queues])
    return weight, request, guarantee, capability


def _scalar_proportion(queues: list[dict[str, Any]], total: tuple[float, ...], limits: np.ndarray) -> list[list[float]]:
    """Divide queue by queue and resource by resource."""
    deserved = [[0.0] * len(NAMES) for _ in queues]
    met: set[int] = set()
    remaining = list(total)
    for step in range(10_000):
        weights = sum(queue["weight"] for at, queue in enumerate(queues) if at not in met)
        if not weights:
            break
        gained, lost = [0.0] * len(NAMES), [0.0] * len(NAMES)
        newly = set()
        for at, queue in enumerate(queues):
            if at in met:
                continue
            new = []
            for column in range(len(NAMES)):
                value = deserved[at][column] + remaining[column] * (queue["weight"] / weights)
                value = min(value, float(limits[at][column]), queue["request"][column])
                value = max(value, queue["guarantee"][column])
                change = value - deserved[at][column]
                gained[column] += max(change, 0.0)
                lost[column] += max(-change, 0.0)
                new.append(value)
            if all(asked - got < 0.1 for asked, got in zip(queue["request"], new, strict=True)) or (
                step and new == deserved[at]
            ):
                newly.add(at)
            deserved[at] = new
        met |= newly
        rest = [max(r + more - less, 0.0) for r, more, less in zip(remaining, lost, gained, strict=True)]
        if (rest[0] < 0.1 and rest[1] < 0.1) or rest == remaining:
            break
        remaining = rest
    return deserved


@pytest.mark.slow
@settings(max_examples=5 * settings.default.max_examples, deadline=None)
@given(queues=st.lists(QUEUE, min_size=1, max_size=7), total=TOTAL)
def test_columns_divide_as_one_queue_at_a_time(queues: list[dict[str, Any]], total: tuple[float, ...]) -> None:
    """Volcano's proportion over arrays equals the division queue by queue."""
    weight, request, guarantee, capability = _columns(queues, total)
    own = divide_by_weight(np.array(total), weight, request, guarantee, capability, _scale())
    model = np.array(_scalar_proportion(queues, total, capability))
    assert np.allclose(own, model, rtol=1e-9, atol=1e-6)
    COUNTS["proportion equals the scalar model"] += 1
    COUNTS["  with a guarantee"] += bool(guarantee.any())
    COUNTS["  with a limit"] += bool(np.isfinite([queue["limit"][0] for queue in queues]).any())


def test_rounding_leaves_no_queue_below_a_whole_gpu() -> None:
    """Weights 4 and 3 divide three GPUs among requests for two and one: each queue deserves exactly its request."""
    scale = Scale(ResourceAxis.of(["nvidia.com/gpu"]))
    request = np.array([[0.0, 0.0, 0.0, 2.0], [0.0, 0.0, 0.0, 1.0]])
    nothing, anything = np.zeros_like(request), np.full_like(request, np.inf)
    weight, total = np.array([4.0, 3.0]), np.array([8000.0, 2.0**33, 110.0, 3.0])
    deserved = divide_by_weight(total, weight, request, nothing, anything, scale)
    assert deserved[:, 3].tolist() == [2.0, 1.0]


def test_a_share_has_no_cap_where_guarantees_leave_nothing() -> None:
    """The cap of a share is the capability, but for GPUs that other queues are guaranteed or that no node offers."""
    scale = Scale(ResourceAxis.of(["nvidia.com/gpu"]))
    guarantee = np.array([[np.nan, np.nan, np.nan, 2.0], [np.nan] * 4])
    limit = np.full_like(guarantee, np.nan)
    for gpus, caps in ((2.0, [2.0, np.inf]), (0.0, [2.0, np.inf]), (3.0, [3.0, 1.0])):
        total = np.array([8000.0, 2.0**33, 110.0, gpus])
        capability = own_capability(total, guarantee, limit, scale.native)
        cap = share_limit(total, guarantee, capability, scale.native)
        assert cap[:, 3].tolist() == caps
        assert np.array_equal(cap[:, :3], capability[:, :3])


@pytest.mark.slow
@settings(max_examples=5 * settings.default.max_examples, deadline=None)
@given(queues=st.lists(QUEUE, min_size=1, max_size=7), total=TOTAL)
def test_shares_stay_within_request_limit_and_pool(queues: list[dict[str, Any]], total: tuple[float, ...]) -> None:
    """No queue deserves more than it requests or may hold, unless guaranteed; without guarantees sums fit the pool."""
    weight, request, guarantee, capability = _columns(queues, total)
    deserved = divide_by_weight(np.array(total), weight, request, guarantee, capability, _scale())
    assert np.all(deserved <= np.maximum(np.minimum(request, capability), guarantee) + 1e-6)
    assert np.all(deserved >= guarantee - 1e-6)
    if guarantee.any():
        COUNTS["guarantees may exceed the pool"] += 1
        return
    assert np.all(deserved.sum(axis=0) <= np.array(total) + 0.2)
    COUNTS["sum within the pool"] += 1
    wanted = np.minimum(request, capability).sum(axis=0)
    # The division ends when cpu and memory are used up, so a rest of pods may stay.
    given_out = deserved.sum(axis=0)[:2]
    assert np.all(given_out >= np.minimum(wanted, np.array(total))[:2] * 0.99 - 20.0)
    COUNTS["pool given out where it is wanted"] += 1


@pytest.mark.slow
@settings(max_examples=10 * settings.default.max_examples // 3, deadline=None)
@given(queues=st.lists(QUEUE, min_size=2, max_size=6), total=TOTAL, more=st.integers(min_value=1, max_value=4))
def test_equals_get_equal_parts_and_weight_never_hurts(
    queues: list[dict[str, Any]], total: tuple[float, ...], more: int
) -> None:
    """A twin gets the same; a queue with more weight deserves no less."""
    queues = [{**queue, "guarantee": (0.0, 0.0, 0.0)} for queue in queues]
    twins = [*queues, queues[0]]
    weight, request, guarantee, capability = _columns(twins, total)
    deserved = divide_by_weight(np.array(total), weight, request, guarantee, capability, _scale())
    assert np.allclose(deserved[0], deserved[-1], rtol=1e-9, atol=1e-6)
    COUNTS["twins get the same"] += 1
    heavier = weight.copy()
    heavier[0] += more
    after = divide_by_weight(np.array(total), heavier, request, guarantee, capability, _scale())
    assert np.all(after[0] >= deserved[0] - 1.0)
    COUNTS["more weight gets no less"] += 1


@pytest.mark.slow
@settings(max_examples=5 * settings.default.max_examples, deadline=None)
@given(
    queues=st.lists(QUEUE, min_size=2, max_size=6),
    total=TOTAL,
    more=st.tuples(amount, amount, amount),
)
def test_a_queue_that_requests_more_deserves_no_less(
    queues: list[dict[str, Any]], total: tuple[float, ...], more: tuple[float, ...]
) -> None:
    """The proportion of Volcano and of kube-batch gives a queue no less cpu and memory when it requests more."""
    scale = Scale(ResourceAxis.of(()), cpu=10.0, memory=10.0, pods=math.inf)
    weight, request, guarantee, capability = _columns(queues, total)
    larger = request.copy()
    larger[0] += more
    for prefix, shares in (
        (
            "",
            [divide_by_weight(np.array(total), weight, r, guarantee, capability, _scale()) for r in (request, larger)],
        ),
        ("kube-batch: ", [divide_as_kube_batch(np.array(total), weight, r, scale) for r in (request, larger)]),
    ):
        before, after = (each[0, :2] for each in shares)
        assert np.all(after >= before - 1.0), (prefix, before, after)
        COUNTS[f"{prefix}more request gets no less"] += 1
        COUNTS[f"{prefix}more request gets more"] += bool(np.any(after > before + 1.0))


@pytest.mark.slow
@settings(max_examples=10 * settings.default.max_examples // 3, deadline=None)
@given(queues=st.lists(QUEUE, min_size=1, max_size=6), total=TOTAL)
def test_kube_batch_divides_as_one_queue_at_a_time(queues: list[dict[str, Any]], total: tuple[float, ...]) -> None:
    """kube-batch's older division over arrays equals the division queue by queue; cpu and memory only."""
    scale = Scale(ResourceAxis.of(()), cpu=10.0, memory=10.0, pods=math.inf)
    weight, request, _, _ = _columns(queues, total)
    deserved = divide_as_kube_batch(np.array(total), weight, request, scale)
    model = [[0.0, 0.0] for _ in queues]
    met: set[int] = set()
    remaining = list(total[:2])
    while unmet := [at for at in range(len(queues)) if at not in met]:
        weights = sum(queues[at]["weight"] for at in unmet)
        spent = [0.0, 0.0]
        for at in unmet:
            new = [model[at][c] + remaining[c] * (queues[at]["weight"] / weights) for c in (0, 1)]
            if all(queues[at]["request"][c] < new[c] for c in (0, 1)):
                new = [min(new[c], queues[at]["request"][c]) for c in (0, 1)]
                met.add(at)
            spent = [spent[c] + new[c] - model[at][c] for c in (0, 1)]
            model[at] = new
        remaining = [remaining[c] - spent[c] for c in (0, 1)]
        if max(remaining) < 10.0:
            break
    assert np.allclose(deserved[:, :2], model, rtol=1e-9, atol=1e-6)
    COUNTS["kube-batch equals the scalar model"] += 1
    COUNTS["  with a met queue"] += bool(met)


# Trees.

NODE = st.tuples(
    st.integers(min_value=0, max_value=5),
    st.dictionaries(st.sampled_from(("cpu", "memory", GPU)), amount, max_size=3),
    st.dictionaries(st.sampled_from(("cpu", "memory", GPU)), amount, max_size=3),
    st.dictionaries(st.sampled_from(("cpu", "memory", GPU)), amount, max_size=3),
)


def _queue_specs(nodes: list[Any], root: Amounts) -> list[dict[str, Any]]:
    """Make a tree: each queue hangs under an earlier one."""
    specs: list[dict[str, Any]] = [{"name": "root", "capability": root}]
    for at, (above, deserved, capability, guarantee) in enumerate(nodes):
        parent = specs[above % len(specs)]["name"]
        specs.append(
            {
                "name": f"q{at}",
                "parent": parent,
                "deserved": deserved,
                "capability": capability,
                "guarantee": guarantee,
                "created": at,
            }
        )
    return specs


def _scalar_tree(specs: list[dict[str, Any]], total: Mapping[str, float]) -> dict[str, tuple[Amounts, Amounts]]:
    """Return deserved and real capability by queue, by recursion over dicts."""
    names = ("cpu", "memory", GPU, "pods")
    children: dict[str, list[dict[str, Any]]] = {spec["name"]: [] for spec in specs}
    for spec in specs[1:]:
        children[spec["parent"]].append(spec)
    capability = {spec["name"]: dict(spec.get("capability") or {}) for spec in specs}
    if not any(value >= 0.1 for value in capability["root"].values()):
        capability["root"] = {name: math.inf for name in names if name in ("cpu", "memory") or total.get(name)}
    real = {"root": {name: capability["root"].get(name, 0.0) for name in names}}
    deserved: dict[str, Amounts] = {}

    def descend(spec: dict[str, Any]) -> None:
        name = spec["name"]
        guaranteed = {each: sum((c.get("guarantee") or {}).get(each, 0.0) for c in children[name]) for each in names}
        for child in children[name]:
            own = child.get("guarantee") or {}
            wanted = child.get("deserved") or {}
            deserved[child["name"]] = {each: max(wanted.get(each, 0.0), own.get(each, 0.0)) for each in names}
            cap = capability[child["name"]]
            for each in ("cpu", "memory"):
                if cap.get(each, 0.0) <= 0:
                    cap[each] = capability[name].get(each, 0.0)
            for each, value in capability[name].items():
                cap.setdefault(each, value)
            found = {}
            for each in names:
                left = max(real[name][each] - guaranteed[each], 0.0) + own.get(each, 0.0)
                found[each] = min(left, cap[each]) if each in cap else left
            real[child["name"]] = found
        if name == "root":
            deserved[name] = {each: sum(deserved[c["name"]][each] for c in children[name]) for each in names}
        for child in children[name]:
            descend(child)

    descend(specs[0])
    return {name: (deserved[name], real[name]) for name in deserved}


@pytest.mark.slow
@settings(max_examples=5 * settings.default.max_examples, deadline=None)
@given(
    nodes=st.lists(NODE, min_size=1, max_size=8),
    root=st.one_of(st.just({}), st.dictionaries(st.sampled_from(("cpu", "memory", GPU)), amount, min_size=1)),
)
def test_levels_of_a_tree_equal_the_recursion(nodes: list[Any], root: Amounts) -> None:
    """Capacity's tree over arrays equals the recursion, whatever the order in which the queues are listed."""
    total = {"cpu": 8000.0, "memory": 8000.0, GPU: 8.0, "pods": 110.0}
    specs = _queue_specs(nodes, root)
    listed = [*specs[1:][::-1], specs[0]]
    tables = build_tables([{"name": "n", "allocatable": total}], listed, [], [], is_tree=True)
    axis, queues = tables.axis, tables.queues
    assert not queues.problems
    scale = Scale(axis)
    table = tree_table(queues, axis.amounts(total), queues.index["root"], scale)
    for name, (deserved, real) in _scalar_tree(specs, total).items():
        row = queues.index[name]
        assert axis.mapping(table.deserved[row]) == pytest.approx({each: deserved[each] for each in axis.names})
        assert axis.mapping(table.real_capability[row]) == pytest.approx({each: real[each] for each in axis.names})
        COUNTS["tree rows equal the recursion"] += 1
    shares = queue_shares(np.zeros_like(table.deserved), table.deserved, scale)
    empty = ~np.any(scale.significant(table.deserved) & scale.counted, axis=1)
    assert np.array_equal(shares == 1.0, empty)


PATHS = ("root/a", "root/b/x", "root/b/y", "root/c/x/z")
WEIGHTS = {"root/a": "1/2", "root/b/x": "1/3/1", "root/b/y": "1/3/2", "root/c/x/z": "1/1/1/4"}
JOB = st.tuples(st.sampled_from(PATHS), st.tuples(amount, amount, amount), st.tuples(amount, amount, amount))


def _scalar_hierarchy(jobs: list[Any], total: tuple[float, ...]) -> dict[str, tuple[float, bool]]:
    """Return share and saturation by path, by recursion."""
    held_total = [sum(job[1][c] for job in jobs) for c in range(3)]
    found: dict[str, tuple[float, bool]] = {}

    def share(held: list[float]) -> float:
        return max((h / t for h, t in zip(held, total, strict=True) if t >= 0.1), default=0.0)

    def visit(path: str) -> tuple[list[float], float, bool]:
        below = []
        for at, (place, held, more) in enumerate(jobs):
            if place == path:
                asked = [h + m for h, m in zip(held, more, strict=True)]
                saturated = any(
                    held[c] >= 0.1 and asked[c] and (held[c] >= asked[c] or not held_total[c] < total[c])
                    for c in range(3)
                )
                below.append((list(held), share(list(held)), saturated))
                found[f"{path}/{at}"] = (below[-1][1], saturated)
        prefix = f"{path}/"
        parts = {place[len(prefix) :].split("/")[0] for place, _, _ in jobs if place.startswith(prefix)}
        below += [visit(prefix + part) for part in sorted(parts)]
        smallest = min((s for _, s, done in below if s and not done), default=1.0)
        smallest = min(smallest, 1.0)
        total_held = [0.0, 0.0, 0.0]
        for held, own, done in below:
            if own:
                factor = 1.0 if done else smallest / own
                total_held = [t + h * factor for t, h in zip(total_held, held, strict=True)]
        figures = (total_held, share(total_held), all(done for _, _, done in below))
        found[path] = figures[1:]
        return figures

    visit("root")
    return found


@pytest.mark.slow
@settings(max_examples=5 * settings.default.max_examples, deadline=None)
@given(jobs=st.lists(JOB, min_size=1, max_size=8), total=TOTAL)
def test_hierarchy_equals_the_recursion(jobs: list[Any], total: tuple[float, ...]) -> None:
    """Hierarchical DRF over levels equals the recursion over paths."""
    held = np.array([job[1] for job in jobs])
    request = held + np.array([job[2] for job in jobs])
    paths = [(job[0], WEIGHTS[job[0]]) for job in jobs]
    tree = HierarchyTree(paths, np.array(total), request, _scale())
    # What one situation holds does not matter to the other.
    state = tree.states(np.stack([np.roll(held, 1, axis=0), held], axis=1))
    model = _scalar_hierarchy(jobs, total)
    for row, path in enumerate(tree.paths):
        assert state.share[row, 1] == pytest.approx(model[path][0])
        assert state.saturated[row, 1] == model[path][1]
        COUNTS["saturated inner nodes"] += bool(model[path][1])
    for at, job in enumerate(jobs):
        share, saturated = model[f"{job[0]}/{at}"]
        assert state.share[tree.first_job + at, 1] == pytest.approx(share)
        assert state.saturated[tree.first_job + at, 1] == saturated
        COUNTS["hierarchy jobs equal the recursion"] += 1
    assert tree.compare(state, paths[0][0], paths[0][0], 1) == 0.0


def test_queues_of_one_path_take_nothing_from_each_other() -> None:
    """A path takes up to equal shares from a path that parts from it, and nothing from itself or a path below."""
    held = np.array([[100.0, 0.0, 1.0], [200.0, 0.0, 2.0], [100.0, 0.0, 1.0]])
    paths = [("root/a", "1/1"), ("root/b", "1/2"), ("root/c/d", "1/2/1")]
    tree = HierarchyTree(paths, np.array([1000.0, 1000.0, 100.0]), held, _scale())
    state = tree.states(held[:, None])
    taken = {
        (left, right) for left, _ in paths for right, _ in [*paths, ("root/c", "")] if tree.may_take(state, left, right)
    }
    assert taken == {("root/a", "root/b"), ("root/b", "root/a"), ("root/c/d", "root/a"), ("root/c/d", "root/b")}


def test_hierarchy_orders_by_saturation_then_weighted_share() -> None:
    """An unsaturated path comes first; of two alike, the one with less share per weight."""
    total = np.array([1000.0, 1000.0, 100.0])
    paths = [("root/a", "1/1"), ("root/b", "1/2")]
    held = np.array([[100.0, 0.0, 1.0], [100.0, 0.0, 1.0]])
    tree = HierarchyTree(paths, total, held * 2, _scale())
    assert tree.compare(tree.states(held[:, None]), "root/a", "root/b") > 0
    done = HierarchyTree(paths, total, np.array([[200.0, 0.0, 2.0], [100.0, 0.0, 1.0]]), _scale())
    assert done.compare(done.states(held[:, None]), "root/a", "root/b") < 0


def test_a_weight_that_is_no_number_counts_as_1() -> None:
    """So does NaN, which is below nothing."""
    total = np.array([1000.0, 1000.0, 100.0])
    held = np.array([[100.0, 0.0, 1.0], [100.0, 0.0, 1.0]])
    for text in ("nan", "many", "-3"):
        tree = HierarchyTree([("root/a", "1/1"), ("root/b", f"1/{text}")], total, held * 2, _scale())
        assert tree.compare(tree.states(held[:, None]), "root/a", "root/b") == 0
        assert (tree.weight == 1.0).all()
