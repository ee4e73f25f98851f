"""Read tables from CSV files (also gzipped) and Parquet files."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import math
import zlib
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_objects.errors import QuantityError
from kube_objects.names import label_key_errors, label_value_errors
from kube_objects.quantity import NANO, parse_quantity
from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["PARQUET", "Row", "Table", "read_bytes", "table_of", "with_columns"]

PARQUET: Final = b"PAR1"
"""The first bytes of a Parquet file."""

_GZIP: Final = b"\x1f\x8b"
#: The number of characters of a wrong value that a message shows.
_MOST_SHOWN: Final = 60
_MEBI: Final = 1 << 20
#: From here on, not every whole number is a number of the machine.
_MOST: Final = 1 << 53
#: Marks that separate columns in files that are no CSV files, with their names in messages.
_SEPARATORS: Final = {";": '";"', "\t": "a tab"}
#: Stands for the values of a line beyond the last column.
_REST: Final = "\0"


@attrs.frozen
class Row:
    """One row of a table: the texts by column, and its place in the file."""

    source: str
    place: str
    values: Mapping[str, str]

    def mistake(self, column: str, text: str) -> ConfigError:
        """Return the error for a value of this row."""
        return ConfigError(f"{self.place}, column {column}: {text}", source=self.source)

    def others(self, known: Container[str]) -> dict[str, str]:
        """Return the texts of the other columns as they are."""
        return {column: text for column, text in self.values.items() if column not in known}

    def text(self, column: str, default: str = "") -> str:
        """Return a text without blanks around it; the default if the file has no such column, or the cell is empty."""
        return self.values.get(column, "").strip() or default

    def number(self, column: str, default: float | None = None, *, least: float = 0.0, most: float = math.inf) -> float:
        """Return a finite number; the default if the file has no such column, or the cell is empty.

        Without a default, an empty cell is a mistake.
        """
        text = self.text(column)
        if default is not None and not text:
            return float(default)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        # Python reads digits of other scripts and underscores, too.
        if not text.isascii() or "_" in text or not least <= value <= most or math.isinf(value):
            raise self.mistake(column, f"{_shown(text)}; it must be a number {_range(least, most)}")
        return value

    def seconds(self, column: str, *, most: float, may_be_endless: bool = False) -> float:
        """Return a time; `may_be_endless` allows the text `inf`."""
        if may_be_endless and self.text(column) == "inf":
            return math.inf
        return self.number(column, most=most)

    def whole(self, column: str, default: int | None = None, *, least: int = 0, most: float = _MOST) -> int:
        """Return a whole number, which may be written as `8.0`; a fraction is a mistake."""
        value = self.number(column, default, least=least, most=most)
        if not value.is_integer():
            raise self.mistake(column, f"{_shown(self.text(column))}; it must be a whole number {_range(least, most)}")
        return int(value)

    def cpu_milli(self, column: str) -> int:
        """Return a quantity of CPUs such as `8` or `500m` in thousandths, rounded up."""
        return self._quantity(column, NANO // 1000, "a number of CPUs such as 8 or 500m")

    def memory_mib(self, column: str) -> int:
        """Return a quantity of memory such as `32Gi`, or a number of bytes, in MiB, rounded up."""
        return self._quantity(column, _MEBI * NANO, "an amount of memory such as 32Gi, or of bytes")

    def _quantity(self, column: str, unit: int, form: str) -> int:
        text = self.text(column)
        if not text:
            return 0
        try:
            nanos = parse_quantity(text)
        except QuantityError:
            nanos = -1
        if nanos < 0:
            raise self.mistake(column, f"{_shown(text)}; it must be {form}")
        return -(-nanos // unit)

    def labels(self, column: str) -> dict[str, str]:
        """Return labels that are written as `zone=a;rack=3`."""
        found: dict[str, str] = {}
        for part in filter(None, (each.strip() for each in self.text(column).split(";"))):
            key, _, value = part.partition("=")
            if "=" not in part or label_key_errors(key) or label_value_errors(value) or key in found:
                raise self.mistake(column, f"{_shown(part)}; it must be labels such as zone=a;rack=3")
            found[key] = value
        return found


def _shown(text: str) -> str:
    return "the value is missing" if not text else f"the value is {text[:_MOST_SHOWN]!r}"


def _range(least: float, most: float) -> str:
    return f"of {least:.12g} or more" if most >= _MOST else f"from {least:.12g} to {most:.12g}"


@attrs.frozen
class Table:
    """A table of a file: its columns in order, and its rows, which can be read once."""

    source: str
    columns: Sequence[str]
    rows: Iterator[Row]

    def require(self, columns: Iterable[str], kind: str, *, known: Container[str] | None = None) -> None:
        """Raise `ConfigError` unless the table has these columns; `kind` says of what it would be a table.

        With `known`, `--trace-columns` can rename columns, and the error hints at unknown ones with similar names.
        """
        missing = [column for column in columns if column not in self.columns]
        if missing:
            hint = self._separator() or (self._similar(missing, known) if known is not None else "")
            raise ConfigError(f"not {kind}: missing columns: {', '.join(missing)}{hint}", source=self.source)

    def _separator(self) -> str:
        """Return the hint that the file has another separator than a comma; "" if it has none."""
        header = self.columns[0] if len(self.columns) == 1 else ""
        found = next((name for mark, name in _SEPARATORS.items() if mark in header), None)
        return f"; line 1 has {found} between columns, and must have a comma" if found else ""

    def _similar(self, missing: Iterable[str], known: Container[str]) -> str:
        unknown = {name.lower(): name for name in self.columns if name not in known}
        near = {name: unknown[each] for name in missing for each in get_close_matches(name, unknown, n=1)}
        if not near:
            return ""
        option = ",".join(f"{name}={column}" for name, column in near.items())
        return f"; did you mean {', '.join(near.values())}? Then use --trace-columns {option}"


def with_columns(table: Table, columns: Mapping[str, str]) -> Table:
    """Return the table with other names of columns: each key is the new name of the column that is its value.

    Raises `ConfigError` for a column that the table does not have.
    """
    for name, wanted in columns.items():
        if wanted not in table.columns:
            text = f'trace_columns: {name} would be the column "{wanted}", which is not there; there are '
            raise ConfigError(text + ", ".join(table.columns), source=table.source)
    moved = {*columns.values(), *columns}

    def renamed(row: Row) -> Row:
        values = {name: text for name, text in row.values.items() if name not in moved}
        return attrs.evolve(row, values=values | {name: row.values[wanted] for name, wanted in columns.items()})

    names = [*(name for name in table.columns if name not in moved), *columns]
    return Table(table.source, names, map(renamed, table.rows))


def read_bytes(path: Path) -> tuple[bytes, str]:
    """Return the content of a file, decompressed if it is gzipped, and the SHA-256 of the file as it is."""
    try:
        raw = path.read_bytes()
        digest = hashlib.sha256(raw).hexdigest()
        return (gzip.decompress(raw) if raw.startswith(_GZIP) else raw), digest
    except (OSError, EOFError, zlib.error) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"cannot be read: {why.lower()}", source=str(path)) from error


def table_of(content: bytes, source: str) -> Table:
    """Return the table in the content of a CSV or Parquet file."""
    if content.startswith(PARQUET):
        return _parquet(content, source)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"line {line}: not UTF-8 text", source=source) from error
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey=_REST, restval=None)
    columns = [name.strip() for name in _reading(lambda: reader.fieldnames or (), source)]
    twice = {name for name in columns if columns.count(name) > 1}
    if twice:
        raise ConfigError(f"line 1: the columns have no names of their own: {', '.join(sorted(twice))}", source=source)
    reader.fieldnames = columns
    return Table(source, columns, _csv_rows(reader, source))


def _csv_rows(reader: csv.DictReader[str], source: str) -> Iterator[Row]:
    while True:
        values: dict[str, Any] | None = _reading(lambda: next(reader, None), source)
        if values is None:
            return
        place = f"line {reader.line_num}"
        if values.pop(_REST, None) is not None:
            raise ConfigError(f"{place} has more values than there are columns", source=source)
        short = [name for name, value in values.items() if value is None]
        if short:
            raise ConfigError(f"{place} has no {', '.join(short)}", source=source)
        yield Row(source, place, values)


def _reading(step: Callable[[], Any], source: str) -> Any:
    try:
        return step()
    except csv.Error as error:
        raise ConfigError(f"cannot be read: {error}", source=source) from error


def _parquet(content: bytes, source: str) -> Table:
    # Slow to import, and seldom needed.
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    try:
        found = parquet.read_table(io.BytesIO(content))
    except (arrow.ArrowException, OSError) as error:
        raise ConfigError(f"cannot be read: {' '.join(str(error).split())}", source=source) from error
    rows = (
        Row(source, f"row {number}", {name: "" if value is None else str(value) for name, value in values.items()})
        for number, values in enumerate(found.to_pylist(), start=1)
    )
    return Table(source, found.column_names, rows)
