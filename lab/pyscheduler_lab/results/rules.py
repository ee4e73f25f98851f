"""Check the results of a simulation against limits for all jobs, for classes of jobs and for teams.

The limits are in a YAML file:

    columns:  # all jobs
      gpu_utilisation: {min: 0.6}
    classes:
      large:
        wait_p90_s: {max: 3600}
"""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import yaml

from pyscheduler.framework.errors import ConfigError, os_error_text
from pyscheduler_lab.results.columns import COLUMNS, cells_of, classes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyscheduler_lab.results.columns import Cells
    from pyscheduler_lab.results.measures import Measures

__all__ = ["Rule", "broken_rules", "read_rules"]

#: Sections of the file whose keys are values of a column of the table `jobs`.
_PARTS: Final = {"classes": "class", "teams": "team"}
_BOUNDS: Final = ("min", "max")
_NAMES: Final = tuple(column.name for column in COLUMNS)
_NAMES_OF_PARTS: Final = tuple(column.name for column in COLUMNS if column.of_jobs)


@attrs.frozen(kw_only=True)
class Rule:
    """The range of one column. `part` is the class or team, `by` the column of `jobs`; both are empty for all jobs."""

    line: int
    column: str
    least: float | None
    most: float | None
    by: str = ""
    part: str = ""

    def problem(self, cells: Cells | None) -> str:
        """Return how the cells break the rule; "" if they do not. `cells` are None if no job is in the part."""
        subject = f"{self.column} of {self.by} {self.part}" if self.by else self.column
        if cells is None:
            return f"{subject}: the run has no job of this {self.by}"
        value = cells[self.column]
        if value is None:
            return f"{subject} has no value in this run"
        if self.least is not None and value < self.least:
            return f"{subject} is {value:g}; the minimum is {self.least:g}"
        if self.most is not None and value > self.most:
            return f"{subject} is {value:g}; the maximum is {self.most:g}"
        return ""


def broken_rules(rules: Sequence[Rule], measures: Measures) -> Iterator[tuple[Rule, str]]:
    """Yield each rule that a run breaks, and how."""
    cells = cells_of(measures)
    parts = {by: classes_of(measures, by) for by in {rule.by for rule in rules if rule.by}}
    for rule in rules:
        problem = rule.problem(parts[rule.by].get(rule.part) if rule.by else cells)
        if problem:
            yield rule, problem


def read_rules(path: str) -> list[Rule]:
    """Return the rules of a file in its order; raise `ConfigError` with a line for each mistake."""
    try:
        root = yaml.compose(Path(path).read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(os_error_text(error), source=path) from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"not YAML: {' '.join(str(error).split())}", source=path) from error
    reader = _Reader()
    rules = [*reader.rules(root)]
    if not rules and not reader.problems:
        reader.problems.append("no rules; write for example columns: {gpu_utilisation: {min: 0.6}}")
    if reader.problems:
        raise ConfigError(*reader.problems, source=path)
    return rules


class _Reader:
    """Reads the nodes of a YAML document, and collects mistakes."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def rules(self, root: yaml.Node | None) -> Iterator[Rule]:
        for section, line, content in self._entries(root, "the file"):
            if section == "columns":
                yield from self._ranges(content, section, _NAMES)
            elif section in _PARTS:
                for part, _, ranges in self._entries(content, section):
                    for rule in self._ranges(ranges, f"{section}.{part}", _NAMES_OF_PARTS):
                        yield attrs.evolve(rule, by=_PARTS[section], part=part)
            else:
                self._mistake(line, f'unknown section "{section}"; known are columns, {", ".join(_PARTS)}')

    def _ranges(self, node: yaml.Node, where: str, known: Sequence[str]) -> Iterator[Rule]:
        for column, line, content in self._entries(node, where):
            if column not in known:
                what = "has no such column" if column not in _NAMES else "cannot have the column of a whole run"
                self._mistake(line, f"{where}: a rule {what}: {column}; known are {', '.join(known)}")
                continue
            bounds: dict[str, float] = {}
            problems = len(self.problems)
            for bound, at, value in self._entries(content, f"{where}.{column}"):
                number = self._number(value)
                if bound in _BOUNDS and number is not None:
                    bounds[bound] = number
                else:
                    self._mistake(at, f'{where}.{column}: "{bound}" is no min or max with a number')
            if not bounds and len(self.problems) == problems:
                self._mistake(line, f"{where}.{column}: write min: NUMBER, max: NUMBER, or both")
            if bounds:
                yield Rule(line=line, column=column, least=bounds.get("min"), most=bounds.get("max"))

    def _entries(self, node: yaml.Node | None, where: str) -> Iterator[tuple[str, int, yaml.Node]]:
        """Yield key, line and value of a mapping."""
        if not isinstance(node, yaml.MappingNode):
            self._mistake(node.start_mark.line + 1 if node is not None else 1, f"{where} must be a mapping")
            return
        for key, value in node.value:
            yield str(key.value), key.start_mark.line + 1, value

    @staticmethod
    def _number(node: yaml.Node) -> float | None:
        if not isinstance(node, yaml.ScalarNode):
            return None
        try:
            number = float(node.value)
        except ValueError:
            return None
        return number if isfinite(number) else None

    def _mistake(self, line: int, text: str) -> None:
        self.problems.append(f"line {line}: {text}")
