"""Lines that servers and workers write of themselves."""

from __future__ import annotations

import logging
from io import StringIO

import msgspec
import pytest

from noetl.log import LIBRARY_LINES, Level, Log, _Libraries, capture_warnings


def written(form: str, level: Level = "info", message: str = "hello", **fields: object) -> str:
    stream = StringIO()
    Log(form, stream=stream).write(level, message, **fields)  # type: ignore[arg-type]
    return stream.getvalue()


def test_a_line_of_json_has_time_level_message_and_fields() -> None:
    line = written("json", status=200, who=None, at=["a", "b"])
    assert line.endswith("}\n")
    value = msgspec.json.decode(line)
    assert list(value) == ["ts", "level", "msg", "status", "at"]
    assert (value["level"], value["msg"], value["status"]) == ("info", "hello", 200)
    assert value["ts"].endswith("Z")


def test_a_line_of_text_is_one_line_whatever_is_in_it() -> None:
    line = written("text", route="/api/v1/executions/{id}", ms=1.5, error='two\nlines "quoted" \x1b[2J', none=None)
    assert line.count("\n") == 1
    assert "\x1b" not in line
    assert " INFO hello route=/api/v1/executions/{id} ms=1.5 error=" in line
    assert '"two\\nlines \\"quoted\\" ' in line


@pytest.mark.parametrize(("lowest", "kept"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_what_is_below_the_level_is_not_written(lowest: Level, kept: int) -> None:
    stream = StringIO()
    log = Log("json", lowest, stream)
    for level in ("debug", "info", "warning", "error"):
        log.write(level, "x")  # type: ignore[arg-type]
    assert len(stream.getvalue().splitlines()) == kept


def test_a_log_that_nothing_reads_does_not_end_the_process() -> None:
    stream = StringIO()
    log = Log("json", stream=stream)
    stream.close()
    log.write("info", "nobody hears this")
    log.write("error", "nor this")


def test_libraries_speak_through_the_log_without_their_values() -> None:
    before, stream = logging.getLogger().handlers, StringIO()
    try:
        capture_warnings(Log("json", stream=stream))
        try:
            raise RuntimeError("s3cret")
        except RuntimeError:
            logging.getLogger("some.library").exception("it broke\nTraceback: s3cret")
        logging.getLogger("some.library").info("chatter")
    finally:
        logging.getLogger().handlers = before
    (line,) = map(msgspec.json.decode, stream.getvalue().splitlines())
    assert (line["level"], line["msg"], line["library"]) == ("error", "it broke", "some.library")
    assert line["error"] == "RuntimeError"
    assert "s3cret" not in stream.getvalue()


def test_a_library_that_warns_without_end_fills_no_disk() -> None:
    now, stream = [0.0], StringIO()
    handler = _Libraries(Log("json", stream=stream), lambda: now[0])

    def warn(library: str) -> None:
        handler.emit(logging.LogRecord(library, logging.ERROR, "", 0, "out of descriptors", None, None))

    for _ in range(10_000):
        warn("asyncio")
    warn("uvicorn.error")
    now[0] = 60.0
    warn("asyncio")
    lines = list(map(msgspec.json.decode, stream.getvalue().splitlines()))
    assert [line["library"] for line in lines] == ["asyncio"] * LIBRARY_LINES + ["uvicorn.error", "asyncio"]
    assert [line.get("suppressed") for line in lines[-2:]] == [None, 10_000 - LIBRARY_LINES]


def test_a_defect_names_places_and_no_values() -> None:
    stream = StringIO()
    try:
        raise RuntimeError("s3cret")
    except RuntimeError as error:
        Log("json", stream=stream).defect(error, route="/x")
    value = msgspec.json.decode(stream.getvalue())
    assert (value["level"], value["error"], value["route"]) == ("error", "RuntimeError", "/x")
    assert value["at"][0].startswith("test_log.py:")
    assert "s3cret" not in stream.getvalue()
