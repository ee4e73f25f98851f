"""Limits on the searches for victims: read from KAI's file and its shard, and obeyed by actions and policies."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.framework import ConfigError
from pyscheduler_batch.batch_args import BatchArgs, PolicyEntry
from pyscheduler_batch.configured import make_tiers
from pyscheduler_batch.settings.configuration import batch_args
from pyscheduler_kai.solver import Budget
from pyscheduler_kai.system import Kai


def budgets(**said: Any) -> BatchArgs:
    """Read `scenarioSearchBudgets`."""
    return batch_args({"preset": "kai", "scenarioSearchBudgets": said})


def limits(args: BatchArgs, action: str) -> tuple[str, ...]:
    """Return the limits of an action: action, job, least per job."""
    given = Kai.action_arguments(args, action)
    return tuple(given[key] for key in ("maxActionSearchDuration", "maxJobSearchDuration", "minJobSearchDuration"))


def generator_seconds(args: BatchArgs) -> dict[str, float]:
    """Return the seconds of the policies that propose victims, as the profile makes them."""
    policies = [entry.policy for tier in make_tiers(args, Kai) for entry in tier]
    return {policy.name: policy.seconds for policy in policies if policy.name.startswith("sg-")}  # type: ignore[attr-defined] # generators have it


def test_defaults_are_those_of_kai() -> None:
    """5 minutes for an action, 4 for a job, 30 s and 2 minutes for the generators."""
    args = batch_args({"preset": "kai"})
    assert limits(args, "reclaim") == ("300.0", "240.0", "0.0")
    assert generator_seconds(args) == {"sg-nodelocalgreedy": 30.0, "sg-multinodegang": 120.0}


def test_limits_reach_their_actions_and_policies() -> None:
    """Names without a limit have the default of the file; a default of generators replaces the built-in ones."""
    args = budgets(
        maxActionSearchDuration={"reclaim": "10s", "default": "1m"},
        maxJobSearchDuration="5s",
        minJobSearchDuration="100ms",
        maxGeneratorSearchDuration={"default": "7s", "sg-multinodegang": "0s"},
    )
    assert limits(args, "reclaim") == ("10.0", "5.0", "0.1")
    assert limits(args, "preempt") == ("60.0", "5.0", "0.1")
    assert generator_seconds(args) == {"sg-nodelocalgreedy": 7.0, "sg-multinodegang": 0.0}
    assert Kai.policy_arguments(args, PolicyEntry(name="priority")) == {}


def test_limits_of_a_shard_count() -> None:
    """`scenarioSearchBudgets` of a SchedulingShard is read without a warning."""
    args = batch_args({"preset": "kai", "shard": {"scenarioSearchBudgets": {"maxJobSearchDuration": "3s"}}})
    assert limits(args, "preempt")[1] == "3.0"
    assert args.warnings == ()


@pytest.mark.parametrize(
    ("said", "text"),
    [
        pytest.param({"maxActionSearchDuration": {"allocate": "1s"}}, "no action is called", id="action"),
        pytest.param({"maxJobSearchDuration": "-1s"}, "expected a duration of 0 or more", id="negative"),
        pytest.param({"maxJobSearchDuration": 3}, "expected a duration of 0 or more", id="number"),
        pytest.param(
            {"maxJobSearchDuration": "1s", "minJobSearchDuration": "1s"}, "must be less than", id="least not below most"
        ),
        pytest.param({"maxGeneratorSearchDuration": "1s"}, "expected a mapping", id="no mapping"),
        pytest.param({"maxJobDuration": "1s"}, "no key is called", id="unknown key"),
    ],
)
def test_bad_limits_are_refused(said: dict[str, Any], text: str) -> None:
    """What KAI's operator refuses is an error with the place of the mistake."""
    with pytest.raises(ConfigError, match=text) as error:
        budgets(**said)
    assert str(error.value).endswith("@ $.scenarioSearchBudgets")


def test_each_job_gets_its_least_time() -> None:
    """A spent action gives a job that is reached the least time, and no more."""
    now = 0.0
    arguments = {"maxActionSearchDuration": "10", "maxJobSearchDuration": "4", "minJobSearchDuration": "1"}
    budget = Budget(lambda: now, arguments)
    budget.begin_job()
    now = 3.9
    assert not budget.is_spent
    now = 4.0
    assert budget.is_spent
    now = 9.5
    budget.begin_job()
    now = 10.4
    assert not budget.is_spent, "the action has 0.5 s left, the job 1 s"
    now = 10.5
    assert budget.is_spent
