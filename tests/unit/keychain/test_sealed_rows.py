"""Sealing and the master key: what can be opened, by whom, and what is said where it can't."""

from __future__ import annotations

import multiprocessing
import os
import stat
from base64 import b64encode
from pathlib import Path

import pytest
from tests.conformance.memory import MemoryStore
from tests.servers.patience import PATIENCE_SECONDS

from noetl.errors import AuthError, NotFound, UsageError
from noetl.keychain.master import MasterKeySource, new_key
from noetl.keychain.safe import Revisions, Safe
from noetl.keychain.sealed import Label, MasterKey, MasterKeys, revision_of, rewrap, seal, unseal
from noetl.settings import MasterKeySettings, master_key_settings

FIELDS = {"token": "s3cret-t0ken", "n": 5}
FIRST = Label("api", "bearer", ("shop/*",), ("default",))
LABEL = FIRST._replace(revision=7)
BEFORE = bytes.fromhex(
    "014dedc22e133f3737e431e4792f889fe0c8d90329a81ddcb566107e0a1c6f3a332c5c4d0006c4d1c154dfaeab5053c3daf6f85fc0363641cd"
    "a425061308decef102bac9c6abc6e4a8443e707d8201ac56e086ea59ccdd93b37793d8f0704a6a3396199abdf3f56a8a01a42a779704850d39"
    "dd361fd031256c4000b014"
)
"""A credential that noetl has sealed before there were revisions."""
OLD, NEW = new_key(), new_key()


def test_what_is_sealed_opens_again() -> None:
    sealed = seal(FIELDS, LABEL, OLD)
    assert unseal(sealed, LABEL, MasterKeys(OLD)) == FIELDS
    assert b"s3cret" not in sealed
    assert seal(FIELDS, LABEL, OLD) != sealed  # nonces and data keys are new each time
    assert sealed[0] == 2
    assert sealed[1:9] == OLD.id
    assert revision_of(sealed) == 7


def test_what_was_sealed_before_there_were_revisions_opens_and_can_be_wrapped_again() -> None:
    key, label = MasterKey(b"\x01" * 32), Label("api", "bearer", ("shop/*",), ("p",))
    assert unseal(BEFORE, label, MasterKeys(key)) == {"token": "s3cret-of-before"}
    wrapped = rewrap(BEFORE, label, MasterKeys(NEW, (key,)))
    assert unseal(wrapped, label, MasterKeys(NEW)) == {"token": "s3cret-of-before"}
    assert (revision_of(BEFORE), revision_of(wrapped), wrapped[0]) == (0, 0, 1)


@pytest.mark.parametrize(
    "label",
    [
        LABEL._replace(name="other"),
        LABEL._replace(kind="secret_manager"),
        LABEL._replace(paths=()),
        LABEL._replace(pools=("default", "more")),
    ],
    ids=["name", "kind", "paths", "pools"],
)
def test_a_label_that_changed_is_noticed(label: Label) -> None:
    with pytest.raises(AuthError, match=f"cannot open credential '{label.name}'"):
        unseal(seal(FIELDS, LABEL, OLD), label, MasterKeys(OLD))


@pytest.mark.parametrize("label", [FIRST, LABEL], ids=["first version", "now"])
def test_every_changed_byte_is_noticed(label: Label) -> None:
    """The revision is among them: an old credential can't be made to look new."""
    sealed = seal(FIELDS, label, OLD)
    for place in range(len(sealed)):
        damaged = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        with pytest.raises(AuthError):
            unseal(damaged, LABEL, MasterKeys(OLD))


@pytest.mark.parametrize("length", [0, 1, 40, 80])
def test_what_is_cut_off_is_noticed(length: int) -> None:
    with pytest.raises(AuthError, match=r"damaged|cannot open"):
        unseal(seal(FIELDS, LABEL, OLD)[:length], LABEL, MasterKeys(OLD))


def test_another_key_is_named() -> None:
    with pytest.raises(AuthError, match=f"master key {OLD.id.hex()}, which is missing"):
        unseal(seal(FIELDS, LABEL, OLD), LABEL, MasterKeys(NEW))


