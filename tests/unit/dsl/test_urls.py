"""The URL of an http task, as far as it is literal: validation refuses what a request would refuse."""

from __future__ import annotations

import pytest

from noetl.dsl.compile import load
from noetl.dsl.problem import Problem
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: orders, path: shop/orders}\nworkload: {x: a}\n"


def problems(url: str) -> list[Problem]:
    return load("p.yaml", f"{HEAD}workflow:\n  - step: start\n    tool: {{kind: http, url: {url!r}}}\n", KINDS).problems


@pytest.mark.parametrize(
    "url",
    [
        *("api.example.com/x", "//host/x", "ftp://host/x", "localhost:8080/x", "10.0.0.1:80/x", "/x", "", "http:/x"),
        *("api.example.com/{{ workload.x }}", "api.example.com:{{ workload.x }}", "ftp://{{ workload.x }}"),
    ],
)
def test_a_literal_without_http_scheme_is_refused_at_its_place(url: str) -> None:
    (problem,) = problems(url)
    assert (problem.code, problem.severity, problem.line, problem.column) == ("NTL219", "error", 7, 29)
    assert problem.message == f"'url' of http must start with http:// or https://, found {url!r}"
    assert problem.hint == "write the full URL: `https://HOST/PATH` or `http://HOST/PATH`"


@pytest.mark.parametrize("url", ["http://", "https:///x", "http://?a=1", "http://:80/x", "http:///{{ workload.x }}"])
def test_a_literal_without_host_is_refused(url: str) -> None:
    (problem,) = problems(url)
    assert (problem.code, problem.message) == ("NTL219", "'url' of http has no host")


@pytest.mark.parametrize(
    "url",
    [
        *("{{ workload.x }}", "{{ workload.x }}/path", " {{ workload.x }}", "{% if workload.x %}http://a{% endif %}"),
        *("http{{ workload.x }}://host", "https://{{ workload.x }}/x", "http://api-{{ workload.x }}.example.com"),
        *("http://:{{ workload.x }}@host/x", "HTTPS://host", " http://host ", "http://[::1]:80/x", "http://a:b@host"),
    ],
)
def test_a_url_that_may_be_one_is_not_refused(url: str) -> None:
    assert problems(url) == []


def test_the_message_has_no_secret_of_the_url() -> None:
    for url in ("host/x?token=hidden", "ada:hidden@host/x"):
        (problem,) = problems(url)
        assert "hidden" not in problem.message


def test_a_default_of_the_kind_is_checked_too() -> None:
    text = (
        f"{HEAD}executor: {{spec: {{http: {{url: host/x}}}}}}\nworkflow:\n  - step: start\n    tool: {{kind: http}}\n"
    )
    assert [problem.code for problem in load("p.yaml", text, KINDS).problems] == ["NTL219"]
