"""A `SchedulingShard` of KAI becomes the args of a batch profile."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler_batch.batch_args import BatchArgs
from pyscheduler_batch.settings.configuration import batch_args
from pyscheduler_batch.systems import presets
from tests.batch.test_configuration import names, problems


def shard(**spec: Any) -> BatchArgs:
    """Read the spec of a shard."""
    return batch_args({"preset": "kai", "shard": spec})


def test_empty_shard_runs_what_kais_operator_writes() -> None:
    """All actions, and the plugins in the order of their default priorities."""
    args = shard()
    assert args.actions == presets()["kai"].actions
    (tier,) = names(args)
    assert tier[:8] == [
        "predicates",
        "proportion",
        "priority",
        "nodeavailability",
        "resourcetype",
        "podaffinity",
        "elastic",
        "kubeflow",
    ]
    assert "gpuspread" not in tier
    assert set(presets()["kai"].tiers[0][:14]) <= set(tier)
    assert args.warnings == ()


def test_spread_turns_off_consolidation_and_packing() -> None:
    """A shard that spreads GPUs places them with gpuspread and does not consolidate."""
    args = shard(placementStrategy={"gpu": "spread"})
    (tier,) = names(args)
    assert "consolidation" not in args.actions
    assert {"gpupack", "gpusharingorder"}.isdisjoint(tier)
    assert "gpuspread" in tier
    placement = args.policy("nodeplacement")
    assert placement is not None
    assert placement.arguments == {"gpu": "spread", "cpu": "binpack"}


def test_fields_of_a_shard_become_arguments() -> None:
    """The kValue and minRuntime reach their plugins, flags and depths the settings."""
    args = shard(
        kValue=0.5,
        minRuntime={"preemptMinRuntime": "10m", "reclaimMinRuntime": "1h"},
        queueDepthPerAction={"allocate": 5},
        partitionLabelValue="gpu",
        usageDBConfig={"clientType": "prometheus"},
        args={
            "scheduler-name": "mine",
            "max-consolidation-preemptees": "3",
            "allow-consolidating-reclaim": "false",
            "default-staleness-grace-period": "-1s",
        },
    )
    proportion, runtime = args.policy("proportion"), args.policy("minruntime")
    assert proportion is not None
    assert runtime is not None
    assert proportion.arguments == {"kValue": "0.5"}
    assert runtime.arguments == {"defaultPreemptMinRuntime": "600.0", "defaultReclaimMinRuntime": "3600.0"}
    assert (args.queue_depth_per_action, args.node_pool, args.scheduler_name) == ({"allocate": 5}, "gpu", "mine")
    assert (args.max_consolidation_victims, args.consolidating_reclaim, args.staleness_grace) == (3, False, -1.0)
    assert args.usage is not None
    assert args.usage.source == "prometheus"


def test_overrides_of_a_shard_change_order_and_replace_arguments() -> None:
    """`enabled` and `priority` change single defaults, `arguments` replace all of a plugin."""
    args = shard(
        kValue=2,
        plugins={"proportion": {"arguments": {}}, "elastic": {"enabled": False}, "priority": {"priority": 9999}},
        actions={"preempt": {"priority": 450}, "reclaim": {"enabled": False}},
    )
    assert args.actions == ("allocate", "preempt", "consolidation", "stalegangeviction")
    (tier,) = names(args)
    assert tier[0] == "priority"
    assert "elastic" not in tier
    proportion = args.policy("proportion")
    assert proportion is not None
    assert proportion.arguments == {}


def test_unknown_keys_and_flags_of_a_shard_are_warnings() -> None:
    """The nearest name is in the sentence."""
    args = shard(kvalue=1, args={"qps": "50", "max-consolidation-preemptee": "1", "use-scheduling-signatures": "maybe"})
    assert args.warnings == (
        "$.shard.kvalue has no effect: no key is called 'kvalue'; did you mean \"kValue\"?",
        "$.shard.args.qps has no effect here",
        '$.shard.args.max-consolidation-preemptee has no effect here; did you mean "max-consolidation-preemptees"?',
        "$.shard.args.use-scheduling-signatures: 'maybe' is not usable; the default counts",
    )


KNOWN = ", ".join(presets()["kai"].known_actions)


@pytest.mark.parametrize("device", ["gpu", "cpu"])
def test_depth_of_consolidation_with_spread_is_a_warning(device: str) -> None:
    """`placementStrategy: spread` turns consolidation off, so the depth of this action is left out."""
    depths = {"consolidation": 5, "reclaim": 2}
    args = shard(placementStrategy={device: "spread"}, queueDepthPerAction=depths)
    assert args.queue_depth_per_action == {"reclaim": 2}
    (warning,) = args.warnings
    text = "the depth of consolidation has no effect, because placementStrategy spread turns this action off"
    assert warning == f"$.shard.queueDepthPerAction: {text}"
    on = {"consolidation": {"enabled": True}}
    args = shard(placementStrategy={device: "spread"}, queueDepthPerAction=depths, actions=on)
    assert (args.queue_depth_per_action, args.warnings) == (depths, ())
    off = {"consolidation": {"enabled": False}}
    (problem,) = problems({"preset": "kai", "shard": {"queueDepthPerAction": depths, "actions": off}})
    assert problem.startswith('action "consolidation" is not among the actions')
    assert problem.endswith(" @ $.shard.queueDepthPerAction")


def test_mistakes_of_a_shard_are_lines_with_their_place() -> None:
    """Parts of the wrong type and unknown actions are refused."""
    mistakes = {
        "placementStrategy": {"gpu": "pile"},
        "kValue": "two",
        "actions": {"xyz": {}, "reclaim": {"priority": "high"}},
        "plugins": [],
    }
    assert problems({"preset": "kai", "shard": mistakes}) == (
        "expected binpack or spread, found 'pile' @ $.shard.placementStrategy.gpu",
        "expected a number, found 'two' @ $.shard.kValue",
        "expected a mapping, found [] @ $.shard.plugins",
        "expected an integer, found 'high' @ $.shard.actions.reclaim.priority",
        f'no action is called "xyz"; known are {KNOWN} @ $.shard.actions',
    )
