"""The results of scenarios as JSON: the expectations that failed, and the pods and groups after each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PodState", "Result", "StepState", "as_json"]


class PodState(msgspec.Struct, frozen=True, kw_only=True):
    """One pod after a step. `node` is where it is bound or reserved; `set` is null for a deleted pod."""

    state: str
    node: str | None
    set: str | None
    message: str
    messages: list[str]
    annotations: dict[str, str]


class StepState(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at rest after a step; `time` in virtual seconds since the beginning."""

    step: int
    time: float
    pods: dict[str, PodState]
    groups: dict[str, dict[str, str]]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one scenario."""

    id: str
    passed: bool
    failures: list[str]
    steps: list[StepState]


def as_json(results: Sequence[Result]) -> bytes:
    """Return the results as one JSON array."""
    return msgspec.json.format(msgspec.json.encode(list(results)), indent=1)
