"""Check the stored results of a simulation: repeat the simulation, and compare the new tables with the stored ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyscheduler_lab.results.bundle import sha256_of_input
from pyscheduler_lab.results.provenance import local_code, sha256_of_path, versions
from pyscheduler_lab.results.runs import run
from pyscheduler_lab.results.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from pyscheduler_lab.results.bundle import Bundle
    from pyscheduler_lab.simulation.replay import Progress

__all__ = ["altered_files", "changed_inputs", "differences", "other_code"]


def altered_files(bundle: Bundle) -> Iterator[str]:
    """Yield a line for each file of the bundle whose bytes are not those that the run wrote."""
    recorded = {each.copy: each.sha256 for each in bundle.run.inputs.values() if each.copy is not None}
    for name, table in bundle.run.tables.items():
        recorded |= {f"{name}.parquet": table.parquet_sha256, f"{name}.csv": table.csv_sha256}
    for name, expected in recorded.items():
        path = bundle.folder / name
        if not path.exists():
            yield f"{name}: the file is missing"
        elif sha256_of_path(path) != expected:
            yield f"{name}: the file was changed after the run: its SHA-256 is not the one in run.json"


def changed_inputs(bundle: Bundle) -> Iterator[str]:
    """Yield a line for each trace or policy that has the same name, but another content than in the run."""
    for name, each in bundle.run.inputs.items():
        if each.copy is None and sha256_of_input(name, each.name) != each.sha256:
            yield f"{name} {each.name}: this version has another content under the name than the run had"


def other_code(bundle: Bundle) -> Iterator[str]:
    """Yield a line for each distribution that has another version or other Python files than in the run.

    Yield one also for each changed file that the configuration names: plugins read it.
    """
    installed = versions()
    for name, version in bundle.run.versions.items():
        if installed.get(name, version) != version:
            yield f"{name} is {installed[name]}; the run had {version}"
    recorded, found = bundle.run.local_code, local_code()
    for name in sorted(recorded.keys() | found.keys()):
        if name in recorded and recorded[name] != found.get(name):
            yield f"{name} has other Python files than in the run"
        elif name not in recorded:
            yield f"{name} does not come from an index; run.json has no hash of its Python files"
    for path, expected in bundle.run.plugin_files.items():
        if not Path(path).is_file() or sha256_of_path(path) != expected:
            yield f"{path}, which the configuration names, is missing or has another content than in the run"


def differences(bundle: Bundle, *, progress: Callable[[Progress], object] = lambda _: None) -> Iterator[str]:
    """Run the bundle again; yield a line for each table that differs. Raises `ConfigError` if it cannot be run."""
    again = run(bundle.local_settings(), progress=progress)
    for name, table in again.tables.items():
        line = _difference(name, getattr(bundle.tables, name), table)
        if line:
            yield line


def _difference(name: str, recorded: pa.Table, found: pa.Table) -> str:
    """Return where a table first differs; "" if it does not.

    Optional columns do not differ if an earlier version did not record them.
    """
    added = {each.name for each in TABLES[name] if each.is_optional} - {*recorded.column_names}
    found = found.select([column for column in found.column_names if column not in added])
    if recorded.equals(found):
        return ""
    if recorded.column_names != found.column_names:
        columns = set(recorded.column_names) ^ set(found.column_names)
        return f"{name}: the columns {', '.join(sorted(columns))} are in only one of the tables"
    before, after = recorded.to_pylist(), found.to_pylist()
    rows = [row for row, (old, new) in enumerate(zip(before, after, strict=False)) if old != new]
    if not rows:
        return f"{name}: {len(after)} rows, recorded {len(before)}"
    old, new = before[rows[0]], after[rows[0]]
    column = next(each for each in old if old[each] != new[each])
    key = recorded.column_names[0]  # it names the rows in each table
    where = f"row {rows[0] + 1} ({key} {old[key]})"
    more = "" if len(before) == len(after) else f"; {len(after)} rows, recorded {len(before)}"
    text = f"{name}: {where}: {column} is {_shown(new[column])}, recorded {_shown(old[column])}"
    return f"{text}; {len(rows)} of {len(before)} rows differ{more}"


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)
