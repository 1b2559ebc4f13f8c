"""When schedules fire: cron on the clock on the wall, summer time included; intervals; single times."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.errors import UsageError
from noetl.store.triggers import Schedule
from noetl.triggers import schedules

BERLIN = "Europe/Berlin"


def schedule(**when: Any) -> Schedule:
    return Schedule("s", "id", "p", **when)


def at(text: str, zone: str = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def wall(cron: str, start: float, count: int, zone: str = BERLIN) -> list[str]:
    """The next firings as the clock on the wall shows them, with the offset."""
    result = islice(schedules.firings(schedule(cron=cron, timezone=zone), start), count)
    return [datetime.fromtimestamp(one, ZoneInfo(zone)).isoformat(" ", "minutes") for one in result]


# -- cron -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 3 * * *", ["2026-01-02 03:00+01:00", "2026-01-03 03:00+01:00"]),
        ("*/20 * * * *", ["2026-01-01 12:20+01:00", "2026-01-01 12:40+01:00"]),
        ("0 9 * * MON-FRI", ["2026-01-02 09:00+01:00", "2026-01-05 09:00+01:00"]),
        ("0 0 L * *", ["2026-01-31 00:00+01:00", "2026-02-28 00:00+01:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00+01:00", "2032-02-29 00:00+01:00"]),
        ("0 12 13 * FRI", ["2026-01-02 12:00+01:00", "2026-01-09 12:00+01:00"]),
        ("30 1,13 1 */6 *", ["2026-01-01 13:30+01:00", "2026-07-01 01:30+02:00"]),
    ],
)
def test_cron_follows_the_clock_on_the_wall(cron: str, expected: list[str]) -> None:
    assert wall(cron, at("2026-01-01T12:00"), 2) == expected


def test_a_firing_is_behind_the_moment_even_if_only_by_a_little() -> None:
    one = schedule(cron="0 * * * *")
    hour = at("2026-01-01T12:00", "UTC")
    assert schedules.next_after(one, hour) == hour + 3600
    assert schedules.next_after(one, hour - 0.001) == hour
    assert schedules.next_after(one, hour + 0.001) == hour + 3600


def test_a_fixed_time_in_an_hour_that_does_not_exist_is_when_the_hour_is_over() -> None:
    assert wall("30 2 * * *", at("2026-03-28T12:00"), 2) == ["2026-03-29 03:00+02:00", "2026-03-30 02:30+02:00"]


def test_several_fixed_times_in_the_missing_hour_are_one_firing() -> None:
    result = wall("0,30 2,3 * * *", at("2026-03-28T12:00"), 3)
    assert result == ["2026-03-29 03:00+02:00", "2026-03-29 03:30+02:00", "2026-03-30 02:00+02:00"]


def test_a_fixed_time_in_an_hour_that_comes_twice_is_the_first() -> None:
    expected = ["2026-10-25 02:30+02:00", "2026-10-26 02:30+01:00"]
    assert wall("30 2 * * *", at("2026-10-24T12:00"), 2) == expected
    assert wall("30 2 * * *", at("2026-10-25T02:10"), 2) == expected
    assert wall("30 2 * * *", at("2026-10-25T02:10", fold=1), 1) == expected[1:]


def test_every_half_hour_continues_in_both_equal_hours_and_over_the_missing_one() -> None:
    assert wall("*/30 * * * *", at("2026-10-25T01:45"), 5) == [
        "2026-10-25 02:00+02:00",
        "2026-10-25 02:30+02:00",
        "2026-10-25 02:00+01:00",
        "2026-10-25 02:30+01:00",
        "2026-10-25 03:00+01:00",
    ]
    assert wall("*/30 * * * *", at("2026-03-29T01:15"), 2) == ["2026-03-29 01:30+01:00", "2026-03-29 03:00+02:00"]


def test_a_zone_that_moves_by_half_an_hour() -> None:
    result = wall("15 2 * * *", at("2026-10-03T12:00", "Australia/Lord_Howe"), 2, "Australia/Lord_Howe")
    assert result == ["2026-10-04 02:30+11:00", "2026-10-05 02:15+11:00"]
    result = wall("5 */3 * * SUN", at("2026-04-05T00:05", "Australia/Lord_Howe"), 2, "Australia/Lord_Howe")
    assert result == ["2026-04-05 03:05+10:30", "2026-04-05 06:05+10:30"]
    result = wall("5 */3 * * *", at("2026-10-04T01:52", "Australia/Lord_Howe"), 2, "Australia/Lord_Howe")
    assert result == ["2026-10-04 03:05+11:00", "2026-10-04 06:05+11:00"]


@given(
    cron=st.sampled_from(["30 2 * * *", "0 * * * *", "*/7 * * * *", "0,30 1-3 * * *", "5 */3 * * SUN", "0 2 L * *"]),
    zone=st.sampled_from([BERLIN, "America/New_York", "Asia/Kathmandu", "UTC", "Australia/Lord_Howe"]),
    start=st.integers(int(at("2026-01-01T00:00")), int(at("2027-01-01T00:00"))).map(lambda second: second + 0.25),
)
def test_firings_rise_and_every_one_is_found_from_any_moment_before_it(cron: str, zone: str, start: float) -> None:
    one = schedule(cron=cron, timezone=zone)
    result = list(islice(schedules.firings(one, start), 6))
    assert all(first < second for first, second in zip([start, *result], result, strict=False))
    for before, moment in zip([start, *result], result, strict=False):
        assert schedules.next_after(one, before) == schedules.next_after(one, (before + moment) / 2) == moment


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "* * * *", "* * * * * *", "61 * * * *", "* 24 * * *", "0 0 30 2 *", "0 0 * * L", "1/0 * * * *"),
        *("0 0 * * 8", "@reboot", "é * * * *", "5-1 * * * *", "99999999999999999999 * * * *", "* * * * 1#6"),
    ],
)
def test_what_is_no_cron_is_refused_with_a_word(text: str) -> None:
    with pytest.raises(UsageError, match="cron"):
        schedules.checked_cron(text)


def test_names_of_common_times_and_odd_spaces() -> None:
    assert schedules.checked_cron(" @Daily ") == "0 0 * * *"
    assert schedules.checked_cron("0   3 *\t* mon") == "0 3 * * mon"


@pytest.mark.parametrize(
    "name", ["", "Mars/Base", "..", "../etc/passwd", "/etc/localtime", "America", "ü", "a\0b", "x" * 999]
)
def test_what_is_no_time_zone_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="time zone"):
        schedules.zone_of(name)


# -- intervals and single times -------------------------------------------------------------------------------------


def test_intervals_are_counted_from_the_anchor() -> None:
    one = schedule(every=90.0, anchor=1000.0)
    assert list(islice(schedules.firings(one, 1000.0), 3)) == [1090.0, 1180.0, 1270.0]
    assert schedules.next_after(one, 1090.0) == 1180.0
    assert schedules.next_after(one, 1089.999) == 1090.0
    assert schedules.next_after(one, 0.0) == 1090.0


@given(st.floats(1, 1e6), st.floats(1.7e9, 1.9e9), st.floats(0, 1e8))
def test_intervals_rise_whatever_the_fractions(every: float, anchor: float, later: float) -> None:
    one = schedule(every=every, anchor=anchor)
    result = [anchor + later, *islice(schedules.firings(one, anchor + later), 5)]
    assert all(first < second for first, second in pairwise(result))


@pytest.mark.parametrize("given", ["soon", "0.5", 0, 0.99, -5, "1x", 1e12, "", "-1m"])
def test_what_is_no_interval_is_refused(given: float | str) -> None:
    with pytest.raises(UsageError, match="every"):
        schedules.checked_every(given)


def test_intervals_may_be_numbers_or_durations() -> None:
    assert [schedules.checked_every(one) for one in (1, 2.5, "15m", "1h30m")] == [1.0, 2.5, 900.0, 5400.0]


def test_a_single_time_is_one_of_its_zone_unless_it_has_an_offset() -> None:
    assert schedules.checked_at("2026-07-01T09:00", BERLIN) == at("2026-07-01T07:00", "UTC")
    assert schedules.checked_at("2026-07-01T09:00:00Z", BERLIN) == at("2026-07-01T09:00", "UTC")
    assert schedules.checked_at("2026-07-01T09:00-03:00", BERLIN) == at("2026-07-01T12:00", "UTC")


def test_a_single_time_that_comes_twice_or_never() -> None:
    assert schedules.checked_at("2026-10-25T02:30", BERLIN) == at("2026-10-25T00:30", "UTC")
    assert schedules.checked_at("2026-03-29T02:30", BERLIN) == at("2026-03-29T03:30")


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "2030-01-01T00:00+25:00", "9999-12-31T23:59:59-12:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="at "):
        schedules.checked_at(text, "UTC")


def test_a_single_time_fires_once() -> None:
    one = schedule(at=50.0)
    assert list(schedules.firings(one, 0.0)) == [50.0]
    assert schedules.next_after(one, 50.0) is None


# -- the latest of a span -------------------------------------------------------------------------------------------


def test_the_latest_are_those_that_counting_through_would_find() -> None:
    dice = random.Random(7)
    start = at("2026-03-28T00:00")
    for cron in ("*/10 * * * *", "30 2 * * *", "0 */5 * * *", "0 3 * * SUN", "* 1 * * *"):
        one = schedule(cron=cron, timezone=BERLIN)
        for _ in range(10):
            since = schedules.next_after(one, start + dice.random() * 86_400)
            assert since is not None
            until = since + dice.random() * 20 * 86_400
            every = [since]
            for moment in schedules.firings(one, since):
                if moment > until:
                    break
                every.append(moment)
            assert schedules.latest(one, since, until, 20) == every[-20:]
            assert schedules.latest(one, since, since, 20) == [since]


def test_ten_years_without_a_server_are_not_counted_through() -> None:
    one = schedule(every=1.0, anchor=0.0)
    years = 10 * 366 * 86_400.0
    assert schedules.latest(one, 1.0, years + 0.5, 3) == [years - 2, years - 1, years]
    far = datetime(2026, 1, 1, tzinfo=UTC)
    minutely = schedule(cron="* * * * *")
    result = schedules.latest(minutely, (far - timedelta(days=3650)).timestamp(), far.timestamp(), 2)
    assert result == [far.timestamp() - 60, far.timestamp()]
