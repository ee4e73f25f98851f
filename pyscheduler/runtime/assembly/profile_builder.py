"""Load, order and create the plugins of a profile, and report all mistakes of its configuration at once.

The classes are loaded first: they say where a plugin takes part, which args it takes and which kinds it watches. Then
the plugins are created, once each, in the order in which the profile names them.

Differs from kube-scheduler: pyscheduler refuses args for a plugin that is not installed; kube-scheduler ignores them.
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

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
    from collections.abc import Callable, Mapping, Sequence

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

_Declare: TypeAlias = "Callable[[ResourceKind], object]"


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


def assemble(spec: ProfileSpec, registry: Registry, handle: Handle, declare: _Declare) -> Assembly:
    """Make the plugins of a profile; raise `ConfigError` listing everything that is wrong with it."""
    path = spec.path
    problems: list[str] = []
    if not spec.scheduler_name:
        problems.append("scheduler name is needed @ $.profiles")
    places = enabled_names(spec)
    classes = _load(places, registry, problems, path)
    points = expand(spec, classes, problems, path=path)
    weights = score_weights(spec, classes, problems, path=path)
    placement_weights = score_weights(spec, classes, [], path=path, point=ExtensionPoint.PLACEMENT_SCORE)
    _check_classes(points, classes, problems, path)
    for text in partial_plugins(spec, points, classes):
        _log.info("%s @ %s.plugins", text, path)
    # What is missing may be among the plugins that could not be loaded; one mistake is to be reported once.
    if len(classes) == len(places):
        _check_needed(spec, points, classes, problems, path)
    args = _args(spec, classes, registry, problems, path)
    _declare_watches(classes, args, declare, problems, path)
    for name, gated in ((name, plugin.gated_watches) for name, plugin in classes.items()):
        for kinds in (kinds for gate, kinds in gated.items() if handle.feature_gates.get(gate, False)):
            problems.extend(f"{each} @ {path}.plugins" for each in watch_problems(name, kinds, declare))
    handle.shared(EXTENSIONS, registry.extensions)
    _declare_extensions(classes, args, registry, declare, problems, path)
    dialects = _dialects(classes, registry, handle, declare, problems, path)
    causes: list[BaseException] = []
    plugins = {
        name: made
        for name, plugin in classes.items()
        if name in args and (made := _make(name, plugin, args[name], handle, problems, causes, path)) is not None
    }
    for name, plugin in plugins.items():
        wrong = [f"{each} @ {path}.plugins" for each in rbac_problems(name, plugin.rbac)]
        problems += wrong
        if name in dialects and not wrong:
            _grant(plugin, dialects[name])
    generic_workload = handle.feature_gates.get("GenericWorkload", False)
    registrations = _registrations(plugins, problems, path, generic_workload=generic_workload)
    if problems:
        # The first exception of a constructor, with its traceback, for authors.
        raise ConfigError(*problems) from (causes[0] if causes else None)
    return Assembly(
        plugins=plugins,
        args=args,
        points=points,
        weights=weights,
        placement_weights=placement_weights,
        registrations=registrations,
    )


def _load(
    places: Mapping[str, Sequence[str]], registry: Registry, problems: list[str], path: str
) -> dict[str, type[Plugin]]:
    """Load the classes of all plugins that the profile enables, by name."""
    classes: dict[str, type[Plugin]] = {}
    for name, where in places.items():
        try:
            classes[name] = registry.load(name)
        except ConfigError as error:
            problems.append(f"{error} @ {path}.plugins.{where[0]}")
    return classes


def _declare_watches(
    classes: Mapping[str, type[Plugin]],
    args: Mapping[str, object],
    declare: _Declare,
    problems: list[str],
    path: str,
) -> None:
    """Watch the kinds that the plugins declare; report what is no kind."""
    for name, plugin in classes.items():
        try:
            kinds: object = plugin.watched_kinds(args.get(name))  # of others' code, types prove nothing
        except PLUGIN_FAILURES as error:
            problems.append(f'watches of plugin "{name}": {_told(error, plugin.watched_kinds)} @ {path}.plugins')
            continue
        problems.extend(f"{each} @ {path}.plugins" for each in watch_problems(name, kinds, declare))


def _declare_extensions(
    classes: Mapping[str, type[Plugin]],
    args: Mapping[str, object],
    registry: Registry,
    declare: _Declare,
    problems: list[str],
    path: str,
) -> None:
    """Watch the kinds that plugins need for what distributions add to them."""
    for name, plugin in classes.items():
        try:
            for kind in plugin.extension_kinds_for(registry.extensions(), args.get(name)):
                declare(kind)
        except ConfigError as error:
            problems.append(f"{error} @ {path}.plugins[{name}]")


def _dialects(
    classes: Mapping[str, type[Plugin]],
    registry: Registry,
    handle: Handle,
    declare: _Declare,
    problems: list[str],
    path: str,
) -> dict[str, Sequence[Dialect]]:
    """Make the dialects known that distributions offer for these plugins to serve; return them by plugin."""
    found: dict[str, Sequence[Dialect]] = {}
    for name in classes:
        try:
            rows = registry.dialects_for(name)
            if not rows:
                continue
            for kind in kinds_of(rows):
                declare(kind)
            groups = PodGroups.of(handle)
            for row in rows:
                groups.add_dialect(row, handle)
            found[name] = rows
        except ConfigError as error:
            problems.append(f"{error} @ {path}.plugins")
    return found


def _grant(plugin: Plugin, dialects: Sequence[Dialect]) -> None:
    """Let a plugin need what it takes to serve dialects that its author did not know."""
    plugin.watches = (*plugin.watches, *kinds_of(dialects))  # type: ignore[misc]  # of a class, as a rule
    plugin.rbac = (*plugin.rbac, *status_rules(dialects))  # type: ignore[misc]  # the same


def _check_classes(
    points: Mapping[ExtensionPoint, Sequence[str]],
    classes: Mapping[str, type[Plugin]],
    problems: list[str],
    path: str,
) -> None:
    """Report plugins that lack the method of an interface, whose `run` cannot be a task, or whose `reuse` is none.

    Methods with wrong parameters are reported, too; a method whose name may be misspelt is logged only.
    """
    for name, plugin in classes.items():
        problems.extend(f"{each} @ {path}.plugins" for each in wrong_parameters(plugin))
        for each in misspelt_methods(plugin):
            _log.warning("Plugin may have a misspelt method: %s", each)
        run = getattr(plugin, "run", None)
        if run is not None and not inspect.iscoroutinefunction(run):
            problems.append(f'plugin "{name}" defines a run() that is not async @ {path}.plugins')
        for attribute in ("pod_fields", "node_fields"):
            types: object = getattr(plugin, attribute)  # of others' code, types prove nothing
            if not (isinstance(types, tuple | list) and all(isinstance(each, type) for each in types)):
                text = f"write {attribute} = (Type,) with a subclass of pyscheduler.api.Wire"
                problems.append(f'plugin "{name}" has {attribute} = {types!r}; {text} @ {path}.plugins')
        reuse: object = getattr(plugin, "reuse", Reuse.NEVER)
        if not isinstance(reuse, Reuse):
            text = "set a member of pyscheduler.Reuse, such as Reuse.WHILE_NODE_STAYS"
            problems.append(f'plugin "{name}" has reuse = {reuse!r}; {text} @ {path}.plugins')
    for point, names in points.items():
        for name in names:
            problems.extend(
                f'plugin "{name}" takes part in {point} but does not define {missing} @ {path}.plugins.{point}'
                for missing in missing_methods(classes[name], point)
            )


def _check_needed(
    spec: ProfileSpec,
    points: Mapping[ExtensionPoint, Sequence[str]],
    classes: Mapping[str, type[Plugin]],
    problems: list[str],
    path: str,
) -> None:
    """Report a profile that could not sort or bind, or that has two generators of placements."""
    sorts = points[ExtensionPoint.QUEUE_SORT]
    if len(sorts) != 1:
        got = f"{len(sorts)} ({', '.join(sorts)})" if sorts else "0"
        problems.append(
            f'only one queue sort plugin required for profile with scheduler name "{spec.scheduler_name}", '
            f"but got {got}; {_sort_remedy(sorts)} @ {path}.plugins.queueSort"
        )
    if not points[ExtensionPoint.BIND] and not _only_runs(points, classes):
        problems.append(
            f'at least one bind plugin is needed for profile with scheduler name "{spec.scheduler_name}" '
            f"@ {path}.plugins.bind"
        )
    generators = points[ExtensionPoint.PLACEMENT_GENERATE]
    if len(generators) > 1:
        problems.append(
            "at most one placement generate plugin is allowed for profile with scheduler name "
            f'"{spec.scheduler_name}", but got {", ".join(generators)} @ {path}.plugins.placementGenerate'
        )


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


def _args(
    spec: ProfileSpec, classes: Mapping[str, type[Plugin]], registry: Registry, problems: list[str], path: str
) -> dict[str, object]:
    """Return the args of each plugin, defaults where none are given; plugins with wrong args are left out."""
    enabled = enabled_names(spec)  # of these, `_load` has said what is wrong
    for name in spec.args:
        if name in enabled:
            continue
        index = spec.args_index.get(name)
        where = f"{path}.pluginConfig" if index is None else f"{path}.pluginConfig[{index}]"
        if name in registry:
            # kube-scheduler ignores these args without a word.
            _log.warning('Args have no effect: the profile does not enable plugin "%s" @ %s', name, where)
        else:
            text = f'args are given for plugin "{name}", which no installed distribution offers'
            problems.append(f"{text}{registry.hint(name)} @ {where}")
    args: dict[str, object] = {}
    for name, plugin in classes.items():
        wanted = plugin.args_type
        given = spec.args.get(name)
        if isinstance(given, WrongArgs):
            problems.extend(given.problems)
            continue
        try:
            if given is None and wanted is not None:
                given = wanted()
        except PLUGIN_FAILURES as error:
            problems.append(f'plugin "{name}" needs args: {one_line(error)} @ {path}.pluginConfig')
            continue
        # A plugin without an args class gets what the file says, as it stands: only it knows what that means.
        if wanted is not None and not isinstance(given, wanted):
            problems.append(
                f'plugin "{name}": want args to be of type {wanted.__name__}, got {type(given).__name__} '
                f"@ {path}.pluginConfig"
            )
        else:
            args[name] = given
    return args


def _make(
    name: str,
    plugin: type[Plugin],
    args: object,
    handle: Handle,
    problems: list[str],
    causes: list[BaseException],
    path: str,
) -> Plugin | None:
    """Make a plugin; report why that failed, and add what it raised to `causes`."""
    wrong = _wrong_constructor(plugin)
    if wrong:
        problems.append(f'initializing plugin "{name}": {wrong} @ {path}.plugins')
        return None
    try:
        return plugin(args, handle)
    except ConfigError as error:
        problems.extend(f'initializing plugin "{name}": {_placed(each, path)}' for each in error.problems)
    except PLUGIN_FAILURES as error:
        problems.append(f'initializing plugin "{name}": {_told(error, plugin.__init__)} @ {path}.plugins')
        causes.append(error)
    return None


def _placed(problem: str, path: str) -> str:
    """Return a problem with one path: that of the plugin below its profile, or else the profile's `pluginConfig`."""
    text, found, where = problem.rpartition(" @ $.")
    return f"{text} @ {path}.{where}" if found else f"{problem} @ {path}.pluginConfig"


def _wrong_constructor(plugin: type[Plugin]) -> str:
    """Return what is wrong with the parameters of a constructor, where it is, and what to write; "" if nothing is."""
    constructor: object = plugin.__init__
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


def _registrations(
    plugins: Mapping[str, Plugin], problems: list[str], path: str, *, generic_workload: bool
) -> dict[str, Sequence[ClusterEventWithHint]]:
    """Ask each plugin once for the events it waits for."""
    registrations: dict[str, Sequence[ClusterEventWithHint]] = {}
    for name, plugin in plugins.items():
        try:
            registrations[name] = registrations_of(plugin, generic_workload=generic_workload)
        except PLUGIN_FAILURES as error:
            what = _told(error, getattr(plugin, "events_to_register", None))
            problems.append(f'plugin "{name}" cannot register its events: {what} @ {path}.plugins')
    return registrations
