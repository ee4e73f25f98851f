"""Load, sort and create the plugins of a profile, and report all mistakes in its configuration at once.

Differs from kube-scheduler: args for a plugin that is not installed are refused, not ignored.
"""

from __future__ import annotations

import inspect
import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.callables import is_foreign
from pyscheduler.framework.errors import PLUGIN_FAILURES, ConfigError
from pyscheduler.framework.extensions import EXTENSIONS
from pyscheduler.framework.plugin_failures import error_place
from pyscheduler.framework.profile import ExtensionPoint, WrongArgs
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.work_sources import WorkSourcePlugin
from pyscheduler.podgroup import PodGroups, kinds_of, status_rules
from pyscheduler.runtime.assembly.declaration_checks import rbac_problems, watch_problems
from pyscheduler.runtime.assembly.expansion import enabled_names, expand, partial_plugins, score_weights
from pyscheduler.runtime.assembly.plugin_methods import misspelt_methods, wrong_parameters
from pyscheduler.runtime.assembly.registry import one_line
from pyscheduler.runtime.extension_points.event_registration import registrations_of
from pyscheduler.runtime.extension_points.points import missing_methods

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.framework.events import ClusterEventWithHint
    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.framework.profile import ProfileSpec
    from pyscheduler.podgroup import Dialect
    from pyscheduler.runtime.assembly.registry import Registry

__all__ = ["Assembly", "assemble"]

_log = logging.getLogger(__name__)

_DEFAULT_SORT: Final = "PrioritySort"


@attrs.frozen(kw_only=True)
class Assembly:
    """The plugins of a profile, ready to be called."""

    plugins: Mapping[str, Plugin]
    #: The args each was made with, defaults included.
    args: Mapping[str, object]
    #: The names of the plugins at each extension point, in order.
    points: Mapping[ExtensionPoint, tuple[str, ...]]
    weights: Mapping[str, int]
    placement_weights: Mapping[str, int]
    registrations: Mapping[str, Sequence[ClusterEventWithHint]]


def assemble(
    spec: ProfileSpec, registry: Registry, handle: Handle, declare: Callable[[ResourceKind], object]
) -> Assembly:
    """Make the plugins of a profile; raise `ConfigError` listing everything that is wrong with it."""
    return _Assembler(spec=spec, registry=registry, handle=handle, declare=declare).assemble()


