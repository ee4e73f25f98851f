"""`pyscheduler lab report`: write one HTML file that compares runs."""

from __future__ import annotations

from pathlib import Path

import click

from pyscheduler.cli.shared_options import logging_options

__all__ = ["command"]


@click.command("report")
@click.argument("folders", metavar="BUNDLE...", nargs=-1, required=True)
@click.option("-o", "--output", default="report.html", show_default=True, metavar="FILE", help="The file to write.")
@click.option("--title", default="Comparison of runs", show_default=True, help="Title of the report.")
@logging_options(default=0)
def command(folders: tuple[str, ...], output: str, title: str) -> None:
    """Write one HTML file that compares the runs of bundles.

    The file shows waits, utilisation, waiting jobs, fragmentation and teams, and a table with all columns. It has at
    most 2 MB, loads nothing, and opens without a network. If BUNDLE is the folder of a comparison, all bundles in it
    are shown. Runs that differ in their seed only share a colour, and a column of the table with their mean.

    \b
      pyscheduler simulate --trace philly --vc vc1 --compare fifo,binpack,kai --out results
      pyscheduler lab report results -o report.html
    """
    from pyscheduler.cli.error_output import exits_after_mistakes
    from pyscheduler.framework.errors import ConfigError, os_error_text
    from pyscheduler_lab.cli.result_text import legend
    from pyscheduler_lab.cli.simulate_compare import estimate_texts
    from pyscheduler_lab.report.page import page_of
    from pyscheduler_lab.report.series import bundles_of, groups_of

    with exits_after_mistakes(2):
        bundles = [bundle for folder in folders for bundle in bundles_of(Path(folder))]
        page = page_of(groups_of(bundles), title=title, texts_of=estimate_texts, legend=legend)
        try:
            Path(output).write_bytes(page)
        except OSError as error:
            raise ConfigError(os_error_text(error), source=f"--output: {output}") from error
    click.echo(f"wrote {output}: {len(bundles)} runs, {len(page):,} bytes")
