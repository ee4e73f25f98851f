"""Merge the permissions that plugins and parts of the scheduler need, so that a role has few RBAC rules."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.watches import PolicyRule, event_resource
from pyscheduler.framework.work_sources import WorkSourcePlugin

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet

    from pyscheduler.api import ResourceKind
    from pyscheduler.runtime.profile import Profile

__all__ = ["Grant", "Need", "merged", "needs_of_plugins", "reading"]

#: The order in which rules name their verbs; others follow by name.
_VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@attrs.frozen
class Need:
    """A permission and who needs it, in words for the reader of a role."""

    rule: PolicyRule
    who: str


@attrs.frozen(order=True)
class Grant:
    """A rule of a role on one resource, and who needs it. Without `names` it is about all objects."""

    group: str
    resource: str
    names: tuple[str, ...]
    verbs: tuple[str, ...]
    who: tuple[str, ...]


class _Permission(NamedTuple):
    """The smallest thing that can be granted; empty `namespace` and `name` mean all."""

    namespace: str
    group: str
    resource: str
    name: str
    verb: str


def reading(kind: ResourceKind) -> PolicyRule:
    """Return what it takes to keep a copy of all objects of a kind, or to read those that are not watched."""
    verbs = ("list", "watch") if kind.watch else ("get", "list")
    return PolicyRule(api_groups=(kind.group,), resources=(kind.plural,), verbs=verbs)


def needs_of_plugins(profiles: Iterable[Profile], kinds: Collection[ResourceKind]) -> Iterator[Need]:
    """Yield what plugins need: what they say in `rbac`, and of `kinds` those they watch or want to hear events of.

    Rules that a source of work makes needless in its profile are left out.
    """
    named = [(kind, event_resource(kind), reading(kind)) for kind in kinds]
    for profile in profiles:
        events = profile.registered_events()
        sources = [plugin for plugin in profile.plugins.values() if isinstance(plugin, WorkSourcePlugin)]
        needless = {one for source in sources for rule in source.needless_rbac for one in _permissions(Need(rule, ""))}
        for name, plugin in profile.plugins.items():
            yield from (need for rule in plugin.rbac for need in _without(Need(rule, name), needless))
            heard = {event.resource for event in events.get(name, ())}
            for kind, resource, rule in named:
                if (resource in heard and kind.watch) or kind in plugin.watches:
                    yield Need(rule, name)


def _without(need: Need, needless: AbstractSet[_Permission]) -> Iterator[Need]:
    """Yield a need, or the parts of it that are not needless."""
    parts = [*_permissions(need)] if needless else []
    if needless.isdisjoint(parts):
        yield need
        return
    for part in parts:
        if part not in needless:
            names = (part.name,) if part.name else ()
            places = (part.namespace,) if part.namespace else ()
            rule = PolicyRule(
                api_groups=(part.group,),
                resources=(part.resource,),
                verbs=(part.verb,),
                resource_names=names,
                namespaces=places,
            )
            yield Need(rule, need.who)


def merged(needs: Iterable[Need]) -> Mapping[str, Sequence[Grant]]:
    """Return the grants by namespace, those for the whole cluster under `""`, sorted; equal needs give equal grants.

    Raises `ConfigError` for a need that is a wildcard: it could not be granted without granting what nobody asked for.
    """
    wanted: dict[_Permission, set[str]] = {}
    for need in needs:
        for permission in _permissions(need):
            wanted.setdefault(permission, set()).add(need.who)
    kept: dict[_Permission, set[str]] = {}
    # The wide ones come first: an empty text sorts before any other.
    for permission in sorted(wanted, key=lambda each: (each.namespace, each.name)):
        cover = next((wider for wider in _wider(permission) if wider in kept), permission)
        kept.setdefault(cover, set()).update(wanted[permission])
    return {namespace: sorted(grants) for namespace, grants in sorted(_grants(kept).items())}


def _permissions(need: Need) -> Iterator[_Permission]:
    rule = need.rule
    parts = (rule.namespaces or ("",), rule.api_groups, rule.resources, rule.resource_names or ("",), rule.verbs)
    for permission in map(_Permission._make, product(*parts)):
        if any("*" in part for part in permission):
            raise ConfigError(
                f'{need.who} asks for {permission.verb} on "{permission.resource}" of API group "{permission.group}", '
                "a wildcard; name in its `rbac` what it needs"
            )
        yield permission


def _wider(permission: _Permission) -> Iterator[_Permission]:
    for namespace, name in (("", ""), ("", permission.name), (permission.namespace, "")):
        yield permission._replace(namespace=namespace, name=name)


def _grants(kept: Mapping[_Permission, set[str]]) -> Mapping[str, Sequence[Grant]]:
    """Put permissions together: the verbs of an object, then the objects with the same verbs."""
    allowed: dict[tuple[str, str, str, str], dict[str, set[str]]] = {}
    for permission, who in kept.items():
        allowed.setdefault(permission[:4], {})[permission.verb] = who
    alike: dict[tuple[str, str, str, bool, tuple[str, ...]], tuple[list[str], set[str]]] = {}
    for (namespace, group, resource, name), by_verb in allowed.items():
        key = (namespace, group, resource, bool(name), tuple(sorted(by_verb, key=_place)))
        names, needing = alike.setdefault(key, ([], set()))
        names += [name] if name else []
        needing.update(*by_verb.values())
    grants: dict[str, list[Grant]] = {}
    for (namespace, group, resource, _, verbs), (names, needing) in alike.items():
        grant = Grant(group, resource, tuple(sorted(names)), verbs, tuple(sorted(needing)))
        grants.setdefault(namespace, []).append(grant)
    return grants


def _place(verb: str) -> tuple[int, str]:
    return (_VERBS.index(verb) if verb in _VERBS else len(_VERBS), verb)
