"""Check the trace and the cluster that a Python program passes to a simulation."""

from __future__ import annotations

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.traces import Trace

__all__ = ["check_inputs"]


def check_inputs(trace: object, cluster: object) -> None:
    """Raise `ConfigError` if the trace is no `Trace` with jobs, or the cluster no `Cluster` with nodes."""
    for name, value, kind in (("trace", trace, Trace), ("cluster", cluster, Cluster)):
        if not isinstance(value, kind):
            wanted = kind.__name__
            raise ConfigError(f"{name} must be a {wanted}, as {wanted}.read(...) returns, not {value!r:.80}")
    assert isinstance(trace, Trace)
    assert isinstance(cluster, Cluster)
    if not trace.jobs:
        raise ConfigError("the trace has no jobs", source=trace.source or None)
    if not cluster.nodes:
        raise ConfigError("the cluster has no nodes", source=cluster.source or None)