@attrs.define(kw_only=True)
class _Assembler:
    """One profile on its way, with the problems that were found so far."""

    spec: ProfileSpec
    registry: Registry
    handle: Handle
    declare: Callable[[ResourceKind], object]
    problems: list[str] = attrs.Factory(list)
    #: What constructors raised.
    causes: list[BaseException] = attrs.Factory(list)
    #: The classes of the plugins that could be loaded, and the args of those whose args are right.
    classes: dict[str, type[Plugin]] = attrs.Factory(dict)
    args: dict[str, object] = attrs.Factory(dict)

    def assemble(self) -> Assembly:
        spec, path, handle, problems = self.spec, self.spec.path, self.handle, self.problems
        if not spec.scheduler_name:
            problems.append("scheduler name is needed @ $.profiles")
        places = enabled_names(spec)
        self._load(places)
        classes = self.classes
        points = expand(spec, classes, problems, path=path)
        weights = score_weights(spec, classes, problems, path=path)
        placement_weights = score_weights(spec, classes, [], path=path, point=ExtensionPoint.PLACEMENT_SCORE)
        self._check_classes(points)
        for text in partial_plugins(spec, points, classes):
            _log.info("%s @ %s.plugins", text, path)
        # What is missing may be among the plugins that could not be loaded; one mistake is to be reported once.
        if len(classes) == len(places):
            self._check_needed(points)
        self._read_args(places)
        self._declare_watches()
        handle.shared(EXTENSIONS, self.registry.extensions)
        self._declare_extensions()
        dialects = self._dialects()
        plugins = {name: made for name in classes if name in self.args and (made := self._make(name)) is not None}
        for name, plugin in plugins.items():
            wrong = [*rbac_problems(name, plugin.rbac)] if is_foreign(plugin) else []
            self._report(*wrong)
            if name in dialects and not wrong:
                _grant(plugin, dialects[name])
        registrations = self._registrations(plugins)
        if problems:
            # The first exception of a constructor, with its traceback, for authors.
            raise ConfigError(*problems) from (self.causes[0] if self.causes else None)
        return Assembly(
            plugins=plugins,
            args=self.args,
            points=points,
            weights=weights,
            placement_weights=placement_weights,
            registrations=registrations,
        )

    def _report(self, *texts: str, at: str = "plugins") -> None:
        self.problems.extend(f"{text} @ {self.spec.path}.{at}" for text in texts)

    def _load(self, places: Mapping[str, Sequence[str]]) -> None:
        for name, where in places.items():
            try:
                self.classes[name] = self.registry.load(name)
            except ConfigError as error:
                self._report(str(error), at=f"plugins.{where[0]}")

    def _declare_watches(self) -> None:
        """Watch the kinds that the plugins declare, then those behind feature gates; report what is no kind."""
        for name, plugin in self.classes.items():
            try:
                kinds: object = plugin.watched_kinds(self.args.get(name))  # of others' code, types prove nothing
            except PLUGIN_FAILURES as error:
                self._report(f'watches of plugin "{name}": {_told(error, plugin.watched_kinds)}')
                continue
            self._report(*watch_problems(name, kinds, self.declare))
        for name, plugin in self.classes.items():
            for gate, gated in plugin.gated_watches.items():
                if self.handle.feature_gates.get(gate, False):
                    self._report(*watch_problems(name, gated, self.declare))

    def _declare_extensions(self) -> None:
        """Watch the kinds that plugins need for what distributions add to them."""
        for name, plugin in self.classes.items():
            try:
                for kind in plugin.extension_kinds_for(self.registry.extensions(), self.args.get(name)):
                    self.declare(kind)
            except ConfigError as error:
                self._report(str(error), at=f"plugins[{name}]")

    def _dialects(self) -> dict[str, Sequence[Dialect]]:
        """Make the dialects known that distributions offer for these plugins to serve; return them by plugin."""
        found: dict[str, Sequence[Dialect]] = {}
        for name in self.classes:
            try:
                rows = self.registry.dialects_for(name)
                if not rows:
                    continue
                for kind in kinds_of(rows):
                    self.declare(kind)
                groups = PodGroups.of(self.handle)
                for row in rows:
                    groups.add_dialect(row, self.handle)
                found[name] = rows
            except ConfigError as error:
                self._report(str(error))
        return found

    def _check_classes(self, points: Mapping[ExtensionPoint, Sequence[str]]) -> None:
        """Report plugins that lack the method of an interface, whose `run` cannot be a task, or whose `reuse` is none.

        Methods with wrong parameters are reported, too; a method whose name may be misspelt is logged only. Plugins of
        the package `pyscheduler` are not checked, because tests cover them.
        """
        foreign = {name: plugin for name, plugin in self.classes.items() if is_foreign(plugin)}
        for name, plugin in foreign.items():
            self._report(*wrong_parameters(plugin))
            for each in misspelt_methods(plugin):
                _log.warning("Plugin may have a misspelt method: %s", each)
            run = getattr(plugin, "run", None)
            if run is not None and not inspect.iscoroutinefunction(run):
                self._report(f'plugin "{name}" defines a run() that is not async')
            for attribute in ("pod_fields", "node_fields"):
                types: object = getattr(plugin, attribute)  # of others' code, types prove nothing
                if not (isinstance(types, tuple | list) and all(isinstance(each, type) for each in types)):
                    text = f"write {attribute} = (Type,) with a subclass of pyscheduler.api.Wire"
                    self._report(f'plugin "{name}" has {attribute} = {types!r}; {text}')
            reuse: object = getattr(plugin, "reuse", Reuse.NEVER)
            if not isinstance(reuse, Reuse):
                text = "set a member of pyscheduler.Reuse, such as Reuse.WHILE_NODE_STAYS"
                self._report(f'plugin "{name}" has reuse = {reuse!r}; {text}')
            annotations: object = plugin.reuse_annotations
            if not (isinstance(annotations, tuple | list) and all(isinstance(each, str) for each in annotations)):
                text = 'write reuse_annotations = ("example.com/name",)'
                self._report(f'plugin "{name}" has reuse_annotations = {annotations!r}; {text}')
        for point, names in points.items():
            for name in filter(foreign.__contains__, names):
                for missing in missing_methods(foreign[name], point):
                    text = f'plugin "{name}" takes part in {point} but does not define {missing}'
                    self._report(text, at=f"plugins.{point}")

    def _check_needed(self, points: Mapping[ExtensionPoint, Sequence[str]]) -> None:
        """Report a profile that could not sort or bind, or that has two generators of placements."""
        whose = f'for profile with scheduler name "{self.spec.scheduler_name}"'
        sorts = points[ExtensionPoint.QUEUE_SORT]
        if len(sorts) != 1:
            got = f"{len(sorts)} ({', '.join(sorts)})" if sorts else "0"
            text = f"only one queue sort plugin required {whose}, but got {got}; {_sort_remedy(sorts)}"
            self._report(text, at="plugins.queueSort")
        if not points[ExtensionPoint.BIND] and not _only_runs(points, self.classes):
            self._report(f"at least one bind plugin is needed {whose}", at="plugins.bind")
        generators = points[ExtensionPoint.PLACEMENT_GENERATE]
        if len(generators) > 1:
            text = f"at most one placement generate plugin is allowed {whose}, but got {', '.join(generators)}"
            self._report(text, at="plugins.placementGenerate")

    def _read_args(self, enabled: Collection[str]) -> None:
        """Keep the args of each plugin, defaults where none are given; plugins with wrong args are left out."""
        spec = self.spec
        for name in spec.args:
            if name in enabled:  # of these, `_load` has said what is wrong
                continue
            index = spec.args_index.get(name)
            where = "pluginConfig" if index is None else f"pluginConfig[{index}]"
            if name in self.registry:
                # kube-scheduler ignores these args without a word.
                text = 'Args have no effect: the profile does not enable plugin "%s" @ %s.%s'
                _log.warning(text, name, spec.path, where)
            else:
                text = f'args are given for plugin "{name}", which no installed distribution offers'
                self._report(f"{text}{self.registry.hint(name)}", at=where)
        for name, plugin in self.classes.items():
            wanted = plugin.args_type
            given = spec.args.get(name)
            if isinstance(given, WrongArgs):
                self.problems.extend(given.problems)
                continue
            try:
                if given is None and wanted is not None:
                    given = wanted()
            except PLUGIN_FAILURES as error:
                self._report(f'plugin "{name}" needs args: {one_line(error)}', at="pluginConfig")
                continue
            # A plugin without an args class gets what the file says, as it stands: only it knows what that means.
            if wanted is not None and not isinstance(given, wanted):
                text = f"want args to be of type {wanted.__name__}, got {type(given).__name__}"
                self._report(f'plugin "{name}": {text}', at="pluginConfig")
            else:
                self.args[name] = given

    def _make(self, name: str) -> Plugin | None:
        """Make a plugin; report why that failed, and keep what it raised."""
        plugin, what = self.classes[name], f'initializing plugin "{name}"'
        wrong = _wrong_constructor(plugin, plugin.__init__)  # type: ignore[arg-type]  # a class has a hash
        if wrong:
            self._report(f"{what}: {wrong}")
            return None
        try:
            return plugin(self.args[name], self.handle)
        except ConfigError as error:
            self.problems.extend(f"{what}: {_placed(each, self.spec.path)}" for each in error.problems)
        except PLUGIN_FAILURES as error:
            self._report(f"{what}: {_told(error, plugin.__init__)}")
            self.causes.append(error)
        return None

    def _registrations(self, plugins: Mapping[str, Plugin]) -> dict[str, Sequence[ClusterEventWithHint]]:
        """Ask each plugin once for the events it waits for."""
        generic_workload = self.handle.feature_gates.get("GenericWorkload", False)
        registrations: dict[str, Sequence[ClusterEventWithHint]] = {}
        for name, plugin in plugins.items():
            try:
                registrations[name] = registrations_of(plugin, generic_workload=generic_workload)
            except PLUGIN_FAILURES as error:
                told = _told(error, getattr(plugin, "events_to_register", None))
                self._report(f'plugin "{name}" cannot register its events: {told}')
        return registrations


