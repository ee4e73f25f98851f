"""The args: names of both programs, defaults, and errors."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.framework import ConfigError
from pyscheduler_coscheduling.args import CoschedulingArgs
from pyscheduler_coscheduling.plugin import Coscheduling


async def test_defaults(world: Any) -> None:
    """Without args all values are the documented defaults."""
    world.schedule()
    args = world.plugin.args
    assert (args.permit_waiting_time_seconds, args.denied_pg_expiration_time_seconds) == (60, 20)
    assert (args.pod_group_backoff_seconds, args.pod_group_reject_percentage) == (0, 10)
    assert (args.min_resources_scope, args.dialects, args.require_group) == ("cluster", (), False)
    assert args.deadlock.enabled


async def test_args_of_both_programs_are_accepted(world: Any) -> None:
    """Args of scheduler-plugins and podgroup-scheduler-framework can be combined; obsolete ones have no effect."""
    world.schedule(
        permitWaitingTimeSeconds=10,
        deniedPGExpirationTimeSeconds=3,
        podGroupBackoffSeconds=5,
        podGroupRejectPercentage=0,
        minResourcesScope="node",
        deadlock={"enabled": False, "graceSeconds": 1, "yieldLeaseSeconds": 9},
        kubeMaster="",
        kubeConfigPath="/etc/kubernetes/scheduler.conf",
    )
    args = world.plugin.args
    assert (args.permit_waiting_time_seconds, args.denied_pg_expiration_time_seconds) == (10, 3)
    assert (args.pod_group_backoff_seconds, args.pod_group_reject_percentage) == (5, 0)
    assert args.min_resources_scope == "node"
    assert (args.deadlock.enabled, args.deadlock.grace_seconds, args.deadlock.yield_lease_seconds) == (False, 1, 9)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(
            {"permitWaitingTimeSeconds": -10},
            "permitWaitingTimeSeconds: Invalid value: -10: must be greater than 0",
            id="wait",
        ),
        pytest.param(
            {"quotaReservation": "off"},
            'quotaReservation: Unsupported value: "off": supported values: "wait", "none"',
            id="quota reservation",
        ),
        pytest.param(
            {"podGroupBackoffSeconds": -1},
            "podGroupBackoffSeconds: Invalid value: -1: must be greater than 0",
            id="backoff",
        ),
        pytest.param(
            {"podGroupRejectPercentage": 101},
            "podGroupRejectPercentage: Invalid value: 101: must be between 0 and 100",
            id="percentage",
        ),
        pytest.param(
            {"minResourcesScope": "rack"},
            'minResourcesScope: Unsupported value: "rack": supported values: "cluster", "node"',
            id="scope",
        ),
        pytest.param(
            {"permitWaitingTimeSeconds": -1, "deniedPGExpirationTimeSeconds": -2},
            "[permitWaitingTimeSeconds: Invalid value: -1: must be greater than 0, "
            "deniedPGExpirationTimeSeconds: Invalid value: -2: must be greater than 0]",
            id="two at once",
        ),
        pytest.param({"permitWaitingTime": 1}, "unknown field", id="unknown"),
        pytest.param({"dialects": ["klingon"]}, 'dialect "klingon" of pod groups does not exist', id="dialect"),
        pytest.param({"dialects": ["intree"]}, '"intree" names the groups of GangScheduling', id="intree"),
    ],
)
async def test_bad_args_are_one_error(world: Any, args: Any, message: str) -> None:
    """The error for a bad value has its name, the value and what is expected."""
    with pytest.raises(ConfigError) as caught:
        world.schedule(**args)
    assert message in str(caught.value)


def test_args_of_another_type_are_refused() -> None:
    """The error says which type is expected."""
    with pytest.raises(ConfigError, match="want args to be of type CoschedulingArgs, got dict"):
        Coscheduling({})


@pytest.mark.parametrize(
    ("given", "wait", "permitted"),
    [
        pytest.param({}, 60, 20, id="defaults"),
        pytest.param({"permit_waiting_time_seconds": 0}, 60, 20, id="0 means 60"),
        pytest.param({"permit_waiting_time_seconds": 7, "denied_pg_expiration_time_seconds": 0}, 7, 7, id="no window"),
    ],
)
def test_0_means_the_default_or_off(given: dict[str, int], wait: float, permitted: float) -> None:
    """A wait of 0 is the default wait; without a window, a check of minResources is valid for one wait."""
    args = CoschedulingArgs(**given)
    assert (args.wait_seconds, args.permitted_seconds) == (wait, permitted)
