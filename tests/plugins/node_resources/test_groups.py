"""Groups of nodes: those that have the same in common, and no others, are together."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from pyscheduler.plugins.node_resources.groups import split


@given(st.integers(0, 20).flatmap(lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), max_size=6)))
def test_groups_are_the_combinations_that_occur(properties: list[list[bool]]) -> None:
    """Every id stands for one combination of properties, ids are compact, and keys tell what each came from."""
    size = len(properties[0]) if properties else 0
    ids, groups = np.zeros(size, dtype=np.int64), [()]
    for apart in properties:
        ids, keys = split(ids, np.array(apart, dtype=np.bool_), len(groups))
        groups = [(*groups[key >> 1], bool(key & 1)) for key in keys]
    combinations = list(zip(*properties, strict=True)) if properties else []
    assert [groups[number] for number in ids] == combinations
    if combinations:
        assert sorted(groups) == sorted(set(combinations))
