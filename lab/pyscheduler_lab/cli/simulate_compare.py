"""`pyscheduler simulate --trace ... --compare`: simulate a trace of jobs with several profiles, and print a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler_lab.cli.simulate_trace import SimulateOptions
    from pyscheduler_lab.results.columns import Column
    from pyscheduler_lab.results.comparison import Estimate, PolicyResult, Summary

__all__ = ["compare_policies", "estimate_texts"]

#: The most digits of a quota, and the most characters of a wrong one in its message.
_MOST_DIGITS: Final = 9
_MOST_SHOWN: Final = 60


def compare_policies(options: SimulateOptions, trace: str) -> None:
    """Replay a trace under the policies of `--compare` and print the results; raise `ConfigError` for a mistake.

    Exit with 3 if a job did not finish or a plugin failed under one of them.
    """
    from pyscheduler.cli.error_output import print_line
    from pyscheduler.config.feature_gates import parse
    from pyscheduler.framework.errors import ConfigError
    from pyscheduler_lab.cli.simulate_trace import noted_workload, progress_line, run_settings
    from pyscheduler_lab.results.bundle import new_folder, write_bundle
    from pyscheduler_lab.results.comparison import results_as_json, results_of, summary_of
    from pyscheduler_lab.results.runs import play_each
    from pyscheduler_lab.simulation.policies import policy_named

    names = [name.strip() for name in (options.compare or "").split(",") if name.strip()]
    folders = {Path(name).stem for name in names}
    if not names or len(folders) < len(names):
        raise ConfigError("--compare: name each policy once, as in fifo,drf,kai; files need different names, too")
    settings = run_settings(options, trace, policy=names[0], quotas=_quotas(options.quota))
    policies = [policy_named(name, gates=parse(options.feature_gates)) for name in names]
    workload = noted_workload(settings)
    folder = new_folder(options.out) if options.out is not None else None
    seeds = range(options.seed, options.seed + (options.seeds or 1))
    summaries = []
    with progress_line() as progress:
        for done in play_each(workload, policies, settings, seeds, progress=progress):
            summaries.append(summary_of(done))
            if folder is not None:
                one = done.settings
                write_bundle(folder / Path(one.policy).stem / f"seed-{one.seed}", done, sys.argv)
    results = results_of(summaries)
    quotas = {team.name: team.quota for team in workload.teams} if workload.cluster.gpus else {}
    text = results_as_json(results, quotas)
    if folder is not None:
        (folder / "comparison.json").write_bytes(text + b"\n")
    if options.output == "json":
        print_line(text)
    else:
        _show(results, quotas)
    if any(run.unfinished or run.plugin_errors for each in results for run in each.runs):
        sys.exit(3)


def _quotas(text: str | None) -> dict[str, int] | None:
    """Read ``vc1=64,vc2=128``; None stays None."""
    from pyscheduler.framework.errors import ConfigError

    if text is None:
        return None
    quotas: dict[str, int] = {}
    for part in text.split(","):
        name, _, gpus = part.strip().partition("=")
        if not gpus.isdecimal() or len(gpus) > _MOST_DIGITS or not name or name in quotas:
            raise ConfigError(
                f'--quota: "{part[:_MOST_SHOWN]}" must be like TEAM=GPUS, and each team must be named once'
            )
        quotas[name] = int(gpus)
    return quotas


def _show(results: Sequence[PolicyResult], quotas: Mapping[str, int]) -> None:
    """Print the quotas, a row for each column of results, the waits of the teams, and what went wrong."""
    from pyscheduler_lab.cli.result_text import curve, equal_runs, legend, print_columns, row_texts
    from pyscheduler_lab.results.columns import COLUMNS
    from pyscheduler_lab.results.comparison import distinct_runs, estimates

    names = [each.policy for each in results]
    has_seeds = len(results[0].runs) > 1
    found = [estimates(each.runs, results[0].runs) for each in results]
    are_open = [any(run.unfinished for run in each.runs) for each in results]
    if quotas:
        click.echo("quotas in GPUs: " + ", ".join(f"{team} {quota}" for team, quota in quotas.items()))
    if has_seeds:
        click.echo(f"mean of {len(results[0].runs)} seeds ± half of the 95 % interval of the mean")
    click.echo()
    rows = [
        [
            column.name,
            *estimate_texts([each[column.name] for each in found], column, has_seeds=has_seeds, are_open=are_open),
        ]
        for column in COLUMNS
        if any(each[column.name].mean is not None for each in found)
    ]
    print_columns([["", *names], *rows])
    for line in legend(seeds=len(results[0].runs), first=names[0], has_unfinished=any(are_open)):
        click.echo(line)
    errors = {each.policy: each.runs[0].share_error_series for each in results}
    if any(errors.values()):
        click.echo()
        click.echo("share error from the first arrival to the last end" + (", first seed" if has_seeds else ""))
        print_columns([[name, f"[{curve(series)}]"] for name, series in errors.items() if series])
    click.echo()
    waits = [
        [
            team,
            *row_texts(
                [_mean_wait(each, team) for each in results],
                "seconds",
                bounds=[any(team in run.unfinished_teams for run in each.runs) for each in results],
            ),
        ]
        for team in quotas
    ]
    print_columns([["mean wait", *names], *waits])

    def name_of(run: Summary) -> str:
        return f"{run.policy}, seed {run.seed}" if has_seeds else run.policy

    lines = [*equal_runs((each.policy, len(each.runs), distinct_runs(each.runs)) for each in results)]
    lines += [
        f"{name_of(run)}: {why.jobs} of {run.cells['jobs']:.0f} jobs "
        f"{'never ran' if why.outcome == 'never_ran' else 'did not finish'}: {why.reason}: {why.message}"
        for each in results
        for run in each.runs
        for why in run.unfinished
    ]
    lines += [f"{name_of(run)}: {error}" for each in results for run in each.runs for error in run.plugin_errors]
    for line in ["", *lines] if lines else ():
        click.echo(line.removesuffix(": "))


def estimate_texts(
    found: Sequence[Estimate], column: Column, *, has_seeds: bool, are_open: Sequence[bool]
) -> list[str]:
    """Return means with half of their intervals in one unit, and with marks; without seeds, the values alone.

    The first of `found` is that of the first policy. `are_open`: jobs did not finish.
    """
    from pyscheduler_lab.cli.result_text import CHANCE, SAME, row_writer, value_text

    write = row_writer(column.unit, [each.mean for each in found], [each.half_width for each in found])
    first = write(found[0].mean) if found[0].mean is not None else ""

    def text(each: Estimate, *, is_open: bool) -> str:
        text = value_text(each.mean, write, is_bound=is_open and column.until_end)
        if not has_seeds or each.mean is None:
            return text
        mark = " "
        if each.is_same:
            mark = SAME
        elif each.may_be_chance or (each.difference is not None and write(each.mean) == first):
            mark = CHANCE
        return f"{text} ±{value_text(each.half_width, write)} {mark}"

    return [text(each, is_open=is_open) for each, is_open in zip(found, are_open, strict=True)]


def _mean_wait(result: PolicyResult, team: str) -> float | None:
    waits = [wait for run in result.runs if (wait := run.team_wait_mean_s.get(team)) is not None]
    return sum(waits) / len(waits) if waits else None
