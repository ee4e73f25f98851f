"""The metric `pyscheduler_watch_broken_seconds`: for how long a kind has no open watch."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from kube_objects.kinds import kind_of
from pyscheduler.api import KubeObject


class Absent(KubeObject):
    """A kind that the server does not serve."""

    api_version: ClassVar[str] = "example.com/v1"
    kind: ClassVar[str] = "Absent"


async def test_broken_watch_shows_since_when(stage: Any) -> None:
    """The time without a watch grows until one is open; before the start there is none, and an open one shows 0."""
    assert stage.informer().broken_seconds is None
    pods, _ = await stage.started()
    assert (pods.resource, pods.broken_seconds) == ("pods", 0)
    fault = stage.fault(status=503, path="/api/v1/pods")
    stage.drop_watches("cut")
    await stage.clock.advance(20)
    assert pods.broken_seconds == pytest.approx(20, abs=0.1)
    stage.cluster.faults.clear()
    assert fault.hits > 1
    await stage.clock.advance(60)
    assert pods.broken_seconds == 0


async def test_absent_kind_is_not_broken(stage: Any) -> None:
    """A kind whose CustomResourceDefinition is not there has no watch that could be broken."""
    informer, _ = await stage.started(kind_of(Absent, "absents"), optional=True)
    await stage.clock.advance(100)
    assert informer.resource == "absents.example.com"
    assert informer.broken_seconds == 0
