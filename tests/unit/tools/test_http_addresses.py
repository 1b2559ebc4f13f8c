"""Addresses that a server's tools do not connect to, however they are spelled and whoever leads there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.servers.wire import Asked, ask, call, context, failure, reply, whole, wire

from noetl.addresses import LINK_LOCAL, METADATA, forbid_addresses, is_forbidden
from noetl.keychain.redact import Redactor
from noetl.model.outcome import Outcome

METADATA_IP = "169.254.169.254"


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture(autouse=True)
def server_role() -> Iterator[None]:
    """As a server does it when it starts."""
    forbid_addresses()
    yield
    forbid_addresses([])


@pytest.mark.parametrize(
    "address",
    [
        METADATA_IP,
        "169.254.0.1",
        "fe80::1",
        "fe80::1%eth0",
        "::ffff:169.254.169.254",
        "::ffff:a9fe:a9fe",
        "::169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "100.100.100.200",
        "168.63.129.16",
        "::ffff:0:a9fe:a9fe",
        "::ffff:0:169.254.169.254",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1:ffff:ffff:ffff:169.254.169.254",
        "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:a9:fe:a9fe::",
        "64:ff9b:1:0:a9:fea9:fe00:0",
        "2001:0:a9fe:a9fe::1",
        "2001:0:808:808:0:0:5601:5601",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.16689662",
        "0xa9.0xfe.43518",
    ],
)
def test_address_is_forbidden_in_every_spelling(address: str) -> None:
    assert is_forbidden(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "8.8.8.8",
        "::1",
        "2001:db8::1",
        "2001:0:808:808::1",
        "64:ff9b:1::808:808",
        "localhost",
        "",
        "ü",
    ],
)
def test_other_addresses_and_names_are_not(address: str) -> None:
    assert not is_forbidden(address)


def test_nothing_is_forbidden_unless_a_role_asks_for_it() -> None:
    forbid_addresses([])
    assert not is_forbidden(METADATA_IP)
    forbid_addresses([*LINK_LOCAL, *METADATA, "10.0.0.0/8"])
    assert is_forbidden("10.1.2.3")


@pytest.mark.parametrize(
    "host",
    [METADATA_IP, "2852039166", "0xa9fea9fe", "169.16689662", "[::ffff:169.254.169.254]", "[fe80::1]"],
)
def test_request_is_refused_before_anything_is_sent(host: str) -> None:
    outcome = call(f"http://{host}/latest/meta-data/")
    error = failure(outcome)
    assert (error.kind, error.retryable) == ("connect", False)
    assert "from here" in error.message
    assert outcome.extra["http"]["status"] is None


class Names:
    """Answers of the DNS, one list of addresses after the other; the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self.answer)

    def answer(self, host: Any, port: Any, *more: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in self.answers:
            return self.real(host, port, *more, **options)
        answers = self.answers[name]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


@pytest.mark.parametrize("addresses", [[METADATA_IP], ["127.0.0.1", METADATA_IP]])
def test_name_of_a_forbidden_address_is_refused(names: Names, addresses: list[str]) -> None:
    names.answers["metadata.example"] = [addresses]
    error = failure(call("http://metadata.example/"))
    assert (error.kind, error.retryable) == ("connect", False)
    assert f"metadata.example is at {METADATA_IP}" in error.message


def test_name_that_changes_its_mind_gets_a_connection_and_not_a_byte(names: Names) -> None:
    """The DNS gives a harmless address to whoever looks first, and another one to whoever connects."""
    forbid_addresses(["127.0.0.1/32"])
    heard: list[Asked] = []

    async def main() -> Outcome:
        async with wire(reply()) as server:
            names.answers["rebinding.example"] = [["192.0.2.1"], ["127.0.0.1"]]
            outcome = await ask(f"http://rebinding.example:{server.port}/")
            heard.extend(server.asked)
            return outcome

    error = failure(whole(main()))
    assert (error.kind, error.retryable) == ("connect", False)
    assert "rebinding.example is at 127.0.0.1" in error.message
    assert heard == []


@pytest.mark.parametrize("target", [f"http://{METADATA_IP}/", "http://2852039166/", "http://metadata.example/"])
def test_redirect_does_not_lead_there(names: Names, target: str) -> None:
    names.answers["metadata.example"] = [[METADATA_IP]]

    async def main() -> Outcome:
        async with wire(reply(b"", "302 Found", Location=target)) as server:
            return await ask(server.url)

    outcome = whole(main())
    assert (failure(outcome).kind, failure(outcome).retryable) == ("connect", False)
    assert outcome.extra["http"]["url"].startswith(target)


def test_proxy_is_not_asked_either(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Asked] = []

    async def main() -> Outcome:
        async with wire(reply()) as proxy:
            monkeypatch.delenv("NO_PROXY")
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            assert (await ask("http://shop.example/")).ok
            outcome = await ask(f"http://{METADATA_IP}/")
            heard.extend(proxy.asked)
            return outcome

    assert failure(whole(main())).kind == "connect"
    assert [asked.line for asked in heard] == ["GET http://shop.example/ HTTP/1.1"]


def test_everything_else_is_reached_as_ever() -> None:
    async def main() -> None:
        async with wire(reply()) as server:
            assert (await ask(server.url)).ok
            assert (await ask(f"http://localhost:{server.port}/")).ok

    whole(main())


def test_name_that_does_not_exist_is_told_by_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*asked: Any, **more: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    error = failure(call("http://no-such-host.invalid/"))
    assert (error.kind, error.retryable) == ("connect", True)
    assert "cannot resolve host name" in error.message


def test_name_that_takes_too_long_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*asked: Any, **more: Any) -> Any:
        await asyncio.sleep(3600)

    async def main() -> Outcome:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
        return await ask("http://slow.example/", given=context(timeout={"connect": 0.05}))

    error = failure(whole(main()))
    assert (error.kind, error.retryable) == ("timeout", True)


def test_a_secret_in_the_host_is_hidden_as_the_host_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts are in small letters, whatever was written."""

    def unknown(*asked: Any, **more: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    redactor = Redactor(["Tr0ub4dor-And-3"])
    outcome = call("http://Tr0ub4dor-And-3.invalid:1/", given=context(redact=redactor.redact))
    assert "//***.invalid:1/" in failure(outcome).message
    assert outcome.extra["http"]["url"] == "http://***.invalid:1/"
