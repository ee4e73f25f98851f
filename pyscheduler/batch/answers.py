"""Check the arrays that policies return: a wrong shape would decide about the wrong tasks or nodes, unnoticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pyscheduler.framework.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["mask_of", "scores_of"]


def mask_of(answer: object, size: int, method: Callable[..., Any]) -> NDArray[np.bool_]:
    """Return the answer of a policy's method, a bool[size]; raise `PluginError` for anything else."""
    if type(answer) is np.ndarray and answer.shape == (size,) and answer.dtype == np.bool_:
        return answer
    raise _wrong(answer, f"bool[{size}]", method)


def scores_of(answer: object, size: int, method: Callable[..., Any]) -> NDArray[np.float64]:
    """Return the answer of a policy's method, numbers[size]; raise `PluginError` for anything else, NaN included."""
    if type(answer) is np.ndarray and answer.shape == (size,) and answer.dtype.kind in "fiu":
        scores: NDArray[np.float64] = answer
        if not np.isnan(scores).any():
            return scores
        raise _wrong("NaN", "numbers", method)
    raise _wrong(answer, f"float64[{size}]", method)


def _wrong(answer: object, expected: str, method: Callable[..., Any]) -> PluginError:
    policy = getattr(method, "__self__", method)
    name, called = str(getattr(policy, "name", type(policy).__name__)), getattr(method, "__name__", "")
    kind = "" if type(answer) is np.ndarray else f"{type(answer).__name__} of "
    found = f"{kind}{answer.dtype}{[*answer.shape]}" if isinstance(answer, np.ndarray) else repr(answer)[:60]
    return PluginError(f'policy "{name}": {called} returned {found}, expected {expected}', plugin=name)
