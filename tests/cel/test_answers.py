"""Expressions and the answers that Kubernetes 1.36 gave; see `answers/NOTICE`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.api import Device, DeviceAttribute, DeviceCapacity
from pyscheduler.cel import CelCompileError, CelError, CelInternalError, Meter, compile_expression
from pyscheduler.plugins.dynamic_resources.device_language import VARIABLES, device_value

ANSWERS = [
    json.loads(line)
    for line in (Path(__file__).parent / "answers/kubernetes-1.36.jsonl").read_text(encoding="utf-8").splitlines()
]
DEVICE = Device(
    name="d",
    attributes={
        "d.example.com/model": DeviceAttribute(string_value="A100"),
        "d.example.com/n": DeviceAttribute(int_value=3),
        "d.example.com/b": DeviceAttribute(bool_value=True),
        "d.example.com/v": DeviceAttribute(version_value="1.2.3"),
        "own": DeviceAttribute(string_value="o"),
        "big": DeviceAttribute(int_value=2**62),
    },
    capacity={"d.example.com/mem": DeviceCapacity(value="1.5Gi"), "cores": DeviceCapacity(value="12")},
)


def answer(expression: str) -> Mapping[str, Any]:
    """Return the answer to an expression, in the form of the recorded answers."""
    try:
        program = compile_expression(expression, VARIABLES, Meter())
    except CelCompileError as error:
        return {"compile": str(error)}
    meter = Meter()
    try:
        result = program.evaluate((device_value("drv", DEVICE),), meter)
    except CelInternalError as error:
        return {"error": str(error)}
    except CelError as error:
        return {"error": str(error), "cost": meter.cost}
    return {"result": result, "cost": meter.cost}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("recorded", ANSWERS, ids=lambda recorded: recorded["expression"][:60])
def test_the_answer_is_that_of_kubernetes(recorded: Mapping[str, Any]) -> None:
    """Result, message and cost are those of Kubernetes 1.36."""
    expression = recorded["expression"]
    assert {"expression": expression, **answer(expression)} == recorded


def test_there_are_answers_of_each_kind() -> None:
    """The table covers matches, refusals, errors and expressions that do not compile."""
    assert sum("compile" in each for each in ANSWERS) > 30
    assert sum("error" in each for each in ANSWERS) > 40
    assert sum(each.get("result") is True for each in ANSWERS) > 100
    assert sum(each.get("result") is False for each in ANSWERS) > 50
