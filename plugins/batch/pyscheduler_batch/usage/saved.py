"""Save the past resource usage of queues in a ConfigMap, so that a restarted scheduler or a new leader knows it."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pyscheduler_batch.usage.ledger import PARTS, Part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.usage.ledger import UsageLedger

__all__ = ["MOST_BYTES", "load", "stored"]

MOST_BYTES: Final = 700_000
"""A ConfigMap may hold 1 MiB, and binary data is a third longer there."""
_HEADER: Final = "usage.json"
_SUMS: Final = "sums"
#: No more is unpacked.
_MOST_UNPACKED: Final = 64 * 2**20
#: The largest amount of a cluster, which is an exabyte, and how many times the capacity a queue may hold.
_MOST_AMOUNT: Final = 1e18
_MOST_TIMES: Final = 100.0


def stored(ledger: UsageLedger, resources: Sequence[str], half_life: float) -> dict[str, object]:
    """Return `data` and `binaryData` of the ConfigMap. The oldest parts are left out if all are too large."""
    parts = [*ledger.parts]
    packed = b""
    while parts:
        sums = np.stack([np.concatenate([part.capacity[None], part.queues]) for part in parts])
        packed = zlib.compress(sums.astype("<f4").tobytes(), level=1)
        if len(packed) <= MOST_BYTES:
            break
        parts = parts[1:]
    header = {
        "halfLifeSeconds": half_life,
        "resources": [*resources],
        "queues": [*ledger.rows],
        "parts": [[part.begin, part.end] for part in parts],
    }
    text = json.dumps(header, separators=(",", ":"))
    return {"data": {_HEADER: text}, "binaryData": {_SUMS: base64.b64encode(packed).decode("ascii")}}


def load(
    ledger: UsageLedger,
    data: Mapping[str, str],
    binary: Mapping[str, str],
    resources: Sequence[str],
    half_life: float,
    now: float = math.inf,
) -> Mapping[str, int]:
    """Put what a ConfigMap holds into an empty ledger; raise `ValueError` if it cannot be used.

    Return the number of parts that were left out, by the reason.
    """
    try:
        header: dict[str, Any] = json.loads(data[_HEADER])
        names, times = [str(name) for name in header["queues"]], [(float(a), float(b)) for a, b in header["parts"]]
        settings = (header["resources"], float(header["halfLifeSeconds"]))
        unpacker = zlib.decompressobj()
        content = base64.b64decode(binary[_SUMS], validate=True)
        raw = unpacker.decompress(content, _MOST_UNPACKED) if content else b""
        sums = np.frombuffer(raw, dtype="<f4").astype(np.float64)
        sums = sums.reshape(len(times), 1 + len(names), len(resources))
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, zlib.error) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if settings != ([*resources], half_life):
        raise ValueError("it was counted with another half-life, or for other resources")
    dropped: Counter[str] = Counter()
    parts: list[Part] = []
    for (begin, end), part in zip(times, sums, strict=True):
        if not ledger.may_have(begin, end, now):
            dropped["their times are not those of the window"] += 1
        elif not _are_amounts(part, end - begin):
            dropped["their sums are not amounts of a cluster"] += 1
        else:
            parts.append(Part(begin, end, part[0].copy(), part[1:].copy()))
    is_ordered = all(before.end <= after.begin for before, after in pairwise(parts))
    if len(times) > 2 * PARTS or len(set(names)) < len(names) or not is_ordered:
        raise ValueError("its queues or times are not what this program writes")
    ledger.rows = {name: row for row, name in enumerate(names)}
    ledger.parts.extend(parts)
    return dropped


def _are_amounts(sums: NDArray[np.float64], seconds: float) -> bool:
    """Return True if the first row may be a capacity, and the others parts of it, for so long."""
    if not np.isfinite(sums).all() or sums.min() < 0.0 or sums.max() > _MOST_AMOUNT * seconds:
        return False
    # Queues hold more than there is while nodes leave. A part without a capacity says nothing.
    return bool((sums[1:] <= _MOST_TIMES * sums[0]).all())
