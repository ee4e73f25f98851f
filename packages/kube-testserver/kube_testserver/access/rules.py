"""Policy rules of RBAC: what one rule of a role allows, and which permissions a set of rules does not cover.

Source: kube-apiserver, `pkg/apis/rbac/v1/evaluation_helpers.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kube_testserver.access.attributes import Attributes

__all__ = ["Cell", "Rule", "compile_rule", "uncovered"]


@attrs.frozen
class Cell:
    """The least that a rule can allow: one verb on one resource of one group, of one name where it has names.

    Of a rule about paths, `path` is set instead of group and resource.
    """

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} {self.path}"
        qualified = f"{self.resource}.{self.group}" if self.group else self.resource
        return f'{self.verb} {qualified} "{self.name}"' if self.name else f"{self.verb} {qualified}"


@attrs.frozen
class Rule:
    """A rule as sets; the lists of the role's own order stay in `cells`."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    paths: tuple[str, ...]
    cells: tuple[Cell, ...]

    def allows(self, asked: Attributes) -> bool:
        """Return True if the rule allows something."""
        verbs = self.verbs
        if asked.verb not in verbs and "*" not in verbs:
            return False
        if not asked.resource:
            return any(_path_matches(path, asked.path) for path in self.paths)
        return (
            (asked.group in self.groups or "*" in self.groups)
            and self._has_resource(asked.combined, asked.subresource)
            and (not self.names or asked.name in self.names)
        )

    def _has_resource(self, combined: str, subresource: str) -> bool:
        resources = self.resources
        if combined in resources or "*" in resources:
            return True
        return bool(subresource) and f"*/{subresource}" in resources

    def cell_of(self, asked: Attributes) -> Cell:
        """Return the part of the rule that allows something which it does allow."""
        verb = asked.verb if asked.verb in self.verbs else "*"
        if not asked.resource:
            path = next(path for path in self.paths if _path_matches(path, asked.path))
            return Cell(verb, path=path)
        combined = asked.combined
        if combined not in self.resources:
            combined = f"*/{asked.subresource}" if f"*/{asked.subresource}" in self.resources else "*"
        group = asked.group if asked.group in self.groups else "*"
        return Cell(verb, group, combined, asked.name if self.names else "")

    def covers(self, cell: Cell) -> bool:
        """Return True if everything that a part of another rule allows is allowed by this rule, too."""
        if cell.verb not in self.verbs and "*" not in self.verbs:
            return False
        if cell.path:
            return any(
                own == cell.path or (own.endswith("*") and cell.path.startswith(own.rstrip("*"))) for own in self.paths
            )
        return (
            (cell.group in self.groups or "*" in self.groups)
            and self._has_resource(cell.resource, cell.resource.partition("/")[2])
            and (not self.names or cell.name in self.names)
        )


def compile_rule(rule: dict[str, Any]) -> Rule:
    """Compile a rule as a role has it."""
    verbs, groups = _texts(rule, "verbs"), _texts(rule, "apiGroups")
    resources, names = _texts(rule, "resources"), _texts(rule, "resourceNames")
    paths = _texts(rule, "nonResourceURLs")
    cells = [
        Cell(verb, group, resource, name)
        for group in groups
        for resource in resources
        for verb in verbs
        for name in (names or ("",))
    ]
    cells += [Cell(verb, path=path) for path in paths for verb in verbs]
    return Rule(
        frozenset(verbs), frozenset(groups), frozenset(resources), frozenset(names), paths, tuple(dict.fromkeys(cells))
    )


def uncovered(held: Sequence[Rule], wanted: Iterable[Rule]) -> Iterator[Cell]:
    """Yield each part of `wanted` that no single rule of `held` covers."""
    for rule in wanted:
        for cell in rule.cells:
            if not any(own.covers(cell) for own in held):
                yield cell


def _texts(rule: dict[str, Any], name: str) -> tuple[str, ...]:
    return tuple(rule.get(name) or ())


def _path_matches(pattern: str, path: str) -> bool:
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))
