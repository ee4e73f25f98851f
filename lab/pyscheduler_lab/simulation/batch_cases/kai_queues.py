"""Run two kinds of test cases for KAI: fair shares of one resource, and scheduling cycles with scarce GPUs."""

from __future__ import annotations

from collections import defaultdict
from pkgutil import resolve_name
from typing import Any

import numpy as np

from pyscheduler.framework.errors import ConfigError
from pyscheduler_kai.preset import KAI
from pyscheduler_lab.simulation.batch_cases.kai import run_case

__all__ = ["run_queue_case"]

Json = dict[str, Any]


def run_queue_case(case: Json) -> Json:
    """Return `{"id", "actual"}` for a case of the algorithm `kai-proportion` or `kai-cycle`."""
    actual = _shares(case) if case["algorithm"] == "kai-proportion" else _cycle(case)
    return {"id": case.get("id"), "actual": actual}


def _shares(case: Json) -> Json:
    specs: list[Json] = case["queues"]
    ordered: list[Json] = []
    below: list[Json] = specs
    names = {""}
    while level := [spec for spec in below if (spec.get("parent") or "") in names]:
        ordered += level
        below = [spec for spec in below if spec not in level]
        names = {spec["name"] for spec in level}
    if below:
        raise ConfigError(f'the parents of queue "{below[0]["name"]}" do not lead to the top')
    age = {spec["name"]: at for at, spec in enumerate(specs)}
    row_of = {spec["name"]: row for row, spec in enumerate(ordered)}

    def column(field: str) -> Any:
        values = [spec.get(field, 0) for spec in ordered]
        unlimited = [np.inf if value == -1 else value for value in values]
        return np.array(unlimited if field in {"quota", "limit"} else values, dtype=np.float64)[:, None]

    parent = np.array([row_of.get(spec.get("parent") or "", -1) for spec in ordered], dtype=np.int64)
    requested = case.get("requested") or {}
    usage = case.get("historicalUsage")
    module = "pyscheduler_kai.fair_share"
    own = np.array([[requested.get(spec["name"], 0)] for spec in ordered], dtype=np.float64)
    inputs = resolve_name(f"{module}:ShareInputs")(
        parent=parent,
        quota=column("quota"),
        limit=column("limit"),
        weight=column("overQuotaWeight"),
        requested=resolve_name(f"{module}:roll_up")(parent, own),
        priority=np.array([spec.get("priority", 100) for spec in ordered], dtype=np.float64),
        rank=np.array([age[spec["name"]] for spec in ordered], dtype=np.int64),
        usage=np.array([[usage.get(spec["name"], 0)] for spec in ordered], dtype=np.float64) if usage else None,
        k_value=case.get("kValue", 1.0),
    )
    shares = resolve_name(f"{module}:divide")(inputs, np.array([case["total"]], dtype=np.float64))
    return {"fairShare": {name: float(shares[row, 0]) for name, row in row_of.items()}}


def _cycle(case: Json) -> Json:
    """Run a full cycle; the oldest queue and job come first in the case."""
    unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    queues = [
        {
            "name": spec["name"],
            "parent": spec.get("parent"),
            "createdSecondsAgo": 100_000 - at,
            "gpu": {key: spec.get(key, 0) for key in unlimited},
            "cpuMillis": unlimited,
            "memoryBytes": unlimited,
        }
        for at, spec in enumerate(case["queues"])
    ]
    jobs = [
        {
            **spec,
            "createdSecondsAgo": 50_000 - at,
            "tasks": [
                {**task, "name": f"{spec['name']}-{number}", "gpu": spec["gpusPerTask"]}
                for number, task in enumerate(spec["tasks"])
            ],
        }
        for at, spec in enumerate(case["jobs"])
    ]
    nodes = [{"name": spec["name"], "gpu": spec["gpus"], "maxPods": 110} for spec in case["nodes"]]
    actions = list(KAI.actions)
    result = run_case({"actions": actions, "nodes": nodes, "queues": queues, "jobs": jobs})["actual"]
    counts: dict[str, dict[str, int]] = {key: {} for key in ("evicted", "pipelined", "allocated")}
    promised: dict[str, float] = defaultdict(float)
    for job in jobs:
        of_job = result["jobs"][job["name"]]
        for key, found in counts.items():
            number = of_job.get(key, 0) - (of_job.get("moved", 0) if key == "pipelined" else 0)
            if number:
                found[job["name"]] = number
        promised[job["name"]] += counts["pipelined"].get(job["name"], 0) * job["gpusPerTask"]
    return {
        "fairShare": {name: queue["fairShare"]["gpu"] for name, queue in result["queues"].items()},
        **counts,
        "moved": result["movedTotal"],
        "pipelinedGpus": {name: amount for name, amount in promised.items() if amount},
        "unschedulableReason": {name: reasons[0] for name, reasons in result["reasons"].items()},
    }
