"""The test kit for plugins: builders, a virtual clock, a fake cluster, and a framework with any set of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler import lazy_names

if TYPE_CHECKING:
    from kube_testserver.serving.faults import Fault as Fault
    from kube_testserver.virtual_time import VirtualClock as VirtualClock
    from pyscheduler.testing.builders import (
        NodeKeywords as NodeKeywords,
        PodKeywords as PodKeywords,
        make_node as make_node,
        make_pod as make_pod,
        node_manifest as node_manifest,
        pod_manifest as pod_manifest,
    )
    from pyscheduler.testing.checks.check import CheckResult as CheckResult, check_plugin as check_plugin
    from pyscheduler.testing.checks.drawing import Draft as Draft
    from pyscheduler.testing.checks.findings import CHECKS as CHECKS, PluginCheckError as PluginCheckError
    from pyscheduler.testing.checks.steps import Step as Step
    from pyscheduler.testing.fake_cluster import FakeCluster as FakeCluster
    from pyscheduler.testing.fake_framework import FakeFramework as FakeFramework, ScheduleResult as ScheduleResult
    from pyscheduler.testing.watched_calls import PluginWarning as PluginWarning

#: The module of each name.
_MODULES = {
    "CHECKS": "pyscheduler.testing.checks.findings",
    "CheckResult": "pyscheduler.testing.checks.check",
    "Draft": "pyscheduler.testing.checks.drawing",
    "FakeCluster": "pyscheduler.testing.fake_cluster",
    "FakeFramework": "pyscheduler.testing.fake_framework",
    "Fault": "kube_testserver.serving.faults",
    "NodeKeywords": "pyscheduler.testing.builders",
    "PluginCheckError": "pyscheduler.testing.checks.findings",
    "PluginWarning": "pyscheduler.testing.watched_calls",
    "PodKeywords": "pyscheduler.testing.builders",
    "ScheduleResult": "pyscheduler.testing.fake_framework",
    "Step": "pyscheduler.testing.checks.steps",
    "VirtualClock": "kube_testserver.virtual_time",
    "check_plugin": "pyscheduler.testing.checks.check",
    "make_node": "pyscheduler.testing.builders",
    "make_pod": "pyscheduler.testing.builders",
    "node_manifest": "pyscheduler.testing.builders",
    "pod_manifest": "pyscheduler.testing.builders",
}

__all__ = list(_MODULES)

if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = lazy_names(__name__, _MODULES)
