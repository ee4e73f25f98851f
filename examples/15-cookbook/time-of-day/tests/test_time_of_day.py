"""TimeOfDay: hours over midnight, days of the week, clock changes, and the retry when the hours begin."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from pyscheduler import ConfigError, Pod
from pyscheduler.testing import check_plugin
from time_of_day.plugin import Hours, TimeOfDay, seconds_until_open

LABEL, HOUR = "example.com/hours", 3600
BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = Hours(begin="22:00", end="06:00")
WEEKEND = Hours(begin="00:00", end="00:00", days=("Sat", "Sun"))


def wait(hours, text):
    """Return the hours until the pod may start, from a local time in Berlin."""
    found = seconds_until_open(hours, datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp(), BERLIN)
    return None if found is None else found / HOUR


@pytest.mark.parametrize(
    ("hours", "now", "expected"),
    [
        pytest.param([NIGHT], "2026-11-23T12:00", 10, id="before"),
        pytest.param([NIGHT], "2026-11-23T22:00", 0, id="first moment"),
        pytest.param([NIGHT], "2026-11-24T05:59", 0, id="after midnight"),
        pytest.param([NIGHT], "2026-11-24T06:00", 16, id="last moment"),
        pytest.param([WEEKEND], "2026-11-23T12:00", 108, id="Monday"),
        pytest.param([WEEKEND], "2026-11-29T23:59", 0, id="Sunday"),
        pytest.param([WEEKEND], "2026-11-30T00:00", 120, id="after the weekend"),
        pytest.param([NIGHT, WEEKEND], "2026-11-28T12:00", 0, id="either"),
        pytest.param([NIGHT, WEEKEND], "2026-11-27T12:00", 10, id="the first of both"),
        pytest.param([Hours(begin="10:00", end="11:00", days=("Mon",))], "2026-11-23T11:00", 167, id="next week"),
        pytest.param([Hours(begin="10:00", end="11:00", days=())], "2026-11-23T10:00", None, id="never"),
        pytest.param([Hours(begin="06:00", end="07:00")], "2026-10-24T18:00", 13, id="clocks go back"),
        pytest.param([Hours(begin="06:00", end="07:00")], "2026-03-28T18:00", 11, id="clocks go forward"),
    ],
)
def test_seconds_until_open(hours, now, expected):
    assert wait(hours, now) == expected


ARGS = {"TimeOfDay": {"classes": {"soon": [{"from": "02:00", "to": "03:00"}]}, "timeZone": "UTC"}}


async def test_the_pod_is_scheduled_when_its_hours_begin(pyscheduler_cluster):
    """The test clock begins at midnight."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = cluster.framework(enable=[TimeOfDay], args=ARGS)
    assert (await framework.schedule("plain")).bound
    result = await framework.schedule("p", labels={LABEL: "soon"})
    assert result.message.startswith('0/1 nodes are available: it is not the time for pods of class "soon".')
    await cluster.clock.advance(2 * HOUR - 1)
    assert framework.result("p").state == "pending"
    await cluster.clock.advance(1)
    assert framework.result("p").bound


async def test_only_its_own_labels_wake_a_pod(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = cluster.framework(enable=[TimeOfDay], args=ARGS)
    waiting = await framework.schedule("p", labels={LABEL: "soon"})
    typo = await framework.schedule("q", labels={LABEL: "son"})
    assert 'the pod names an unknown class of hours, "son"' in typo.message

    cluster.patch(Pod, "q", {"metadata": {"labels": {LABEL: None}}})
    cluster.add_node("n2")
    await cluster.clock.advance(30)
    assert framework.result("q").bound
    assert framework.scheduler.queue.get(waiting.pod.uid).attempts == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param({"classes": {"night": [{"from": "22", "to": "6 am"}]}}, r"6 am.*night", id="time"),
        pytest.param({"classes": {"night": [{"from": "22:00"}]}}, r"Required.*night\[0\]\.to", id="missing"),
        pytest.param({"classes": {}, "timeZone": "Europe/Bonn"}, r"timeZone.*Europe/Bonn", id="zone"),
        pytest.param(
            {"classes": {"night": [{"from": "22:00", "to": "06:00", "days": ["Fr"]}]}}, r'"Fr".*night\[0\]', id="day"
        ),
    ],
)
def test_args_are_checked(pyscheduler_cluster, args, message):
    with pytest.raises(ConfigError, match=message):
        pyscheduler_cluster.framework(enable=[TimeOfDay], args={"TimeOfDay": args})


def draw(rng, draft):
    """Give pods classes whose hours begin and end while a history runs, from midnight on."""
    draft.pod_labels[LABEL] = ["soon", "now", "unknown"]


def test_the_contract_of_plugins():
    classes = {"now": [{"from": "00:00", "to": "00:02"}], "soon": [{"from": "00:01", "to": "00:03"}]}
    check_plugin(TimeOfDay, {"classes": classes}, draw=draw)
