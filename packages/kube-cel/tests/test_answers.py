"""Expressions and the answers that Kubernetes 1.36 gave; see `answers/NOTICE`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kube_cel import ANY, CelCompileError, CelError, CelInternalError, Meter, compile_expression
from kube_cel.declarations import TYPES
from kube_cel.library_kubernetes import semver_of
from kube_cel.quantities import parse_quantity
from kube_cel.types import BOOL, STRING, Type, TypePool
from kube_cel.values import DefaultMap, Map

ANSWERS = [
    json.loads(line)
    for line in (Path(__file__).parent / "answers/kubernetes-1.36.jsonl").read_text(encoding="utf-8").splitlines()
]
POOL = TypePool()
VARIABLES = {
    "device": Type(
        "struct",
        "kubernetes.DRADevice",
        fields={
            "driver": STRING,
            "allowMultipleAllocations": BOOL,
            "attributes": POOL.map_of(STRING, POOL.map_of(STRING, ANY)),
            "capacity": POOL.map_of(STRING, POOL.map_of(STRING, TYPES["quantity"])),
        },
    )
}
ATTRIBUTES = {
    "d.example.com": Map(model="A100", n=3, b=True, v=semver_of("1.2.3")),
    "drv": Map(own="o", big=2**62),
}
CAPACITY = {"d.example.com": Map(mem=parse_quantity("1.5Gi")), "drv": Map(cores=parse_quantity("12"))}
DEVICE = Map(
    driver="drv", allowMultipleAllocations=False, attributes=DefaultMap(ATTRIBUTES), capacity=DefaultMap(CAPACITY)
)


def answer(expression: str) -> Mapping[str, Any]:
    """Return the answer to an expression, in the form of the recorded answers."""
    try:
        program = compile_expression(expression, VARIABLES, Meter())
    except CelCompileError as error:
        return {"compile": str(error)}
    meter = Meter()
    try:
        result = program.evaluate((DEVICE,), meter)
    except CelInternalError as error:
        return {"error": str(error)}
    except CelError as error:
        return {"error": str(error), "cost": meter.cost}
    return {"result": result, "cost": meter.cost}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("first", range(5))
def test_the_answer_is_that_of_kubernetes(first: int) -> None:
    """Result, message and cost are those of Kubernetes 1.36, for each fifth expression."""
    for recorded in ANSWERS[first::5]:
        expression = recorded["expression"]
        assert {"expression": expression, **answer(expression)} == recorded


def test_there_are_answers_of_each_kind() -> None:
    """The table covers matches, refusals, errors and expressions that do not compile."""
    assert sum("compile" in each for each in ANSWERS) > 30
    assert sum("error" in each for each in ANSWERS) > 40
    assert sum(each.get("result") is True for each in ANSWERS) > 100
    assert sum(each.get("result") is False for each in ANSWERS) > 50
