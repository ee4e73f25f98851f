"""Leader election: one of several replicas leads while it renews a Lease; the others wait until the Lease is free.

A program uses `LeaderElector`:

    elector = LeaderElector(config=..., transport=..., rng=..., recorder=...)
    try:
        elector.watch()  # see who holds the lease while the program starts
        await elector.acquire()
        ...  # lead until `lost()` returns; check `is_leader` before any action that only a leader may take
    finally:
        await elector.release()

Differs from kube-scheduler: a leader stops exactly when `renewDeadline` has passed since its last renewal.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from functools import partial
from typing import TYPE_CHECKING, Final

from pyscheduler.cluster.real.lease_keeper import LeaseKeeper
from pyscheduler.cluster.real.lease_rules import LeaseRules
from pyscheduler.cluster.real.lease_thread import OwnThread, SameLoop

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Mapping

    from kube_objects.clock import Clock
    from pyscheduler.api import Lease
    from pyscheduler.cluster.real.loop_heartbeat import Heartbeat
    from pyscheduler.config.types import LeaderElection
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import Transport

__all__ = ["LeaderElector", "make_identity"]

_log = logging.getLogger(__name__)

_STATUS: Final = "leader_election_master_status"
_STATUS_HELP: Final = (
    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. "
    "'name' is the string used to identify the lease. Please make sure to group by name."
)


def make_identity() -> str:
    """Return a name for a replica that no other has: `<hostname>_<uuid>`.

    Never from a seeded source: two replicas of one seed and host would both take the lease for theirs.
    """
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """One replica's candidacy, from `watch` or `acquire` to `release`; leadership that is lost stays lost.

    `transport` is awaited where the lease is kept, to open a transport that belongs to the elector alone. Without a
    `clock` that is a thread with a loop of its own: `transport` has to make everything anew, credentials included, for
    nothing that belongs to one loop may be used on another; `rng` must be nobody else's, too. With a `clock` it is the
    caller's loop. `on_lost` is called on the owner's loop, not for a `release`.
    """

    def __init__(
        self,
        *,
        config: LeaderElection,
        transport: Callable[[], Awaitable[Transport]],
        rng: random.Random,
        recorder: Recorder,
        clock: Clock | None = None,
        identity: str | None = None,
        on_lost: Callable[[], object] | None = None,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self.identity = identity or make_identity()
        #: Why leadership was lost; empty while it was not. Right from any thread.
        self.reason = ""
        self._on_lost = on_lost
        self._recorder = recorder
        self._place = SameLoop(clock) if clock is not None else OwnThread("lease")
        self._keeper = LeaseKeeper(
            rules=LeaseRules(identity=self.identity, config=config),
            open_transport=transport,
            rng=rng,
            listener=Relay(self, self._place),
            blocked_seconds=heartbeat.blocked_seconds if heartbeat is not None else float,
        )
        self._acquired: asyncio.Future[None] | None = None
        self._lost = asyncio.Event()
        self._released = False
        #: What the lease is called.
        self.lease_name = config.resource_name
        labels = (("name", config.resource_name),)

        def read() -> Mapping[tuple[tuple[str, str], ...], float]:
            return {labels: float(self.is_leader)}

        recorder.gauge(_STATUS, read, description=_STATUS_HELP)

    @property
    def lease(self) -> Lease | None:
        """Return the lease as it was last seen; None before the first look."""
        return self._keeper.lease

    @property
    def renewed_before(self) -> float:
        """Return when an earlier leader renewed or released the lease last, in epoch seconds; 0.0 if none did."""
        return self._keeper.renewed_before

    @property
    def is_leader(self) -> bool:
        """Return True if this replica leads at this moment; cheap, and right from any thread."""
        return not self._released and self._keeper.leads()

    def watch(self) -> None:
        """Begin to watch the lease, without taking it: another's term is known then when `acquire` is called.

        A lease that nobody renews any more is so taken over earlier by a replica that has just started.
        """
        assert self._acquired is None, "an elector is used once"
        self._acquired = asyncio.get_running_loop().create_future()
        self._place.start(self._keeper.serve)

    async def acquire(self) -> None:
        """Return when this replica leads; call it once.

        Raises `ConfigError` where that cannot become so (no permission, no such namespace), and what `transport`
        raises. Cancelled, it leaves a candidate behind: `release` follows in any case.
        """
        if self._acquired is None:
            self.watch()
        assert self._acquired is not None
        self._place.post(self._keeper.compete)
        await self._acquired

    async def lost(self) -> None:
        """Return when leadership is over; `reason` then says why, and is empty after a `release`."""
        await self._lost.wait()

    async def release(self) -> None:
        """Lead no more, and give the lease back so that another replica leads at its next look; idempotent.

        Stop acting first: the next leader may start at once. Takes the renew deadline at most. It is called after a
        loss, too: a lease that could not be renewed, and that nobody took, need not be waited for.
        """
        self._released = True
        if self._acquired is not None:
            self._place.post(self._keeper.stop)
            await self._place.join()
            if self._acquired.done() and not self._acquired.cancelled():
                self._acquired.exception()  # mark the exception as retrieved
        self._lost.set()

    # What the keeper tells, on the owner's loop

    def _note_led(self) -> None:
        if self._acquired is not None and not self._acquired.done():
            self._acquired.set_result(None)

    def _note_lost(self, reason: str) -> None:
        self.reason = reason
        self._lost.set()
        if self._on_lost is not None and not self._released:
            self._on_lost()

    def _note_failed(self, error: Exception) -> None:
        assert self._acquired is not None
        if not self._acquired.done():
            self._acquired.set_exception(error)
            return
        if not self._acquired.cancelled():
            _log.error("Leader election ended with an error err=%r", error)
            self._note_lost(f"of an error: {error!r}")


class Relay:
    """Reports the state of the lease to the elector, from the keeper's loop to the owner's."""

    def __init__(self, elector: LeaderElector, place: SameLoop | OwnThread) -> None:
        self._elector = elector
        self._report = place.report

    def led(self) -> None:
        """Report that leadership has begun."""
        self._report(self._elector._note_led)  # noqa: SLF001 - two halves of one thing

    def lost(self, reason: str) -> None:
        """Report that leadership has ended, once and for all."""
        self._elector.reason = reason
        self._report(partial(self._elector._note_lost, reason))  # noqa: SLF001 - same

    def failed(self, error: Exception) -> None:
        """Report a `ConfigError` or a fault of our own, after which the keeper ends."""
        self._report(partial(self._elector._note_failed, error))  # noqa: SLF001 - same

    def warn(self, kind: str) -> None:
        """Report a problem that is counted and ignored."""
        self._report(partial(self._elector._recorder.warning, kind))  # noqa: SLF001 - same
