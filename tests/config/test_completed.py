"""What shows once profiles are built: args of the plugins that run, with which they run."""

from __future__ import annotations

from collections.abc import Callable

from pyscheduler.config.completed import completed
from pyscheduler.config.load import loads
from pyscheduler.framework.in_tree_args import NodeResourcesFitArgs


def test_args_are_in_order_and_only_those_of_enabled_plugins(config_text: Callable[[str], str]) -> None:
    """Defaults are filled in among them; plugins that are not enabled anywhere, or have no args, are left out."""
    text = (
        "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}]}, filter: {enabled: [{name: NodeAffinity}]},"
        " score: {enabled: [{name: NodeResourcesFit}]}, permit: {enabled: [{name: Other}, {name: Another}]}},"
        " pluginConfig: [{name: VolumeBinding, args: {}}, {name: Other, args: {a: 1}}, {name: Another},"
        " {name: NodeAffinity, args: {}}]}]"
    )
    (profile,) = completed(loads(config_text(text))).profiles
    assert [config.name for config in profile.plugin_config] == ["NodeAffinity", "NodeResourcesFit", "Other"]


def test_fit_ignores_resources_managed_by_extenders(config_text: Callable[[str], str]) -> None:
    """In every profile, instead of what its args name."""
    text = (
        "profiles: [{schedulerName: a, pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [x.com/y]}}]},"
        " {schedulerName: b}]\n"
        "extenders: [{urlPrefix: 'http://e', managedResources:"
        " [{name: e.com/a, ignoredByScheduler: true}, {name: e.com/b}]},"
        " {urlPrefix: 'http://f', managedResources: [{name: f.com/c, ignoredByScheduler: true}]}]"
    )
    given = loads(config_text(text))
    found = [
        config.args.ignored_resources
        for profile in completed(given).profiles
        for config in profile.plugin_config
        if isinstance(config.args, NodeResourcesFitArgs)
    ]
    assert found == [("e.com/a", "f.com/c")] * 2


def test_extenders_have_a_default_timeout_of_five_seconds(config_text: Callable[[str], str]) -> None:
    """Which is when a call ends."""
    extenders = completed(loads(config_text("extenders: [{urlPrefix: a}, {urlPrefix: b, httpTimeout: 1m}]"))).extenders
    assert [extender.http_timeout_seconds for extender in extenders] == [5.0, 60.0]


def test_the_default_configuration_is_complete() -> None:
    """There is nothing to leave out of it, nor to sort."""
    given = loads("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration")
    assert completed(given) == given
