"""Selectors about a device, and the answers that Kubernetes 1.36 gave; the language itself has tests of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kube_cel import CelCompileError, CelError, Meter, compile_expression
from pyscheduler.api import Device, DeviceAttribute, DeviceCapacity
from pyscheduler.plugins.dynamic_resources.device_language import VARIABLES, device_value

FILE = Path(__file__).parents[3] / "packages/kube-cel/tests/answers/kubernetes-1.36.jsonl"
ANSWERS = [
    recorded
    for recorded in map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
    if "device." in recorded["expression"]
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


def answer(expression: str) -> object:
    """Return what an expression says about the device: a result, or the text of the error."""
    try:
        return compile_expression(expression, VARIABLES, Meter()).evaluate((device_value("drv", DEVICE),), Meter())
    except (CelCompileError, CelError) as error:
        return str(error)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("recorded", ANSWERS, ids=lambda recorded: recorded["expression"][:60])
def test_the_answer_is_that_of_kubernetes(recorded: Mapping[str, Any]) -> None:
    """Result and message about a device are those of Kubernetes 1.36."""
    assert answer(recorded["expression"]) == recorded.get("result", recorded.get("error", recorded.get("compile")))


def test_there_are_answers_about_devices() -> None:
    """Attributes, capacities, and fields that a device does not have."""
    assert len(ANSWERS) > 30
