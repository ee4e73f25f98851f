"""`run --reload`: which files are watched, and what a change does."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module, invalidate_caches
from pathlib import Path

import pytest

from pyscheduler.serving.code_reload import code_files, has_changed, stop_on_change
from pyscheduler.testing import VirtualClock


@pytest.fixture(name="package")
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the folder of a loaded package with a module that is not loaded."""
    folder = tmp_path / "reloaded_plugin"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "plugin.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    invalidate_caches()
    import_module("reloaded_plugin")
    yield folder
    del sys.modules["reloaded_plugin"]


def touch(path: Path, text: str) -> None:
    """Write a file, with a modification time that differs."""
    before = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(before + 1, before + 1))


def test_packages_outside_of_site_packages_are_watched(package: Path) -> None:
    """All files of a loaded package are watched, those that are not loaded too, and no installed library."""
    found = code_files()
    assert {package / "__init__.py", package / "plugin.py"} <= set(found)
    assert Path(pytest.__file__) not in found
    assert Path(asyncio.__file__) not in found


def test_a_changed_or_deleted_file_is_a_change(package: Path) -> None:
    """A new modification time counts, and so does the end of a file."""
    before = code_files()
    assert not has_changed(before, code_files())
    touch(package / "plugin.py", "x = 2\n")
    changed = code_files()
    assert has_changed(before, changed)
    (package / "plugin.py").unlink()
    assert has_changed(changed, code_files())


@pytest.mark.parametrize("text", ["x = (\n", "x = '\0'\n"], ids=["syntax", "null byte"])
def test_a_file_that_cannot_be_compiled_is_reported(package: Path, caplog: pytest.LogCaptureFixture, text: str) -> None:
    """The scheduler goes on with the old code, and the log names the file."""
    before = code_files()
    touch(package / "plugin.py", text)
    with caplog.at_level(logging.WARNING):
        assert not has_changed(before, code_files())
    assert f"Code is not reloaded file={package / 'plugin.py'}" in caplog.text


def test_a_package_that_is_loaded_later_is_a_change_if_it_was_written_later(tmp_path: Path) -> None:
    """A file that was written between the start of the process and the first look is not missed."""
    file = tmp_path / "later.py"
    file.write_text("")
    now = file.stat().st_mtime_ns
    assert not has_changed({}, {file: 1})
    assert has_changed({}, {file: now})
    assert not has_changed({}, {file: now + 10**15}), "a date in the future would restart the process for ever"


async def test_scheduler_is_stopped_when_the_code_changes() -> None:
    """Within a second of the change, `stop` is set; before, nothing happens."""
    clock, stop = VirtualClock(), asyncio.Event()
    files = {Path("gone.py"): 1}

    def read() -> Mapping[Path, int]:
        return dict(files)

    watching = asyncio.create_task(stop_on_change(stop, clock, read=read))
    await clock.advance(30)
    assert not stop.is_set()
    files.clear()
    await clock.advance(1)
    assert stop.is_set()
    assert await watching is True


async def test_a_signal_is_no_change() -> None:
    """If somebody else stops the scheduler, the watch ends and says that the code has not changed."""
    clock, stop = VirtualClock(), asyncio.Event()
    watching = asyncio.create_task(stop_on_change(stop, clock, read=dict))
    await clock.advance(0.5)
    stop.set()
    await clock.advance(1)
    assert await watching is False
