"""The args of a batch profile, in each of the forms that users have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.framework import ConfigError
from pyscheduler_batch.batch_args import BatchArgs, PolicyEntry
from pyscheduler_batch.settings.configuration import batch_args, preset_of
from pyscheduler_batch.systems import presets, systems
from pyscheduler_kai.system import Kai
from pyscheduler_volcano.system import Volcano
from tests.batch.random_json import JSON


def names(args: BatchArgs) -> list[list[str]]:
    """Return the names of the policies by tier."""
    return [[entry.name for entry in tier] for tier in args.tiers]


def problems(mapping: dict[str, Any], **keywords: Any) -> tuple[str, ...]:
    """Return the lines of the error that a configuration has."""
    with pytest.raises(ConfigError) as caught:
        batch_args(mapping, **keywords)
    return caught.value.problems


def volcano(*plugins: Any, **others: Any) -> dict[str, Any]:
    """Return the args of a profile of Volcano with one tier."""
    return {"preset": "volcano", "tiers": [{"plugins": list(plugins)}], **others}


def kai(*plugins: Any, **others: Any) -> dict[str, Any]:
    """Return the args of a profile of KAI with one tier."""
    return {"preset": "kai", "tiers": [{"plugins": list(plugins)}], **others}


@pytest.mark.parametrize(
    ("preset", "actions", "tiers", "scheduler_name"),
    [
        (
            "volcano",
            ("enqueue", "allocate", "backfill"),
            [["priority", "gang", "conformance"], ["overcommit", "drf", "predicates", "proportion", "nodeorder"]],
            "volcano",
        ),
        (
            "kube-batch",
            ("allocate", "backfill"),
            [["priority", "gang"], ["drf", "predicates", "proportion", "nodeorder"]],
            "kube-batch",
        ),
    ],
)
def test_preset_alone_runs_what_its_system_runs_without_a_file(
    preset: str, actions: tuple[str, ...], tiers: list[list[str]], scheduler_name: str
) -> None:
    """Actions, tiers and the scheduler's name are the defaults of the system."""
    args = batch_args({"preset": preset})
    assert (args.actions, names(args), args.scheduler_name) == (actions, tiers, scheduler_name)
    assert args.warnings == ()


def test_preset_kai_has_one_tier_and_the_limits_of_kai() -> None:
    """16 victims of a consolidation, 60 s for a broken gang, binpack, and both generators of scenarios."""
    args = batch_args({"preset": "kai"})
    assert args.actions == ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
    (tier,) = names(args)
    assert tier[:3] == ["predicates", "proportion", "priority"]
    assert tier[-2:] == ["sg-nodelocalgreedy", "sg-multinodegang"]
    placement = args.policy("nodeplacement")
    assert placement is not None
    assert placement.arguments == {"cpu": "binpack", "gpu": "binpack"}
    assert (args.max_consolidation_victims, args.staleness_grace) == (16, 60.0)


@pytest.mark.parametrize("actions", ["allocate, backfill", ["allocate", "backfill"], " allocate ,backfill "])
def test_actions_are_a_text_or_a_list(actions: Any) -> None:
    """Both spellings name the same actions."""
    assert batch_args({"preset": "volcano", "actions": actions}).actions == ("allocate", "backfill")


def test_entry_of_a_tier_has_texts_as_arguments_and_its_flags() -> None:
    """Numbers and booleans become texts, lists and maps JSON; flags stay as they are written."""
    entry = {
        "name": "binpack",
        "enablePreemptable": False,
        "enableJobOrder": True,
        "arguments": {"binpack.weight": 10, "binpack.cpu": 5.0, "binpack.resources": ["nvidia.com/gpu"]},
    }
    args = batch_args(volcano(entry))
    assert args.tiers == (
        (
            PolicyEntry(
                name="binpack",
                arguments={
                    "binpack.weight": "10",
                    "binpack.cpu": "5",
                    "binpack.resources": '["nvidia.com/gpu"]',
                },
                enabled={"enablePreemptable": False, "enableJobOrder": True},
            ),
        ),
    )
    assert args.warnings == ()


