"""Translate the arguments of Volcano's plugin `predicates` into filters, timeouts and scores of a profile.

Source: Volcano `pkg/scheduler/plugins/predicates` (`predicates.go`, `helper.go`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyscheduler_batch.model.values import go_boolean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler_batch.batch_args import BatchArgs

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
_VOLUMES: Final = {"name": "VolumeBinding"}
_BIND_TIMEOUT: Final = "volumebinding.bindTimeoutSeconds"


_VOLUME_SHAPE: Final = "volumebinding.shape"
_VOLUME_WEIGHT: Final = "volumebinding.weight"
_DEVICE_TIMEOUT: Final = "dynamicresources.filterTimeoutSeconds"


def with_predicates(profile: Mapping[str, object], args: BatchArgs, gates: Mapping[str, bool]) -> Mapping[str, object]:
    """Return the profile without the filters that `predicates` switches off.

    Its timeouts, and its weight and shape of scores, become those of VolumeBinding and DynamicResources.
    """
    policy = args.policy("predicates")
    if policy is None:
        return profile
    off = [row for key, row in _SWITCHES.items() if go_boolean(policy.arguments.get(key, "true")) is False]
    plugins, configs = profile["plugins"], profile["pluginConfig"]
    assert isinstance(plugins, dict), "made by the form of these files"
    assert isinstance(configs, list), "made by the form of these files"
    filters = [{"name": name} for name, is_whole in off if not is_whole]
    whole = [{"name": name} for name, is_whole in off if is_whole]
    changed: dict[str, object] = {}
    if filters:
        changed = {"preFilter": {"disabled": filters}, "filter": {"disabled": filters}}
    if whole:
        multi_point = plugins["multiPoint"]
        changed["multiPoint"] = {**multi_point, "disabled": [*multi_point["disabled"], *whole]}
    names = {each["name"] for each in whole}
    own = {"VolumeBinding": _volume_args(policy.arguments, gates), "DynamicResources": _device_args(policy.arguments)}
    configs = [*configs, *({"name": name, "args": said} for name, said in own.items() if said and name not in names)]
    weight = int(policy.arguments.get(_VOLUME_WEIGHT, "1"))
    if weight != 1 and weight >= 0 and "VolumeBinding" not in names:
        key, entry = ("enabled", {"name": "VolumeBinding", "weight": weight}) if weight else ("disabled", _VOLUMES)
        score = plugins.get("score", {})
        changed["score"] = {**score, key: [*score.get(key, []), entry]}
    return {**profile, "plugins": {**plugins, **changed}, "pluginConfig": configs}


def _volume_args(arguments: Mapping[str, str], gates: Mapping[str, bool]) -> dict[str, object]:
    """Return the args of VolumeBinding. As in Volcano, the shape counts only if scores by capacity are on."""
    said: dict[str, object] = {}
    if _BIND_TIMEOUT in arguments:
        said["bindTimeoutSeconds"] = int(arguments[_BIND_TIMEOUT])
    if _VOLUME_SHAPE in arguments and gates["StorageCapacityScoring"]:
        try:
            said["shape"] = json.loads(arguments[_VOLUME_SHAPE])
        except json.JSONDecodeError:
            said["shape"] = arguments[_VOLUME_SHAPE]  # the reader of the args says what is wrong
    return said


def _device_args(arguments: Mapping[str, str]) -> dict[str, object]:
    """Return the args of DynamicResources; as in Volcano, a time below 0 does not count."""
    seconds = int(arguments.get(_DEVICE_TIMEOUT, "-1"))
    return {"filterTimeout": f"{seconds}s"} if seconds >= 0 else {}
