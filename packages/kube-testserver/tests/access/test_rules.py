"""Policy rules, held against a model that spells everything out."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from kube_testserver.access.attributes import Attributes
from kube_testserver.access.rules import Cell, compile_rule, uncovered

VERBS, GROUPS, NAMES = ("get", "list", "create"), ("", "apps"), ("", "x", "y")
RESOURCES, PATHS = (("pods", ""), ("pods", "status"), ("nodes", ""), ("nodes", "status")), ("/api", "/api/v1", "/x")
WORDS = {
    "verbs": (*VERBS, "*"),
    "apiGroups": (*GROUPS, "*"),
    "resources": ("pods", "pods/status", "nodes", "*/status", "*"),
    "resourceNames": ("x", "y"),
}

REQUESTS = [
    Attributes(verb, group=group, resource=resource, subresource=subresource, name=name)
    for verb, group, (resource, subresource), name in itertools.product(VERBS, GROUPS, RESOURCES, NAMES)
] + [Attributes(verb, path=path) for verb, path in itertools.product(VERBS, PATHS)]


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a rule about resources or about paths."""
    verbs = draw(st.lists(st.sampled_from(WORDS["verbs"]), min_size=1, max_size=2, unique=True))
    if draw(st.integers(0, 3)) == 0:
        paths = st.sampled_from(("/api", "/api/*", "/api*", "*", "/x"))
        return {"verbs": verbs, "nonResourceURLs": draw(st.lists(paths, min_size=1, max_size=2, unique=True))}
    rule: dict[str, Any] = {"verbs": verbs}
    for field, least in (("apiGroups", 1), ("resources", 1), ("resourceNames", 0)):
        words = st.sampled_from(WORDS[field])
        rule[field] = draw(st.lists(words, min_size=least, max_size=2, unique=True))
    return rule


def allowed_by_model(rule: dict[str, Any], asked: Attributes) -> str:
    """Say, word by word, why a rule allows something, or nothing where it does not."""

    def has(field: str, word: str) -> str:
        return "*" if "*" in rule.get(field, ()) else "exact" if word in rule.get(field, ()) else ""

    verb = has("verbs", asked.verb)
    if not verb:
        return ""
    if not asked.resource:
        for pattern in rule.get("nonResourceURLs", ()):
            if pattern == asked.path:
                return f"{verb} path"
            if pattern.endswith("*") and asked.path[: len(pattern) - 1] == pattern[:-1]:
                return f"{verb} path*"
        return ""
    resource = has("resources", asked.combined)
    if not resource and asked.subresource and f"*/{asked.subresource}" in rule.get("resources", ()):
        resource = "*/sub"
    group, names = has("apiGroups", asked.group), rule.get("resourceNames")
    if not (resource and group) or (names and asked.name not in names):
        return ""
    return f"{verb} {group} {resource} {'named' if names else 'any'}"


@pytest.mark.slow
def test_rules_allow_what_the_model_allows() -> None:
    """Every request of a small world is allowed or not as the model says; each way to be allowed comes up."""
    fired: Counter[str] = Counter()

    @settings(max_examples=max(75, 5 * settings.default.max_examples // 2))
    @given(rules())
    def check(rule: dict[str, Any]) -> None:
        compiled = compile_rule(rule)
        for asked in REQUESTS:
            why = allowed_by_model(rule, asked)
            assert compiled.allows(asked) is bool(why), asked
            if why:
                fired[why] += 1
                cell = compiled.cell_of(asked)
                assert cell in compiled.cells
                assert allowed_by_model(as_rule(cell), asked)

    check()
    print(dict(fired))  # noqa: T201 - shown when a count below is missing
    ways = {f"{verb} {path}" for verb in ("*", "exact") for path in ("path", "path*")}
    ways |= {
        f"{verb} {group} {resource} {names}"
        for verb in ("*", "exact")
        for group in ("*", "exact")
        for resource in ("*", "exact", "*/sub")
        for names in ("named", "any")
    }
    assert len(ways & fired.keys()) >= len(ways) * 3 // 4, ways - fired.keys()


def as_rule(cell: Cell) -> dict[str, Any]:
    """Return the rule of a single part."""
    if cell.path:
        return {"verbs": [cell.verb], "nonResourceURLs": [cell.path]}
    names = {"resourceNames": [cell.name]} if cell.name else {}
    return {"verbs": [cell.verb], "apiGroups": [cell.group], "resources": [cell.resource], **names}


@pytest.mark.slow
def test_what_is_covered_is_allowed() -> None:
    """Nothing that a covered rule allows is refused by those that cover it; both answers come up."""
    fired: Counter[str] = Counter()

    @settings(max_examples=max(75, 5 * settings.default.max_examples // 2))
    @given(st.lists(rules(), min_size=1, max_size=3), rules())
    def check(held: list[dict[str, Any]], wanted: dict[str, Any]) -> None:
        own, other = [compile_rule(rule) for rule in held], compile_rule(wanted)
        missing = list(uncovered(own, [other]))
        fired["missing" if missing else "covered"] += 1
        for asked in REQUESTS:
            if other.allows(asked) and not any(rule.allows(asked) for rule in own):
                assert missing
        for cell in other.cells:
            if cell not in missing:
                assert not list(uncovered(own, [compile_rule(as_rule(cell))]))

    check()
    assert fired["missing"] > 10
    assert fired["covered"] > 3


def test_a_rule_covers_itself() -> None:
    """Whatever a rule says, it covers, and so does cluster-admin."""
    everything = [
        compile_rule({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
        compile_rule({"verbs": ["*"], "nonResourceURLs": ["*"]}),
    ]

    @given(rules())
    def check(rule: dict[str, Any]) -> None:
        assert not list(uncovered([compile_rule(rule)], [compile_rule(rule)]))
        assert not list(uncovered(everything, [compile_rule(rule)]))

    check()


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        pytest.param(Cell("list", "", "nodes"), "list nodes", id="core"),
        pytest.param(Cell("get", "apps", "replicasets"), "get replicasets.apps", id="group"),
        pytest.param(Cell("get", "", "configmaps", "c"), 'get configmaps "c"', id="name"),
        pytest.param(Cell("get", path="/version"), "get /version", id="path"),
    ],
)
def test_parts_of_a_rule_can_be_read(cell: Cell, shown: str) -> None:
    """A part is shown in words."""
    assert str(cell) == shown
