"""`pyscheduler plugins --check`: test an installed plugin on random clusters, and show its CPU time per pod."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pyscheduler.cli.wrapped_text import echo_wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.testing.checks.check import CheckResult
    from pyscheduler.testing.checks.findings import PluginCheckError
    from pyscheduler.testing.checks.price import Price

__all__ = ["check_installed"]

#: The extension points whose price is measured.
_PRICED: Final = ("PreFilter", "Filter", "PreScore", "Score")


def check_installed(
    name: str, *, config_file: str | None, objects: Sequence[str], histories: int, seed: int, output: str
) -> None:
    """Check a plugin and print the result; exit with 1 if a check fails.

    Raises `ConfigError` if the plugin or the file is wrong.
    """
    from pyscheduler.cli.manifests import manifest_text
    from pyscheduler.config.problems import found_in
    from pyscheduler.testing.checks.check import run_checks
    from pyscheduler.testing.checks.findings import CHECKS, PluginCheckError
    from pyscheduler.testing.checks.price import price_of
    from pyscheduler.testing.checks.subject import Subject

    subject = Subject(plugin=name, config=_read(config_file), objects=manifest_text(objects))
    failure: PluginCheckError | None = None
    result: CheckResult | None = None
    is_text = output == "text"
    with found_in(config_file):
        subject.plugin_class()
        try:
            result = run_checks(subject, histories=histories, seed=seed, progress=_progress(histories, shown=is_text))
        except PluginCheckError as error:
            failure = error
        price = price_of(subject) if failure is None else None
    if not is_text:
        _show_json(name, histories, failure, result, price)
    elif result is None:
        click.echo(str(failure))
    else:
        click.echo(f"{name} passes {len(CHECKS) - len(result.skipped)} checks on {histories} random histories")
        for line in str(result).splitlines()[1:]:
            echo_wrapped(f"  {line}", indent=4)
        _show_price(price, result)
    if failure is not None:
        sys.exit(1)


def _read(config_file: str | None) -> str | None:
    """Return the text of a configuration file; raise `ConfigError` for its mistakes."""
    from pyscheduler.config.load import load

    if config_file is None:
        return None
    load(config_file)
    return Path(config_file).read_text(encoding="utf-8-sig")


def _progress(histories: int, *, shown: bool) -> Callable[[int], None]:
    """Return a function that shows on a terminal how many histories have passed."""

    def show(number: int) -> None:
        if shown and sys.stderr.isatty():
            click.echo(f"\r{number} of {histories} histories", nl=number == histories, err=True)

    return show


def _show_price(price: Price | None, result: CheckResult) -> None:
    if price is None:
        click.echo("price: none at the choice of a node; the plugin does not filter or score")
        return
    amounts = (f"{amount:.0f} µs at {size:,} nodes" for size, amount in price.microseconds.items())
    click.echo(f"price per pod (CPU time, without the equivalence cache): {', '.join(amounts)}")
    click.echo(f"equivalence cache of the profile: {'on' if price.has_cache else 'off'}")
    if not any(result.calls.get(point) for point in _PRICED):
        echo_wrapped("the histories never called the plugin at these points; its real pods may cost more", indent=2)
    elif not any(result.acted.get(point) for point in _PRICED):
        echo_wrapped("the plugin gave only the default answer; pods that concern it may cost more", indent=2)
    for advice in price.advice:
        echo_wrapped(f"- {advice}", indent=2)


def _show_json(
    name: str, histories: int, failure: PluginCheckError | None, result: CheckResult | None, price: Price | None
) -> None:
    import msgspec

    data = {
        "plugin": name,
        "passed": failure is None,
        "histories": histories,
        "failure": None
        if failure is None
        else {
            "check": failure.check,
            "place": failure.place,
            "message": failure.finding.what,
            "remedy": failure.remedy,
            "history": [step.text for step in failure.history],
            "code": failure.code,
        },
        "skipped": result.skipped if result is not None else {},
        "calls": result.calls if result is not None else {},
        "answersOfItsOwn": result.acted if result is not None else {},
        "notTried": result.advice if result is not None else [],
        "price": None
        if price is None
        else {
            "microsecondsPerPod": {str(size): round(amount, 1) for size, amount in price.microseconds.items()},
            "equivalenceCache": price.has_cache,
            "advice": price.advice,
        },
    }
    click.echo(msgspec.json.format(msgspec.json.encode(data)).decode())
