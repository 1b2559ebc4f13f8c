"""How a worker speaks to a server that is slow, away, or does not want it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from scripted_server import Answer, Asked, Scripted, plain
from tests.servers.patience import PATIENCE_SECONDS

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.commands import Claim, Report
from noetl.engine.events import IterationStarted
from noetl.errors import AuthError, NoetlError
from noetl.reference import Reference, TooLarge, refer, reference_to
from noetl.results.read import Damaged
from noetl.tools.registry import KINDS
from noetl.worker.http_link import SEPARATE_BYTES, HttpLink
from noetl.worker.output import OutputBuffer
from noetl.worker.server_client import MAX_SERVER_ERRORS, RequestRejected, http_client

EXECUTION = "0198a000-0000-7000-8000-000000000001"
TEXT = b"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: one, path: tests/one}
workflow:
  - step: start
    tool: [{greet: {kind: noop, result: hello}}]
"""
DIGEST = load("playbook", TEXT, KINDS).require().digest

Act = Callable[[HttpLink], Coroutine[Any, Any, Any]]


def with_link(server: Scripted, act: Act) -> Any:
    """Do something with a link, in time."""

    async def run() -> Any:
        link = HttpLink(http_client(server.url, "noetl_token"), "w1", "blue", OutputBuffer(SystemClock()))
        link.terms.registered.set()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await act(link)
        finally:
            await link.close()

    return asyncio.run(run())


def report(number: int = 0, blobs: tuple[tuple[str, bytes], ...] = (), claim: Claim | None = None) -> Report:
    return Report(7, (IterationStarted("each#1", number),), number, claim, blobs=blobs)


def work(**changes: Any) -> dict[str, Any]:
    """Work as it travels."""
    fields = {"execution": EXECUTION, "digest": DIGEST, "run": "start#1", "step": "start", "fence": 3, "args": {}}
    rest = {"args_by": {}, "workload": {}, "ctx": {}, "parallel": False, "steps": {}, "progress": {}}
    return fields | rest | changes


# -- reports --------------------------------------------------------------------------------------------------------


def test_reports_that_gather_travel_together(server: Scripted) -> None:
    go_on = threading.Event()

    def slowly(asked: Asked) -> Answer:
        go_on.wait(PATIENCE_SECONDS)
        return plain(asked)

    server.answer = slowly

    async def act(link: HttpLink) -> list[Any]:
        tasks = []
        for number in range(50):
            tasks.append(asyncio.create_task(link.report(EXECUTION, report(number))))
            await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        go_on.set()
        return await asyncio.gather(*tasks)

    assert with_link(server, act) == [(True, [])] * 50
    assert len(server.asked) <= 4
    numbers = sorted(one["first"] for asked in server.asked for one in asked.json)
    assert numbers == list(range(50))


def test_a_report_is_sent_again_until_a_server_answers(server: Scripted) -> None:
    answers = iter([(0, b""), (503, b""), (500, b""), (200, [{"verdict": "rejected"}])])
    server.answer = lambda asked: next(answers)
    assert with_link(server, lambda link: link.report(EXECUTION, report())) == (False, [])
    assert len({asked.content for asked in server.asked}) == 1


