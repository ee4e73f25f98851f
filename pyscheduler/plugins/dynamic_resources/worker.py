"""A computation that can be put aside at any depth and taken up again.

It runs in a thread of its own, but never beside the one that started it: `step` waits until the computation pauses or
ends. So it needs no lock, and whatever it calls may pause, without having to be written for that.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Computation"]


class _AbandonedError(BaseException):
    """Ends a computation that nobody wants to see the end of; it passes through handlers of other errors."""


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
        """Run to the next pause, and tell whether that was the end; raise what the function raised."""
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
            raise error
        return self._is_over

    def pause(self) -> None:
        """Let `step` return; called by the function, which goes on with the next step."""
        self._rest.release()
        self._go.acquire()
        if self._is_abandoned:
            raise _AbandonedError

    def close(self) -> None:
        """End the computation where it pauses; does nothing once it is over."""
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
