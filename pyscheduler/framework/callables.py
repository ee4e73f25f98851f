"""Find where code is defined, how many arguments a method takes, and a stack frame's `self`."""

from __future__ import annotations

import inspect
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["is_foreign", "receiver", "takes"]

_OWN: Final = __name__.partition(".")[0]


def is_foreign(code: object) -> bool:
    """Return True if a class, function, method or coroutine is defined outside of the package `pyscheduler`."""
    while isinstance(code, partial):
        code = code.func
    module = getattr(code, "__module__", None)
    if module is None and (frame := getattr(code, "cr_frame", None)) is not None:
        module = frame.f_globals.get("__name__")
    return isinstance(module, str) and module.partition(".")[0] != _OWN


def takes(member: object, number: int) -> bool:
    """Return True if a member of a class can be called with `number` arguments on an object, or nobody knows.

    `member` is what stands in the class: `inspect.getattr_static` returns it.
    """
    is_bound = not isinstance(member, staticmethod)
    function: Any = getattr(member, "__func__", member)
    return not inspect.isroutine(function) or _takes(function, number + is_bound)


# A signature is slow to read, and each profile of each scheduler asks about the same methods.
@lru_cache(maxsize=4096)
def _takes(function: Callable[..., object], number: int) -> bool:
    """Return True if a function can be called with `number` arguments, or nobody knows."""
    try:
        # A decorator may add arguments of its own: what counts is what it returns.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*range(number))
    except TypeError:
        return False
    return True


def receiver(frame: FrameType) -> object:
    """Return the object on whose behalf the code of a frame runs: its `self`, captured or not, or its first argument.

    A function that a test puts in place of a method may not call it `self`.
    """
    code = frame.f_code
    if "self" in code.co_varnames or "self" in code.co_freevars:
        return frame.f_locals.get("self")
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
