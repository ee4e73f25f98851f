"""The configuration files of kube-batch, Volcano and KAI become a configuration with one batch profile."""

from __future__ import annotations

import textwrap

import attrs
import pytest

from pyscheduler.config.dump import dump
from pyscheduler.config.forms import in_file, placed_in_file
from pyscheduler.config.load import loads
from pyscheduler.framework import ConfigError
from pyscheduler_batch.batch_args import BatchArgs
from pyscheduler_batch.settings.batch_file import FORM
from pyscheduler_batch.settings.configuration import batch_args

VOLCANO = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
- plugins:
  - name: overcommit
    arguments: {overcommit-factor: 1.5}
"""
KUBE_BATCH = """
actions: "allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
"""
SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: default}
spec:
  placementStrategy: {gpu: spread}
  args: {scheduler-name: my-kai}
"""
KAI = """
actions: "allocate, reclaim"
queueDepthPerAction: {reclaim: 4}
"""


def config_map(key: str, text: str) -> str:
    """Return a ConfigMap that holds a file."""
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  other: x\n  {key}: |\n" + textwrap.indent(
        text, "    "
    )


def args_of(text: str) -> BatchArgs:
    """Return the args of the profile that a file becomes, as its plugin reads them."""
    configuration = loads(text, source="batch.yaml")
    (profile,) = configuration.profiles
    (said,) = [each.args for each in profile.plugin_config if each.name == "Batch"]
    assert isinstance(said, dict)
    with placed_in_file(configuration):
        args = batch_args({**said, "schedulerName": profile.scheduler_name}, "$.pluginConfig[Batch].args")
    return attrs.evolve(args, warnings=tuple(in_file(args.warnings, configuration)))


@pytest.mark.parametrize(
    ("text", "preset", "scheduler_name", "actions"),
    [
        pytest.param(VOLCANO, "volcano", "volcano", ("enqueue", "allocate", "backfill"), id="volcano"),
        pytest.param(KUBE_BATCH, "kube-batch", "kube-batch", ("allocate", "backfill"), id="kube-batch"),
        pytest.param(KAI, "kai", "kai-scheduler", ("allocate", "reclaim"), id="kai"),
        pytest.param(SHARD, "kai", "my-kai", ("allocate", "reclaim", "preempt", "stalegangeviction"), id="shard"),
        pytest.param(
            config_map("volcano-scheduler.conf", VOLCANO),
            "volcano",
            "volcano",
            ("enqueue", "allocate", "backfill"),
            id="ConfigMap of volcano",
        ),
        pytest.param(
            config_map("volcano-scheduler.conf", KUBE_BATCH),
            "volcano",
            "volcano",
            ("allocate", "backfill"),
            id="key of the ConfigMap tells the system",
        ),
        pytest.param(
            config_map("config.yaml", KAI), "kai", "kai-scheduler", ("allocate", "reclaim"), id="ConfigMap of kai"
        ),
        pytest.param(
            f"preset: volcano\nschedulerName: mine\n{KUBE_BATCH}",
            "volcano",
            "mine",
            ("allocate", "backfill"),
            id="preset and name in the file",
        ),
    ],
)
def test_each_form_of_a_file_is_read(text: str, preset: str, scheduler_name: str, actions: tuple[str, ...]) -> None:
    """The profile that `--config` makes of a file has the preset, the name and the actions of the file."""
    args = args_of(text)
    assert (args.preset, args.scheduler_name, args.actions) == (preset, scheduler_name, actions)


def test_file_becomes_a_profile_with_batch_and_without_default_preemption() -> None:
    """The args of Batch are the content of the file; all other default plugins stay."""
    (profile,) = loads(VOLCANO).profiles
    enabled = [entry.name for entry in profile.plugins.multi_point.enabled]
    assert "Batch" in enabled
    assert "NodeResourcesFit" in enabled
    assert "DefaultPreemption" not in enabled
    (args,) = [config.args for config in profile.plugin_config if config.name == "Batch"]
    assert args == {
        "preset": "volcano",
        "actions": "enqueue, allocate, backfill",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}]},
            {"plugins": [{"name": "overcommit", "arguments": {"overcommit-factor": 1.5}}]},
        ],
    }


