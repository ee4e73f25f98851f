"""Read, create and renew the Lease of leader election, by the rules in `lease_rules`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_objects.kinds import LEASES
from kube_objects.times import seconds_of
from pyscheduler.api import DecodeError, Lease, LeaseSpec, decode
from pyscheduler.cluster.real.lease_rules import Move
from pyscheduler.cluster.real.pacing import Watchdog
from pyscheduler.cluster.real.response_errors import raise_for_status
from pyscheduler.framework.errors import (
    AlreadyExistsError,
    APIError,
    ConfigError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    TransportError,
)
from pyscheduler.framework.watches import PolicyRule

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.cluster.real.lease import Relay
    from pyscheduler.cluster.real.lease_rules import LeaseRules
    from pyscheduler.config.types import LeaderElection
    from pyscheduler.scheduler.ports import Transport

__all__ = ["LeaseKeeper", "rules_for"]

_log = logging.getLogger(__name__)

_CONTENDED: Final = (ConflictError, AlreadyExistsError)
_WRITES: Final = frozenset({Move.CREATE, Move.UPDATE})
#: How often to look whether the owner's loop turns again.
_BLOCKED_SECONDS: Final = 0.2
_VERBS: Final = {"GET": "read", "POST": "created", "PUT": "updated"}


def rules_for(config: LeaderElection) -> Sequence[PolicyRule]:
    """Return what a keeper of that lease asks of the API server."""
    lease, where = {"api_groups": (LEASES.group,), "resources": (LEASES.plural,)}, (config.resource_namespace,)
    return (
        PolicyRule(**lease, verbs=("get", "update"), resource_names=(config.resource_name,), namespaces=where),
        # The API server does not know the name yet when it asks whether an object may be created.
        PolicyRule(**lease, verbs=("create",), namespaces=where),
    )


class LeaseKeeper:
    """Acts on the rules. `open_transport` is called, and its transport closed, where the keeper runs.

    `blocked_seconds` returns for how long the owner's event loop has not turned.
    """

    def __init__(
        self,
        *,
        rules: LeaseRules,
        open_transport: Callable[[], Awaitable[Transport]],
        rng: random.Random,
        listener: Relay,
        blocked_seconds: Callable[[], float] = float,
    ) -> None:
        self._rules = rules
        self._blocked_seconds = blocked_seconds
        self._open_transport = open_transport
        self._rng = rng
        self._listener = listener
        namespace, name = rules.config.resource_namespace, rules.config.resource_name
        self._namespace, self._name = namespace, name
        self._key = f"{namespace}/{name}"
        self._path = LEASES.path(namespace, name)
        self._collection = LEASES.path(namespace)
        #: None until the keeper runs; only then is there a clock to go by.
        self.clock: Clock | None = None
        self._transport: Transport | None = None
        self._stop = asyncio.Event()
        #: Whether this replica may take the lease, and not only watch it.
        self._is_candidate = False
        #: Whether the last try wrote nothing because the owner's loop does not turn.
        self._is_blocked = False
        #: Ends a pause early.
        self._wake = asyncio.Event()
        #: The metadata of the lease last seen, sent back as it came: the version that a write replaces, labels, all.
        self._metadata: dict[str, Any] = {}
        #: The lease last seen, for those who tell of it; None before.
        self.lease: Lease | None = None
        #: When the lease was renewed or released before this replica took it; 0.0 if there was no lease.
        self.renewed_before = 0.0
        self._has_written = False
        self._asked = ""
        self._granted: set[str] = set()
        self._complaint = ""
        self._announced = ""

    def leads(self) -> bool:
        """Return True if this replica leads at this moment; from any thread."""
        return self.clock is not None and self._rules.leads(self.clock.now())

    def compete(self) -> None:
        """Take the lease where it is free, from now on; called where the keeper runs."""
        _log.info("Attempting to acquire leader lease lease=%s identity=%s", self._key, self._rules.identity)
        self._is_candidate = True
        self._wake.set()

    def stop(self) -> None:
        """Lead no more, and let `serve` give the lease back and end."""
        self._rules.stop()
        self._stop.set()

    async def serve(self, clock: Clock) -> None:
        """Keep the lease until `stop`, then give it back, for at most the renew deadline, and close the transport."""
        self.clock = clock
        keeping = asyncio.create_task(self._keep(clock), name="keep lease")
        try:
            await self._stop.wait()
            keeping.cancel()
            await asyncio.wait([keeping])
            if self._transport is not None and self._has_written:
                await self._give_back(clock, self._transport)
        finally:
            keeping.cancel()
            if self._transport is not None:
                await self._transport.close()

    async def _keep(self, clock: Clock) -> None:
        """Try again and again, until leadership is lost."""
        try:
            self._transport = await self._open_transport()
            while True:
                self._wake.clear()
                if not await self._try(clock, self._transport):
                    return
                await self._pause(clock)
        except Exception as error:  # noqa: BLE001 - whatever it is: who does not renew does not lead, and says so
            self._rules.stop()
            self._listener.failed(error)

    async def _pause(self, clock: Clock) -> None:
        seconds = self._rules.pause_seconds(clock.now(), self._rng.random())
        if self._is_blocked:
            seconds = min(seconds, _BLOCKED_SECONDS)
        timer = clock.call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _try(self, clock: Clock, transport: Transport) -> bool:
        """Make one try; return False when leadership is lost."""
        rules = self._rules
        self._is_blocked = False
        try:
            move = await self._moves(clock, transport)
            if move is Move.WAIT and not self._is_blocked:
                self._complaint = ""
        except (APIError, TransportError, DecodeError) as error:
            self._complain(error)
            move = Move.WAIT
        if rules.leading and not rules.leads(clock.now()):
            move = Move.STOP
        if move is not Move.STOP:
            return True
        rules.stop()
        if rules.mine:
            why = f"it could not be renewed within {rules.config.renew_deadline_seconds:g} s"
            reason = f"{why}: {self._complaint}" if self._complaint else why
        else:
            reason = f"it is held by {rules.holder}" if rules.holder else "another replica took it"
        _log.error("Lost the leader lease lease=%s reason=%s", self._key, reason)
        self._listener.lost(reason)
        return False

    async def _moves(self, clock: Clock, transport: Transport) -> Move:
        """Do what the rules say until they say to wait or to stop; a write that is refused is followed by one look.

        The refusal has many words: another version, another object, none at all. Raises what went wrong otherwise.
        """
        rules = self._rules
        move = rules.begin(clock.now())
        refused = False
        while move not in {Move.WAIT, Move.STOP}:
            if move in _WRITES and not self._may_write():
                return Move.WAIT
            try:
                if move is Move.READ:
                    move = rules.found(await self._read(clock, transport), clock.now())
                    self._announce()
                else:
                    move = await self._write(move, clock, transport)
            except APIError as error:
                missing = move is Move.CREATE and isinstance(error, NotFoundError)
                if refused or missing or move is Move.READ or isinstance(error, TooManyRequestsError):
                    raise
                refused = True
                move = Move.READ
        return move

    def _may_write(self) -> bool:
        if not self._is_candidate:
            return False
        seconds = self._blocked_seconds()
        self._is_blocked = seconds >= self._rules.config.retry_period_seconds
        if self._is_blocked:
            self._complaint = f"the event loop has not turned for {seconds:.1f} s"
        return not self._is_blocked

    async def _read(self, clock: Clock, transport: Transport) -> LeaseSpec | None:
        try:
            return self._take(await self._ask("GET", self._path, None, clock, transport), "GET")
        except NotFoundError:
            self._granted.add("GET")
            return None

    async def _write(self, move: Move, clock: Clock, transport: Transport) -> Move:
        rules = self._rules
        spec = rules.claim(clock.wall())
        asked_at = clock.now()
        self._has_written = True
        if move is Move.CREATE:
            metadata = {"name": self._name, "namespace": self._namespace}
            answer = await self._ask("POST", self._collection, _body(metadata, spec), clock, transport)
        else:
            answer = await self._ask("PUT", self._path, _body(self._metadata, spec), clock, transport)
        written = self._take(answer, self._asked)
        if written.holder_identity != rules.identity:
            raise TransportError(f"{self._asked} {self._path}: the answer names another holder than was written")
        led, before = rules.leading, rules.spec
        after = rules.wrote(written, asked_at, clock.now())
        if rules.leading and not led:
            _log.info("Successfully acquired lease lease=%s identity=%s", self._key, rules.identity)
            self.renewed_before = seconds_of(before.renew_time) if before is not None else 0.0
            self._listener.led()
        return after

    async def _give_back(self, clock: Clock, transport: Transport) -> None:
        """Release the lease if this replica still holds it, so that another replica leads at its next look."""
        config = self._rules.config
        until = clock.now() + config.renew_deadline_seconds
        while clock.now() < until:
            try:
                left = until - clock.now()
                spec = self._take(await self._ask("GET", self._path, None, clock, transport, at_most=left), "GET")
                if spec.holder_identity != self._rules.identity:
                    return
                self._rules.spec = spec
                body = _body(self._metadata, self._rules.release(clock.wall()))
                left = until - clock.now()
                await self._ask("PUT", self._path, body, clock, transport, at_most=left)
            except NotFoundError:
                return
            except (APIError, TransportError, DecodeError) as error:
                self._complain(error)
                pause = config.retry_period_seconds * (0.5 + 0.5 * self._rng.random())
                await clock.sleep(min(pause, max(until - clock.now(), 0.0)))
            else:
                _log.info("Released the leader lease lease=%s", self._key)
                return
        _log.warning("The leader lease could not be released lease=%s err=%s", self._key, self._complaint)

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        clock: Clock,
        transport: Transport,
        *,
        at_most: float | None = None,
    ) -> bytes:
        """Send a request and return the body of a success; `at_most` seconds instead of what the rules leave."""
        self._asked = method
        seconds = self._rules.config.renew_deadline_seconds / 2
        if self._rules.leading:
            seconds = min(seconds, self._rules.left_seconds(clock.now()))
        if at_most is not None:
            seconds = min(seconds, at_most)
        try:
            # The transport's own limit is on the event loop's time; this one is on the clock's.
            async with Watchdog(clock, seconds):
                response = await transport.request(method, path, body=body)
        except TimeoutError as error:
            raise TransportError(f"{method} {path}: no answer in {seconds:.1f} s") from error
        answer = raise_for_status(response, f"{method} {path}")
        self._granted.add(method)
        return answer

    def _take(self, answer: bytes, method: str) -> LeaseSpec:
        """Return the spec of the lease in an answer, and keep what a write of it needs."""
        lease = decode(Lease, answer)
        if not lease.resource_version or lease.name != self._name:
            # Written back without a version it would replace whatever is there.
            raise TransportError(f"{method} {self._path}: the answer is not that lease")
        self._metadata = msgspec.json.decode(answer, type=dict[str, Any])["metadata"]
        self.lease = lease
        return lease.spec

    def _announce(self) -> None:
        """Log who holds the lease, once for each holder and as soon as this replica competes."""
        if not self._is_candidate:
            return
        holder = self._rules.holder
        if holder != self._announced and not self._rules.mine:
            _log.info("New leader elected lease=%s holder=%s", self._key, holder or "nobody")
        self._announced = holder

    def _complain(self, error: APIError | TransportError | DecodeError) -> None:
        """Log and count what went wrong; `ConfigError` where it will not mend itself and nothing is at stake yet.

        The same words are logged once. A permission that was there before comes back (API servers forget for a moment
        when they start); one that was never there is missing.
        """
        rules = self._rules
        if isinstance(error, _CONTENDED) and not rules.leading:
            _log.debug("Another replica was faster lease=%s err=%s", self._key, error)
            return
        text = " ".join(str(error).split())
        what = f"the leader lease {self._key} cannot be {_VERBS[self._asked]}: {text}"
        # An API server that starts refuses for a moment what it grants later; a candidate comes after that.
        waits = self._is_candidate and not rules.leading and not self._stop.is_set()
        if waits and isinstance(error, ForbiddenError) and self._asked not in self._granted:
            raise ConfigError(
                f"{what}; grant it (`pyscheduler config --rbac` prints the rules), "
                "or run one replica with --leader-elect=false"
            ) from error
        if waits and isinstance(error, NotFoundError):
            raise ConfigError(
                f"{what}; create the namespace, or name another as leaderElection.resourceNamespace"
            ) from error
        if not self._is_candidate:
            _log.debug("Will try again: %s", what)
            return
        self._listener.warn("lease_request_failed")
        if text != self._complaint:
            self._complaint = text
            _log.warning("Will try again: %s", what)


def _body(metadata: dict[str, Any], spec: LeaseSpec) -> bytes:
    return msgspec.json.encode(
        {"apiVersion": Lease.api_version, "kind": Lease.kind, "metadata": metadata, "spec": spec}
    )
