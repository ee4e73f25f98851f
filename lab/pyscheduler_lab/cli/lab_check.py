"""`pyscheduler lab check`: check that the results of a simulation are within the limits in a YAML file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pyscheduler.cli.shared_options import logging_options

__all__ = ["command"]

_BROKEN = 4


@click.command("check")
@click.argument("bundle", metavar="BUNDLE")
@click.option("--against", "rules_file", required=True, metavar="FILE", help="The rules: a YAML file with ranges.")
@logging_options(default=0)
def command(bundle: str, rules_file: str) -> None:
    """Compare the results of the run in the folder BUNDLE with the ranges in a file of rules.

    Each broken rule is one line with its place in the file. docs/reference/lab-columns.md describes the columns
    and the file.

    The exit code is 0 if the run keeps all rules, 4 if it breaks one or a plugin failed in it, and 2 if a file
    cannot be read.
    """
    from pyscheduler.cli.error_output import exits_after_mistakes
    from pyscheduler.framework.errors import ConfigError
    from pyscheduler_lab.results.bundle import bundles_in
    from pyscheduler_lab.results.measures import Measures
    from pyscheduler_lab.results.rules import broken_rules, read_rules

    with exits_after_mistakes(2):
        rules = read_rules(rules_file)
        first, *others = bundles_in(Path(bundle))
        if others:
            text = f"the folder has {1 + len(others)} bundles; name one of them, such as {first.folder}"
            raise ConfigError(text, source=bundle)
        problems = [f"{bundle}: {error}" for error in first.plugin_errors]
        broken = broken_rules(rules, Measures.of(first.tables))
        problems += [f"{rules_file}:{rule.line}: {problem}" for rule, problem in broken]
    for line in problems:
        click.echo(line)
    if problems:
        sys.exit(_BROKEN)
    click.echo(f"{bundle}: {len(rules)} rules kept")