def test_names_of_other_distributions_pass_until_the_profile_is_built() -> None:
    """Reading a file needs no plugin, so an action or policy of another distribution is not refused here."""
    text = "preset: volcano\nactions: allocate, tidy\ntiers: [{plugins: [{name: deadline, arguments: {spare: 1}}]}]"
    (profile,) = loads(text).profiles
    assert profile.scheduler_name == "volcano"
    with pytest.raises(ConfigError, match='no action is called "tidy"'):
        args_of(text)


def test_configuration_of_a_file_can_be_printed_and_read_again() -> None:
    """What `pyscheduler config` prints of a batch file is a KubeSchedulerConfiguration with the same profile."""
    configuration = loads(SHARD)
    assert loads(dump(configuration)) == configuration


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}",
            "no key of this ConfigMap holds a KubeSchedulerConfiguration, or the actions and tiers of a batch scheduler"
            " @ $.data",
            id="ConfigMap of something else",
        ),
        pytest.param(
            "apiVersion: other/v1\nkind: SchedulingShard",
            'expected apiVersion: kai.scheduler/v1 of a SchedulingShard, found "other/v1" @ $.apiVersion',
            id="shard of another group",
        ),
        pytest.param(
            "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nspec: [1]",
            "expected a mapping, found [1] @ $.spec",
            id="shard without a spec",
        ),
        pytest.param(
            "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nspec: {placementStrategy: {gpu: pile}}",
            "expected binpack or spread, found 'pile' @ $.spec.placementStrategy.gpu",
            id="value of a shard",
        ),
        pytest.param(
            config_map("volcano-scheduler.conf", "actions: allocate\ntiers: 3\n"),
            'expected a list, found 3 @ $.data["volcano-scheduler.conf"].tiers',
            id="part of the wrong type in a ConfigMap",
        ),
        pytest.param(
            "preset: volcno\nactions: allocate",
            'no preset is called "volcno"; did you mean "volcano"? @ $.preset',
            id="unknown preset",
        ),
        pytest.param(
            config_map("volcano-scheduler.conf", "actions: [\n"),
            'did not find expected node content (while parsing a flow node) @ $.data["volcano-scheduler.conf"]',
            id="broken YAML in a ConfigMap",
        ),
        pytest.param(
            config_map("volcano-scheduler.conf", "actions: a\nactions: b\n"),
            'line 2: key "actions" already set @ $.data["volcano-scheduler.conf"]',
            id="duplicate key in a ConfigMap",
        ),
    ],
)
def test_file_of_a_wrong_form_has_one_line(text: str, line: str) -> None:
    """The line begins with the name of the file and says what is wrong, and where."""
    with pytest.raises(ConfigError) as caught:
        loads(text, source="batch.yaml")
    assert str(caught.value).startswith("batch.yaml: ")
    assert str(caught.value).endswith(line)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            "actions: enqueue, allocates",
            'no action is called "allocates"; did you mean "allocate"? @ $.actions',
            id="plain",
        ),
        pytest.param(
            config_map("volcano-scheduler.conf", "actions: enqueue, allocates\n"),
            'no action is called "allocates"; did you mean "allocate"? @ $.data["volcano-scheduler.conf"].actions',
            id="ConfigMap",
        ),
    ],
)
def test_mistake_in_a_file_has_its_place(text: str, line: str) -> None:
    """The path is the one in the file, also within a ConfigMap or a shard."""
    with pytest.raises(ConfigError) as caught:
        args_of(text)
    assert str(caught.value) == line


