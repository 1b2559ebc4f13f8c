"""References that make no sense are damage, whatever they say: no memory, no file and no crash of the server."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from noetl.model.playbook import Executor, Playbook, Step, Task
from noetl.reference import Reference, canonical, refer, reference_to
from noetl.results.read import MAX_HOLES, Damaged, read_bytes, read_json, read_value
from noetl.results.stores import in_bucket, is_named, write_file


class Blobs(dict[str, bytes]):
    """Contents by their keys."""

    def keep(self, content: bytes, hint: str = "") -> Reference:
        reference = reference_to(content, hint=hint)
        self[reference.key] = content
        return reference


def chunked(blobs: Blobs, manifest: Any) -> Reference:
    return blobs.keep(canonical(manifest), "chunks")


# -- chunks ----------------------------------------------------------------------------------------------------------


def test_chunks_make_the_list_of_their_loop() -> None:
    blobs = Blobs()
    plain = blobs.keep(canonical([[0, "a"], [3, "d"]]))
    reference, content = refer([[1, reference_to(b"1")]])
    blobs[reference.key] = content
    manifest = {"total": 5, "chunks": [plain.key, reference.key], "marked": [reference.key]}
    result = read_value(blobs.get, chunked(blobs, manifest))
    assert result == ["a", reference_to(b"1"), None, "d", None]
    assert b'"a"' in read_json(blobs.get, chunked(blobs, manifest))


def test_items_that_failed_are_holes() -> None:
    blobs = Blobs()
    one = blobs.keep(canonical([[0, 1]]))
    assert len(read_value(blobs.get, chunked(blobs, {"total": MAX_HOLES + 1, "chunks": [one.key]}))) == MAX_HOLES + 1


@pytest.mark.parametrize(
    "manifest",
    [
        {"total": 300_000_000, "chunks": []},
        {"total": 10**18, "chunks": []},
        {"total": 10**30, "chunks": []},
        {"total": -1, "chunks": ["A"]},
        {"total": 1, "chunks": ["B"]},
        {"total": 9, "chunks": ["C"]},
        {"total": 9, "chunks": ["D"]},
        {"total": 9, "chunks": ["0" * 64]},
        {"total": 9, "chunks": [["A"]]},
        {"total": 9, "chunks": {}},
        {"total": "9", "chunks": []},
        {"chunks": []},
        [],
        None,
        "text",
    ],
    ids=str,
)
def test_a_manifest_that_makes_no_sense_is_damage(manifest: Any) -> None:
    blobs = Blobs()
    chunks = {"A": [[0, 1]], "B": [[-1, 1], [7, 1]], "C": [["x", 1]], "D": [1, 2]}
    keys = {name: blobs.keep(canonical(chunk)).key for name, chunk in chunks.items()}
    if isinstance(manifest, dict) and isinstance(manifest["chunks"], list):
        manifest = {
            **manifest,
            "chunks": [keys.get(key, key) if isinstance(key, str) else key for key in manifest["chunks"]],
        }
    reference = chunked(blobs, manifest)
    tracemalloc.start()
    try:
        for read in (read_value, read_json):
            with pytest.raises(Damaged):
                read(blobs.get, reference)
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()


def test_the_size_of_a_reference_is_that_of_its_content() -> None:
    blobs = Blobs()
    reference = blobs.keep(b"[1, 2, 3]")
    small = Reference("db", reference.key, 2, reference.checksum)
    with pytest.raises(Damaged, match="9 bytes instead of 2"):
        read_value(blobs.get, small)


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_file_is_read_where_results_are_written(tmp_path: Path) -> None:
    content = b'{"large": true}'
    reference = write_file(str(tmp_path), reference_to(content), content)
    assert read_value(Blobs().get, reference) == {"large": True}


def test_a_file_of_another_size_is_not_read(tmp_path: Path) -> None:
    content = b'{"large": true}'
    reference = write_file(str(tmp_path), reference_to(content), content)
    with open(reference.key, "wb") as file:
        file.truncate(1 << 40)  # a terabyte, of which nothing is on the disk
    with pytest.raises(Damaged, match="1,099,511,627,776 bytes"):
        read_bytes(Blobs().get, reference)


@pytest.mark.parametrize("name", ["secret.txt", "ab/secret.txt", "{hash}", "ab/{hash}", "{two}/{hash}.txt", "pipe"])
def test_no_other_file_is_read(tmp_path: Path, name: str) -> None:
    content = b"s3cret"
    known = reference_to(content)
    path = tmp_path / name.replace("{hash}", known.key).replace("{two}", known.key[:2])
    if name == "pipe":
        path = tmp_path / known.key[:2] / known.key
        path.parent.mkdir()
        os.mkfifo(path)
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    with pytest.raises(Damaged):
        read_bytes(Blobs().get, Reference("file", str(path), len(content), known.checksum))


@pytest.mark.parametrize("address", ["s3://bucket/secret.txt", "file:///etc/passwd", "http://127.0.0.1/x", "", "x"])
def test_no_other_object_is_read(address: str) -> None:
    known = reference_to(b"s3cret")
    with pytest.raises(Damaged, match="does not point to a stored result"):
        read_bytes(Blobs().get, Reference("object", address, 6, known.checksum))


# -- where a playbook has results written ------------------------------------------------------------------------------


def stored(**store: Any) -> Playbook:
    tasks = (Task("t", "noop", spec={"results": {"store": store}}),)
    return Playbook("p", "p", (Step("s", tasks=tasks),), "s", executor=Executor(result_store={}))


KEY = reference_to(b"x").key
TWO = KEY[:2]


@pytest.mark.parametrize(
    ("store", "place", "address", "named"),
    [
        ({"kind": "file", "path": "/srv/results"}, "file", f"/srv/results/{TWO}/{KEY}", True),
        ({"kind": "file", "path": "/srv/results/"}, "file", f"/srv/results/{TWO}/{KEY}", True),
        ({"kind": "file", "path": "/srv/results"}, "file", f"/srv/other/{TWO}/{KEY}", False),
        ({"kind": "file", "path": "/srv/results"}, "file", f"/srv/results/../x/{TWO}/{KEY}", False),
        ({"kind": "file"}, "file", f"/home/worker/.noetl/results/{TWO}/{KEY}", True),
        ({"kind": "file", "path": "./out"}, "file", f"/home/worker/out/{TWO}/{KEY}", True),
        ({"kind": "file", "path": "out"}, "file", f"/home/worker/inout/{TWO}/{KEY}", False),
        ({"kind": "file", "path": "out"}, "file", f"out/{TWO}/{KEY}", False),
        ({"kind": "file", "path": "out"}, "object", f"/home/worker/out/{TWO}/{KEY}", False),
        ({"kind": "object", "url": "s3://mine/a/"}, "object", f"s3://mine/a/{TWO}/{KEY}", True),
        ({"kind": "object", "url": "s3://mine/a"}, "object", f"s3://yours/a/{TWO}/{KEY}", False),
        ({}, "file", f"/srv/results/{TWO}/{KEY}", False),
    ],
)
def test_references_lead_to_where_results_are_written(
    store: dict[str, Any], place: str, address: str, named: bool
) -> None:
    assert is_named(stored(**store), Reference(place, address, 1, f"sha256:{KEY}")) is named


def test_buckets_are_named() -> None:
    reference = in_bucket(reference_to(b"x"), "mine")
    assert is_named(stored(kind="nats_object", bucket="mine"), reference)
    assert not is_named(stored(kind="nats_object", bucket="other"), reference)
