"""The rule of Renderings, on cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from acme_workloads.rendering import ROW
from pyscheduler_podgrouper.cases import Case
from pyscheduler_podgrouper.table import GROUPERS, GrouperTable

CONTENT = yaml.safe_load((Path(__file__).parents[1] / "cases.yaml").read_text(encoding="utf-8"))


def answer(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the answer for the pod of a Rendering with this spec."""
    case = CONTENT["cases"][0]
    case["workload"]["spec"] = spec
    (found,) = Case(case, CONTENT["defaults"]).answer(GrouperTable((*GROUPERS, ROW)))
    return found


def test_a_rendering_needs_its_mixer_and_its_painters() -> None:
    """The group has a sub-group for each role; the pod belongs to that of its label."""
    found = answer({"painters": 3})
    assert (found["podGroup"]["minMember"], found["podSubGroup"]) == (4, "painter")
    assert found["podGroup"]["queue"] == "films"


@pytest.mark.parametrize("spec", [{}, {"painters": 0}], ids=["missing", "none"])
def test_a_rendering_without_painters_is_refused(spec: dict[str, Any]) -> None:
    """The message names the object."""
    assert "spec.painters of Rendering studio/film" in answer(spec)["error"]
