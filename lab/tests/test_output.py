"""The output of `-o json` for a scenario: steps, times, states, sets, and the exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyscheduler.cli.main import main
from pyscheduler_lab.cli.result_text import row_texts, row_writer, value_text
from pyscheduler_lab.cli.simulate_compare import estimate_texts
from pyscheduler_lab.results.columns import COLUMNS, Unit
from pyscheduler_lab.results.comparison import estimate

FILE = """
schema: 1
profiles: {plain: {}}
scenarios:
- id: s
  profile: plain
  nodes: [{name: n, cpu: 2}]
  steps:
  - batch:
    - create_podgroup: {name: g, min: 1}
    - create_pods: {prefix: p, count: 3, group: g, annotations: {a: b}}
    - create_pods: {prefix: q, ns: other, gated: true}
  - expect: {bound: {g: 3}, within: 7}
  - complete_pods: {pods: [p-0]}
  - expect: {bound: {g: 2}, within: 30}
  - delete_pods: {pods: [p-1]}
"""


@pytest.fixture
def output(tmp_path: Any, capsysbinary: pytest.CaptureFixture[bytes]) -> dict[str, Any]:
    """Run the scenario, which fails in its second step; return its output."""
    path = tmp_path / "s.yaml"
    path.write_text(FILE)
    with pytest.raises(SystemExit) as ended:
        main(["simulate", str(path), "-o", "json"])
    assert ended.value.code == 1
    out = capsysbinary.readouterr().out
    (result,) = json.loads(out)
    assert isinstance(result, dict)
    return result


def test_fields_and_failures(output: dict[str, Any]) -> None:
    """One object per scenario; a failed scenario has a reason, and runs all its steps."""
    assert list(output) == ["id", "passed", "failures", "steps"]
    assert (output["id"], output["passed"]) == ("s", False)
    assert output["failures"] == ["step 1 (expect), 7 s: set g: 2 pods are bound, not 3, after 7 s"]


def test_one_entry_per_top_level_step_with_the_time_after_it(output: dict[str, Any]) -> None:
    """A batch is one step; an expectation that waits has the time at which it was given up or came true."""
    assert [step["step"] for step in output["steps"]] == [0, 1, 2, 3, 4]
    times = [step["time"] for step in output["steps"]]
    assert times[:3] == [0, 7, 7]
    assert 7 <= times[3] <= 37
    assert times[4] == times[3]
    assert all(list(step) == ["step", "time", "pods", "groups"] for step in output["steps"])


def test_states_sets_and_messages(output: dict[str, Any]) -> None:
    """By `ns/name`: what is bound has a node; what waits for room says why; who has ended is gone and in no set."""
    first, given_up, _, late, last = (step["pods"] for step in output["steps"])
    assert sorted(first) == ["default/p-0", "default/p-1", "default/p-2", "other/q-0"]
    assert {key: pod["state"] for key, pod in given_up.items()} == {
        "default/p-0": "bound",
        "default/p-1": "bound",
        "default/p-2": "pending",
        "other/q-0": "pending",
    }
    fields = ["state", "node", "set", "message", "messages", "annotations"]
    assert all(list(pod) == fields for pod in given_up.values())
    assert given_up["default/p-0"]["node"] == "n"
    assert given_up["default/p-0"]["annotations"] == {"a": "b"}
    assert "Insufficient cpu" in given_up["default/p-2"]["message"]
    assert given_up["default/p-2"]["messages"] == [given_up["default/p-2"]["message"]]
    assert given_up["default/p-2"]["node"] is None
    assert (given_up["default/p-2"]["set"], given_up["other/q-0"]["set"]) == ("g", "other/q")
    for pods, name in ((late, "default/p-0"), (last, "default/p-1")):
        assert (pods[name]["state"], pods[name]["set"], pods[name]["node"]) == ("gone", None, None)
    assert late["default/p-2"]["state"] == "bound"
    assert all(step["groups"].keys() == {"default/g"} for step in output["steps"])


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "seconds", "0.0 s"),
        (0.004, "seconds", "<0.1 s"),
        (0.06, "seconds", "0.1 s"),
        (3600.0, "seconds", "1.0 h"),
        (0.0001, "share", "<0.1%"),
        (0.001, "ratio", "<0.01"),
        (0.01, "number", "<0.1"),
        (2.0, "number", "2"),
        (None, "seconds", "-"),
    ],
)
def test_small_value_is_not_shown_as_0(value: float | None, unit: Unit, text: str) -> None:
    """The smallest number that the text could show is a bound."""
    assert value_text(value, row_writer(unit, [value])) == text


@pytest.mark.parametrize(
    ("values", "unit", "texts"),
    [
        pytest.param([246.0, 8280.0], "seconds", ["0.07 h", "2.30 h"], id="minutes beside hours"),
        pytest.param([3.0, 200_000.0, 0.0, None], "seconds", ["<0.01 d", "2.31 d", "0.00 d", "-"], id="far apart"),
        pytest.param([90_000.0, 180_000.0], "seconds", ["1.0 d", "2.1 d"], id="days"),
        pytest.param([0.5, 59.0], "seconds", ["0.5 s", "59.0 s"], id="seconds"),
        pytest.param([120.0, 46.5], "number", ["120.0", "46.5"], id="means of numbers"),
        pytest.param([120.0, 46.0], "number", ["120", "46"], id="numbers"),
    ],
)
def test_row_has_one_unit_and_as_many_decimals(values: list[float | None], unit: Unit, texts: list[str]) -> None:
    """The largest value of a row chooses the unit of all its values, so that they can be compared at a glance."""
    assert row_texts(values, unit) == texts


def test_bound_of_a_row_is_marked() -> None:
    """A lower bound begins with `>`, also if it is too small to be shown."""
    assert row_texts([3.0, 200_000.0, None], "seconds", bounds=[True, True, True]) == [">0.00 d", ">2.31 d", "-"]


def test_number_of_a_row_has_the_decimals_of_its_intervals() -> None:
    """A mean without decimals has one if an interval of the row has one."""
    assert row_writer("number", [3.0, 4.0], [1.5, None])(3.0) == "3.0"


@pytest.mark.parametrize(
    ("others", "mark"),
    [
        pytest.param([17716.61, 17716.61], "≈", id="less than the digits show"),
        pytest.param([17716.6, 17716.6], "=", id="equal"),
        pytest.param([18716.6, 18716.6], " ", id="shown"),
        pytest.param([7000.0, 27000.0], "≈", id="chance"),
    ],
)
def test_difference_that_the_digits_do_not_show_is_marked(others: list[float], mark: str) -> None:
    """A value without a mark differs from that of the first policy in the digits that are printed."""
    (makespan,) = [column for column in COLUMNS if column.name == "makespan_s"]
    first = [17716.6, 17716.6]
    texts = estimate_texts(
        [estimate(first), estimate(others, first)], makespan, has_seeds=True, are_open=[False, False]
    )
    assert texts[0] == "4.9 h ±0.0 h  "
    assert texts[1][-1] == mark
