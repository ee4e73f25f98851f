"""The cases of the podgrouper: workloads of all kinds, and the groups of their pods."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler_podgrouper.cases import Case, answer_cases
from pyscheduler_podgrouper.table import GrouperTable

FILE = Path(__file__).parent / "cases" / "podgrouper-cases.yaml"
CONTENT: dict[str, Any] = yaml.load(FILE.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
CASES = CONTENT["cases"]


def differences(expected: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    """Return the fields in which the answer for a pod is not as expected."""
    found = ["pod"] if expected["pod"] != actual["pod"] else []
    if "error" in expected:
        return found if expected["error"] in actual.get("error", "") else [*found, "error"]
    if "skipped" in expected:
        return found if actual.get("skipped") is True else [*found, "skipped"]
    if "podGroup" not in actual:
        return [*found, "podGroup"]
    found += ["podSubGroup"] if expected["podSubGroup"] != actual["podSubGroup"] else []
    group = actual["podGroup"]
    for field, value in expected["podGroup"].items():
        if field.endswith("Include"):
            same = value.items() <= group[field.removesuffix("Include")].items()
        else:
            same = group[field] == value
        found += [] if same else [field]
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_each_pod_gets_the_expected_group(case: dict[str, Any]) -> None:
    """Each pod of a case is grouped, refused or left alone as expected."""
    given = {key: value for key, value in case.items() if key not in {"id", "expected"}}
    answers = Case(given, CONTENT["defaults"]).answer(GrouperTable())
    found = [differences(expected, actual) for expected, actual in zip(case["expected"], answers, strict=True)]
    assert not any(found), found


def test_a_file_of_cases_is_answered_in_order() -> None:
    """There is one answer for each case, with its id."""
    assert [answer["id"] for answer in answer_cases(str(FILE))] == [case["id"] for case in CASES]


def test_the_comparison_notices_a_wrong_answer() -> None:
    """Another minimum, sub-group or label differs, and so does a group in place of an error."""
    case = next(case for case in CASES if case["id"] == "pytorch-basic")
    (actual, *_) = Case(case, CONTENT["defaults"]).answer(GrouperTable())
    expected = case["expected"][0]
    assert differences(expected, actual) == []
    wrong = copy.deepcopy(expected)
    wrong["podGroup"]["minMember"] += 1
    wrong["podGroup"]["labelsInclude"] = {"missing": "label"}
    wrong["podSubGroup"] = "none"
    assert differences(wrong, actual) == ["podSubGroup", "minMember", "labelsInclude"]
    assert differences({"pod": expected["pod"], "error": "refused"}, actual) == ["error"]
    assert differences({"pod": expected["pod"], "skipped": "why"}, actual) == ["skipped"]
