"""The sender of a request in words."""

from __future__ import annotations

from noetl.model.actor import Actor


def test_a_sender_is_named() -> None:
    assert str(Actor("token", "ci")) == "token ci"


def test_a_token_without_a_name_is_unnamed() -> None:
    assert str(Actor("token", "")) == "an unnamed token"
