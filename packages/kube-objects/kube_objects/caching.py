"""Caches for results computed from parts of objects, limited so that users' objects cannot fill the memory.

`functools.lru_cache` limits only the number of entries, but one node affinity may be a megabyte long. So these caches
also limit sizes.
"""

from __future__ import annotations

from functools import lru_cache, update_wrapper
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_WEIGHT", "bounded_cache"]

P = ParamSpec("P")
R = TypeVar("R")

#: Bytes of encoded arguments that a cache stands for at most; what is made of them takes some ten times as much.
MAX_WEIGHT: Final = 1 << 21

_weigh = msgspec.msgpack.Encoder().encode


def bounded_cache(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator like `lru_cache`, for functions whose arguments can be encoded; hits cost nothing more."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        weight = 0

        def compute(*args: P.args, **kwargs: P.kwargs) -> R:
            nonlocal weight
            added = len(_weigh((args, kwargs)))
            weight += added
            if weight > MAX_WEIGHT:
                cached.cache_clear()
                weight = added
            return function(*args, **kwargs)

        cached = lru_cache(maxsize=maxsize)(compute)
        return cast("Callable[P, R]", update_wrapper(cached, function))

    return decorate
