"""Format the results of `queue explain` and `queue whatif` as lines of text, JSON or YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from pyscheduler.cli.podgroup.view import indented

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler.cli.explanation import Step
    from pyscheduler_batch.cli.queue.explanation import Explanation

__all__ = ["data_of", "explained", "planned"]

_VERDICTS = {
    "waits": "waits",
    "starts": "starts in the next pass",
    "promised": "starts when evicted or ending pods have left the promised nodes",
    "placed": "has all its nodes",
    "unknown": "unknown",
}


def _head(found: Explanation) -> list[str]:
    reason = f": {found.reason}" if found.reason else ""
    return [
        f"Job:      {found.job}",
        f"Dialect:  {found.dialect}",
        f"Queue:    {found.queue or '<none>'}",
        f"Verdict:  {_VERDICTS[found.verdict]}{reason}",
    ]


def _steps(steps: Iterable[Step]) -> list[str]:
    cells = [("Step", "Result", "Reason", "Detail")]
    cells += [(step.name, step.result, step.reason or "-", " ".join(step.text.split())) for step in steps]
    return ["Steps:", *indented(cells)]


def explained(found: Explanation) -> list[str]:
    """Return the explanation as lines."""
    return [*_head(found), *_steps(found.steps)]


def planned(found: Explanation, plan: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return the verdict and the plan as lines; for a job that waits, the steps that are not ok."""
    lines = _head(found)
    if plan:
        return [*lines, "Plan:", *indented([("Act", "Pod", "Node"), *plan])]
    if found.verdict == "placed":
        return [*lines, "Plan:     <none>, because the job is placed"]
    return [*lines, *_steps(step for step in found.steps if step.result != "ok")]


def data_of(found: Explanation, plan: Sequence[tuple[str, str, str]] | None = None) -> dict[str, Any]:
    """Return the explanation for JSON and YAML; with `plan`, what the pass would do for the job."""
    data = {
        "apiVersion": "pyscheduler.io/v1",
        "kind": "JobExplanation",
        "job": found.job,
        "dialect": found.dialect,
        "queue": found.queue,
        "verdict": found.verdict,
        "reason": found.reason,
        "steps": [attrs.asdict(step) for step in found.steps],
    }
    if plan is not None:
        data["plan"] = [{"act": act, "pod": pod, "node": node} for act, pod, node in plan]
    return data
