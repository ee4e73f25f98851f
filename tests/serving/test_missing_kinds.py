"""The warning about CustomResourceDefinitions that are missing when a scheduler starts."""

from __future__ import annotations

import logging
import random

import pytest
import yaml

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.virtual_time import VirtualClock
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.config.load import load
from pyscheduler.scheduler.assembly import build
from pyscheduler.serving.missing_kinds import warn_of_missing_kinds
from tests.deploy.conftest import ROOT


async def warnings_of(profile: str, *crds: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Start the scheduler of a profile on a server with these definitions; return the warnings."""
    clock = VirtualClock()
    cluster = EmbeddedCluster(clock=clock, rng=random.Random(1))
    for name in crds:
        cluster.add(yaml.safe_load((ROOT / f"configs/crds/{name}.yaml").read_text(encoding="utf-8")))
    transport = InProcessTransport(cluster.router)
    scheduler = build(load(ROOT / f"configs/{profile}.yaml"), transport, clock, random.Random(1))
    await scheduler.start()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        warn_of_missing_kinds(scheduler)
    await scheduler.stop()
    return [record.getMessage().partition(" plugin=")[2] for record in caplog.records]


@pytest.mark.parametrize(
    ("profile", "crds", "said"),
    [
        pytest.param("default", (), [], id="none needed"),
        pytest.param(
            "batch-volcano",
            ("queues.scheduling.volcano.sh",),
            ["Batch kinds=podgroups.scheduling.volcano.sh"],
            id="one of two",
        ),
        pytest.param("coscheduling", ("podgroups.scheduling.x-k8s.io",), [], id="one dialect is enough"),
    ],
)
async def test_missing_kinds_of_a_plugin_are_one_line(
    caplog: pytest.LogCaptureFixture, profile: str, crds: tuple[str, ...], said: list[str]
) -> None:
    """A kind that is served in another API group of the plugin does not count as missing."""
    assert await warnings_of(profile, *crds, caplog=caplog) == said
