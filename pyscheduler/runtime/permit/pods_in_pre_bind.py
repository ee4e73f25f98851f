"""The pods whose PreBind plugins are running; the binding of these pods can still be cancelled.

Source: kube-scheduler 1.36, `pods_in_prebind_map.go`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pyscheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

__all__ = ["PodsInPreBind"]


class PodsInPreBind:
    """PreBind phases under way, of all profiles, by the pod's uid."""

    def __init__(self) -> None:
        self._phases: dict[str, asyncio.Task[Status | None]] = {}
        #: By uid, why the binding was called off.
        self._called_off: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._phases)

    async def run(
        self, uid: str, work: Coroutine[Any, Any, Status | None], *, running: Callable[[], str] = str
    ) -> Status | None:
        """Return what the pod's PreBind phase comes to; an ERROR that says why, where `cancel` ended it.

        `running` tells how the message begins where a plugin was interrupted, as in kube-scheduler.
        """
        phase = self._phases[uid] = asyncio.create_task(work, name=f"pre-bind {uid}")
        before = ""
        try:
            status = await phase
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if uid not in self._called_off or (current is not None and current.cancelling()):
                raise
            status = None
            before = running()
        finally:
            del self._phases[uid]
            why = self._called_off.pop(uid, None)
        # Also where the phase was through at the very moment: whoever called it off was told that the pod will not go.
        return status if why is None else Status(Code.ERROR, error=RuntimeError(before + why))

    def cancel(self, uid: str, why: str) -> bool:
        """Call off the pod's binding; return False where it is not in PreBind (any more)."""
        phase = self._phases.get(uid)
        if phase is None or phase.done():
            return False
        self._called_off.setdefault(uid, why)
        phase.cancel()
        return True
