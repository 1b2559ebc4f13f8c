"""Pages of the output of tasks, filtered while they are read.

No index knows the text of a line, so a page with filters reads the log line by line, up to a limit: its `scanned_to`
says how far it has come, and the next request continues there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from noetl.server.parameters import ItemPage, Limit, QueryString, text
from noetl.store.store import Store, StoredLine
from noetl.timestamps import rfc3339

MAX_SCANNED_LINES, MAX_SCANNED_CHARACTERS = 20_000, 64 << 20  # read by one request
PAGE_CHARACTERS = 8 << 20
LINES_PER_READ = 100

MAX_LINE = 2**31 - 1

LineNumber = Annotated[int, msgspec.Meta(ge=0, le=MAX_LINE)]


class LogFilter(QueryString, frozen=True, kw_only=True):
    run: Annotated[str, text("Only output of this step run, such as `fetch#1`.")] = ""
    item: Annotated[LineNumber | None, msgspec.Meta(description="Only output of the item with this index.")] = None
    task: Annotated[str, text("Only output of tasks with this label, or of one visit, such as `get#2`.")] = ""
    stream: Annotated[Literal["stdout", "stderr"] | None, msgspec.Meta(description="Only this stream.")] = None
    q: Annotated[str, text("Only lines with this text; case-insensitive.")] = ""

    @property
    def selects(self) -> bool:
        return any([self.run, self.item is not None, self.task, self.stream, self.q])

    def matches(self, line: StoredLine) -> bool:
        _, task, _, stream, content = line
        iteration, _, path = task.partition("/")
        run, _, index = iteration.partition("[")
        return (
            self.run in ("", run)
            and (self.item is None or index == f"{self.item}]")
            and self.task in ("", path, path.rpartition("/")[2].rpartition("#")[0])
            and self.stream in (None, stream)
            and (not self.q or self.q.lower() in content.lower())
        )


class LogQuery(LogFilter, frozen=True, kw_only=True):
    after: Annotated[LineNumber, msgspec.Meta(description="Only lines after this number.")] = 0
    before: Annotated[LineNumber | None, msgspec.Meta(description="The last lines before this number.")] = None
    row: Annotated[
        LineNumber | None, msgspec.Meta(description="Only lines from this place on, counted from 0; without filters.")
    ] = None
    count: Annotated[bool, msgspec.Meta(description="Add `row` and `total`.")] = False
    limit: Limit = 1_000


class LogLineView(msgspec.Struct, frozen=True):
    """A line of output of a task."""

    number: int
    task: str
    timestamp: str
    stream: str
    line: str


class LogPage(ItemPage[LogLineView, int], frozen=True):
    """Output of tasks in order. `next` is the `after` of the next page, `prev` the `before` of the one before it.

    A request reads 20,000 lines at most, so with filters a page may have fewer lines than its limit. `scanned_to` is
    the number of the last line that was read; null if there was none. With `count`, `total` is the number of lines of
    the execution, and `row` how many of them come before the first line of the page, or before its place.
    """

    prev: int | None
    scanned_to: int | None
    row: int | msgspec.UnsetType = msgspec.UNSET
    total: int | msgspec.UnsetType = msgspec.UNSET


def log_page(store: Store, execution: str, query: LogQuery) -> LogPage:
    if query.row is not None:
        number = store.output_number(execution, query.row)
        query = replace(query, after=MAX_LINE if number is None else number - 1)
    page = _page(store, execution, query)
    if not query.count:
        return page
    first = page.items[0].number if page.items else query.after + 1 if query.before is None else query.before
    return replace(page, row=store.output_rows(execution, first), total=store.output_rows(execution, MAX_LINE + 1))


def _page(store: Store, execution: str, query: LogQuery) -> LogPage:
    lines: list[LogLineView] = []
    scanned_to: int | None = None
    scanned_characters = page_characters = 0
    for count, line in enumerate(_lines(store, execution, query), start=1):
        number, task, at, stream, content = line
        scanned_to, scanned_characters = number, scanned_characters + len(content)
        if query.matches(line):
            lines.append(LogLineView(number, task, rfc3339(at), stream, content))
            page_characters += len(content)
        is_full = len(lines) == query.limit or page_characters >= PAGE_CHARACTERS
        if is_full or count == MAX_SCANNED_LINES or scanned_characters >= MAX_SCANNED_CHARACTERS:
            break
    if query.before is not None:
        lines.reverse()
        first, last = scanned_to if scanned_to is not None else query.before, max(0, query.before - 1)
    else:
        first, last = query.after + 1, scanned_to if scanned_to is not None else query.after
    following = last if store.output(execution, last, 1) else None
    preceding = first if store.output_before(execution, first, 1) else None
    return LogPage(lines, following, preceding, scanned_to)


def _lines(store: Store, execution: str, query: LogQuery) -> Iterator[StoredLine]:
    """The lines after a number, or those before one, the last one first."""
    position = query.after if query.before is None else query.before
    count = LINES_PER_READ if query.selects else min(LINES_PER_READ, query.limit)
    while True:
        read = store.output if query.before is None else store.output_before
        lines = read(execution, position, count)
        yield from lines
        if len(lines) < count:
            return
        position = lines[-1][0]


def log_text(store: Store, execution: str, filter: LogFilter, after: int) -> tuple[bytes, int | None]:
    """Lines after a number as text, and the number after which to continue; None at the end of the log."""
    lines = store.output(execution, after, LINES_PER_READ)
    content = "".join(
        f"{rfc3339(at)} {stream:<6} {task} | {line}\n"
        for number, task, at, stream, line in lines
        if filter.matches((number, task, at, stream, line))
    )
    return content.encode(), lines[-1][0] if len(lines) == LINES_PER_READ else None
