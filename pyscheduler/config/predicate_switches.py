"""Arguments of the policy `predicates` as filters and timeouts of a profile.

Source: Volcano `pkg/scheduler/plugins/predicates` (`predicates.go`, `helper.go`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.batch.presets import VOLCANO
from pyscheduler.batch.values import go_boolean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.batch.configuration import BatchArgs

__all__ = ["with_predicates"]

#: By argument: the plugin, and whether it goes as a whole; others keep their scores.
_SWITCHES: Final = {
    "predicate.NodeAffinityEnable": ("NodeAffinity", False),
    "predicate.NodePortsEnable": ("NodePorts", False),
    "predicate.TaintTolerationEnable": ("TaintToleration", False),
    "predicate.PodAffinityEnable": ("InterPodAffinity", False),
    "predicate.NodeVolumeLimitsEnable": ("NodeVolumeLimits", False),
    "predicate.VolumeZoneEnable": ("VolumeZone", False),
    "predicate.PodTopologySpreadEnable": ("PodTopologySpread", False),
    "predicate.VolumeBindingEnable": ("VolumeBinding", True),
    "predicate.DynamicResourceAllocationEnable": ("DynamicResources", True),
}
_BIND_TIMEOUT: Final = "volumebinding.bindTimeoutSeconds"


def with_predicates(profile: Mapping[str, object], args: BatchArgs) -> dict[str, object]:
    """Return the profile without the filters that `predicates` switches off, and with its timeout for volumes."""
    policy = args.policy("predicates")
    if policy is None or args.preset != VOLCANO.name:
        return dict(profile)
    off = [row for key, row in _SWITCHES.items() if go_boolean(policy.arguments.get(key, "true")) is False]
    plugins, configs = profile["plugins"], profile["pluginConfig"]
    assert isinstance(plugins, dict), "made by this room"
    assert isinstance(configs, list), "made by this room"
    filters = [{"name": name} for name, is_whole in off if not is_whole]
    whole = [{"name": name} for name, is_whole in off if is_whole]
    changed: dict[str, object] = {}
    if filters:
        changed = {"preFilter": {"disabled": filters}, "filter": {"disabled": filters}}
    if whole:
        multi_point = plugins["multiPoint"]
        changed["multiPoint"] = {**multi_point, "disabled": [*multi_point["disabled"], *whole]}
    seconds = policy.arguments.get(_BIND_TIMEOUT)
    if seconds is not None and "VolumeBinding" not in {each["name"] for each in whole}:
        configs = [*configs, {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": int(seconds)}}]
    return {**profile, "plugins": {**plugins, **changed}, "pluginConfig": configs}
