"""Weights of the policy `nodeorder` as weights of the score plugins of a profile.

Source: Volcano and kube-batch, `pkg/scheduler/plugins/nodeorder/nodeorder.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.framework.errors import ConfigError
from pyscheduler_batch.formats.presets import KUBE_BATCH, VOLCANO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler_batch.settings.configuration import BatchArgs

__all__ = ["with_node_order"]

#: By argument: the plugin, the weight that it has in a profile, and the defaults of Volcano and of kube-batch.
_WEIGHTS: Final = {
    "leastrequested.weight": ("NodeResourcesFit", 1, 1, 1),
    "mostrequested.weight": ("", 0, 0, 0),
    "balancedresource.weight": ("NodeResourcesBalancedAllocation", 1, 1, 1),
    "nodeaffinity.weight": ("NodeAffinity", 2, 2, 1),
    "podaffinity.weight": ("InterPodAffinity", 2, 2, 1),
    "tainttoleration.weight": ("TaintToleration", 3, 3, 0),
    "imagelocality.weight": ("ImageLocality", 1, 1, 0),
    "podtopologyspread.weight": ("PodTopologySpread", 2, 2, 0),
}
_BALANCED: Final = ("cpu", "memory", "nvidia.com/gpu")
_LEAST: Final = "leastrequested.weight"
_MOST: Final = "mostrequested.weight"


def with_node_order(profile: Mapping[str, object], args: BatchArgs) -> dict[str, object]:
    """Return the profile with the weights that `nodeorder` gives its score plugins; a weight of 0 leaves one out.

    Raises `ConfigError` if it asks for the most and the least requested nodes, which one profile cannot score both.
    """
    policy = args.policy("nodeorder")
    if policy is None or args.preset not in {VOLCANO.name, KUBE_BATCH.name}:
        return dict(profile)
    is_volcano = args.preset == VOLCANO.name
    weights = {key: int(policy.arguments.get(key, row[2 if is_volcano else 3])) for key, row in _WEIGHTS.items()}
    resources: list[dict[str, object]] = []
    if is_volcano:
        # Its balanced allocation counts GPUs, too.
        resources.append(
            {"name": "NodeResourcesBalancedAllocation", "args": {"resources": _of_equal_weight(_BALANCED)}}
        )
    if weights[_MOST] > 0:
        if weights[_LEAST] > 0:
            raise ConfigError(
                f'policy "nodeorder": {_LEAST} and {_MOST} are both above 0, but a profile scores one of them; '
                f'set "{_LEAST}: 0" to fill nodes, or "{_MOST}: 0" to spread'
            )
        weights[_LEAST] = weights[_MOST]
        strategy = {"type": "MostAllocated", "resources": _of_equal_weight(_BALANCED[:2])}
        resources.append({"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}})
    changed = {
        plugin: weights[key]
        for key, (plugin, usual, *_) in _WEIGHTS.items()
        if plugin and weights[key] != usual and weights[key] >= 0
    }
    score = {
        "enabled": [{"name": plugin, "weight": weight} for plugin, weight in changed.items() if weight],
        "disabled": [{"name": plugin} for plugin, weight in changed.items() if not weight],
    }
    plugins, configs = profile["plugins"], profile["pluginConfig"]
    assert isinstance(plugins, dict), "made by this room"
    assert isinstance(configs, list), "made by this room"
    present = {key: value for key, value in score.items() if value}
    return {
        **profile,
        "plugins": {**plugins, "score": present} if present else plugins,
        "pluginConfig": [*configs, *resources],
    }


def _of_equal_weight(names: Sequence[str]) -> list[dict[str, object]]:
    return [{"name": name, "weight": 1} for name in names]
