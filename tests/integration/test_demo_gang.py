"""The gang demo: its verdict, and that the verdict means something."""

from __future__ import annotations

import pytest

from pyscheduler.config.load import load, loads
from pyscheduler_lab.demo.gang_demo import play
from pyscheduler_lab.demo.gang_workload import GANG_PROFILE, Gang
from tests.integration.programs import FAST, program

pytestmark = pytest.mark.slow

#: Each wants most of the one node that there is.
GANGS = [Gang(name=f"gang-{number}", size=size, run_seconds=0.3) for number, size in enumerate((6, 5, 8, 4))]


async def test_a_small_fight(capsys: pytest.CaptureFixture[str]) -> None:
    """Four gangs share one node; all finish, and none was partial."""
    verdict = await play(loads(GANG_PROFILE), GANGS, nodes=1)
    assert verdict.problems == []
    assert (verdict.gangs, verdict.pods, len(verdict.bursts_seconds)) == (4, 23, 4)
    out = capsys.readouterr().out
    assert "4 gangs of 23 pods want 23 GPUs; there are 8." in out
    assert "first to last binding of a gang" in out


async def test_without_a_gang_plugin_gangs_are_partial() -> None:
    """The same gangs, scheduled pod by pod: the record shows it."""
    verdict = await play(load(FAST), GANGS, nodes=1)
    assert any("without room for all of it" in problem for problem in verdict.problems)
    assert any("ended before its gang" in problem for problem in verdict.problems)


@pytest.mark.parametrize(
    ("options", "code", "last"),
    [
        pytest.param(
            (), 0, "check passed: no gang ran partially; each of 1 gangs had room for all its members", id="all is well"
        ),
        pytest.param(("--config", "nix.yaml"), 1, "error: nix.yaml", id="no such profile"),
    ],
)
async def test_the_command(options: tuple[str, ...], code: int, last: str) -> None:
    """The verdict is the last line, and the exit code."""
    async with program("demo-gang", "--gangs", "1", "--nodes", "1", *options) as demo:
        assert await demo.ended() == code, demo.err
    assert [*demo.out, *demo.err][-1].startswith(last)