def test_tier_may_be_a_list_and_an_entry_a_name() -> None:
    """The short form means the same as `plugins: [{name: ...}]`."""
    short = batch_args({"preset": "volcano", "tiers": [["gang", {"name": "priority"}], ["drf"]]})
    assert short == batch_args(
        {
            "preset": "volcano",
            "tiers": [{"plugins": [{"name": "gang"}, {"name": "priority"}]}, {"plugins": [{"name": "drf"}]}],
        }
    )


def test_disable_flags_of_kai_close_what_enable_flags_open() -> None:
    """`disableJobOrder: true` is `enableJobOrder: false`."""
    args = batch_args(kai({"name": "priority", "disableJobOrder": True, "disableTaskOrder": False}))
    assert args.tiers[0][0].enabled == {"enableJobOrder": False, "enableTaskOrder": True}


@pytest.mark.parametrize(
    "spelling", ["relcaimerSaturationMultiplier", "reclaimerSaturationMultiplier", "reclaimerUtilizationMultiplier"]
)
def test_all_spellings_of_kais_multiplier_are_one_argument(spelling: str) -> None:
    """The name in KAI's code, the one without the misspelling and that of the user guide mean the same."""
    args = batch_args(kai({"name": "proportion", "arguments": {spelling: "1.5"}}))
    assert args.tiers[0][0].arguments == {"relcaimerSaturationMultiplier": "1.5"}
    assert args.warnings == ()


def test_unknown_argument_is_a_warning_with_the_nearest_name() -> None:
    """The argument stays, and the log says what was probably meant."""
    args = batch_args(kai({"name": "proportion", "arguments": {"kvalue": 2}}))
    assert args.tiers[0][0].arguments == {"kvalue": "2"}
    assert args.warnings == (
        '$.tiers[0].plugins[0].arguments of proportion: no argument is called "kvalue"; did you mean "kValue"?',
    )


@pytest.mark.parametrize(
    ("preset", "policy", "argument", "value", "wrong"),
    [
        ("kai", "proportion", "kValue", "two", "is not a number"),
        ("kai", "proportion", "reclaimerUtilizationMultiplier", "inf", "is not a number"),
        ("kai", "minruntime", "defaultPreemptMinRuntime", "-10m", "is not a duration of 0 or more such as 90s"),
        ("kai", "minruntime", "reclaimResolveMethod", "path", "is none of lca, queue"),
        ("kai", "nodeplacement", "gpu", "pile", "is none of binpack, spread"),
        ("volcano", "overcommit", "overcommit-factor", "much", "is not a number"),
        ("volcano", "binpack", "binpack.weight", "1.5", "is not an integer"),
        ("volcano", "sla", "sla-waiting-time", "soon", "is not a duration of 0 or more such as 90s"),
        ("kube-batch", "predicates", "predicate.MemoryPressureEnable", "yes", "is neither true nor false"),
        ("kai", "proportion", "relcaimerSaturationMultiplier", "0.2", "is below 1"),
        ("volcano", "overcommit", "overcommit-factor", "0.5", "is below 1"),
        ("volcano", "binpack", "binpack.cpu", "-1", "is below 0"),
        ("volcano", "binpack", "binpack.resources.nvidia.com/gpu", "-1", "is below 0"),
        ("volcano", "nodeorder", "nodeaffinity.weight", "-1", "is below 0"),
        ("volcano", "network-topology-aware", "weight", "-4", "is below 0"),
        ("volcano", "network-topology-aware", "hypernode.binpack.normal-pod.fading", "-0.1", "is below 0"),
        ("volcano", "capacity", "ancestorReclaimLevel", "-2", "is below 0"),
        ("volcano", "predicates", "volumebinding.bindTimeoutSeconds", "-2", "is below 0"),
    ],
)
def test_unusable_value_of_an_argument_is_left_out(
    preset: str, policy: str, argument: str, value: str, wrong: str
) -> None:
    """The policy has its default, and the log says why."""
    entry = {"name": policy, "arguments": {argument: value}}
    args = batch_args({"preset": preset, "tiers": [[entry]]})
    assert args.tiers[0][0].arguments == {}
    assert args.warnings == (f'$.tiers[0][0].arguments.{argument}: "{value}" {wrong}; the default counts',)


