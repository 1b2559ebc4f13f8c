"""A small HTTP API on this machine for the examples. Needs only Python.

    python examples/api.py &          serves on http://127.0.0.1:8000
    python examples/api.py 8123 &     on another port; 0 takes any free port

The first line of its output is its address. It keeps everything in memory.

    /items?page=1&size=50             {"items": [...], "next_page": 2, "has_more": true}; 120 items in all
    /flaky?key=a&failures=2           503 for the first two requests with that key, then {"key": "a", "requests": 3}
    /weather?city=Graz                {"city": "Graz", "degrees": 13}
    /users/ada                        {"name": "ada", "email": "ada@example.org", "active": true}; 404 for nobody
    /shop/orders?page=1               30 rows a page of users, products, orders or events; some requests fail:
                                      orders page 2 twice with 500, products page 1 once with 502 and HTML, events
                                      page 3 once with 429 and Retry-After
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

ITEMS = [{"id": number, "name": f"item {number}"} for number in range(1, 121)]
REQUESTS: Counter[str] = Counter()
SHOP = {"users": 90, "products": 60, "orders": 120, "events": 150}
FAULTS: dict[tuple[str, int], tuple[int, int, object]] = {
    ("orders", 2): (2, 500, {"error": "out of order"}),
    ("products", 1): (1, 502, "<html><body>Bad Gateway</body></html>"),
    ("events", 3): (1, 429, {"error": "too many requests"}),
}


def shop(entity: str, page: int) -> tuple[int, object]:
    failures, status, body = FAULTS.get((entity, page), (0, 200, None))
    REQUESTS[f"{entity} {page}"] += 1
    if REQUESTS[f"{entity} {page}"] <= failures:
        return status, body
    numbers = range(page * 30 - 29, min(page * 30, SHOP[entity]) + 1)
    rows = [{"id": number, "name": f" {entity} {number} ", "amount": f"{number}.50"} for number in numbers]
    return 200, {"items": rows, "next_page": page + 1 if page * 30 < SHOP[entity] else None}


def answer(path: str, query: dict[str, str]) -> tuple[int, object]:
    """The status and the body of an answer."""
    match path.strip("/").split("/"):
        case ["items"]:
            page, size = int(query.get("page", "1")), int(query.get("size", "50"))
            more = page * size < len(ITEMS)
            found = ITEMS[(page - 1) * size : page * size]
            return 200, {"items": found, "next_page": page + 1 if more else None, "has_more": more}
        case ["flaky"]:
            key = query.get("key", "")
            REQUESTS[key] += 1
            if REQUESTS[key] <= int(query.get("failures", "2")):
                return 503, {"error": "busy, come back later"}
            return 200, {"key": key, "requests": REQUESTS[key]}
        case ["weather"]:
            city = query.get("city", "")
            return 200, {"city": city, "degrees": sum(map(ord, city)) % 30}
        case ["users", name] if name != "nobody":
            return 200, {"name": name, "email": f"{name}@example.org", "active": True}
        case ["shop", entity] if entity in SHOP:
            return shop(entity, int(query.get("page", "1")))
    return 404, {"error": "there is nothing here"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        try:
            status, body = answer(url.path, dict(parse_qsl(url.query)))
        except ValueError:
            status, body = 400, {"error": "page, size and failures are numbers"}
        is_html = isinstance(body, str)
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if is_html else "application/json")
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing about each request."""


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    with suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
