"""Needs become rules: enough for each, nothing that nobody asked for, nothing twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.framework import ConfigError, PolicyRule
from pyscheduler.framework.work_sources import WorkSourcePlugin
from pyscheduler.runtime.assembly.permissions import Grant, Need, merged, needs_of_plugins
from pyscheduler.runtime.profile import Profile

#: Namespace, group, resource, name, verb; "" stands for all of them.
Atom = tuple[str, str, str, str, str]


def rule(
    resources: str, verbs: str, *, groups: Sequence[str] = ("",), names: str = "", namespaces: str = ""
) -> PolicyRule:
    """Make a rule from words."""
    return PolicyRule(
        api_groups=groups,
        resources=resources.split(),
        verbs=verbs.split(),
        resource_names=names.split(),
        namespaces=namespaces.split(),
    )


def atoms_of(each: PolicyRule) -> Iterator[Atom]:
    """Yield the single permissions in a rule."""
    yield from product(
        each.namespaces or [""], each.api_groups, each.resources, each.resource_names or [""], each.verbs
    )


def granted(grants: Mapping[str, Sequence[Grant]]) -> list[Atom]:
    """Return the single permissions in what came out."""
    return [
        (namespace, grant.group, grant.resource, name, verb)
        for namespace, rules in grants.items()
        for grant in rules
        for name in grant.names or ("",)
        for verb in grant.verbs
    ]


def covers(wide: Atom, narrow: Atom) -> bool:
    """Tell whether an API server that grants `wide` allows `narrow`."""
    namespace, *middle, name, verb = wide
    return (
        namespace in {"", narrow[0]} and tuple(middle) == narrow[1:3] and name in {"", narrow[3]} and verb == narrow[4]
    )


texts = st.sampled_from
rules = st.builds(
    PolicyRule,
    api_groups=st.lists(texts(["", "apps"]), min_size=1, max_size=2, unique=True),
    resources=st.lists(texts(["pods", "pods/status", "leases"]), min_size=1, max_size=2, unique=True),
    verbs=st.lists(texts(["get", "list", "watch", "patch", "approve"]), min_size=1, max_size=3, unique=True),
    resource_names=st.lists(texts(["a", "b"]), max_size=2, unique=True),
    namespaces=st.lists(texts(["east", "west"]), max_size=2, unique=True),
)
needs = st.lists(st.builds(Need, rules, texts(["One", "Two", "Three"])), max_size=6)


@pytest.mark.slow
def test_grants_are_enough_and_the_least() -> None:
    """Whatever is needed is granted; what is granted was asked for, and no grant makes another superfluous."""
    seen: Counter[str] = Counter()

    @settings(max_examples=15 * settings.default.max_examples, deadline=None)
    @given(needs, st.randoms(use_true_random=False))
    def check(wanted: list[Need], rng: random.Random) -> None:
        grants = merged(wanted)
        atoms = granted(grants)
        asked = {atom for need in wanted for atom in atoms_of(need.rule)}
        assert all(any(covers(atom, each) for atom in atoms) for each in asked)
        assert set(atoms) <= asked
        assert len(set(atoms)) == len(atoms)
        assert not [(a, b) for a, b in product(atoms, atoms) if a != b and covers(a, b)]
        # Who needs it is told.
        for need in wanted:
            for each in atoms_of(need.rule):
                assert any(
                    need.who in grant.who and each[4] in grant.verbs
                    for namespace, found in grants.items()
                    for grant in found
                    for name in grant.names or ("",)
                    if covers((namespace, grant.group, grant.resource, name, each[4]), each)
                )
        shuffled = list(wanted)
        rng.shuffle(shuffled)
        assert merged(shuffled) == grants
        dropped = asked - set(atoms)
        seen["merged"] += len(asked) < sum(1 for need in wanted for _ in atoms_of(need.rule))
        seen["namespace covered"] += any(atom[0] and (("", *atom[1:]) in atoms) for atom in dropped)
        seen["name covered"] += any(atom[3] and ((*atom[:3], "", atom[4]) in atoms) for atom in dropped)

    check()
    assert min(seen[what] for what in ("merged", "namespace covered", "name covered")) >= 20, seen


def test_a_rule_for_each_resource_with_its_verbs_in_order() -> None:
    """What several need of one resource is one rule, and says who they are."""
    grants = merged(
        [
            Need(rule("pods", "watch list"), "scheduling"),
            Need(rule("pods", "patch approve get"), "Ledger"),
            Need(rule("nodes", "list"), "scheduling"),
        ]
    )
    assert grants == {
        "": [
            Grant("", "nodes", (), ("list",), ("scheduling",)),
            Grant("", "pods", (), ("get", "list", "watch", "patch", "approve"), ("Ledger", "scheduling")),
        ]
    }


def test_objects_with_the_same_verbs_share_a_rule() -> None:
    """Named objects stand together where the same may be done to them, and beside what may be done to all."""
    found = merged(
        [
            Need(rule("leases", "get update", names="b", namespaces="east"), "B"),
            Need(rule("leases", "update get", names="a", namespaces="east"), "A"),
            Need(rule("leases", "delete", names="c", namespaces="east"), "C"),
            Need(rule("leases", "create", namespaces="east"), "A"),
        ]
    )
    assert found == {
        "east": [
            Grant("", "leases", (), ("create",), ("A",)),
            Grant("", "leases", ("a", "b"), ("get", "update"), ("A", "B")),
            Grant("", "leases", ("c",), ("delete",), ("C",)),
        ]
    }


@pytest.mark.parametrize(
    "wild",
    [
        pytest.param(rule("pods", "*"), id="verbs"),
        pytest.param(rule("*", "get"), id="resources"),
        pytest.param(rule("*/scale", "get"), id="subresources of all"),
        pytest.param(rule("pods", "get", groups=["*"]), id="groups"),
        pytest.param(rule("pods", "get", namespaces="*"), id="namespaces"),
    ],
)
def test_wildcards_are_refused(wild: PolicyRule) -> None:
    """Nobody is granted more than was asked for, so one has to ask; the message says whom to blame."""
    with pytest.raises(ConfigError, match=r"^Greedy asks for .* a wildcard; name in its `rbac` what it needs$"):
        merged([Need(wild, "Greedy")])


class Source(WorkSourcePlugin):
    """A source of work that never lets a plugin create a claim."""

    rbac = (rule("pods", "delete"),)
    watches = ()
    needless_rbac = (rule("claims", "create delete"),)


def test_rule_that_a_source_of_work_makes_needless_is_left_out_of_its_profile() -> None:
    """The other verbs and resources of the rule stay; a profile without the source needs the whole rule."""
    writer = SimpleNamespace(rbac=(rule("claims claims/status", "get create"),), watches=())

    def verbs_of(**plugins: object) -> set[tuple[str, str]]:
        profile = SimpleNamespace(plugins=plugins, registered_events=dict)
        grants = merged(needs_of_plugins([cast(Profile, profile)], []))
        return {(resource, verb) for _, _, resource, _, verb in granted(grants)}

    whole = {(resource, verb) for resource in ("claims", "claims/status") for verb in ("get", "create")}
    assert verbs_of(Writer=writer) == whole
    assert verbs_of(Writer=writer, Source=Source()) == {*whole, ("pods", "delete")} - {("claims", "create")}
