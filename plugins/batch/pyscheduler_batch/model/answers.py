"""Check the arrays that plugins of batch systems return, because wrong shapes could cause wrong decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pyscheduler.framework.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from numpy.typing import NDArray

__all__ = ["ContractError", "is_number", "mask_of", "scores_of", "wrong_answer"]

_NUMBERS: Final = (float, int, np.floating, np.integer)


class ContractError(PluginError):
    """Report a policy, an action or a queue dialect that broke the contract.

    `plugin` is its name, `kind` says which of them it is, and `code` is that of its method, None if it has none.
    """

    def __init__(self, message: str, *, plugin: str, kind: str = "policy", code: CodeType | None = None) -> None:
        self.kind = kind
        self.code = code
        super().__init__(message, plugin=plugin)


def is_number(answer: object) -> bool:
    """Return whether an answer is a number; NaN is none."""
    return isinstance(answer, _NUMBERS) and answer == answer  # noqa: PLR0124 - NaN is not


def mask_of(answer: object, size: int, method: Callable[..., Any]) -> NDArray[np.bool_]:
    """Return the answer of a policy's method, a bool[size]; raise `ContractError` for anything else."""
    if type(answer) is np.ndarray and answer.shape == (size,) and answer.dtype == np.bool_:
        return answer
    raise wrong_answer(answer, f"bool[{size}]", method)


def scores_of(answer: object, size: int, method: Callable[..., Any]) -> NDArray[np.float64]:
    """Return the answer of a policy's method, numbers[size]; raise `ContractError` for anything else, NaN included."""
    if type(answer) is np.ndarray and answer.shape == (size,) and answer.dtype.kind in "fiu":
        scores: NDArray[np.float64] = answer
        if not np.isnan(scores).any():
            return scores
        raise wrong_answer("NaN", "numbers", method)
    raise wrong_answer(answer, f"float64[{size}]", method)


def wrong_answer(
    answer: object, expected: str, method: Callable[..., Any], about: str = "", called: str = ""
) -> ContractError:
    """Return the error about an answer of a policy's bound method.

    `about` names what the method was asked about, `called` the method, if a test put a function of another name there.
    """
    policy = getattr(method, "__self__", method)
    name = str(getattr(policy, "name", type(policy).__name__))
    called = called or getattr(method, "__name__", "")
    kind = "" if type(answer) is np.ndarray else f"{type(answer).__name__} of "
    found = f"{kind}{answer.dtype}{[*answer.shape]}" if isinstance(answer, np.ndarray) else repr(answer)[:60]
    text = f'policy "{name}": {called} returned {found}{about and f" for {about}"}, expected {expected}'
    return ContractError(text, plugin=name, code=getattr(getattr(method, "__func__", method), "__code__", None))
