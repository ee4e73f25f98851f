"""The subject of a check: a plugin with its args, and the profile in which the plugin runs."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_testserver.resources.open_definitions import open_definition
from pyscheduler.config.defaults import default_plugins
from pyscheduler.config.feature_gates import parse as parse_gates
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.extensions import Extensions
from pyscheduler.framework.interfaces import PreBindPlugin, QueueSortPlugin
from pyscheduler.framework.status import Status
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.testing.argument_checks import check_feature_gates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import Pod, ResourceKind
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.testing.checks.drawing import DrawHook
    from pyscheduler.testing.fake_cluster import FakeCluster
    from pyscheduler.testing.fake_framework import FakeFramework

__all__ = ["FAILS_ONCE", "Subject", "serve_watched"]

#: A pod with this annotation fails once at PreBind, so that its reservation is undone.
FAILS_ONCE: Final = "check.pyscheduler/fails-once"


class CheckInterruption(PreBindPlugin):
    """Fails the first binding of pods with an annotation; the checks add it to profiles without a configuration."""

    def __init__(self, args: object = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        self._failed: set[str] = set()

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reject the first binding of the pod."""
        if FAILS_ONCE not in pod.metadata.annotations or pod.uid in self._failed:
            return None
        self._failed.add(pod.uid)
        return Status.unschedulable("the check interrupts this binding")


@attrs.frozen(kw_only=True)
class Subject:
    """A plugin under check; `plugin` and `with_plugins` are classes, or names of installed plugins."""

    plugin: type[Plugin] | str
    args: Mapping[str, object] | None = None
    with_plugins: Sequence[type[Plugin] | str] = ()
    disable: Sequence[str] = ()
    config: str | None = None
    feature_gates: str = ""
    draw: DrawHook | None = None
    #: A YAML text of objects that each cluster has from the beginning.
    objects: str = ""

    @property
    def name(self) -> str:
        """Return the plugin's name in a profile."""
        return self.plugin if isinstance(self.plugin, str) else self.plugin.name

    def plugin_class(self) -> type[Plugin]:
        """Return the class; raise `ConfigError` if no installed plugin has the name."""
        return discover().load(self.plugin) if isinstance(self.plugin, str) else self.plugin

    def framework(self, cluster: FakeCluster) -> FakeFramework:
        """Return a scheduler with the plugin on the cluster; raise `ConfigError` for a wrong configuration."""
        check_feature_gates(self.feature_gates)
        config = self.config
        enable = [self.plugin, *self.with_plugins, CheckInterruption]
        disable = list(self.disable)
        if config is None:
            defaults = {entry.name for entry in default_plugins(parse_gates(self.feature_gates)).multi_point.enabled}
            # A default plugin that is disabled and enabled again comes after the plugin.
            kept = defaults - set(disable)
            enable = [each for each in enable if not (isinstance(each, str) and each in kept)]
            kind = self.plugin_class()
            if issubclass(kind, QueueSortPlugin) and kind.name != "PrioritySort":
                disable.append("PrioritySort")
        framework = cluster.framework(
            enable=[*dict.fromkeys(enable)],
            disable=disable,
            args={self.name: self.args} if self.args is not None and config is None else {},
            config=config,
            feature_gates=self.feature_gates,
        )
        self.profile(framework)
        if self.objects and not cluster.nodes():
            cluster.server.load(self.objects)
        serve_watched(framework, cluster)
        return framework

    def profile(self, framework: FakeFramework) -> Profile:
        """Return the profile with the plugin; raise `ConfigError` if there is none."""
        for profile in framework.scheduler.profiles.values():
            if self.name in profile.plugins:
                return profile
        raise ConfigError(f'no profile of the configuration enables plugin "{self.name}" @ $.profiles')

    def call(self) -> str:
        """Return the arguments of `check_plugin` as code."""
        words = [_name(self.plugin)]
        if self.args is not None:
            words.append(repr(dict(self.args)))
        if self.with_plugins:
            words.append(f"with_plugins=[{', '.join(map(_name, self.with_plugins))}]")
        if self.disable:
            words.append(f"disable={list(self.disable)!r}")
        if self.config is not None:
            words.append(f"config={self.config!r}")
        if self.objects:
            words.append(f"objects={self.objects!r}")
        if self.feature_gates:
            words.append(f"feature_gates={self.feature_gates!r}")
        return ", ".join(words)

    def classes(self) -> list[type]:
        """Return the classes that the code names."""
        return [each for each in (self.plugin, *self.with_plugins) if inspect.isclass(each)]


def serve_watched(framework: FakeFramework, cluster: FakeCluster) -> None:
    """Define the custom resources that plugins watch, in all versions that they name."""
    versions: dict[ResourceKind, list[str]] = {}
    for profile in framework.scheduler.profiles.values():
        for name, plugin in profile.plugins.items():
            cls, args = type(plugin), profile.args.get(name)
            added = cls.extension_kinds_for(Extensions.of(profile.handle), args)
            for kind in (*cls.watched_kinds(args), *added):
                resource = (kind.group, kind.plural)
                first = next((known for known in versions if (known.group, known.plural) == resource), kind)
                versions.setdefault(first, [])
                if kind.version not in versions[first]:
                    versions[first].append(kind.version)
    for kind, names in versions.items():
        if not cluster.serves(kind):
            cluster.server.add(open_definition(kind.group, kind.kind, kind.plural, names, namespaced=kind.namespaced))


def _name(plugin: type[Plugin] | str) -> str:
    return repr(plugin) if isinstance(plugin, str) else plugin.__qualname__