def test_a_newer_version_is_reported() -> None:
    with pytest.raises(AuthError, match="newer noetl"):
        unseal(b"\x03" + seal(FIELDS, LABEL, OLD)[1:], LABEL, MasterKeys(OLD))


def test_wrapping_again_keeps_the_content() -> None:
    sealed = seal(FIELDS, LABEL, OLD)
    wrapped = rewrap(sealed, LABEL, MasterKeys(NEW, (OLD,)))
    assert wrapped[-20:] == sealed[-20:]
    assert unseal(wrapped, LABEL, MasterKeys(NEW)) == FIELDS
    assert rewrap(wrapped, LABEL, MasterKeys(NEW)) is wrapped


def test_a_key_does_not_show_itself() -> None:
    assert OLD.secret.hex() not in repr(OLD) + repr(MasterKeys(OLD)) + str([OLD])
    assert repr(OLD) == f"MasterKey({OLD.id.hex()})"


# -- where the key lives ----------------------------------------------------------------------------------------------


def source(file: Path, key: str | None = None, database: Path | None = None) -> MasterKeySource:
    return MasterKeySource(MasterKeySettings(key, str(file)), database)


@pytest.mark.parametrize(
    "text",
    [
        OLD.secret.hex(),
        OLD.secret.hex().upper(),
        b64encode(OLD.secret).decode(),
        b64encode(OLD.secret, b"-_").decode().rstrip("="),
        f" {OLD.secret.hex()} , {NEW.secret.hex()}\n",
    ],
    ids=["hex", "capitals", "base64", "urlsafe", "several"],
)
def test_a_key_in_the_environment(text: str, tmp_path: Path) -> None:
    keys = source(tmp_path / "none", text).read()
    assert keys.current == OLD
    assert keys.older in ((), (NEW,))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("text", ["short", "z" * 64, "0" * 63, b64encode(b"x" * 31).decode(), "äöü", ","])
def test_a_key_that_is_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(AuthError, match="NOETL_MASTER_KEY") as caught:
        source(tmp_path / "none", text).read()
    assert text not in str(caught.value) or text == ","


def test_the_first_key_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "config" / "noetl" / "master.key"
    keys = source(file).read_or_create()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert source(file).read() == keys == source(file).read_or_create()


def test_without_a_key_reading_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AuthError, match="there is no master key: set NOETL_MASTER_KEY"):
        source(tmp_path / "master.key").read()


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "master.key"
    source(file).read_or_create()
    file.chmod(0o640)
    with pytest.raises(AuthError, match=r"others can read .* \(mode 640\): chmod 600"):
        source(file).read()


@pytest.mark.parametrize("place", ["db/master.key", "db/deeper/master.key", "link/master.key"])
def test_a_key_with_the_database_is_refused(place: str, tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "db")
    with pytest.raises(AuthError, match="is in the folder of the database"):
        source(tmp_path / place, database=tmp_path / "db" / "noetl.db").read_or_create()
    assert list((tmp_path / "db").iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuthError, match="cannot write"):
        source(tmp_path / "file" / "master.key").read_or_create()


@pytest.mark.parametrize(
    ("environment", "file"),
    [
        ({"XDG_CONFIG_HOME": "/cfg"}, "/cfg/noetl/master.key"),
        ({"NOETL_MASTER_KEY_FILE": "/keys/one", "XDG_CONFIG_HOME": "/cfg"}, "/keys/one"),
        ({}, os.path.expanduser("~/.config/noetl/master.key")),
    ],
    ids=["xdg", "named", "home"],
)
def test_which_file_it_is(environment: dict[str, str], file: str) -> None:
    assert master_key_settings(environment) == MasterKeySettings(None, file)


def add_key(file: str) -> None:
    MasterKeySource(MasterKeySettings(None, file)).add()


