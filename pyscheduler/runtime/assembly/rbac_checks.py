"""Check what a plugin declares in `rbac`, when its profile is built: `config --rbac` would fail without its name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.watches import PolicyRule

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["rbac_problems"]


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
