"""Give a profile's score plugins the weights of `nodeorder`, a plugin of Volcano and kube-batch.

Source: Volcano and kube-batch, `pkg/scheduler/plugins/nodeorder/nodeorder.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler_batch.batch_args import BatchArgs

__all__ = ["DEFAULTS", "with_node_order"]

#: By argument: the plugin, and the weight that it has in a profile.
_PLUGINS: Final = {
    "leastrequested.weight": ("NodeResourcesFit", 1),
    "balancedresource.weight": ("NodeResourcesBalancedAllocation", 1),
    "nodeaffinity.weight": ("NodeAffinity", 2),
    "podaffinity.weight": ("InterPodAffinity", 2),
    "tainttoleration.weight": ("TaintToleration", 3),
    "imagelocality.weight": ("ImageLocality", 1),
    "podtopologyspread.weight": ("PodTopologySpread", 2),
}
DEFAULTS: Final = {key: usual for key, (_, usual) in _PLUGINS.items()}
"""The weights of Volcano by default."""
_PACKED: Final = ("cpu", "memory")
_LEAST: Final = "leastrequested.weight"
_MOST: Final = "mostrequested.weight"


def with_node_order(
    profile: Mapping[str, object], args: BatchArgs, defaults: Mapping[str, int], *, balanced: Sequence[str] = ()
) -> Mapping[str, object]:
    """Return the profile with the weights that `nodeorder` gives its score plugins; a weight of 0 leaves one out.

    `defaults`: by argument the weight that counts without it, 0 for others. `balanced`: the resources that balanced
    allocation counts, if they are not those of a profile.

    Raises `ConfigError` if it asks for the most and the least requested nodes, which one profile cannot score both.
    """
    policy = args.policy("nodeorder")
    if policy is None:
        return profile
    weights = {key: int(policy.arguments.get(key, defaults.get(key, 0))) for key in (*_PLUGINS, _MOST)}
    resources: list[dict[str, object]] = []
    if balanced:
        resources.append({"name": "NodeResourcesBalancedAllocation", "args": {"resources": _of_equal_weight(balanced)}})
    if weights[_MOST] > 0:
        if weights[_LEAST] > 0:
            raise ConfigError(
                f'policy "nodeorder": {_LEAST} and {_MOST} are both above 0, but a profile scores one of them; '
                f'set "{_LEAST}: 0" to fill nodes, or "{_MOST}: 0" to spread'
            )
        weights[_LEAST] = weights[_MOST]
        strategy = {"type": "MostAllocated", "resources": _of_equal_weight(_PACKED)}
        resources.append({"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}})
    changed = {
        plugin: weights[key] for key, (plugin, usual) in _PLUGINS.items() if weights[key] != usual and weights[key] >= 0
    }
    score = {
        "enabled": [{"name": plugin, "weight": weight} for plugin, weight in changed.items() if weight],
        "disabled": [{"name": plugin} for plugin, weight in changed.items() if not weight],
    }
    plugins, configs = profile["plugins"], profile["pluginConfig"]
    assert isinstance(plugins, dict), "made by the form of these files"
    assert isinstance(configs, list), "made by the form of these files"
    present = {key: value for key, value in score.items() if value}
    return {
        **profile,
        "plugins": {**plugins, "score": present} if present else plugins,
        "pluginConfig": [*configs, *resources],
    }


def _of_equal_weight(names: Sequence[str]) -> list[dict[str, object]]:
    return [{"name": name, "weight": 1} for name in names]
