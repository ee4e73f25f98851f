"""Report errors in the attributes `watches` and `rbac` of a profile's plugins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from kube_objects.kinds import BUILT_IN_KINDS, declaration_of
from pyscheduler.api import DecodeError, ResourceKind
from pyscheduler.framework.watches import PolicyRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["rbac_problems", "watch_problems"]


def watch_problems(name: str, kinds: object, declare: Callable[[ResourceKind], object]) -> Iterator[str]:
    """Declare the kinds that plugin `name` watches; yield a sentence about each that is no kind or contradicts one."""
    if isinstance(kinds, ResourceKind | str) or not isinstance(kinds, Iterable):
        yield f'`watches` of plugin "{name}" must be a tuple; write watches = ({_example(kinds)},)'
        return
    for kind in kinds:
        if not isinstance(kind, ResourceKind):
            what = kind.__name__ if isinstance(kind, type) else repr(kind)
            yield f'plugin "{name}" watches {what}, which is no ResourceKind; write {_example(kind)}'
            continue
        try:
            declare(kind)
        except DecodeError as error:
            yield _contradiction(name, kind, error)


def _example(kind: object) -> str:
    """Return the call of `kind_of` that declares what was likely meant."""
    if isinstance(kind, ResourceKind):
        kind = kind.type
    return declaration_of(kind) if isinstance(kind, type) else "kind_of(Type, plural)"


def _contradiction(name: str, kind: ResourceKind, error: DecodeError) -> str:
    """Return a sentence about a kind that is known with another plural, scope or type."""
    known = next((each for each in BUILT_IN_KINDS if each.type is kind.type), None)
    if known is None:
        return f'plugin "{name}" watches "{kind.plural}": {error}'
    if known.plural != kind.plural:
        question = f'did you mean "{known.plural}"? Write {declaration_of(kind.type)}'
        return f'plugin "{name}" watches "{kind.plural}"; {question}'
    return f'plugin "{name}" watches "{kind.plural}" with another scope; write {declaration_of(kind.type)}'


def rbac_problems(name: str, rbac: object) -> Iterator[str]:
    """Yield a sentence about each part of a plugin's `rbac` that is no list of `PolicyRule`s with lists of texts."""
    if isinstance(rbac, PolicyRule) or not isinstance(rbac, Sequence) or isinstance(rbac, str):
        yield f'`rbac` of plugin "{name}" must be a tuple of PolicyRule, not {_shown(rbac)}; write (PolicyRule(...),)'
        return
    for rule in rbac:
        if not isinstance(rule, PolicyRule):
            example = 'PolicyRule(api_groups=("",), resources=("pods",), verbs=("patch",))'
            yield f'`rbac` of plugin "{name}" has {_shown(rule)}, which is no PolicyRule; write {example}'
            continue
        for field in attrs.fields(PolicyRule):
            value: object = getattr(rule, field.name)  # of others' code, types prove nothing
            if isinstance(value, Collection) and not isinstance(value, str) and all(isinstance(e, str) for e in value):
                continue
            remedy = f'("{value}",)' if isinstance(value, str) else "a tuple of texts"
            yield f'{field.name} of a PolicyRule in `rbac` of plugin "{name}" is {_shown(value)}; write {remedy}'


def _shown(value: object) -> str:
    return "a PolicyRule" if isinstance(value, PolicyRule) else repr(value)
