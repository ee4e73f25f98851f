"""`pyscheduler config`: check a configuration and show what it comes to."""

from __future__ import annotations

import click

from pyscheduler.cli.options import block_option, feature_gates_option

__all__ = ["command"]


@click.command("config")
@click.option("--config", "config_file", metavar="FILE", help="The file to check; without it, the defaults.")
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Form of the output."
)
@block_option
@feature_gates_option
def command(config_file: str | None, output: str, blocked: tuple[str, ...], feature_gates: str) -> None:
    """Check a KubeSchedulerConfiguration and print the effective one, every default filled in.

    All mistakes are reported at once, each with its path. The plugins that the profiles enable are looked up too.
    What is printed is a file again, for --config or for kube-scheduler.

    \b
    What a profile comes to, and the defaults:
      pyscheduler config --config configs/default.yaml
      pyscheduler config
    """
    import json

    from pyscheduler.cli.mistakes import found_in
    from pyscheduler.cli.offline import offline_scheduler
    from pyscheduler.config.dump import dump, to_data
    from pyscheduler.config.feature_gates import parse
    from pyscheduler.config.load import load
    from pyscheduler.runtime.discovery import discover

    gates = parse(feature_gates)
    config = load(config_file, gates=gates)
    with found_in(config_file):
        offline_scheduler(config, discover(blocked=blocked), gates=gates)
    if output == "json":
        click.echo(json.dumps(to_data(config), indent=2, ensure_ascii=False))
    else:
        click.echo(dump(config), nl=False)
