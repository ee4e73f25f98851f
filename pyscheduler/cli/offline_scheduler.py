"""Build a scheduler on an empty cluster, for `config` and `plugins`. Nothing is started."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from pyscheduler.cluster.embedded.cluster import EmbeddedCluster
from pyscheduler.scheduler.assembly import Settings, build
from pyscheduler.testing.clock import VirtualClock

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
    transport = EmbeddedCluster(clock=clock, rng=rng).transport()
    return build(config, transport, clock, rng, registry=registry, settings=settings)
