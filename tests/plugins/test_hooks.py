"""The hook module: every default plugin of kube-scheduler 1.36 is offered, and every offer can be loaded."""

from __future__ import annotations

import importlib

import pytest

from pyscheduler.framework import Plugin
from pyscheduler.plugins import hooks

#: In the order of kube-scheduler's default profile.
DEFAULT = [
    "SchedulingGates",
    "PrioritySort",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "DefaultPreemption",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DefaultBinder",
    "NodeDeclaredFeatures",
]


class Offers:
    """A registry that writes down what it is offered."""

    def __init__(self) -> None:
        self.targets: dict[str, str] = {}

    def add(self, name: str, plugin: str | type[Plugin]) -> None:
        assert isinstance(plugin, str)
        self.targets[name] = plugin


def offers() -> dict[str, str]:
    """Return what the hook offers."""
    registry = Offers()
    hooks.pyscheduler_register(registry)
    return registry.targets


def test_the_default_profile_can_be_built() -> None:
    """All plugins of the default profile are there, and those that feature gates add."""
    gated = {"GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"}
    assert offers().keys() == {*DEFAULT, *gated}


@pytest.mark.parametrize("name", offers())
def test_an_offer_is_a_plugin_of_that_name(name: str) -> None:
    """The class named by the hook exists and bears the name under which it is offered."""
    module, _, attribute = offers()[name].partition(":")
    plugin = getattr(importlib.import_module(module), attribute)
    assert issubclass(plugin, Plugin)
    assert plugin.name == name
    assert plugin.__doc__