def _grant(plugin: Plugin, dialects: Sequence[Dialect]) -> None:
    """Let a plugin need what it takes to serve dialects that its author did not know."""
    plugin.watches = (*plugin.watches, *kinds_of(dialects))  # type: ignore[misc]  # of a class, as a rule
    plugin.rbac = (*plugin.rbac, *status_rules(dialects))  # type: ignore[misc]  # the same


def _only_runs(points: Mapping[ExtensionPoint, Sequence[str]], classes: Mapping[str, type[Plugin]]) -> bool:
    """Return whether a profile carries a plugin with `run`, and has none that takes part in scheduling.

    Differs from kube-scheduler: such a profile needs no Bind plugin. It schedules no pod.
    """
    outside = (ExtensionPoint.QUEUE_SORT, ExtensionPoint.PRE_ENQUEUE)
    if any(names for point, names in points.items() if point not in outside):
        return False
    if any(issubclass(plugin, WorkSourcePlugin) for plugin in classes.values()):
        return False
    return any(hasattr(plugin, "run") for plugin in classes.values())


def _sort_remedy(sorts: Sequence[str]) -> str:
    """Return what to write if no plugin, or several, sort the queue: usually the default one has to go."""
    if not sorts:
        return f"write `multiPoint: {{enabled: [{{name: {_DEFAULT_SORT}}}]}}` under `plugins`"
    if _DEFAULT_SORT in sorts:
        return f"write `multiPoint: {{disabled: [{{name: {_DEFAULT_SORT}}}]}}` under `plugins`"
    return "enable only one of them"


