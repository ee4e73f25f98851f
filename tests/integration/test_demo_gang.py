"""The gang demo from outside: its verdict, and that the verdict means something."""

from __future__ import annotations

import pytest

from tests.integration.programs import FAST, program

SMALL = ("demo-gang", "--gangs", "5", "--nodes", "2")

pytestmark = pytest.mark.slow


async def test_a_small_fight() -> None:
    """Five gangs share two nodes; all finish, none was partial, and the exit code is 0."""
    async with program(*SMALL) as demo:
        assert await demo.ended() == 0, demo.err
    assert demo.err == []
    assert demo.out[-1].startswith("check: no gang was ever partial: each of 5 had room for all its members")
    table = {line[:30].strip(): line[30:].strip() for line in demo.out}
    assert table["gangs"] == "5"
    assert table["first to last binding of a gang"].endswith(" ms at most")


async def test_without_a_gang_plugin_gangs_are_partial() -> None:
    """The same gangs, scheduled pod by pod: the record shows it, each case is told, and the exit code is 1."""
    async with program(*SMALL, "--config", str(FAST)) as demo:
        assert await demo.ended() == 1
    assert demo.err[-1].startswith("error: the check found ")
    assert any("was begun at revision" in line or "ended before its gang" in line for line in demo.err), demo.err
