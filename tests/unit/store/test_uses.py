"""What a change needs is found in its bytes, however references are written there."""

from __future__ import annotations

import pytest

from noetl.engine.events import CtxPatched, Event, StepDone
from noetl.reference import Reference, canonical, encode_inline, refer, reference_to
from noetl.store.codec import ZERO, rows_of
from noetl.store.commits import parts_of, used_keys
from noetl.store.store import Change

EXECUTION = "0198c0de-0000-7000-8000-00000000000a"
ONE, ONE_BYTES = refer({"a": "x" * 10})
TWO, TWO_BYTES = refer("text")


def used(*events: Event, blobs: list[tuple[str, bytes]] | None = None) -> set[str]:
    return used_keys(Change(EXECUTION, 0, rows_of(list(events), 1, 1.5, ZERO), blobs=blobs or []))


@pytest.mark.parametrize(
    "value",
    [ONE, [ONE], {"deep": [{"er": ONE}]}, encode_inline([ONE, {"$ref": 1}]), encode_inline(encode_inline({"x": ONE}))],
    ids=["itself", "in a list", "in a map", "as text", "as text in text"],
)
def test_a_reference_in_an_event_is_found(value: object) -> None:
    assert used(StepDone("a#1", value)) == {ONE.key}


def test_content_that_is_also_elsewhere_is_found_by_its_hash() -> None:
    copied = Reference("nats_object", f"noetl-results/{ONE.key}", ONE.size, ONE.checksum)
    assert used(StepDone("a#1", copied)) == used(StepDone("a#1", encode_inline([copied]))) == {ONE.key}
    both, content = refer({"one": copied})
    assert parts_of([(both.key, content)]) == {(both.key, ONE.key)}


def test_what_a_change_brings_is_used_by_it() -> None:
    assert used(blobs=[(ONE.key, ONE_BYTES)]) == {ONE.key}
    assert used(StepDone("a#1", [ONE, TWO]), StepDone("b#1", TWO), blobs=[("k", b"")]) == {ONE.key, TWO.key, "k"}


def test_what_is_stored_elsewhere_or_only_looks_like_a_reference_is_not() -> None:
    elsewhere = Reference("file", "/data/results/1", 5, "sha256:" + "0" * 64)
    assert used(StepDone("a#1", [elsewhere, {"$ref": {"key": 1}}, "$ref", "0" * 64])) == set()
    assert used(CtxPatched(())) == set()


def test_contents_refer_to_contents() -> None:
    both, content = refer({"one": ONE, "rest": [TWO, 5]})
    assert parts_of([(both.key, content), (TWO.key, TWO_BYTES)]) == {(both.key, ONE.key), (both.key, TWO.key)}


def test_the_list_of_chunks_refers_to_them() -> None:
    manifest = canonical({"chunks": [ONE.key, TWO.key], "marked": [TWO.key], "total": 9})
    whole = reference_to(manifest, hint="chunks")
    assert parts_of([(whole.key, manifest)]) == {(whole.key, ONE.key), (whole.key, TWO.key)}
    assert parts_of([("binary", b"\x00\xff{"), ("empty", b"")]) == set()
