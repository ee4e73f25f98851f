"""The best rows are kept up to date as a look at all totals would find them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import example, given, strategies as st

from pyscheduler.runtime.equivalence_cache.top_rows import TopRows


def test_rows_come_and_go_as_a_look_at_all_finds_them() -> None:
    """Whatever totals change to, the best rows are the same, in the same order; which change did what is counted."""
    counts: Counter[str] = Counter()

    @given(
        totals=st.lists(st.integers(-2, 2), min_size=1, max_size=6),
        changes=st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), max_size=12),
    )
    @example(totals=[2, 2, 1], changes=[(0, 0), (1, 1), (2, 1), (0, 2)])
    @example(totals=[1, 2], changes=[(0, 2), (1, 3), (0, 3), (0, 0)])
    def follow(totals: list[int], changes: list[tuple[int, int]]) -> None:
        top = TopRows(np.array(totals, dtype=np.int32))
        for number, after in changes:
            row = number % len(totals)
            before, highest = totals[row], max(totals)
            totals[row] = after
            known = top.move(row, before, after)
            if not known:
                assert before == highest
                assert totals.count(highest) == 0
                top = TopRows(np.array(totals))
            elif before != after:
                counts["above"] += after > highest
                counts["joined"] += after == highest
                counts["left"] += before == highest > after
            counts["last one left"] += not known
            assert list(top.rows) == [row for row, total in enumerate(totals) if total == max(totals)]

    follow()
    print(dict(counts))  # noqa: T201 - how often each change had its turn
    assert all(counts[name] > 0 for name in ("above", "joined", "left", "last one left"))
