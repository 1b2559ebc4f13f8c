"""/executions/ID/items: the items of a loop."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec

from noetl.engine.history.loop_items import ItemsSummary, items_summary
from noetl.engine.history.run_index import ItemStatus, RunIndex
from noetl.runtime.item_pages import Items, LoopItem, check_loop, items_after
from noetl.runtime.past import PastReader
from noetl.server.endpoint import ApiCall, Routes
from noetl.server.item_previews import previews
from noetl.server.parameters import ItemPage, Limit
from noetl.server.run_reads import RunQuery, read_run
from noetl.timestamps import optional_rfc3339

routes = Routes()

MAX_SEARCHED = 1_000  # items that a request with `q` reads

Search = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\0]*$", description="Text to search for.")]


class ItemErrorView(msgspec.Struct, frozen=True):
    kind: str
    message: str


class ItemView(msgspec.Struct, frozen=True):
    """An item of a loop. `preview` is the item as JSON, cut; null if it cannot be read."""

    index: int
    status: ItemStatus
    preview: str | None
    started: str | None
    duration_ms: float | None
    attempts: int  # the highest attempt of its tasks
    error: ItemErrorView | None
    seq: int | None  # of the event that decided its status


class ItemsQuery(RunQuery, frozen=True):
    status: ItemStatus | None = None
    after: Annotated[int, msgspec.Meta(ge=-1, le=2**53, description="Only items after this index.")] = -1
    limit: Limit = 100
    q: Search = ""


class LoopItemPage(ItemPage[ItemView, int], frozen=True):
    """Items by index; `next` is the `after` of the next page. A page may have fewer items than its limit.

    With `q`, `scanned_to` is the last index that was searched.
    """

    scanned_to: int | None


@routes.add("GET", "/executions/{id}/items")
async def items(call: ApiCall, query: ItemsQuery) -> LoopItemPage:
    """The items of a loop, all or those with a status; `q` searches previews and errors."""
    limit = MAX_SEARCHED if query.q else query.limit
    page = await read_run(call, query, check_loop, partial(_items, query=query, limit=limit))
    indexes = [item.index for item in page.items]
    api = call.api
    texts = await previews(page.collection, indexes, api.histories.stored_values, api.host.runtime.past)
    views = [_view(item, texts.get(item.index)) for item in page.items]
    if not query.q:
        return LoopItemPage(views, page.next, None)
    matching = [view for view in views if _matches(view, query.q.casefold())]
    if len(matching) > query.limit:
        last = matching[query.limit - 1].index
        return LoopItemPage(matching[: query.limit], last, last)
    return LoopItemPage(matching, page.next, indexes[-1] if indexes else None)


def _items(past: PastReader, execution: str, index: RunIndex, query: ItemsQuery, limit: int) -> Items:
    return items_after(past, execution, index, query.status, query.after, limit)


def _view(item: LoopItem, preview: str | None) -> ItemView:
    history = item.history
    error = None if history.error is None else ItemErrorView(history.error.kind, history.error.message)
    started, is_over = optional_rfc3339(history.started), item.status in ("ok", "failed")
    duration = history.duration_ms if is_over else None
    return ItemView(
        item.index, item.status, preview, started, duration, history.attempts, error if is_over else None, history.seq
    )


def _matches(view: ItemView, text: str) -> bool:
    error = "" if view.error is None else f"{view.error.kind}: {view.error.message}"
    return text in (view.preview or "").casefold() or text in error.casefold()


@routes.add("GET", "/executions/{id}/items/summary")
async def summary(call: ApiCall, query: RunQuery) -> ItemsSummary:
    """How the items of a loop ended, why they failed, and how long they took."""

    return await read_run(call, query, check_loop, lambda past, execution, index: items_summary(index))
