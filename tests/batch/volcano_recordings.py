"""Read the recorded sessions of Volcano and compare them with what a session of ours decides."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "vectors_volcano"
FAMILIES = sorted(path.name.removeprefix("volcano-").removesuffix(".jsonl.gz") for path in FOLDER.glob("*.jsonl.gz"))

#: The real loop of proportion stops a little before the exact solution.
_DESERVED_TOLERANCE = 1e-4
_TOLERANCE = 1e-6

Case = dict[str, Any]


def read(family: str) -> Iterator[tuple[Case, Case, set[str]]]:
    """Yield each case without its answer, the recorded answer, and the paths of unstable fields."""
    with gzip.open(FOLDER / f"volcano-{family}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            expected = case.pop("expected")
            unstable = set(case.pop("unstable"))
            yield case, expected, unstable


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the path and value of everything that is not a filled mapping."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            name = key.replace("/", "~1")
            yield from leaves(each, f"{path}/{name}" if path else name)
    else:
        yield path, value


def differences(expected: Case, actual: Case, unstable: set[str]) -> list[tuple[str, object, object]]:
    """Return path, recorded and own value of each stable field that differs; a missing amount reads as 0."""
    recorded, own = dict(leaves(expected)), dict(leaves(actual))
    found = []
    for path in sorted(recorded.keys() | own.keys()):
        if _is_unstable(path, unstable) or _is_same(path, recorded.get(path), own.get(path)):
            continue
        found.append((path, recorded.get(path), own.get(path)))
    return found


def stable_fields(expected: Case, unstable: set[str]) -> int:
    """Return how many recorded fields are compared."""
    return sum(not _is_unstable(path, unstable) for path, _ in leaves(expected))


def _is_unstable(path: str, unstable: set[str]) -> bool:
    """Return whether the path, one above it, or one below it is unstable; with a pod's result its node is, too."""
    parts = path.split("/")
    if any("/".join(parts[:size]) in unstable for size in range(1, len(parts) + 1)):
        return True
    if any(each.startswith(f"{path}/") for each in unstable):
        return True
    return parts[0] == "pods" and len(parts) > 1 and f"pods/{parts[1]}/result" in unstable


def _is_same(path: str, recorded: object, own: object) -> bool:
    if isinstance(recorded, list) and isinstance(own, list):
        return len(recorded) == len(own) and all(map(_is_same, [path] * len(own), recorded, own))
    if isinstance(recorded, bool) or isinstance(own, bool) or not path.startswith(("queues", "hier", "node", "podG")):
        return recorded == own
    if recorded in (None, {}) and own in (None, {}):
        return True
    left, right = (0 if value is None and path.startswith("queues/") else value for value in (recorded, own))
    if isinstance(left, int | float) and isinstance(right, int | float):
        tolerance = _DESERVED_TOLERANCE if "/deserved/" in path else _TOLERANCE
        return math.isclose(left, right, rel_tol=tolerance, abs_tol=1e-9)
    return left == right
