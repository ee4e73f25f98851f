"""A real browser for tests of pages: Chromium or Chrome from the path.

`python -m tests.browser --tools` installs Debian's package `chromium` if no browser is on the path, and if it may:
as root, with apt-get. Otherwise, the tests are skipped, and say so.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import attrs
import click
import pytest

from tests import processes

__all__ = ["Shown", "browser", "show"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: How a message of the page's console begins in the log of the browser.
_CONSOLE = re.compile(r":CONSOLE[:(].*")
#: The longest download and installation, in seconds.
_SECONDS = 600
#: Virtual milliseconds that a page has for its scripts.
_BUDGET = 10_000


@attrs.frozen(kw_only=True)
class Shown:
    """A page after its scripts have run."""

    #: The document, as the browser would write it now.
    html: str
    #: The messages of its console, errors among them.
    console: list[str]


def browser() -> str:
    """Return the path of a browser; skip the test, with the reason, if there is none."""
    found = _found()
    if found is None:
        pytest.skip("THE REPORT IS NOT TESTED IN A BROWSER: no chromium on the path; make tools installs it")
    return found


def _found() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


def show(page: Path, profile: Path) -> Shown:
    """Open a file without a network, and return what its scripts made; `profile` is a folder for the browser."""
    done = processes.run(
        browser(),
        "--headless",
        "--no-sandbox",  # it cannot be had as root, nor in most containers
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={profile}",
        f"--virtual-time-budget={_BUDGET}",
        "--enable-logging=stderr",
        "--dump-dom",
        page.resolve().as_uri(),
        check=True,
    )
    return Shown(html=done.stdout, console=_CONSOLE.findall(done.stderr))


def _install() -> int:
    """Install a browser if there is none; return the exit code."""
    if _found() is not None:
        return 0
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        click.echo("no chromium on the path: the report of the lab is not tested in a browser")
        return 0
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("update", "-qq"), ("install", "-qq", "--yes", "--no-install-recommends", "chromium")):
        done = processes.run("apt-get", *command, env=environment, seconds=_SECONDS)
        if done.returncode:
            click.echo(f"chromium cannot be installed, so the report is not tested in a browser: {done.stderr[-200:]}")
            return 0
    return 0


if __name__ == "__main__":
    if sys.argv[1:] != ["--tools"]:
        sys.exit(f"usage: python -m {__spec__.name} --tools")  # type: ignore[name-defined]  # set with -m
    sys.exit(_install())
