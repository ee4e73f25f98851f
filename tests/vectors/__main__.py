"""`python -m tests.vectors`: replay all cases and write the table of the parity page."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.vectors.replay import FAMILIES, replay, row_of

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "parity.md"


def main() -> int:
    """Replay, say what differs, write; return 1 where anything differs."""
    with ProcessPoolExecutor() as pool:
        outcomes = list(pool.map(replay, FAMILIES))
    for outcome in outcomes:
        for case, fields in list(outcome.differing.items())[:5]:
            print(f"{case}: {', '.join(fields)}")
    total, equal = sum(one.cases for one in outcomes), sum(one.equal for one in outcomes)
    rows = "\n".join([*map(row_of, outcomes), f"| all | {total:,} | {equal:,} |"])
    page = PAGE.read_text(encoding="utf-8")
    table = re.compile(r"(?<=\| family \| cases \| equal in every field \|\n\|---\|---:\|---:\|\n)(\|.*\n)*")
    assert len(table.findall(page)) == 1
    PAGE.write_text(table.sub(lambda _: rows + "\n", page), encoding="utf-8")
    print(f"{equal} of {total} cases equal in every field")
    return int(equal != total)


if __name__ == "__main__":
    sys.exit(main())
