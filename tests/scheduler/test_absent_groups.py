"""An API server that lacks the API group of a built-in kind, or the version: work goes on without it."""

from __future__ import annotations

import logging

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.testing import FakeCluster

GROUPS = ["resource.k8s.io", "storage.k8s.io", "policy", "apps"]


@pytest.mark.parametrize("group", GROUPS)
async def test_a_group_that_is_not_served_is_waited_for_in_silence(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, group: str
) -> None:
    """Pods are bound, the log says once of each kind that it is absent, and the kind is taken up when it appears."""
    fault = cluster.server.faults.add(Fault(path=f"^/apis/{group}/", status=404))
    cluster.add_node("n1")
    framework = cluster.framework()
    with caplog.at_level(logging.DEBUG):
        await framework.start()
        assert (await framework.schedule("first")).node == "n1"
        await cluster.clock.advance(120.0)
    said = [each for each in caplog.records if each.levelno >= logging.INFO and group in each.getMessage()]
    kinds = [each.getMessage().partition("resource=")[2].partition(" ")[0] for each in said]
    assert fault.hits > len(kinds) > 0
    assert len(set(kinds)) == len(kinds)
    assert {each.getMessage().partition(" resource=")[0] for each in said} == {"Kind is not served"}
    cluster.server.faults.clear()
    await cluster.clock.advance(60.0)
    assert all(informer.synced for informer in framework.scheduler.others)
