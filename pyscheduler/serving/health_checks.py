"""The probes /healthz, /livez and /readyz with their checks, and the results at /metrics/slis.

Source: apiserver's server/healthz; cmd/kube-scheduler/app/server.go; component-base's metrics/prometheus/slis.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.telemetry.families import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

__all__ = ["PING", "Check", "Probes"]

_log = logging.getLogger(__name__)

_HELP: Final = {
    "kubernetes_healthcheck": ("gauge", "[STABLE] This metric records the result of a single healthcheck."),
    "kubernetes_healthchecks_total": ("counter", "[STABLE] This metric records the results of all healthcheck."),
    "process_start_time_seconds": (
        "gauge",
        "[ALPHA] Start time of the process since unix epoch in seconds.",
    ),
}


@attrs.frozen
class Check:
    """A health check. `why_not` returns the reason of a failure, or "" if the check passes.

    `note` returns what `?verbose` adds to a check that passes, or "". A check that is `optional` is listed and counted
    only while it has a note.
    """

    name: str
    why_not: Callable[[], str]
    note: Callable[[], str] = str
    optional: bool = False


#: The check that fails only if the process does not answer.
PING: Final = Check("ping", str)


class Probes:
    """The probes of one program by name: `healthz`, `livez`, `readyz`. A probe without checks runs `PING`."""

    def __init__(self, *, started_at: float, **checks: Sequence[Check]) -> None:
        self._probes: Mapping[str, Sequence[Check]] = {name: found or (PING,) for name, found in checks.items()}
        #: Wall clock seconds.
        self._started_at = started_at
        self._last: dict[tuple[str, str], bool] = {}
        self._counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)

    def paths(self) -> list[str]:
        """Return every path of a probe or check."""
        return [
            path
            for probe, checks in self._probes.items()
            for path in (f"/{probe}", *(f"/{probe}/{check.name}" for check in checks))
        ]

    def answer(self, path: str, *, verbose: bool = False, excluded: Collection[str] = ()) -> tuple[int, str] | None:
        """Return status and text, or None for another path."""
        probe, slash, name = path.removeprefix("/").partition("/")
        checks = self._probes.get(probe)
        if checks is None:
            return None
        if not slash:
            return self._all(probe, checks, verbose=verbose, excluded=excluded)
        for check in checks:
            if check.name == name:
                reason = check.why_not()
                return (500, f"internal server error: {reason}\n") if reason else (200, "ok")
        return None

    def _all(self, probe: str, checks: Sequence[Check], *, verbose: bool, excluded: Collection[str]) -> tuple[int, str]:
        lines, reasons = [], {}
        for check in checks:
            if check.name in excluded:
                lines.append(f"[+]{check.name} excluded: ok")
                continue
            note = check.note() if verbose else ""
            if check.optional and not note:
                continue
            reason = check.why_not()
            self._note(check.name, probe, well=not reason)
            # The reason is shown only at the path of the check itself, and logged.
            passed = f"[+]{check.name} ok: {note}" if note else f"[+]{check.name} ok"
            lines.append(f"[-]{check.name} failed: reason withheld" if reason else passed)
            if reason:
                reasons[check.name] = reason
        unknown = sorted(set(excluded) - {check.name for check in checks})
        if unknown:
            shown = ",".join(json.dumps(name) for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {shown}")
        if reasons:
            _log.debug("%s check failed checks=%s reasons=%s", probe, ",".join(reasons), "; ".join(reasons.values()))
            return 500, "\n".join([*lines, f"{probe} check failed\n"])
        return 200, "\n".join([*lines, f"{probe} check passed\n"]) if verbose else "ok"

    def _note(self, name: str, probe: str, *, well: bool) -> None:
        self._last[name, probe] = well
        self._counts[name, probe, "success" if well else "error"] += 1

    def slis(self) -> tuple[bytes, str]:
        """Return the results of the checks for Prometheus, and the content type."""
        samples: dict[str, list[tuple[str, float]]] = {
            "kubernetes_healthcheck": [
                (f'{{name="{name}",type="{probe}"}}', int(well)) for (name, probe), well in sorted(self._last.items())
            ],
            "kubernetes_healthchecks_total": [
                (f'{{name="{name}",status="{status}",type="{probe}"}}', count)
                for (name, probe, status), count in sorted(self._counts.items())
            ],
            "process_start_time_seconds": [("", self._started_at)],
        }
        lines = []
        for family, found in samples.items():
            if found:
                kind, text = _HELP[family]
                lines += [f"# HELP {family} {text}", f"# TYPE {family} {kind}"]
                lines += [f"{family}{labels} {value}" for labels, value in found]
        return "".join(f"{line}\n" for line in lines).encode(), CONTENT_TYPE

    def reset_slis(self) -> None:
        """Reset the results."""
        self._last.clear()
        self._counts.clear()