def test_nearest_value_counts_where_the_default_would_mean_more() -> None:
    """A negative kValue is none, and a percentage above 100 is all; the weight of binpack may be negative."""
    args = batch_args(kai({"name": "proportion", "arguments": {"kValue": -1}}))
    assert args.tiers[0][0].arguments == {"kValue": "0"}
    assert args.warnings == ('$.tiers[0].plugins[0].arguments.kValue: "-1" is below 0; 0 counts',)
    given = {"minCandidateNodesPercentage": 500, "minCandidateNodesAbsolute": -1}
    arguments = [{"name": "preempt", "arguments": given}]
    binpack = {"name": "binpack", "arguments": {"binpack.weight": -1}}
    args = batch_args({"preset": "volcano", "configurations": arguments, "tiers": [[binpack]]})
    assert Volcano.action_arguments(args, "preempt") == {
        "minCandidateNodesPercentage": "100",
        "minCandidateNodesAbsolute": "0",
    }
    assert args.tiers[0][0].arguments == {"binpack.weight": "-1"}
    assert args.warnings == (
        '$.configurations[0].arguments.minCandidateNodesPercentage: "500" is above 100; 100 counts',
        '$.configurations[0].arguments.minCandidateNodesAbsolute: "-1" is below 0; 0 counts',
    )


def test_arguments_of_actions_of_other_distributions_are_not_checked() -> None:
    """Only the action knows what they mean, also if they have the name of an argument of the preset."""
    mapping = {
        "preset": "volcano",
        "actions": "tidy",
        "configurations": [{"name": "tidy", "arguments": {"weight": -1}}],
    }
    args = batch_args(mapping, more_actions=["tidy"])
    assert (Volcano.action_arguments(args, "tidy"), args.warnings) == ({"weight": "-1"}, ())


def test_actions_of_kai_have_the_settings_as_arguments() -> None:
    """Each action gets the settings of the scheduler as texts; actions of Volcano only their own arguments."""
    args = batch_args({"preset": "kai", "maxConsolidationVictims": 3, "queueDepthPerAction": {"reclaim": 7}})
    assert Kai.action_arguments(args, "reclaim") == {
        "maxConsolidationVictims": "3",
        "consolidatingReclaim": "true",
        "schedulingSignatures": "true",
        "defaultStalenessGracePeriod": "60.0",
        "maxActionSearchDuration": "300.0",
        "maxJobSearchDuration": "240.0",
        "minJobSearchDuration": "0.0",
        "queueDepth": "7",
    }
    assert "queueDepth" not in Kai.action_arguments(args, "allocate")
    arguments = [{"name": "preempt", "arguments": {"minCandidateNodesAbsolute": 5}}]
    volcano_args = batch_args({"preset": "volcano", "configurations": arguments})
    assert Volcano.action_arguments(volcano_args, "preempt") == {"minCandidateNodesAbsolute": "5"}
    assert Volcano.action_arguments(volcano_args, "allocate") == {}


def test_misspelled_keys_are_warnings_with_the_nearest_name() -> None:
    """Keys of the file, of a tier and of a policy are all checked."""
    args = batch_args(
        {
            "preset": "volcano",
            "action": "allocate",
            "tiers": [{"plugin": [], "plugins": [{"name": "gang", "enabled": False}]}],
        }
    )
    assert args.warnings == (
        '$.action has no effect: no key is called "action"; did you mean "actions"?',
        '$.tiers[0].plugin has no effect: no key is called "plugin"; did you mean "plugins"?',
        '$.tiers[0].plugins[0].enabled has no effect: no key is called "enabled"; did you mean "enabledVictim"?',
    )


@pytest.mark.parametrize(
    ("mapping", "line"),
    [
        pytest.param(
            {"preset": "volcano", "actions": "xyz"},
            'no action is called "xyz"; known are enqueue, allocate, backfill, preempt, reclaim @ $.actions',
            id="known actions",
        ),
        pytest.param(
            {"preset": "volcano", "tiers": [["nodeplacement"]]},
            'policy "nodeplacement" belongs to preset kai, not volcano @ $.tiers[0][0].name',
            id="policy of another preset",
        ),
        pytest.param(
            {"preset": "kai", "actions": "backfill"},
            'action "backfill" belongs to preset volcano and kube-batch, not kai @ $.actions',
            id="action of other presets",
        ),
    ],
)
def test_unknown_name_is_compared_with_names_that_can_be_used(mapping: dict[str, Any], line: str) -> None:
    """A message offers no name that is refused then, and names the preset of a name that exists elsewhere."""
    assert problems(mapping) == (line,)


