"""Prevent garbage collections during measurements, because they would count as time of the measured code."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["without_collections"]


@contextmanager
def without_collections() -> Iterator[None]:
    """Let no collection of garbage happen meanwhile."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