def test_expanded_shard_is_the_same_configuration() -> None:
    """Actions, tiers and settings are written out, and mean what the shard means."""
    text = SHARD + "  partitionLabelValue: blue\n  kValue: 2\n  plugins: {ray: {enabled: false}}\n"
    configuration = loads(text)
    (profile,) = configuration.profiles
    profile = attrs.evolve(profile, plugin_config=tuple(map(FORM.expanded, profile.plugin_config)))
    configuration = attrs.evolve(configuration, profiles=(profile,))
    args = next(each.args for each in profile.plugin_config if each.name == "Batch")
    assert isinstance(args, dict)
    assert "shard" not in args
    assert args["nodePool"] == "blue"
    assert batch_args({**args, "schedulerName": "my-kai"}) == args_of(text)
    assert dump(loads(dump(configuration))) == dump(configuration)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param(SHARD, "$.spec.kvalue", id="shard"),
        pytest.param(
            config_map("kai.conf", SHARD.strip()), '$.data["kai.conf"].spec.kvalue', id="shard in a ConfigMap"
        ),
        pytest.param(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration",
            "$.pluginConfig[Batch].args.shard.kvalue",
            id="another file",
        ),
    ],
)
def test_messages_about_args_get_the_path_of_the_file(text: str, path: str) -> None:
    """Messages name paths that a batch file has."""
    message = "$.pluginConfig[Batch].args.shard.kvalue has no effect"
    assert in_file([message], loads(text)) == [f"{path} has no effect"]


def test_errors_of_a_profile_get_the_path_of_the_file() -> None:
    """So do those of a profile, and those without a place below the args."""
    found = [
        'no policy is called "x" @ $.profiles[0].pluginConfig[Batch].args.tiers[0]',
        "none @ $.profiles[0].pluginConfig",
    ]
    configuration = loads(config_map("volcano-scheduler.conf", VOLCANO))
    where = '$.data["volcano-scheduler.conf"]'
    with pytest.raises(ConfigError) as caught, placed_in_file(configuration):
        raise ConfigError(*found, source="batch.yaml")
    assert caught.value.problems == (f'no policy is called "x" @ {where}.tiers[0]', f"none @ {where}")
    assert caught.value.source == "batch.yaml"


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        pytest.param("plugins: {fooo: {}}", "@ $.spec.plugins.fooo", id="plugin"),
        pytest.param("actions: {fooo: {}}", "@ $.spec.actions", id="action"),
        pytest.param("queueDepthPerAction: {allocate: many}", "@ $.spec.queueDepthPerAction", id="key"),
        pytest.param(
            "args: {max-consolidation-preemptees: -5}", "@ $.spec.args.max-consolidation-preemptees", id="flag"
        ),
    ],
)
@pytest.mark.parametrize("in_config_map", [False, True], ids=["file", "ConfigMap"])
def test_error_of_a_shard_has_the_path_that_the_user_wrote(spec: str, line: str, *, in_config_map: bool) -> None:
    """The path is one of the spec, not of the actions and tiers that the shard stands for."""
    text = f"apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nspec:\n  {spec}\n"
    if in_config_map:
        text, line = config_map("shard.yaml", text), line.replace("$", '$.data["shard.yaml"]')
    with pytest.raises(ConfigError) as caught:
        args_of(text)
    (problem,) = caught.value.problems
    assert problem.endswith(line)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param("minRuntime: {preemptMinRuntime: soon}", "minRuntime.preemptMinRuntime", id="own key"),
        pytest.param(
            "plugins: {minruntime: {arguments: {defaultPreemptMinRuntime: soon}}}",
            "plugins.minruntime.arguments.defaultPreemptMinRuntime",
            id="arguments of the plugin",
        ),
    ],
)
def test_warning_of_a_shard_has_the_path_that_the_user_wrote(spec: str, path: str) -> None:
    """A key of the spec that stands for an argument has a warning of its own."""
    args = args_of(f"apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nspec: {{{spec}}}")
    (warning,) = args.warnings
    assert warning.startswith(f'$.spec.{path}: "soon" is not a duration')
