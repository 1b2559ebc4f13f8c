"""Reports on their way: all of them are sent, together where they gather."""

from __future__ import annotations

import asyncio

import msgspec
from tests.servers.patience import PATIENCE_SECONDS

from noetl.worker.server_client import MAX_REPORTS, Reports
from noetl.worker.wire import ReportRequest, Verdicts


async def echo(batch: bytes) -> bytes:
    """Accepts everything at once."""
    return msgspec.json.encode([Verdicts("accepted") for _ in msgspec.json.decode(batch)])


def test_none_is_left_behind_when_senders_are_about_to_end() -> None:
    reports = Reports(echo)

    async def chain(name: str) -> int:
        for number in range(300):
            await reports.send(ReportRequest(name, number))
        return 300

    async def run() -> list[int]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.gather(*(chain(str(number)) for number in range(7)))

    assert asyncio.run(run()) == [300] * 7


def test_more_than_fit_into_one_request_go_in_several() -> None:
    sizes: list[int] = []

    async def counted(batch: bytes) -> bytes:
        sizes.append(len(msgspec.json.decode(batch)))
        return await echo(batch)

    async def run() -> None:
        reports = Reports(counted)
        await asyncio.gather(*(reports.send(ReportRequest("e", number)) for number in range(MAX_REPORTS + 5)))

    asyncio.run(run())
    assert sorted(sizes) == [5, MAX_REPORTS]