def test_known_policies_of_volcano_can_all_be_used() -> None:
    """None of Volcano's that do not exist here is offered."""
    (line,) = problems({"preset": "volcano", "tiers": [["xyz"]]})
    names = "priority, gang, conformance, drf, proportion, resourcequota, overcommit, predicates, nodeorder, binpack, "
    names += "capacity, sla, network-topology-aware"
    assert line == f'no policy is called "xyz"; known are {names} @ $.tiers[0][0].name'


def test_unknown_actions_and_policies_are_one_error_with_a_line_each() -> None:
    """The error names each place, and the nearest name or all names."""
    assert problems(
        {"preset": "kube-batch", "actions": "allocates, shuffle", "tiers": [{"plugins": [{"name": "gong"}]}]}
    ) == (
        'no action is called "allocates"; did you mean "allocate"? @ $.actions',
        'no action is called "shuffle"; known are allocate, backfill, preempt, reclaim @ $.actions',
        'no policy is called "gong"; did you mean "gang"? @ $.tiers[0].plugins[0].name',
    )


def test_names_of_other_distributions_are_known() -> None:
    """Actions and policies that were added may be named; None stands for any argument."""
    mapping = volcano(
        {"name": "deadline", "arguments": {"any": 1}},
        {"name": "quiet", "arguments": {"volum": 1}},
        actions="allocate, tidy",
    )
    args = batch_args(mapping, more_actions=["tidy"], more_policies={"deadline": None, "quiet": ["volume"]})
    assert args.actions == ("allocate", "tidy")
    assert names(args) == [["deadline", "quiet"]]
    assert args.warnings == (
        '$.tiers[0].plugins[1].arguments of quiet: no argument is called "volum"; did you mean "volume"?',
    )


def test_name_may_carry_its_preset() -> None:
    """`volcano/gang` is gang in a profile of Volcano, and unknown in another."""
    assert names(batch_args(volcano({"name": "volcano/gang"}))) == [["gang"]]
    assert len(problems(kai({"name": "volcano/gang"}))) == 1


def test_configurations_are_arguments_of_actions() -> None:
    """Volcano's `configurations` reach their action; unknown actions and arguments are warnings."""
    args = batch_args(
        {
            "preset": "volcano",
            "configurations": [
                {"name": "preempt", "arguments": {"minCandidateNodesPercentage": 10, "minCandidate": 1}},
                {"name": "dream"},
            ],
        }
    )
    assert args.action_arguments == {"preempt": {"minCandidateNodesPercentage": "10", "minCandidate": "1"}}
    assert len(args.warnings) == 2


def test_settings_are_read_with_their_types() -> None:
    """Durations are Go durations or seconds, -1 victims are any number."""
    args = batch_args(
        {
            "preset": "kai",
            "maxConsolidationVictims": -1,
            "consolidatingReclaim": False,
            "schedulingSignatures": False,
            "stalenessGracePeriod": "2m",
            "queueDepthPerAction": {"reclaim": 10},
            "requireGroup": True,
            "defaultQueue": "team-a",
            "nodePool": "gpu",
            "binder": "bindRequest",
            "gangBarrier": False,
            "schedulerName": "mine",
        }
    )
    assert (args.max_consolidation_victims, args.consolidating_reclaim, args.scheduling_signatures) == (
        -1,
        False,
        False,
    )
    assert (args.staleness_grace, args.queue_depth_per_action, args.require_group) == (120.0, {"reclaim": 10}, True)
    assert (args.default_queue, args.node_pool, args.binder, args.gang_barrier) == (
        "team-a",
        "gpu",
        "bindRequest",
        False,
    )
    assert args.scheduler_name == "mine"


