"""Coroutines that only give others their turn, run to their end without an event loop.

PostFilter may take long, so it is a coroutine that lets the loop turn (`asyncio.sleep(0)`) every now and then. Who asks
a single extension point, in a test say, has no turns to give and wants the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["run_now"]

T = TypeVar("T")


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns; raise `RuntimeError` where it waits for anything but its next turn."""
    try:
        while True:
            if work.send(None) is not None:
                raise RuntimeError("the coroutine waits for something, which takes a running event loop")
    except StopIteration as end:
        answer: T = end.value
        return answer
    finally:
        work.close()
