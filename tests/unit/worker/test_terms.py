"""Until when a worker relies on its leases."""

from __future__ import annotations

import asyncio

from noetl.worker.terms import GRANT_SECONDS, LEASE_SECONDS, MARGIN_SECONDS, LeaseTerms

LEASE, OTHER = ("e1", 1), ("e1", 2)


class Hand:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def is_current(terms: LeaseTerms, lease: tuple[str, int]) -> bool:
    """Whether the worker may begin a call at once."""

    async def ask() -> bool:
        terms.answered = asyncio.Event()  # of this event loop
        asked = asyncio.create_task(terms.current(lease))
        await asyncio.sleep(0)
        done = asked.done()
        asked.cancel()
        return done

    return asyncio.run(ask())


def test_a_granted_lease_is_relied_on_until_a_server_may_think_that_it_never_arrived() -> None:
    now = Hand()
    terms = LeaseTerms(lambda: None, now)
    terms.grant([LEASE], 1000.0)
    assert (is_current(terms, LEASE), is_current(terms, OTHER)) == (True, False)
    now.at += GRANT_SECONDS - MARGIN_SECONDS
    assert not is_current(terms, LEASE)


def test_a_heartbeat_renews_the_leases_that_it_names_from_when_it_was_sent() -> None:
    now = Hand()
    terms = LeaseTerms(lambda: None, now)
    terms.grant([LEASE, OTHER], 1000.0)
    now.at = 1020.0
    terms.renew([LEASE], 1001.0)
    assert (is_current(terms, LEASE), is_current(terms, OTHER)) == (True, False)
    now.at = 1001.0 + LEASE_SECONDS - MARGIN_SECONDS
    assert not is_current(terms, LEASE)


def test_leases_that_ended_are_forgotten() -> None:
    now = Hand()
    terms = LeaseTerms(lambda: None, now)
    for number in range(1000):
        terms.grant([("e1", number)], now.at)
        now.at += 1
        terms.renew([], now.at)
    assert len(terms.until) < 20


def test_whoever_waits_asks_for_a_heartbeat_until_one_renews_the_lease() -> None:
    now = Hand()
    requests: list[float] = []
    terms = LeaseTerms(lambda: requests.append(now.at), now)

    async def run() -> None:
        waiting = asyncio.create_task(terms.current(LEASE))
        await asyncio.sleep(0)
        terms.renew([OTHER], now.at)
        await asyncio.sleep(0)
        assert (waiting.done(), len(requests)) == (False, 2)
        terms.renew([LEASE], now.at)
        await waiting
        assert len(requests) == 2

    asyncio.run(run())
