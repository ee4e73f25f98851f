"""The account of devices: what the watch tells, what was written, what is promised."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.api import AllocationResult, ResourceClaim
from pyscheduler.framework import Trial
from pyscheduler.plugins.dynamic_resources.allocated import DeviceId
from pyscheduler.plugins.dynamic_resources.ledger import ClaimLedger
from tests.plugins.devices import DRIVER, allocation, claim
from tests.plugins.reading_handle import Objects


def given(*devices: str, **more: Any) -> AllocationResult:
    """Return an allocation."""
    return msgspec.convert(allocation(*devices, **more), AllocationResult)


def read(name: str = "c", version: int = 1, *, has: AllocationResult | None = None) -> ResourceClaim:
    """Return a claim of a version."""
    made = msgspec.convert(claim(name, metadata={"uid": f"uid-{name}", "resourceVersion": str(version)}), ResourceClaim)
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, allocation=has))


def devices(ledger: ClaimLedger) -> set[str]:
    """Return the devices that are taken."""
    return {each.device for each in ledger.allocated.devices}


@pytest.fixture
def lister() -> Objects:
    """Return a lister with one claim."""
    made = Objects()
    made.put(read())
    return made


def test_what_was_written_counts_until_the_watch_has_it(lister: Objects) -> None:
    """News of older states change nothing, newer ones do."""
    ledger = ClaimLedger(lister)
    ledger.note_written(read(version=5, has=given("a")))
    assert devices(ledger) == {"a"}
    lister.put(read(version=3))
    assert devices(ledger) == {"a"}
    found = ledger.get("c", "default")
    assert found is not None
    assert found.resource_version == "5"
    lister.put(read(version=6))
    assert devices(ledger) == set()
    ledger.note_written(read(version=4, has=given("a")))
    assert devices(ledger) == set()
    ledger.note_written(read("gone", version=9, has=given("a")))
    assert devices(ledger) == set()


def test_a_promise_counts_once(lister: Objects) -> None:
    """It counts until it is kept or given back, and not besides what was written of the same claim."""
    ledger = ClaimLedger(lister)
    promise = ledger.promise(read(), given("a"))
    assert (devices(ledger), len(ledger), ledger.promised("uid-c")) == ({"a"}, 1, promise.allocation)
    ledger.note_written(read(version=2, has=given("a")))
    assert ledger.allocated.devices == {DeviceId(DRIVER, "n1", "a"): 1}
    ledger.release(promise, entirely=True)
    ledger.release(promise)
    assert (devices(ledger), len(ledger)) == ({"a"}, 0)
    other = ledger.promise(read("d"), given("b"))
    ledger.release(other)
    assert devices(ledger) == {"a"}


def test_a_promise_that_is_shared(lister: Objects) -> None:
    """It ends with the last who shares it; only members that are scheduled together may."""
    ledger, trial = ClaimLedger(lister), Trial()
    first = ledger.promise(read(), given("a"), trial)
    assert ledger.promise(read(), given("z"), trial) is first
    assert ledger.is_shared_in(trial, "uid-c")
    assert not ledger.is_shared_in(Trial(), "uid-c")
    ledger.release(first)
    assert devices(ledger) == {"a"}
    ledger.release(first)
    assert devices(ledger) == set()
    second = ledger.promise(read(), given("b"))
    ledger.release(first)
    assert devices(ledger) == {"b"}
    ledger.release(second)
    assert len(ledger) == 0


def test_a_claim_that_goes_while_it_is_promised_something(lister: Objects) -> None:
    """The devices stay taken until the pod has given them back."""
    ledger = ClaimLedger(lister)
    promise = ledger.promise(read(), given("a"))
    lister.drop("c", "default")
    assert devices(ledger) == {"a"}
    ledger.release(promise)
    assert devices(ledger) == set()