@pytest.mark.parametrize(
    ("mapping", "waits"),
    [
        pytest.param({"preset": "volcano"}, True, id="volcano"),
        pytest.param({"preset": "kube-batch", "quotaReservation": "wait"}, True, id="said"),
        pytest.param({"preset": "volcano", "quotaReservation": "none"}, False, id="none"),
        pytest.param({"preset": "kai"}, False, id="groups of KAI declare no resources"),
        pytest.param(
            {"preset": "volcano", "tiers": [{"plugins": [{"name": "resourcequota"}]}]}, False, id="Volcano's own policy"
        ),
    ],
)
def test_jobs_wait_for_quota_unless_something_else_decides(mapping: dict[str, Any], waits: bool) -> None:
    """The default is to wait, where groups declare resources."""
    assert systems()[mapping["preset"]].waits_for_quota(batch_args(mapping)) is waits


@pytest.mark.parametrize(
    ("mapping", "line"),
    [
        pytest.param(
            {"preset": "volcano", "quotaReservation": "off"},
            'no quotaReservation is called "off"; known are wait, none @ $.quotaReservation',
            id="quota reservation",
        ),
        pytest.param({}, "a preset is missing; write one of kai, volcano, kube-batch @ $.preset", id="no preset"),
        pytest.param(
            {"preset": "volcno"}, 'no preset is called "volcno"; did you mean "volcano"? @ $.preset', id="preset"
        ),
        pytest.param(
            {"preset": "kai", "actions": "allocate, "},
            "a name is missing before or after a comma; remove the comma @ $.actions",
            id="last comma",
        ),
        pytest.param(
            {"preset": "kai", "actions": 3},
            "expected names with commas between them, or a list, found 3 @ $.actions",
            id="actions",
        ),
        pytest.param({"preset": "kai", "tiers": {}}, "expected a list, found {} @ $.tiers", id="tiers"),
        pytest.param(
            {"preset": "kai", "tiers": ["gang"]},
            'expected a mapping with plugins, or a list of them, found "gang" @ $.tiers[0]',
            id="tier",
        ),
        pytest.param(
            kai({"arguments": {}}),
            'expected a mapping with the name of a policy, found {"arguments":{}} @ $.tiers[0].plugins[0]',
            id="entry",
        ),
        pytest.param(
            volcano({"name": "gang", "enablePreemptable": "no"}),
            'expected true or false, found "no" @ $.tiers[0].plugins[0].enablePreemptable',
            id="flag",
        ),
        pytest.param(
            {"preset": "kai", "stalenessGracePeriod": "soon"},
            'expected a duration such as 90s, found "soon" @ $.stalenessGracePeriod',
            id="duration",
        ),
        pytest.param(
            {"preset": "kai", "queueDepthPerAction": {"enqueue": 1}},
            'action "enqueue" is not among the actions allocate, consolidation, reclaim, preempt, stalegangeviction'
            " @ $.queueDepthPerAction",
            id="depth of an action that does not run",
        ),
        pytest.param(
            volcano({"name": "drf", "enableHierarchy": True}, {"name": "proportion"}),
            "proportion and drf with enableHierarchy divide the same resources; remove one of them @ $.tiers[0]",
            id="two divisions",
        ),
        pytest.param(
            {"preset": "volcano", "shard": {}},
            "a shard belongs to preset kai, not volcano; give the spec of a SchedulingShard @ $.shard",
            id="shard of another system",
        ),
    ],
)
def test_mistake_has_one_line(mapping: dict[str, Any], line: str) -> None:
    """The line says what is wrong, where, and how to mend it."""
    assert problems(mapping) == (line,)


def test_path_of_the_args_is_part_of_every_message() -> None:
    """Messages name the place in the whole file."""
    (line,) = problems({"preset": "kai", "actions": 3}, path="$.profiles[1].pluginConfig[0].args")
    assert line.endswith(" @ $.profiles[1].pluginConfig[0].args.actions")


# --- presets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mapping", "preset", "told"),
    [
        ({"actions": "allocate, backfill"}, "kube-batch", False),
        ({"preset": "volcano", "actions": "allocate"}, "volcano", True),
        ({"actions": "enqueue, allocate"}, "volcano", True),
        ({"actions": "allocate, consolidation"}, "kai", True),
        ({"actions": ["allocate"], "configurations": []}, "volcano", True),
        ({"actions": "allocate", "queueDepthPerAction": {}}, "kai", True),
        ({"tiers": [{"plugins": [{"name": "minruntime"}]}]}, "kai", True),
        ({"tiers": [{"plugins": [{"name": "overcommit"}]}]}, "volcano", True),
        ({"tiers": [{"plugins": [{"name": "drf", "enableHierarchy": True}]}]}, "volcano", True),
        ({"tiers": 3, "actions": None}, "kube-batch", False),
    ],
)
def test_preset_follows_from_names_that_only_one_system_has(mapping: dict[str, Any], preset: str, told: bool) -> None:
    """A file without such names is kube-batch's, because Volcano knows all of its names."""
    assert preset_of(mapping, presets()) == (preset, told)


