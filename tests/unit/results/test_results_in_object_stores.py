"""Results in an object store: S3 and a folder, and what is said where it can't be reached."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from tests.conformance.memory import MemoryStore
from tests.servers.s3 import KEYS, REGION, S3Server, s3_server

from noetl.errors import NoetlError
from noetl.model.outcome import Failure
from noetl.reference import Reference, refer
from noetl.results import stores
from noetl.results.read import Damaged, read_value
from noetl.results.stores import fault_of, read_object, write_object

VALUE = {"rows": list(range(50_000))}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def s3(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_access_key"])
    yield server
    stores._opened.cache_clear()


def kept_at(url: str) -> Reference:
    return write_object(url, *refer(VALUE))


def test_a_value_is_an_object_named_by_its_hash(s3: S3Server) -> None:
    bucket = s3.bucket()
    result = kept_at(f"s3://{bucket}/large/results/")
    (listed,) = s3.client.list_objects_v2(Bucket=bucket)["Contents"]
    digest = result.checksum.removeprefix("sha256:")
    assert listed["Key"] == f"large/results/{digest[:2]}/{digest}"
    assert (result.store, result.key) == ("object", f"s3://{bucket}/{listed['Key']}")
    assert (result.size, result.schema_hint) == (listed["Size"], "map")
    assert result.preview == {"keys": ["rows"], "count": 1}
    assert read_value(MemoryStore().blob, result) == VALUE


def test_a_folder_is_a_store_too(tmp_path: Path) -> None:
    result = kept_at(f"file://{tmp_path}/new/large%20ones")
    assert Path(tmp_path, "new", "large ones", result.digest[:2], result.digest).stat().st_size == result.size
    assert read_value(MemoryStore().blob, result) == VALUE
    assert kept_at(f"file://{tmp_path}/new/large%20ones") == result


def test_what_is_missing_or_was_changed_is_noticed(tmp_path: Path) -> None:
    result = kept_at(f"file://{tmp_path}")
    path = Path(result.key.removeprefix("file://"))
    path.write_bytes(path.read_bytes().replace(b"17", b"71", 1))
    with pytest.raises(Damaged, match="checksum"):
        read_value(MemoryStore().blob, result)
    path.unlink()
    assert read_object(result.key) is None
    with pytest.raises(Damaged, match="missing"):
        read_value(MemoryStore().blob, result)


def test_a_bucket_that_is_missing_is_reported(s3: S3Server) -> None:
    with pytest.raises(Failure) as caught:
        kept_at("s3://no-such-bucket-here/x")
    error = caught.value.outcome.error
    assert error is not None
    assert (error.kind, "NoSuchBucket" in error.message) == ("not_found", True)


def test_a_store_that_does_not_answer_is_worth_another_try(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3.bucket()
    result = kept_at(f"s3://{bucket}")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(stores, "RETRIES", 0)
    stores._opened.cache_clear()
    with pytest.raises(Failure) as caught:
        kept_at(f"s3://{bucket}")
    error = caught.value.outcome.error
    assert error is not None
    assert (error.kind, error.retryable) == ("connect", True)
    with pytest.raises(NoetlError):
        read_object(result.key)
    with pytest.raises(Damaged, match="cannot read"):
        read_value(MemoryStore().blob, result)


@pytest.mark.parametrize(
    "url", ["", "bucket", "http://x/y", "s3:bucket", "s3://", "file://relative/x", "gs://b?x=1", "s3://b/a b"]
)
def test_an_address_that_is_none_is_reported(url: str) -> None:
    assert "s3://BUCKET" in str(fault_of(url))


@pytest.mark.parametrize("url", ["s3://bucket", "gs://bucket/a/b", "az://container", "file:///data/results"])
def test_an_address_is_taken(url: str) -> None:
    assert fault_of(url) is None


def test_the_hash_is_that_of_the_stored_bytes(tmp_path: Path) -> None:
    result = kept_at(f"file://{tmp_path}")
    content = read_object(result.key)
    assert content is not None
    assert result.checksum == f"sha256:{sha256(content).hexdigest()}"
