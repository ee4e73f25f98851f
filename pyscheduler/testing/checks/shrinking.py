"""Shortens a history that shows a failure: drops steps, then details of steps, as long as the failure stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.testing.checks.steps import Step

__all__ = ["shrink"]


def shrink(history: Sequence[Step], fails: Callable[[Sequence[Step]], bool], *, most: int) -> list[Step]:
    """Return a shorter history for which `fails` is true; it is true for `history`.

    Drops halves of the history, then quarters, down to single steps, and then keywords of steps, in at most `most`
    attempts.
    """
    left = list(history)
    attempts = 0

    def still_fails(shorter: Sequence[Step]) -> bool:
        nonlocal attempts
        attempts += 1
        return attempts <= most and fails(shorter)

    size = max(len(left) // 2, 1)
    while True:
        start, before = 0, len(left)
        while start < len(left):
            shorter = left[:start] + left[start + size :]
            if still_fails(shorter):
                left = shorter
            else:
                start += size
        if size == 1 and len(left) == before:
            break
        size = max(size // 2, 1)
    for number, step in enumerate(left):
        for keyword in step.keywords:
            shorter = [*left[:number], left[number].without(keyword), *left[number + 1 :]]
            if still_fails(shorter):
                left = shorter
    return left
