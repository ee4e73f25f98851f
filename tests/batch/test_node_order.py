"""The weights of `nodeorder` become weights of the profile's score plugins."""

from __future__ import annotations

import pytest

from pyscheduler.framework import ConfigError
from pyscheduler.testing import FakeCluster

FILE = """
actions: "%s"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - name: predicates
  - name: nodeorder
    arguments: {%s}
"""
VOLCANO, KUBE_BATCH = "enqueue, allocate, backfill", "allocate, backfill"
USUAL = {
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "NodeAffinity": 2,
    "InterPodAffinity": 2,
    "TaintToleration": 3,
    "ImageLocality": 1,
    "PodTopologySpread": 2,
}


def weights(actions: str, arguments: str) -> dict[str, int]:
    """Return the weights of kube-scheduler's score plugins in the profile of a file, as a scheduler has them."""
    profile = FakeCluster().framework(config=FILE % (actions, arguments)).profile
    return {name: weight for name, weight in profile.score_weights.items() if name in USUAL}


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        pytest.param("", {}, id="Volcano's defaults are kube-scheduler's"),
        pytest.param(
            "nodeaffinity.weight: 7, tainttoleration.weight: 1", {"NodeAffinity": 7, "TaintToleration": 1}, id="new"
        ),
        pytest.param(
            "imagelocality.weight: 0, podtopologyspread.weight: 0",
            {"ImageLocality": None, "PodTopologySpread": None},
            id="off",
        ),
        pytest.param("leastrequested.weight: 0, mostrequested.weight: 4", {"NodeResourcesFit": 4}, id="fill nodes"),
    ],
)
def test_volcano_weights(arguments: str, changes: dict[str, int | None]) -> None:
    """Given weights replace the usual ones; 0 leaves a plugin out."""
    expected = {name: weight for name, weight in {**USUAL, **changes}.items() if weight}
    assert weights(VOLCANO, arguments) == expected


def test_kube_batch_scores_with_fewer_plugins() -> None:
    """kube-batch scores resources, node affinity and pod affinity, each with weight 1."""
    assert weights(KUBE_BATCH, "nodeaffinity.weight: 1") == {
        "NodeResourcesFit": 1,
        "NodeResourcesBalancedAllocation": 1,
        "NodeAffinity": 1,
        "InterPodAffinity": 1,
    }


def test_most_and_least_requested_exclude_each_other() -> None:
    """One profile has one strategy for resources."""
    with pytest.raises(ConfigError, match="both above 0"):
        weights(VOLCANO, "mostrequested.weight: 1")
