"""The same suite over every link: to the embedded engine, to a server in the same process, and over HTTP."""

from __future__ import annotations

import pytest

from conformance import links


class TestEmbedded(links.LinkSuite):
    @pytest.fixture
    def opening(self) -> links.Open:
        return links.embedded


class TestLocal(links.ServerLinkSuite):
    @pytest.fixture
    def opening(self) -> links.Open:
        return links.local


class TestHttp(links.ServerLinkSuite):
    @pytest.fixture
    def opening(self) -> links.Open:
        return links.over_http