def test_processes_that_rotate_at_once_lose_no_key(tmp_path: Path) -> None:
    file = tmp_path / "master.key"
    first = source(file).read_or_create().current
    processes = [multiprocessing.get_context("spawn").Process(target=add_key, args=(str(file),)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_SECONDS)
        assert process.exitcode == 0
    keys = source(file).read()
    assert len({key.id for key in (keys.current, *keys.older)}) == 4
    assert keys.older[-1] == first


# -- the safe ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def safe(tmp_path: Path) -> Safe:
    return Safe(MemoryStore().credentials, source(tmp_path / "key" / "master.key"))


def test_a_credential_comes_out_as_it_went_in(safe: Safe) -> None:
    safe.put("api", "bearer", {"token": "s3cret-t0ken"}, paths=["shop/*"], pools=["p"], now=1.0)
    safe.put("api", "bearer", {"token": "newer-t0ken"}, now=2.0)
    result = safe.open("api")
    assert (result.kind, result.fields, result.paths, result.pools) == ("bearer", {"token": "newer-t0ken"}, (), ())
    (row,) = safe.store.all()
    assert (row.created, row.updated) == (1.0, 2.0)


def test_an_older_row_that_is_put_back_is_noticed(safe: Safe) -> None:
    """L17: who can write to the database could bring back a password that was changed because it had leaked."""
    safe.put("api", "bearer", {"token": "leaked-t0ken"}, now=1.0)
    (before,) = safe.store.all()
    safe.put("api", "bearer", {"token": "newer-t0ken"}, now=1.0)
    (row,) = safe.store.all()
    assert revision_of(row.sealed) == revision_of(before.sealed) + 1
    safe.store.put(before)
    with pytest.raises(AuthError, match="older than the one that was last used here"):
        safe.open("api")
    safe.store.put(row)
    assert safe.open("api").fields == {"token": "newer-t0ken"}
    safe.store.put(before)
    safe.put("api", "bearer", {"token": "third-t0ken"}, now=1.0)
    assert safe.open("api").fields == {"token": "third-t0ken"}


def test_a_credential_may_be_deleted_and_set_again(safe: Safe) -> None:
    safe.put("api", "bearer", {"token": "first-t0ken"}, now=5.0)
    safe.store.delete("api")
    safe.put("api", "bearer", {"token": "newer-t0ken"}, now=1.0)  # and the clock was put back
    assert safe.open("api").fields == {"token": "newer-t0ken"}


def test_with_a_key_file_it_is_noticed_by_processes_that_come_later(tmp_path: Path) -> None:
    keys = source(tmp_path / "key" / "master.key", database=tmp_path / "data" / "noetl.db")
    store = MemoryStore().credentials
    Safe(store, keys).put("api", "bearer", {"token": "leaked-t0ken"}, now=1.0)
    (before,) = store.all()
    Safe(store, keys).put("api", "bearer", {"token": "newer-t0ken"}, now=2.0)
    assert stat.S_IMODE((tmp_path / "key" / "master.key.revisions").stat().st_mode) == 0o600
    store.put(before)
    with pytest.raises(AuthError, match="older than the one that was last used here"):
        Safe(store, keys).open("api")
    elsewhere = source(tmp_path / "key" / "master.key", database=tmp_path / "data" / "copy.db")
    assert Safe(store, elsewhere).open("api").fields == {"token": "leaked-t0ken"}
    Revisions(keys).forget()  # as `noetl restore` does
    assert Safe(store, keys).open("api").fields == {"token": "leaked-t0ken"}


def test_a_list_of_revisions_that_is_damaged_is_reported(tmp_path: Path) -> None:
    keys = source(tmp_path / "key" / "master.key", database=tmp_path / "data" / "noetl.db")
    safe = Safe(MemoryStore().credentials, keys)
    safe.put("api", "bearer", {"token": "s3cret-t0ken"}, now=1.0)
    (tmp_path / "key" / "master.key.revisions").write_text("{")
    with pytest.raises(AuthError, match="repair or remove it"):
        safe.open("api")


def test_a_credential_that_is_missing(safe: Safe) -> None:
    with pytest.raises(NotFound, match="create it with `noetl credential set api --kind KIND`"):
        safe.open("api")


def test_rotation_keeps_everything_readable(safe: Safe) -> None:
    for number in range(5):
        safe.put(f"c{number}", "bearer", {"token": f"s3cret-{number}"}, now=1.0)
    before = safe.keys.read().current
    assert safe.rotate() == (5, 0)
    keys = safe.keys.read()
    assert keys.older == (before,)
    assert all(row.sealed[1:9] == keys.current.id for row in safe.store.all())
    assert safe.open("c3").fields == {"token": "s3cret-3"}
    assert safe.rotate(forget_older=True) == (5, 2)
    assert safe.keys.read().older == ()
    assert safe.open("c4").fields == {"token": "s3cret-4"}


def test_an_interrupted_rotation_leaves_everything_readable(safe: Safe, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        safe.put(f"c{number}", "bearer", {"token": f"s3cret-{number}"}, now=1.0)
    calls, reseal = [], safe.store.reseal

    def dies(name: str, before: bytes, after: bytes) -> bool:
        calls.append(name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return reseal(name, before, after)

    monkeypatch.setattr(safe.store, "reseal", dies)
    with pytest.raises(KeyboardInterrupt):
        safe.rotate()
    assert [safe.open(f"c{number}").fields["token"] for number in range(4)] == [f"s3cret-{n}" for n in range(4)]
    monkeypatch.undo()
    assert safe.rotate().credentials == 4


def test_a_credential_set_during_a_rotation_stays_as_it_was_set(safe: Safe, monkeypatch: pytest.MonkeyPatch) -> None:
    safe.put("api", "bearer", {"token": "old-s3cret"}, now=1.0)
    rows = safe.store.all()
    safe.put("api", "bearer", {"token": "new-s3cret"}, now=2.0)
    monkeypatch.setattr(safe.store, "all", lambda: rows)
    assert safe.rotate() == (0, 0)
    assert safe.open("api").fields == {"token": "new-s3cret"}


def test_a_key_that_is_forgotten_while_it_seals_is_replaced(safe: Safe, monkeypatch: pytest.MonkeyPatch) -> None:
    safe.put("other", "bearer", {"token": "s3cret-t0ken"}, now=1.0)
    put, done = safe.store.put, []

    def rotated_before(row: object) -> None:
        if not done:
            done.append(safe.rotate(forget_older=True))
        put(row)  # type: ignore[arg-type]

    monkeypatch.setattr(safe.store, "put", rotated_before)
    safe.put("api", "bearer", {"token": "s3cret-t0ken"}, now=1.0)
    assert safe.open("api").fields == {"token": "s3cret-t0ken"}


def test_a_key_in_the_environment_is_rotated_by_whoever_set_it(tmp_path: Path) -> None:
    store = MemoryStore().credentials
    Safe(store, source(tmp_path / "none", OLD.secret.hex())).put("api", "bearer", {"token": "s3cret-t0ken"}, now=1.0)
    both = Safe(store, source(tmp_path / "none", f"{NEW.secret.hex()},{OLD.secret.hex()}"))
    assert both.rotate() == (1, 0)
    alone = Safe(store, source(tmp_path / "none", NEW.secret.hex()))
    assert alone.open("api").fields == {"token": "s3cret-t0ken"}
    assert alone.rotate() == (0, 0)


@pytest.mark.parametrize(
    ("name", "kind", "fields", "message"),
    [
        ("a b", "bearer", {"token": "abcdefg"}, "not a valid credential name"),
        ("", "bearer", {"token": "abcdefg"}, "not a valid credential name"),
        ("a", "baerer", {"token": "abcdefg"}, "did you mean 'bearer'"),
        ("a", "bearer", ["abcdefg"], "a JSON map of its fields"),
        ("a", "bearer", {"token": "abc"}, "token is shorter than 6 characters"),
        ("a", "bearer", {"tokn": "abcdefg"}, "needs {token}; 'tokn' is not a field of this kind"),
    ],
    ids=["space", "empty", "kind", "list", "short", "field"],
)
def test_what_cannot_be_kept(safe: Safe, name: str, kind: str, fields: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        safe.put(name, kind, fields, now=1.0)
    assert message in str(caught.value)
    assert "abcdefg" not in str(caught.value)
    assert safe.store.all() == []


def test_a_master_key_is_a_value() -> None:
    assert MasterKey(b"x" * 32) == MasterKey(b"x" * 32)
