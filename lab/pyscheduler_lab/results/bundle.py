"""A bundle: the folder of one simulation, with its results, settings, versions of the code, and input files.

Simulations with the same settings, inputs and code have equal results, byte by byte.
"""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pyscheduler.framework.errors import ConfigError, os_error_text
from pyscheduler_lab.clusters.cluster import NODE_LISTS
from pyscheduler_lab.results.provenance import (
    Checkout,
    checkout,
    local_code,
    plugin_files,
    sha256_of_path,
    sha256_of_text,
    versions,
)
from pyscheduler_lab.results.settings import FILES, RunSettings
from pyscheduler_lab.results.tables import TABLES, Tables
from pyscheduler_lab.simulation.policies import policy_named
from pyscheduler_lab.simulation.replay_report import PluginErrors
from pyscheduler_lab.traces.catalog import TRACES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_lab.results.runs import Run

__all__ = [
    "Bundle",
    "Input",
    "RunFile",
    "TableFile",
    "bundles_in",
    "new_folder",
    "read_bundle",
    "sha256_of_input",
    "write_bundle",
]

#: The version of the layout; a reader rejects others.
_SCHEMA: Final = 1
_RUN: Final = "run.json"
_INPUTS: Final = "inputs"
_COMPRESSION: Final = "zstd"


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One input of a run: as it was named, the SHA-256 of its content, and its copy in the bundle, if it was a file."""

    name: str
    sha256: str
    copy: str | None = None


class TableFile(msgspec.Struct, frozen=True, kw_only=True):
    """One table: the number of rows, and the SHA-256 of both files."""

    rows: int
    parquet_sha256: str
    csv_sha256: str


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `run.json`."""

    schema: int
    command: list[str]
    settings: RunSettings
    #: By name of the setting, such as `trace`, `nodes` and `policy`, which is the configuration.
    inputs: dict[str, Input]
    python: str
    versions: dict[str, str]
    #: SHA-256 of the Python files of distributions that do not come from an index, by name.
    local_code: dict[str, str] = {}
    #: SHA-256 of the files that the configuration names, by path.
    plugin_files: dict[str, str] = {}
    checkout: Checkout | None
    tables: dict[str, TableFile]
    #: Counts of the replay: attempts, warnings, the dialect of groups.
    counts: dict[str, Any]
    #: Cost of the replay in seconds of real time: the only numbers that differ between equal runs.
    cost: dict[str, Any]


@attrs.frozen(kw_only=True)
class Bundle:
    """A bundle on disk."""

    folder: Path
    run: RunFile
    tables: Tables

    @property
    def plugin_errors(self) -> list[PluginErrors]:
        """The errors of plugins; none if an older version wrote the bundle."""
        try:
            return msgspec.convert(self.run.counts.get("plugin_errors", []), list[PluginErrors])
        except msgspec.ValidationError as error:
            raise ConfigError(f"plugin_errors: {error}", source=str(self.folder / _RUN)) from error

    def local_settings(self) -> RunSettings:
        """Return the settings with the copies of the bundle in place of the files."""
        copies = {name: str(self.folder / each.copy) for name, each in self.run.inputs.items() if each.copy is not None}
        return msgspec.structs.replace(self.run.settings, **copies)


