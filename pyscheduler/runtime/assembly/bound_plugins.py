"""The plugin methods that a profile calls, by extension point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.interfaces import (
    PreBindPlugin,
    ScorePlugin,
    SignPlugin,
)
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.framework.reuse import Reuse
from pyscheduler.runtime.equivalence_cache.equivalence_key import equivalence_key
from pyscheduler.runtime.extension_points.binding import Binding, PreBindEntry, PreBinding
from pyscheduler.runtime.extension_points.filtering import FilterEntry, Filtering
from pyscheduler.runtime.extension_points.group_placing import GroupPlacing, PlacementScoreEntry
from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod
from pyscheduler.runtime.extension_points.points import defines, is_columnar, judges_of
from pyscheduler.runtime.extension_points.pre_enqueueing import PreEnqueueing
from pyscheduler.runtime.extension_points.pre_filtering import PreFiltering
from pyscheduler.runtime.extension_points.queue_sort import make_adjacency_key, make_sort_key
from pyscheduler.runtime.extension_points.reserving import Permitting, PostFiltering, Releasing, Reserving
from pyscheduler.runtime.extension_points.scoring import PreScoring, ScoreEntry, Scoring
from pyscheduler.runtime.extension_points.signing import Signing

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pyscheduler.api import Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.interfaces import Plugin
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.runtime.assembly.profile_builder import Assembly
    from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls

__all__ = ["BoundPlugins", "bind_plugins", "make_equivalence_key"]

#: How kube-scheduler's messages begin when a plugin fails, by the label of the extension point.
_RUNNING = {
    "Filter": 'running "{}" filter plugin',
    "Score": 'running Score plugins: plugin "{}" failed with',
    "ScoreExtensionNormalize": 'running Normalize on Score plugins: plugin "{}" failed with',
    "PreFilterExtensionAddPod": 'running AddPod on PreFilter plugin "{}"',
    "PreFilterExtensionRemovePod": 'running RemovePod on PreFilter plugin "{}"',
    "PreBindPreFlight": 'running PreBindPreFlight "{}"',
    "PlacementScore": 'running PlacementScore plugins: plugin "{}" failed with',
    "PlacementScoreExtensionNormalize": (
        'running NormalizePlacementScore on PlacementScore plugins: plugin "{}" failed with'
    ),
}


@attrs.frozen(kw_only=True)
class BoundPlugins:
    """The extension points of one profile, ready to run."""

    sort_key: Callable[[QueuedPodInfo], object]
    adjacency_key: Callable[[QueuedPodInfo], Hashable | None] | None
    pre_enqueueing: PreEnqueueing
    pre_filtering: PreFiltering
    filtering: Filtering
    post_filtering: PostFiltering
    pre_scoring: PreScoring
    scoring: Scoring
    reserving: Reserving
    releasing: Releasing
    permitting: Permitting
    pre_binding: PreBinding
    binding: Binding
    group_placing: GroupPlacing
    signing: Signing

    def evaluations(self) -> dict[tuple[str, str], int]:
        """Return how often each plugin was asked at PreFilter, Filter, PreScore and Score, by (plugin, point)."""
        methods = (
            *self.pre_filtering.methods,
            *self.filtering.methods,
            *self.pre_scoring.methods,
            *(entry.method for entry in self.scoring.entries),
        )
        return {(method.plugin, method.point): method.evaluations for method in methods}


def bind_plugins(
    assembly: Assembly,
    calls: PluginCalls,
    snapshot: Snapshot,
    *,
    permit_wait_limit: float | None = None,
) -> BoundPlugins:
    """Look up every method that the profile will call.

    `permit_wait_limit` is the longest wait at Permit in seconds, in place of what the plugins say of themselves.
    """
    point = ExtensionPoint
    queue_sort = assembly.points[point.QUEUE_SORT][0]
    pre_filtering = PreFiltering(
        calls,
        _methods(assembly, point.PRE_FILTER, "pre_filter"),
        _methods(assembly, point.PRE_FILTER, "add_pod", "PreFilterExtensionAddPod"),
        _methods(assembly, point.PRE_FILTER, "remove_pod", "PreFilterExtensionRemovePod"),
        [name for name in assembly.points[point.FILTER] if assembly.plugins[name].counts_across_nodes],
    )
    return BoundPlugins(
        sort_key=make_sort_key(queue_sort, assembly.plugins[queue_sort], calls),
        adjacency_key=make_adjacency_key(queue_sort, assembly.plugins[queue_sort], calls),
        pre_enqueueing=PreEnqueueing(calls, _methods(assembly, point.PRE_ENQUEUE, "pre_enqueue")),
        pre_filtering=pre_filtering,
        filtering=Filtering(calls=calls, snapshot=snapshot, pre_filtering=pre_filtering, entries=_filters(assembly)),
        post_filtering=PostFiltering(calls, _methods(assembly, point.POST_FILTER, "post_filter")),
        pre_scoring=PreScoring(calls, _methods(assembly, point.PRE_SCORE, "pre_score")),
        scoring=Scoring(calls, _scores(assembly)),
        reserving=Reserving(
            calls,
            _methods(assembly, point.RESERVE, "reserve"),
            _methods(assembly, point.RESERVE, "unreserve", "Unreserve"),
        ),
        releasing=Releasing(
            calls,
            _methods(assembly, point.RESERVE, "release_in_trial", "ReleaseInTrial"),
            _methods(assembly, point.RESERVE, "is_needed_by_others", "IsNeededByOthers"),
        ),
        permitting=Permitting(
            calls,
            _methods(assembly, point.PERMIT, "permit"),
            {
                name: assembly.plugins[name].max_permit_wait_seconds if permit_wait_limit is None else permit_wait_limit
                for name in assembly.points[point.PERMIT]
            },
        ),
        pre_binding=PreBinding(calls, _pre_binds(assembly)),
        binding=Binding(
            calls,
            _methods(assembly, point.BIND, "bind"),
            _methods(assembly, point.POST_BIND, "post_bind"),
        ),
        group_placing=GroupPlacing(
            calls, _methods(assembly, point.PLACEMENT_GENERATE, "generate_placements"), _placement_scores(assembly)
        ),
        signing=Signing(calls, _signers(assembly)),
    )


def make_equivalence_key(assembly: Assembly, calls: PluginCalls) -> Callable[[Pod], bytes | None]:
    """Return the function of a pod's equivalence key; it returns None where a plugin's `may_reuse` is not True."""
    found = [(name, plugin) for name, plugin in assembly.plugins.items() if hasattr(plugin, "may_reuse")]
    vetoes = [_method(name, plugin, "may_reuse", "Sign") for name, plugin in found]
    annotations = sorted({name for plugin in assembly.plugins.values() for name in plugin.reuse_annotations})

    def key_of(pod: Pod) -> bytes | None:
        for veto in vetoes:
            if calls.run(veto, pod, pod) is not True:
                return None
        return equivalence_key(pod, annotations)

    return key_of


def _method(name: str, plugin: Plugin, attribute: str, label: str) -> PluginMethod:
    running = _RUNNING.get(label, f'running {label} plugin "{{}}"').format(name)
    # A subclass that overrides methods does not keep the promise of its base class.
    reuse = type(plugin).__dict__.get("reuse", Reuse.NEVER)
    call = getattr(plugin, attribute)
    in_tree = type(plugin).__module__.startswith("pyscheduler.plugins.")
    return PluginMethod(plugin=name, point=label, call=call, running=running, reuse=reuse, in_tree=in_tree)


def _methods(
    assembly: Assembly, point: ExtensionPoint, attribute: str, label: str | None = None
) -> tuple[PluginMethod, ...]:
    """Return the method of that name of the plugins at an extension point, except for those that do not have it."""
    found = ((name, assembly.plugins[name]) for name in assembly.points[point])
    label = label or point.metric_label
    return tuple(_method(name, plugin, attribute, label) for name, plugin in found if hasattr(plugin, attribute))


def _filters(assembly: Assembly) -> list[FilterEntry]:
    entries: list[FilterEntry] = []
    for name in assembly.points[ExtensionPoint.FILTER]:
        plugin = assembly.plugins[name]
        columnar = is_columnar(type(plugin), ExtensionPoint.FILTER)
        entries.append(FilterEntry(_method(name, plugin, "filter_nodes" if columnar else "filter", "Filter"), columnar))
    return entries


def _scores(assembly: Assembly) -> list[ScoreEntry]:
    entries: list[ScoreEntry] = []
    for name in assembly.points[ExtensionPoint.SCORE]:
        plugin = assembly.plugins[name]
        columnar = is_columnar(type(plugin), ExtensionPoint.SCORE)
        normalize = None
        if defines(type(plugin), ScorePlugin, "normalize_scores"):
            normalize = _method(name, plugin, "normalize_scores", "ScoreExtensionNormalize")
        method = _method(name, plugin, "score_nodes" if columnar else "score", "Score")
        entries.append(ScoreEntry(method, columnar, assembly.weights[name], normalize))
    return entries


def _placement_scores(assembly: Assembly) -> list[PlacementScoreEntry]:
    entries: list[PlacementScoreEntry] = []
    for name in assembly.points[ExtensionPoint.PLACEMENT_SCORE]:
        plugin = assembly.plugins[name]
        normalize = bound = None
        if hasattr(plugin, "normalize_placement_scores"):
            normalize = _method(name, plugin, "normalize_placement_scores", "PlacementScoreExtensionNormalize")
        if hasattr(plugin, "bound_placement_scores"):
            bound = _method(name, plugin, "bound_placement_scores", "PlacementScore")
        method = _method(name, plugin, "score_placement", "PlacementScore")
        entries.append(PlacementScoreEntry(method, assembly.placement_weights[name], normalize, bound))
    return entries


def _pre_binds(assembly: Assembly) -> list[PreBindEntry]:
    entries: list[PreBindEntry] = []
    for name in assembly.points[ExtensionPoint.PRE_BIND]:
        plugin = assembly.plugins[name]
        pre_flight = None
        if defines(type(plugin), PreBindPlugin, "pre_bind_pre_flight"):
            pre_flight = _method(name, plugin, "pre_bind_pre_flight", "PreBindPreFlight")
        entries.append(PreBindEntry(_method(name, plugin, "pre_bind", "PreBind"), pre_flight))
    return entries


def _signers(assembly: Assembly) -> list[PluginMethod] | None:
    """Return the `sign_pod` of the plugins that judge nodes; None where one of them has none."""
    judges = {name: assembly.plugins[name] for name in judges_of(assembly.points)}
    if not all(isinstance(plugin, SignPlugin) for plugin in judges.values()):
        return None
    return [_method(name, plugin, "sign_pod", "Sign") for name, plugin in judges.items()]
