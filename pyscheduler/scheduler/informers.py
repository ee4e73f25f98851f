"""The scheduler's informers: one for pods, one for nodes, and one for each other kind that its plugins watch."""

from __future__ import annotations

from difflib import get_close_matches
from types import new_class
from typing import TYPE_CHECKING, Final, TypeVar, cast

from kube_objects.kinds import declaration_of
from pyscheduler.api import BUILT_IN_KINDS, KindTable, KubeObject, Node, Pod, kind_of
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.events import ActionType, EventResource
from pyscheduler.framework.watches import event_resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.framework.plugin_failures import PluginFailures
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.ports import ClusterClient, Informer

__all__ = ["LIVE_PODS", "Informers"]

K = TypeVar("K", bound=KubeObject)

#: Pods that have ended hold nothing and are not listed at all.
LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"


class Informers:
    """The informers of this scheduler, one per kind."""

    def __init__(self, client: ClusterClient, *, failures: PluginFailures) -> None:
        self._client = client
        self._failures = failures
        self._kinds = KindTable()
        self._made: dict[type[KubeObject], tuple[ResourceKind, Informer[KubeObject]]] = {}
        #: Kinds that are only read with the client.
        self._unwatched: dict[type[KubeObject], ResourceKind] = {}

    def get(self, cls: type[K], *, field_selector: str = "") -> Informer[K]:
        """Return the informer of a kind that the scheduler cannot do without."""
        return cast("Informer[K]", self._make(self._kinds.of(cls), field_selector=field_selector, optional=False))

    def declare(self, kind: ResourceKind) -> None:
        """Watch a kind that a plugin declared, unless it says `watch=False`; it may not be served (yet)."""
        self._kinds.register(kind)
        if kind.watch:
            self._make(kind, field_selector="", optional=True)
        else:
            self._unwatched[kind.type] = kind
            self._client.informer(kind, optional=True)  # Lets the client know the kind; it is not started.

    def declare_registered(self, profiles: Iterable[Profile]) -> None:
        """Watch the kinds whose events some plugin wants to hear of.

        What is neither built in nor in anybody's `watches` is watched by its name, `plural.version.group`; of its
        objects only the metadata are read. Source: kube-scheduler 1.36, `addAllEventHandlers`.
        """
        profiles = tuple(profiles)
        wanted = {event.resource for profile in profiles for event in profile.hints()}
        for kind in BUILT_IN_KINDS:
            if event_resource(kind) in wanted:
                self.declare(kind)
        known = {event_resource(kind) for kind, _ in self._made.values()}.union(EventResource)
        for resource in sorted(wanted - known):
            is_name = self._declare_named(resource)
            similar = () if is_name else known.union(map(event_resource, BUILT_IN_KINDS))
            self._warn_of_misspelt(resource, profiles, similar, is_name=is_name)

    def _declare_named(self, resource: str) -> bool:
        """Watch a kind by its name; return False if it is no `plural.version.group`."""
        plural, _, group_version = resource.partition(".")
        version, _, group = group_version.partition(".")
        if not (plural and version and group):
            return False
        # Its kind is not known; whoever reads about it is served better by the plural than by nothing.
        names = {"api_version": f"{group}/{version}", "kind": plural}
        cls = new_class(plural.capitalize(), (KubeObject,), {}, lambda namespace: namespace.update(names))
        self.declare(kind_of(cls, plural))
        return True

    def _warn_of_misspelt(
        self, resource: str, profiles: Iterable[Profile], known: Iterable[str], *, is_name: bool
    ) -> None:
        """Warn of the plugins that registered events which never come, or whose own kind has nearly this name."""
        for profile in profiles:
            for plugin, events in profile.registered_events().items():
                if all(event.resource != resource for event in events):
                    continue
                own = [event_resource(kind) for kind in profile.plugins[plugin].watches]
                close = [*get_close_matches(resource, own, n=1, cutoff=0.85), *get_close_matches(resource, known, n=1)]
                if is_name and not close:
                    continue
                remedy = (
                    f'did you mean "{close[0]}"?'
                    if close
                    else "declare the kind in `watches`, and write event_resource(KIND)"
                )
                problem = "no plugin watches" if is_name else "is no plural.version.group, and no plugin watches"
                text = f'plugin "{plugin}" registers events of "{resource}", which {problem}; {remedy}'
                self._failures.warn(f"Incorrect event registration: {text}")

    def announced(self, profiles: Iterable[Profile]) -> Sequence[tuple[str, ActionType, Informer[KubeObject]]]:
        """Return what some plugin wants to hear of, besides pods and nodes: the name of its events, and which actions.

        What is only read makes no events: a replica set changes with each of its pods, and no pod waits for that.
        Source: kube-scheduler 1.36, `unionedGVKs`.
        """
        wanted: dict[str, int] = {}
        for profile in profiles:
            for event in profile.hints():
                wanted[event.resource] = int.__or__(wanted.get(event.resource, 0), event.action)
        anything = wanted.get(EventResource.WILDCARD, 0)
        # Some of a kind, as pods that have ended, are no kind of their own: what happens to them is told as such.
        named = [(event_resource(kind), informer) for kind, informer in self.others() if not kind.field_selector]
        actions = [(name, ActionType(wanted.get(name, 0) | anything), informer) for name, informer in named]
        return [each for each in actions if each[1]]

    def lister(self, kind: type[K]) -> Informer[K]:
        """Return what a plugin asked for; raise `PluginError` for a kind that nobody declared."""
        given: object = kind  # of others' code, types prove nothing
        if not isinstance(given, type):
            message = f"lister() takes the class of a kind, such as pyscheduler.api.ConfigMap, not {kind!r}"
            raise PluginError(message, plugin="")
        found = self._made.get(kind)
        if found is None and kind in self._unwatched:
            message = f"{kind.__name__} is declared with watch=False; read it with handle.client.list({kind.__name__})"
            raise PluginError(message, plugin="")
        if found is None:
            message = f"{kind.__name__} is read but not declared; add {declaration_of(kind)} to the plugin's `watches`"
            raise PluginError(message, plugin="")
        return cast("Informer[K]", found[1])

    def others(self) -> Sequence[tuple[ResourceKind, Informer[KubeObject]]]:
        """Return what was asked for besides pods and nodes."""
        return [entry for cls, entry in self._made.items() if cls not in {Pod, Node}]

    def declared(self) -> Sequence[ResourceKind]:
        """Return the kinds of `others`, and those that are only read with the client."""
        return [*(kind for kind, _ in self.others()), *self._unwatched.values()]

    def _make(self, kind: ResourceKind, *, field_selector: str, optional: bool) -> Informer[KubeObject]:
        found = self._made.get(kind.type)
        if found is None:
            informer = self._client.informer(kind, field_selector=field_selector, optional=optional)
            informer.report_to(self._failures)
            found = self._made[kind.type] = (kind, informer)
        return found[1]