def new_folder(path: str) -> Path:
    """Return a folder for a bundle, which is created; raise `ConfigError` if it exists and is not empty."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError("the folder is not empty; name a new one", source=f"--out: {path}")
    except OSError as error:
        raise ConfigError(os_error_text(error), source=f"--out: {path}") from error
    return folder


def write_bundle(folder: Path, run: Run, command: Sequence[str]) -> RunFile:
    """Write a run into a folder, which is created, and return the content of `run.json`."""
    folder = folder.absolute()  # Arrow takes a `~` for the home folder
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, table in run.tables.items():
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet", compression=_COMPRESSION)
        pyarrow.csv.write_csv(table, folder / f"{name}.csv")
        files[name] = TableFile(
            rows=table.num_rows,
            parquet_sha256=sha256_of_path(folder / f"{name}.parquet"),
            csv_sha256=sha256_of_path(folder / f"{name}.csv"),
        )
    report = msgspec.to_builtins(run.report)
    cost = {name: report.pop(name) for name in ("wall_s", "phases")}
    found = RunFile(
        schema=_SCHEMA,
        command=[*command],
        settings=run.settings,
        inputs={name: _keep(folder, name, value) for name in FILES if (value := getattr(run.settings, name))},
        python=platform.python_version(),
        versions=versions(),
        local_code=local_code(),
        plugin_files=plugin_files(run.settings.policy),
        checkout=checkout(),
        tables=files,
        counts=report,
        cost=cost,
    )
    (folder / _RUN).write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    return found


def _keep(folder: Path, setting: str, value: str) -> Input:
    """Copy the file that a setting names into the bundle; return what stands for it in `run.json`."""
    path = Path(value)
    if _known(setting, value) is not None or not path.exists():
        return Input(name=value, sha256=sha256_of_input(setting, value))
    copy = f"{_INPUTS}/{setting}-{path.name}"
    (folder / _INPUTS).mkdir(exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, folder / copy)
    else:
        shutil.copyfile(path, folder / copy)
    return Input(name=value, sha256=sha256_of_path(path), copy=copy)


def sha256_of_input(setting: str, value: str) -> str:
    """Return the SHA-256 of what a setting means: of the data under that name, of a file, or of the text."""
    path = _known(setting, value)
    if path is None and Path(value).exists():
        path = Path(value)
    if path is not None:
        return sha256_of_path(path)
    return sha256_of_text(policy_named(value).document if setting == "policy" else value)


def _known(setting: str, value: str) -> Path | None:
    """Return the file of a trace or list of nodes that comes with the lab."""
    if setting == "trace" and value in TRACES:
        return TRACES[value].path
    return NODE_LISTS.get(value) if setting == "nodes" else None


def bundles_in(folder: Path) -> list[Bundle]:
    """Return the bundle in a folder, or all bundles below it, by path; raise `ConfigError` if there is none."""
    if not (folder / _RUN).exists():
        found = [read_bundle(each.parent) for each in sorted(folder.rglob(_RUN))]
        if found:
            return found
    return [read_bundle(folder)]


def read_bundle(folder: Path) -> Bundle:
    """Return the bundle in a folder; raise `ConfigError` if it cannot be read."""
    try:
        run = msgspec.json.decode((folder / _RUN).read_bytes(), type=RunFile)
    except OSError as error:
        why = os_error_text(error)
        raise ConfigError(f"not a bundle of a run: {why}", source=str(folder / _RUN)) from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"not a bundle of a run: {error}", source=str(folder / _RUN)) from error
    if run.schema != _SCHEMA:
        text = f"the bundle has schema {run.schema}; this version reads schema {_SCHEMA}"
        raise ConfigError(text, source=str(folder / _RUN))
    tables = Tables(**{name: _table(folder, name) for name in TABLES})
    if unknown := set(tables.pods["job"].unique().to_pylist()) - set(tables.jobs["job"].to_pylist()):
        text = f"the table pods names the job {min(unknown)!r}, which the table jobs lacks"
        raise ConfigError(text, source=str(folder))
    return Bundle(folder=folder, run=run, tables=tables)


def _table(folder: Path, name: str) -> pa.Table:
    path = folder / f"{name}.parquet"
    try:
        table = pyarrow.parquet.read_table(path.absolute())
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"cannot be read: {error}".splitlines()[0], source=str(path)) from error
    missing = [each.name for each in TABLES[name] if not each.is_optional and each.name not in table.column_names]
    if missing:
        raise ConfigError(f"the table {name} lacks the columns {', '.join(missing)}", source=str(path))
    for each in TABLES[name]:
        if each.name not in table.column_names:
            continue
        column = table[each.name]
        if column.type != pa.type_for_alias(each.kind) or (column.null_count and not each.may_be_null):
            kind = each.kind if each.may_be_null else f"{each.kind} without nulls"
            raise ConfigError(f"the column {each.name} of the table {name} must be {kind}", source=str(path))
    return table
