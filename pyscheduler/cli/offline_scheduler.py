"""Build a scheduler on an empty cluster, for commands such as `pyscheduler config`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster, objects_of
from pyscheduler.scheduler.assembly import Settings, build

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.config.types import Configuration, Extender
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.scheduler.ports import ExtenderConnection
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["offline_scheduler"]


def offline_scheduler(
    config: Configuration, registry: Registry, *, gates: Mapping[str, bool] | None = None
) -> Scheduler:
    """Build the configuration's scheduler on an empty cluster; raise `ConfigError` for its mistakes.

    `gates` are the feature gates (default: kube-scheduler's).
    """
    settings = Settings(feature_gates=gates) if gates is not None else None
    cluster = ReadOnlyCluster(objects_of({}), extender=_extender)
    return build(config, cluster, VirtualClock(), random.Random(0), registry=registry, settings=settings)


def _extender(config: Extender) -> ExtenderConnection:
    from pyscheduler.cluster.real.extender import HTTPExtenderConnection

    return HTTPExtenderConnection(config)
