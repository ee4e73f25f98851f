"""Build a scheduler on an empty cluster, for `config` and `plugins`. Nothing is started."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.virtual_time import VirtualClock
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.scheduler.assembly import Settings, build

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.config.types import Configuration
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["offline_scheduler"]


def offline_scheduler(
    config: Configuration, registry: Registry, *, gates: Mapping[str, bool] | None = None
) -> Scheduler:
    """Build the configuration's scheduler on an empty cluster; raise `ConfigError` for its mistakes.

    `gates` are the feature gates (default: kube-scheduler's).
    """
    clock = VirtualClock()
    rng = random.Random(0)
    settings = Settings(feature_gates=gates) if gates is not None else None
    transport = InProcessTransport(EmbeddedCluster(clock=clock, rng=rng).router)
    return build(config, transport, clock, rng, registry=registry, settings=settings)
