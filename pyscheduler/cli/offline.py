"""A scheduler for a cluster that is not there: what `config` and `plugins` look into. Nothing is started."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from pyscheduler.cluster.embedded.cluster import EmbeddedCluster
from pyscheduler.scheduler.build import build
from pyscheduler.testing.clock import VirtualClock

if TYPE_CHECKING:
    from pyscheduler.config.types import Configuration
    from pyscheduler.runtime.registry import Registry
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["offline_scheduler"]


def offline_scheduler(config: Configuration, registry: Registry) -> Scheduler:
    """Build the configuration's scheduler on an empty cluster; raise `ConfigError` for what is wrong with it."""
    clock = VirtualClock()
    rng = random.Random(0)
    return build(config, EmbeddedCluster(clock=clock, rng=rng).transport(), clock, rng, registry=registry)
