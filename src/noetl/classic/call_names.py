"""The outcome of a classic step's call as its templates see it: `result`, `response`, `this`, `error` and `outcome`.

`result` is the body, the rows or the value itself, by the kind of the call. `response` has {status_code, headers, data,
status, error}, `this` has {status, data, error, meta}. Both are evaluated lazily, so a large result that is
stored elsewhere is loaded only when a template reads it. A call that got no response has no `response` (R5); after an
HTTP error `response.data` is the body of the error response.
"""

from __future__ import annotations

from typing import Any

from noetl.expression import Contents, Missing, View, unwrapped

NO_CALL: dict[str, Any] = {"status": "ok", "result": None, "error": None, "meta": {}}
RESPONSE_NAMES = {"response.status": "this.status", "response.error": "this.error"}
"""Names that exist without a response too."""
RESPONSE_FIELDS = ("status_code", "headers", "data", "status", "error")
_NO_RESPONSE = Missing("response", hint="the call got no response: test with `response is defined`, or read `this`")


def failed_call(error: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a call that failed without one of its own: it ran out of time, or an item of its loop failed."""
    return {"status": "error", "result": None, "error": error, "meta": {}}


def ignored_call(outcome: dict[str, Any]) -> dict[str, Any]:
    """The outcome that templates see after an error that `on_error: ignore` has ignored."""
    return {**NO_CALL, "meta": outcome["meta"], "answered": _is_answered(outcome)}


def _is_answered(outcome: dict[str, Any]) -> bool:
    """Whether the call got a response: it was ok, or the server answered with an error."""
    http = outcome.get("http") or {}
    return bool(outcome.get("answered", outcome["status"] == "ok" or http.get("status")))


def call_names(outcome: dict[str, Any], view: str, loop: bool) -> dict[str, Any]:
    """The classic names for an outcome. The results of a loop are viewed item by item."""
    data = _items(outcome["result"], view) if loop else _part(outcome["result"], view)
    return {
        "result": RowList(data) if view == "rows" and not loop and data is not None else data,
        "response": Envelope(outcome, _body(outcome, data), RESPONSE_FIELDS) if _is_answered(outcome) else _NO_RESPONSE,
        "this": Envelope(outcome, data, ("status", "data", "error", "meta")),
        "error": outcome["error"],
        "outcome": outcome,
    }


def _body(outcome: dict[str, Any], data: Any) -> Any:
    """The body of the response: after an HTTP error that of the error response, null if it had none."""
    return outcome["error"]["details"].get("body") if outcome["status"] == "error" else data


def _part(result: Any, view: str) -> Any:
    if view == "value" or result is None:
        return result
    if isinstance(result, dict):
        return result.get(view, result)
    return StoredField(result, view) if isinstance(result, View) else result


def _items(results: Any, view: str) -> Any:
    if view == "value" or results is None:
        return results
    if isinstance(results, list):
        parts = [_part(result, view) for result in results]
        if not any(isinstance(part, View) for part in parts):
            return parts
    return StoredItemFields(results, view)


class StoredField(View):
    """A field of a value that is stored elsewhere."""

    __slots__ = ("field", "whole")

    def __init__(self, whole: Any, field: str) -> None:
        self.whole, self.field = whole, field

    def value(self, contents: Contents) -> Any:
        try:
            return unwrapped(self.whole.lookup(self.field, contents), contents)
        except KeyError:
            return unwrapped(self.whole, contents)


class StoredItemFields(StoredField):
    """The fields of the results of a loop that are stored elsewhere."""

    __slots__ = ()

    def value(self, contents: Contents) -> Any:
        results = unwrapped(self.whole, contents)
        if not isinstance(results, list):
            return results
        return [unwrapped(_part(result, self.field), contents) for result in results]


class RowList(View):
    """A list of rows, which is also its own field `rows`."""

    __slots__ = ("rows",)

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def lookup(self, name: str | int, contents: Contents) -> Any:
        if name == "rows":
            return self.rows
        raise KeyError(name)

    def value(self, contents: Contents) -> Any:
        return unwrapped(self.rows, contents)

    def passed(self, contents: Contents) -> Any:
        return self.rows


class Envelope(View):
    __slots__ = ("data", "fields", "outcome")

    def __init__(self, outcome: dict[str, Any], data: Any, fields: tuple[str, ...]) -> None:
        self.outcome, self.data, self.fields = outcome, data, fields

    def lookup(self, name: str | int, contents: Contents) -> Any:
        if name not in self.fields:
            raise KeyError(name)
        if name == "data":
            return self.data
        if name in ("status_code", "headers"):
            return _of_http(self.outcome, "status" if name == "status_code" else name, contents)
        return self.outcome.get(str(name))

    def value(self, contents: Contents) -> Any:
        return {field: unwrapped(self.lookup(field, contents), contents) for field in self.fields}


def _of_http(outcome: dict[str, Any], field: str, contents: Contents) -> Any:
    http = outcome.get("http")
    if isinstance(http, dict) and field in http:
        return http[field]
    result = outcome["result"]
    if http is None or not isinstance(result, dict | View):
        return None
    try:
        return result.lookup(field, contents) if isinstance(result, View) else result.get(field)
    except KeyError:
        return None
