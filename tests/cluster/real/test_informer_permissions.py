"""Kinds that may not be listed."""

from __future__ import annotations

from typing import Any

import pytest

from kube_objects.kinds import PODS
from kube_testserver.virtual_time import settle
from pyscheduler.api import ResourceSlice, kind_of
from pyscheduler.framework.errors import ForbiddenError


async def test_optional_kind_that_may_not_be_listed(stage: Any, gadgets: Any) -> None:
    """A refusal keeps nobody waiting for an optional kind; once granted, it is listed."""
    gadgets.install(stage)
    gadgets.add(stage, "g", size=3)
    fault = stage.fault(path="/gadgets$", status=403)
    informer = stage.informer(gadgets.KIND, optional=True)
    informer.start()
    await settle()
    await informer.wait_synced()
    assert not informer.synced
    assert stage.warnings["watch_refused"] == 1
    fault.times = fault.hits
    await stage.clock.advance(60)
    assert informer.synced
    assert [item.name for item in informer] == ["g"]


async def test_devices_that_may_not_be_listed(stage: Any) -> None:
    """A role from before they were asked for still does: only pods that need devices wait."""
    fault = stage.fault(path="/resourceslices$", status=403)
    slices = stage.informer(kind_of(ResourceSlice, "resourceslices", namespaced=False), optional=True)
    slices.start()
    await settle()
    await slices.wait_synced()
    assert not slices.synced
    fault.times = fault.hits
    await stage.clock.advance(60)
    assert slices.synced


async def test_built_in_kind_that_may_not_be_listed(stage: Any) -> None:
    """It is there, whoever may see it: who starts without is told so rather than decide as if there were none."""
    stage.add_pod("a")
    fault = stage.fault(path="/pods$", status=403)
    pods = stage.informer(PODS, optional=True)
    pods.start()
    await settle()
    with pytest.raises(ForbiddenError):
        await pods.wait_synced()
    await stage.clock.advance(60)
    assert fault.hits == 1, "it has given up"


async def test_built_in_kind_that_may_not_be_listed_any_more(stage: Any) -> None:
    """A permission that is taken away later is waited for: what is known stays, and the rest goes on."""
    stage.add_pod("a")
    pods = stage.informer(PODS, optional=True)
    pods.start()
    await settle()
    await pods.wait_synced()
    fault = stage.fault(path="/pods$", status=403)
    stage.drop_watches()
    await settle()
    stage.add_pod("b")
    await stage.clock.advance(60)
    assert fault.hits > 2
    assert [pod.name for pod in pods] == ["a"]
    fault.times = fault.hits
    await stage.clock.advance(60)
    stage.assert_equal(pods)