def _placed(problem: str, path: str) -> str:
    """Return a problem with one path: that of the plugin below its profile, or else the profile's `pluginConfig`."""
    text, found, where = problem.rpartition(" @ $.")
    return f"{text} @ {path}.{where}" if found else f"{problem} @ {path}.pluginConfig"


# A signature takes as long as to make most plugins, and each profile asks again.
@lru_cache(maxsize=1024)
def _wrong_constructor(plugin: type[Plugin], constructor: object) -> str:
    """Return what is wrong with the parameters of a constructor, where it is, and what to write; "" if nothing is."""
    try:
        inspect.signature(plugin).bind(None, None)
    except ValueError:  # it has no signature
        return ""
    except TypeError as error:
        what = f"the constructor cannot be called with args and handle: {error}"
    else:
        if not inspect.iscoroutinefunction(constructor):
            return ""
        what = "the constructor is async"
    remedy = "write `def __init__(self, args, handle)` and call super().__init__(args, handle)"
    place = error_place(TypeError(), plugin.__init__)
    return f"{what}; {remedy}, {place}" if place else f"{what}; {remedy}"


def _told(error: BaseException, call: Callable[..., object] | None) -> str:
    """Return one line about an exception of a plugin, and where it was raised."""
    place = error_place(error, call)
    return f"{one_line(error)}, {place}" if place else one_line(error)
