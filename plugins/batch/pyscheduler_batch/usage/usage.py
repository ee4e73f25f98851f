"""The resources that the queues of one profile used in the past, counted by the scheduler or read from Prometheus."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.api import ConfigMap
from pyscheduler.framework import APIError, NotFoundError, PolicyRule, TransportError
from pyscheduler_batch.model.axis import CPU, GPU, MEMORY
from pyscheduler_batch.usage.ledger import UsageLedger
from pyscheduler_batch.usage.prometheus import PrometheusError, PrometheusUsage
from pyscheduler_batch.usage.saved import load, stored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler.framework import Handle
    from pyscheduler_batch.model.axis import Amounts
    from pyscheduler_batch.model.node_table import NodeTable
    from pyscheduler_batch.model.queue_table import QueueTable
    from pyscheduler_batch.status.queues import QueueSums
    from pyscheduler_batch.usage.settings import UsageSettings

__all__ = ["QueueUsage", "usage_rules"]

_log = logging.getLogger(__name__)

_RESOURCES: Final = (CPU, MEMORY, GPU)
_WARNING: Final = "queue_usage"


def usage_rules(settings: UsageSettings | None) -> tuple[PolicyRule, ...]:
    """Return the permissions for the ConfigMap."""
    if settings is None or settings.source != "scheduler":
        return ()
    namespace, _, name = settings.connection.partition("/")
    maps = {"api_groups": ("",), "resources": ("configmaps",), "namespaces": (namespace,)}
    return (
        PolicyRule(**maps, verbs=("get", "patch"), resource_names=(name,)),
        PolicyRule(**maps, verbs=("create",)),
    )


class QueueUsage:
    """The past use of queues. `changed` is called when shares must take in new figures."""

    def __init__(self, handle: Handle, settings: UsageSettings, changed: Callable[[], object]) -> None:
        self._handle = handle
        self._clock = handle.clock
        self.settings = settings
        self._changed = changed
        self._ledger = UsageLedger(settings, len(_RESOURCES))
        self._prometheus = PrometheusUsage(settings) if settings.source == "prometheus" else None
        #: By queue, float64[3]: use divided by the capacity, as of the last fetch.
        self.parts: Mapping[str, Amounts] = {}
        self._capacity = np.zeros(len(_RESOURCES))
        self._totals: Mapping[str, QueueSums] = {}
        #: When figures came last, in seconds of the clock; None: never yet.
        self._fetched: float | None = None
        self._started: float | None = None
        self._failures = 0
        self._columns: tuple[QueueTable, Mapping[str, Amounts], Amounts] | None = None

    # What sessions see

    @property
    def is_awaited(self) -> bool:
        """Return True while passes should wait for the first figures; a pass may be due before `run` begins."""
        if self._fetched is not None:
            return False
        return self._started is None or self._clock.now() < self._started + self.settings.wait_timeout

    def columns(self, queues: QueueTable, axis_index: Mapping[str, int], width: int) -> Amounts:
        """Return float64[Q, R] for a table of queues; the same array until there are new figures."""
        kept = self._columns
        if kept is not None and kept[0] is queues and kept[1] is self.parts:
            return kept[2]
        usage = np.zeros((len(queues), width))
        at = [(column, axis_index[name]) for column, name in enumerate(_RESOURCES) if name in axis_index]
        for name, row in queues.index.items():
            part = self.parts.get(name)
            if part is not None:
                for column, to in at:
                    usage[row, to] = part[column]
        self._columns = (queues, self.parts, usage)
        return usage

    def note_capacity(self, nodes: NodeTable, axis_index: Mapping[str, int]) -> None:
        """Take notice of what the nodes of a pass offer."""
        total = nodes.allocatable.sum(axis=0)
        capacity = np.array([total[axis_index[name]] if name in axis_index else 0.0 for name in _RESOURCES])
        if not np.array_equal(capacity, self._capacity):
            self._capacity = capacity
            self._note()

    def note_totals(self, totals: Mapping[str, QueueSums]) -> None:
        """Take notice of what queues hold, those below them included."""
        self._totals = totals
        self._note()

    def _note(self) -> None:
        if self._started is None or self._prometheus is not None or self._fetched is None:
            return  # only the leader counts, and it first reads what was counted before
        held = {
            name: [sums.allocated.get(resource, 0.0) for resource in _RESOURCES]
            for name, sums in self._totals.items()
            if sums.allocated
        }
        self._ledger.note(self._clock.wall(), self._capacity, held)

    # Work

    async def run(self) -> None:
        """Read, fetch and write until cancelled. Call it while this scheduler leads."""
        self._started = self._clock.now()
        timer = self._clock.call_later(self.settings.wait_timeout, self._stop_waiting)
        _log.info("Passes wait for the past use of queues atMostSeconds=%g", self.settings.wait_timeout)
        try:
            if self._prometheus is None:
                await self._load()
            while True:
                await self._fetch()
                await self._clock.sleep(self.settings.fetch_interval)
                if self._prometheus is None:
                    await self._save()
        finally:
            timer.cancel()
            self._ledger.pause(self._clock.wall())
            self._started = self._fetched = None

    def _stop_waiting(self) -> None:
        if self._fetched is None:
            _log.warning("Passes begin without the past use of queues; shares use none until it is known")
        self._changed()

    async def _fetch(self) -> None:
        """Take in new figures; keep the old ones if there are none."""
        now = self._clock.wall()
        if self._prometheus is None:
            self.parts = self._ledger.usage(now)
        else:
            try:
                found = await self._prometheus.fetch(now)
            except PrometheusError as error:
                self._fail(str(error))
                return
            self.parts = {
                queue: np.array([amounts.get(name, 0.0) for name in _RESOURCES]) for queue, amounts in found.items()
            }
        self._failures = 0
        self._fetched = self._clock.now()
        self._changed()

    def _fail(self, text: str) -> None:
        """Count a failure, and log the first one, and the one at which figures become stale."""
        self._handle.recorder.warning(_WARNING)
        self._failures += 1
        since = self._started if self._fetched is None else self._fetched
        age = self._clock.now() - (since or 0.0)
        is_stale = age >= self.settings.staleness > age - self.settings.fetch_interval
        if self._failures == 1 or is_stale:
            used = "shares use none" if self._fetched is None else f"shares use figures of {age:.0f} s ago"
            _log.warning("Past use of queues is not known; %s err=%s", used, text)

    async def _load(self) -> None:
        """Go on with the counts of the ConfigMap; try until it can be read, or is known to be absent."""
        namespace, _, name = self.settings.connection.partition("/")
        ledger = UsageLedger(self.settings, len(_RESOURCES))
        while True:
            try:
                found = await self._handle.client.get(ConfigMap, name, namespace)
                now = self._clock.wall()
                dropped = load(ledger, found.data, found.binary_data, _RESOURCES, self.settings.half_life, now)
                for reason, count in dropped.items():
                    self._handle.recorder.warning(_WARNING)
                    text = "Saved use of queues is left out: %s configMap=%s parts=%d"
                    _log.warning(text, reason, self.settings.connection, count)
            except NotFoundError:
                break
            except ValueError as error:
                ledger = UsageLedger(self.settings, len(_RESOURCES))
                self._handle.recorder.warning(_WARNING)
                _log.warning(
                    "Past use is counted anew: ConfigMap %s cannot be used: %s", self.settings.connection, error
                )
                break
            except (APIError, TransportError) as error:
                self._fail(f"ConfigMap {self.settings.connection}: {error}")
                await self._clock.sleep(1.0)
            else:
                break
        self._ledger = ledger
        self._fetched = self._clock.now()
        self._note()

    async def _save(self) -> None:
        """Write the counts; a failed write is made up for by the next one."""
        namespace, _, name = self.settings.connection.partition("/")
        self._ledger.advance(self._clock.wall())
        body = stored(self._ledger, _RESOURCES, self.settings.half_life)
        client = self._handle.client
        try:
            try:
                await client.patch(ConfigMap, name, namespace, patch=body)
            except NotFoundError:
                whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **body}
                await client.create(ConfigMap, whole, namespace)
        except (APIError, TransportError) as error:
            self._fail(f"ConfigMap {self.settings.connection} is not written: {error}")