def test_a_report_is_kept_until_the_disk_of_the_server_has_room(
    server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.worker.server_client.MAX_BACKOFF_SECONDS", 0.01)
    full = iter([(507, {"title": "Insufficient Storage"})] * (MAX_SERVER_ERRORS + 1))
    server.answer = lambda asked: next(full, None) or plain(asked)
    assert with_link(server, lambda link: link.report(EXECUTION, report())) == (True, [])


def test_a_worker_survives_a_server_that_is_away_for_a_while(server: Scripted) -> None:
    server.stop()

    async def act(link: HttpLink) -> Any:
        telling = asyncio.create_task(link.report(EXECUTION, report()))
        await asyncio.sleep(0.3)
        assert not telling.done()
        server.start()
        return await telling

    assert with_link(server, act) == (True, [])


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_not_good_is_said_at_once(server: Scripted, status: int) -> None:
    server.answer = lambda asked: (status, {"title": "Not allowed", "detail": "this token was revoked"})
    with pytest.raises(AuthError, match="rejected this worker's token: this token was revoked"):
        with_link(server, lambda link: link.report(EXECUTION, report()))
    assert len(server.asked) == 1


def test_one_report_that_makes_no_sense_does_not_take_others_with_it(server: Scripted) -> None:
    def answer(asked: Asked) -> Answer:
        return (422, {"detail": "what?"}) if any(one["first"] == 1 for one in asked.json) else plain(asked)

    server.answer = answer

    async def act(link: HttpLink) -> list[Any]:
        reports = (link.report(EXECUTION, report(number)) for number in range(3))
        return await asyncio.gather(*reports, return_exceptions=True)

    first, second, third = with_link(server, act)
    assert (first, third) == ((True, []), (True, []))
    assert isinstance(second, RequestRejected)
    assert "what?" in str(second)


def test_a_defect_of_the_server_is_not_waited_for_for_ever(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.worker.server_client.MAX_BACKOFF_SECONDS", 0.01)
    server.answer = lambda asked: (500, {"title": "A defect of the server"})
    with pytest.raises(RequestRejected, match="responded with status 500: A defect"):
        with_link(server, lambda link: link.report(EXECUTION, report()))


def test_a_report_about_an_execution_that_is_gone_is_rejected(server: Scripted) -> None:
    server.answer = lambda asked: (404, {"detail": "no execution"})
    assert with_link(server, lambda link: link.report(EXECUTION, report())) == (False, [])


def test_what_nothing_waits_for_any_more_is_not_sent(server: Scripted) -> None:
    server.stop()

    async def act(link: HttpLink) -> None:
        telling = [asyncio.create_task(link.report(EXECUTION, report(number))) for number in range(2)]
        await asyncio.sleep(0.2)
        late = asyncio.create_task(link.report(EXECUTION, report(2)))
        await asyncio.sleep(0)
        late.cancel()
        server.start()
        await asyncio.gather(*telling)
        assert link.terms.in_flight == {}

    with_link(server, act)
    assert {one["first"] for asked in server.asked for one in asked.json} == {0, 1}


def test_the_lease_is_named_as_long_as_its_report_is_on_its_way(server: Scripted) -> None:
    go_on = threading.Event()

    def slowly(asked: Asked) -> Answer:
        go_on.wait(PATIENCE_SECONDS)
        return plain(asked)

    server.answer = slowly

    async def act(link: HttpLink) -> None:
        telling = asyncio.create_task(link.report(EXECUTION, report()))
        await asyncio.sleep(0.1)
        assert list(link.terms.in_flight) == [(EXECUTION, 7)]
        go_on.set()
        await telling
        assert link.terms.in_flight == {}

    with_link(server, act)


def test_lines_of_tasks_travel_with_the_next_report(server: Scripted) -> None:
    async def act(link: HttpLink) -> None:
        link.output.write(f"{EXECUTION}|start#1/greet#1", "stdout", "hello")
        await link.report(EXECUTION, report())

    with_link(server, act)
    ((line,),) = [one["lines"] for one in server.asked[0].json]
    assert [line[0], line[1], line[3], line[4]] == [EXECUTION, "start#1/greet#1", "stdout", "hello"]


def test_lines_of_a_report_that_did_not_get_through_are_kept(server: Scripted) -> None:
    server.answer = lambda asked: (422, {"detail": "what?"})

    async def act(link: HttpLink) -> list[Any]:
        link.output.write(f"{EXECUTION}|x", "stdout", "hello")
        with pytest.raises(RequestRejected):
            await link.report(EXECUTION, report())
        return link.output.take()

    assert [line[4] for line in with_link(server, act)] == ["hello"]


# -- content --------------------------------------------------------------------------------------------------------


def test_large_content_goes_ahead_of_the_report_that_refers_to_it(server: Scripted) -> None:
    small, large = b"s" * 10, b"l" * SEPARATE_BYTES
    blobs = tuple((sha256(content).hexdigest(), content) for content in (small, large))
    server.answer = lambda asked: (204, b"") if asked.method == "PUT" else plain(asked)
    with_link(server, lambda link: link.report(EXECUTION, report(blobs=blobs)))
    put, told = server.asked
    assert (put.path, put.content) == (f"/blobs/{blobs[1][0]}?execution={EXECUTION}", large)
    assert [key for key, _ in told.json[0]["blobs"]] == [blobs[0][0]]


def test_content_for_a_lease_that_is_gone_is_not_an_error(server: Scripted) -> None:
    content = b"x" * SEPARATE_BYTES
    server.answer = lambda asked: (409, {"detail": "no lease"})
    blobs = ((sha256(content).hexdigest(), content),)
    assert with_link(server, lambda link: link.report(EXECUTION, report(blobs=blobs))) == (False, [])


def test_stored_values_are_fetched_once_and_verified(server: Scripted) -> None:
    reference, content = refer({"rows": [1, 2, 3]})
    server.answer = lambda asked: (200, content)

    async def act(link: HttpLink) -> list[Any]:
        contents = link.contents
        return [await contents.read(reference), await contents.read(reference), await contents.read_json(reference)]

    assert with_link(server, act) == [{"rows": [1, 2, 3]}, {"rows": [1, 2, 3]}, content]
    assert [asked.path for asked in server.asked] == [f"/blobs/{reference.key}"]


def test_stored_values_that_are_missing_or_another_are_said_to_be(server: Scripted) -> None:
    with pytest.raises(Damaged, match="missing"):
        with_link(server, lambda link: link.contents.read(reference_to(b"[1]")))
    server.answer = lambda asked: (200, b"[2]")
    with pytest.raises(Damaged, match="checksum"):
        with_link(server, lambda link: link.contents.read(reference_to(b"[1]")))


def test_results_of_a_large_loop_are_put_together_from_their_chunks(server: Scripted) -> None:
    chunks = [msgspec.json.encode([[0, "a"], [2, "c"]]), msgspec.json.encode([[1, "b"]])]
    keys = [sha256(chunk).hexdigest() for chunk in chunks]
    whole = msgspec.json.encode({"total": 3, "chunks": keys})
    stored = dict(zip([*keys, sha256(whole).hexdigest()], [*chunks, whole], strict=True))
    server.answer = lambda asked: (200, stored[asked.path.removeprefix("/blobs/")])
    reference = reference_to(whole, hint="chunks")
    assert with_link(server, lambda link: link.contents.read(reference)) == ["a", "b", "c"]


def test_a_value_that_is_too_large_is_not_fetched(server: Scripted) -> None:
    large = Reference("db", "0" * 64, 1 << 40, "")
    assert isinstance(with_link(server, lambda link: link.contents.read(large)), TooLarge)
    assert isinstance(with_link(server, lambda link: link.contents.read_json(large)), TooLarge)
    assert server.asked == []


# -- work -----------------------------------------------------------------------------------------------------------


def hands_out(*works: dict[str, Any], text: bytes = TEXT) -> Callable[[Asked], Answer]:
    def answer(asked: Asked) -> Answer:
        if asked.path.startswith("/playbooks/"):
            return 200, text
        return (200, list(works)) if asked.path == "/claim" else plain(asked)

    return answer


def test_work_comes_with_a_playbook_that_is_fetched_once(server: Scripted) -> None:
    server.answer = hands_out(work(), work(fence=4))

    async def act(link: HttpLink) -> None:
        works = await link.claim(Claim("w1", 2)) + await link.claim(Claim("w1", 2))
        assert [lease.fence for lease in works] == [3, 4, 3, 4]
        playbook = link.playbook(DIGEST)
        assert playbook.playbook.name == "one"
        assert list(playbook.plan("start").tasks) == ["greet"]
        assert playbook.file.name == "tests/one"
        assert playbook.file.places["start/greet"].line == 6
        assert playbook.file.folder == ""

    with_link(server, act)
    assert len(server.of("/playbooks/")) == 1
    asked = [one.json for one in server.of("/claim")]
    assert [(worker["worker"], worker["pool"], worker["slots"]) for worker in asked] == [("w1", "blue", 2)] * 2
    assert asked[0]["claim_id"] != asked[1]["claim_id"]


def test_playbooks_leave_memory_when_their_work_has_ended(server: Scripted) -> None:
    texts = [TEXT.replace(b"name: one", b"name: p%d" % number) for number in range(6)]
    digests = [load("playbook", text, KINDS).require().digest for text in texts]
    by_digest = dict(zip(digests, texts, strict=True))

    def answer(asked: Asked) -> Answer:
        if asked.path.startswith("/playbooks/"):
            return 200, by_digest[asked.path.removeprefix("/playbooks/")]
        return 200, [work(fence=number, digest=digest) for number, digest in enumerate(digests)]

    server.answer = answer

    async def act(link: HttpLink) -> None:
        link.playbooks.max_playbooks = 2
        works = await link.claim(Claim("w1", 6))
        assert [link.playbook(one.digest).playbook.name for one in works] == [f"p{number}" for number in range(6)]
        assert all(link.playbook(one.digest).plan("start").tasks for one in works)
        del works
        assert len(link.playbooks.in_memory) == 2
        assert link.playbooks.bytes == len(texts[4]) + len(texts[5])

    with_link(server, act)
    assert len(server.of("/playbooks/")) == 6


def test_work_that_comes_after_another_process_took_the_name_is_returned(server: Scripted) -> None:
    server.answer = hands_out(work(), work(fence=4))

    async def act(link: HttpLink) -> None:
        claiming = asyncio.create_task(link.claim(Claim("w1", 2)))
        await asyncio.sleep(0)
        link.terms.registered.clear()
        assert await claiming == []

    with_link(server, act)
    reports = [one for asked in server.of("/report") for one in asked.json]
    assert [(one["fence"], one["hand_back"]) for one in reports] == [(3, True), (4, True)]


def test_a_claim_that_is_made_again_is_the_same_claim(server: Scripted) -> None:
    answers = iter([(0, b""), (200, [])])
    server.answer = lambda asked: next(answers)
    assert with_link(server, lambda link: link.claim(Claim("w1", 1))) == []
    first, second = (asked.json["claim_id"] for asked in server.asked)
    assert first == second


def test_a_report_asks_for_work_of_the_workers_own_pool(server: Scripted) -> None:
    server.answer = lambda asked: (
        (200, [{"verdict": "rejected", "works": [work()]}]) if asked.path == "/report" else (200, TEXT)
    )
    held, works = with_link(server, lambda link: link.report(EXECUTION, report(claim=Claim("w1", 3))))
    assert (held, [one.step for one in works]) == (False, ["start"])
    claim = server.of("/report")[0].json[0]["claim"]
    assert (claim["pool"], claim["slots"]) == ("blue", 3)
    assert claim["claim_id"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TEXT.replace(b"hello", b"good evening"), "to another digest"),
        (TEXT.replace(b"kind: noop", b"kind: novel.tool"), "novel.tool"),
    ],
)
def test_work_that_cannot_be_run_here_fails_and_says_why(server: Scripted, text: bytes, why: str) -> None:
    server.answer = hands_out(work(), text=text)
    assert with_link(server, lambda link: link.claim(Claim("w1", 1))) == []
    ((name, fact),) = server.of("/report")[0].json[0]["facts"]
    assert name == "step.failed"
    assert "worker w1 cannot run this step" in fact["error"]["message"]
    assert why in fact["error"]["message"]


def test_credentials_are_requested_by_name(server: Scripted) -> None:
    server.answer = lambda asked: (200, {"name": "db", "kind": "bearer", "fields": {"token": "abcdef"}})
    result = with_link(server, lambda link: link.credential(EXECUTION, "db"))
    assert result.fields == {"token": "abcdef"}
    assert server.asked[0].json == {"worker": "w1", "execution": EXECUTION, "name": "db"}
    server.answer = lambda asked: (404, {"detail": "credential 'db' not found"})
    with pytest.raises(NoetlError, match="credential 'db' not found"):
        with_link(server, lambda link: link.credential(EXECUTION, "db"))


def test_every_call_brings_the_token(server: Scripted) -> None:
    with_link(server, lambda link: link.claim(Claim("w1", 1)))
    assert {asked.token for asked in server.asked} == {"noetl_token"}
