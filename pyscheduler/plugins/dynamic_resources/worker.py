"""A computation that can pause inside any nested function call, and continue later.

It runs in a thread of its own. While this thread runs, the caller waits, so no locks are needed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Computation"]


class _AbandonedError(BaseException):
    """Ends a computation that was closed; handlers of other errors do not catch it."""


class Computation:
    """Runs `function` step by step; the function calls `pause` as often as it can."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._go = threading.Semaphore(0)
        self._rest = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._is_abandoned = False
        self._is_over = False

    def step(self) -> bool:
        """Run to the next pause; return True if the function ended, and raise what it raised."""
        if self._is_over:
            return True
        if self._thread is None:
            # It ends with the process wherever it pauses then.
            self._thread = threading.Thread(target=self._run, name="devices", daemon=True)
            self._thread.start()
        else:
            self._go.release()
        self._rest.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # or this frame and the error would keep each other, and what the function had in hand
        return self._is_over

    def pause(self) -> None:
        """Let `step` return; the function calls this, and continues at the next `step`."""
        self._rest.release()
        self._go.acquire()
        if self._is_abandoned:
            raise _AbandonedError

    def close(self) -> None:
        """End the computation at its pause; does nothing after its end."""
        self._is_abandoned = True
        if self._thread is not None and not self._is_over:
            self._go.release()
            self._rest.acquire()
        self._is_over = True

    def _run(self) -> None:
        try:
            self._function()
        except _AbandonedError:
            pass
        except BaseException as error:  # noqa: BLE001 - whoever drives it is told
            self._error = error
        finally:
            self._is_over = True
            self._rest.release()