def test_file_of_two_possible_systems_has_a_warning() -> None:
    """The log says that kube-batch counts, and how to choose Volcano."""
    args = batch_args({"actions": "allocate, backfill"})
    assert args.preset == "kube-batch"
    assert args.warnings == (
        '$: kube-batch and Volcano both have these names; kube-batch counts, write "preset: volcano" for Volcano',
    )


@pytest.mark.parametrize("preset", sorted(presets()))
def test_defaults_name_only_what_the_preset_knows(preset: str) -> None:
    """Default actions, policies and arguments have no warning of their own."""
    row = presets()[preset]
    assert set(row.actions) <= set(row.known_actions)
    for tier in batch_args({"preset": preset}).tiers:
        for entry in tier:
            assert entry.name in row.known_policies
            assert all(row.knows_argument(entry.name, each) for each in entry.arguments)


ENTRY = st.fixed_dictionaries(
    {},
    optional={"name": st.sampled_from(["gang", "drf", "proportion"]) | JSON, "arguments": JSON, "enableJobOrder": JSON},
)
TIERS = st.lists(st.fixed_dictionaries({}, optional={"plugins": st.lists(ENTRY, max_size=3) | JSON}) | JSON, max_size=3)
SHARD = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("args", "placementStrategy", "minRuntime", "kValue", "plugins", "actions", "queueDepthPerAction"), JSON
    ),
)
ARGS = st.fixed_dictionaries(
    {},
    optional={
        "preset": st.sampled_from(sorted(presets())) | JSON,
        "actions": st.sampled_from(["allocate", "enqueue, allocate", "backfill,"]) | JSON,
        "tiers": TIERS | JSON,
        "configurations": JSON,
        "shard": SHARD | JSON,
        **dict.fromkeys(("queueDepthPerAction", "stalenessGracePeriod", "binder", "usageDBConfig", "nonsense"), JSON),
    },
)


@pytest.mark.slow
@settings(deadline=None)
@given(mapping=ARGS)
def test_random_args_are_read_or_refused_with_lines(mapping: dict[str, Any]) -> None:
    """Whatever the args are, the result is complete, or an error of whole lines that name their place."""
    args, lines = read_or_lines(mapping)
    if args is None:
        assert lines
        assert all(" @ $" in line and "\n" not in line for line in lines)
    else:
        row = presets()[args.preset]
        assert args.actions
        assert set(args.actions) <= set(row.known_actions)
        assert all(entry.name in row.known_policies for tier in args.tiers for entry in tier)


def read_or_lines(mapping: dict[str, Any]) -> tuple[BatchArgs | None, tuple[str, ...]]:
    """Return the configuration, or None and the lines of its error."""
    try:
        return batch_args(mapping), ()
    except ConfigError as error:
        return None, error.problems


@pytest.mark.parametrize("installed", [["kai"], ["volcano"], ["kai", "volcano"]])
def test_names_of_several_systems_tell_nothing_where_one_is_not_installed(installed: list[str]) -> None:
    """Otherwise a file of the missing system would be taken for one of the others without a word."""
    known = {name: presets()[name] for name in installed}
    shared = {"actions": "allocate, preempt, reclaim", "tiers": [["priority", "proportion"]]}
    assert preset_of(shared, known) == ("", False)
    with pytest.raises(ConfigError, match=f"a preset is missing; write one of {', '.join(installed)}"):
        batch_args(shared, presets=known)
    assert preset_of({"configurations": [], **shared}, known) == ("volcano", True) or "volcano" not in known


def test_without_a_system_it_is_said_what_to_install() -> None:
    """There is no preset to name."""
    with pytest.raises(ConfigError, match=r"a preset is missing; install a distribution with a batch system"):
        batch_args({"actions": "allocate"}, presets={})
