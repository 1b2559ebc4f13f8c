"""Every await of the shell as a named point at which a process can be made to kill itself.

`places` finds them in the source, `install` builds them into the modules as they are imported. Both walk the same
tree, so an await that somebody adds is a point without anybody doing anything. A name is the function and the how
manieth await in it: `runtime.runtime:Runtime._commit:2 before`. The writes of a store are points too.
"""

from __future__ import annotations

import ast
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

PACKAGES = ("host", "runtime", "worker")
"""The parts of noetl that wait for the world."""
SERVER = ("background", "heartbeats", "recovery", "server_host")
REMOTE = frozenset(
    [
        *(*SERVER, "waiters"),
        *("heartbeat", "http_link", "remote_contents", "server_client", "worker_loop"),
    ]
)
"""Modules of servers and their workers: those are killed from outside, in tests/acceptance/modes."""
AWAIT = ("before", "after")
ENTER = ("before entering", "after entering", "before leaving", "after leaving")
NEXT = ("before the next", "after the next")
WRITES = ("commit", "put_playbook", "append_output")
STORE = (*(f"store:{write} {side}" for write in WRITES for side in AWAIT), "store:transaction inside")
"""Points around each write of a store, and between the rows of a transaction and its commit."""


# -- finding --------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A node of a module that awaits."""

    name: str
    sides: tuple[str, ...]
    node: ast.AST

    @property
    def points(self) -> list[str]:
        return [f"{self.name} {side}" for side in self.sides]


def source() -> Path:
    """The folder of the package, which is not imported for that."""
    spec = find_spec("noetl")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def modules() -> Iterator[tuple[str, Path]]:
    """Name and file of each module that has points, such as `host.embedded`."""
    for package in PACKAGES:
        for file in sorted((source() / package).rglob("*.py")):
            if file.stem in REMOTE:
                continue
            yield ".".join(file.relative_to(source()).with_suffix("").parts), file


def all_points() -> list[str]:
    """Every point there is."""
    result = [place for name, file in modules() for place in places(name, ast.parse(file.read_bytes()))]
    return [*(point for place in result for point in place.points), *STORE]


def places(module: str, tree: ast.AST) -> list[Place]:
    """The places of a module, by function, in the order of the source."""
    result: dict[str, list[tuple[tuple[int, int], tuple[str, ...], ast.AST]]] = {}
    for function, node in _walk(tree, ""):
        match node:
            case ast.Await():
                result.setdefault(function, []).append((_at(node), AWAIT, node))
            case ast.AsyncWith(items=items):
                for item in items:
                    result.setdefault(function, []).append((_at(item.context_expr), ENTER, item))
            case ast.AsyncFor(iter=over) | ast.comprehension(iter=over, is_async=1):
                result.setdefault(function, []).append((_at(over), NEXT, node))
    return [
        Place(f"{module}:{function}:{number}", sides, node)
        for function, nodes in result.items()
        for number, (_, sides, node) in enumerate(sorted(nodes, key=lambda node: node[0]), start=1)
    ]


def _walk(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        name = getattr(child, "name", "") if isinstance(child, DEFINITIONS) else ""
        inside = f"{function}.{name}".lstrip(".") if name else function
        yield inside, child
        yield from _walk(child, inside)


DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _at(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


# -- building in ----------------------------------------------------------------------------------------------------


class Rebuild(ast.NodeTransformer):
    """Puts the points of a module into its tree."""

    def __init__(self, found: Sequence[Place]) -> None:
        self.names = {id(place.node): place.name for place in found}

    def visit_Await(self, node: ast.Await) -> ast.AST:
        """`await x` becomes `(hit(before), await x, hit(after))[1]`: what `x` sets going comes after `before`."""
        name = self.names[id(node)]
        self.generic_visit(node)
        hits = [_call("__hit__", ast.Constant(f"{name} {side}")) for side in AWAIT]
        three = ast.Tuple([hits[0], node, hits[1]], ast.Load())
        return ast.copy_location(ast.Subscript(three, ast.Constant(1), ast.Load()), node)

    def visit_withitem(self, node: ast.withitem) -> ast.AST:
        self.generic_visit(node)
        if id(node) in self.names:
            node.context_expr = _call("__entered__", ast.Constant(self.names[id(node)]), node.context_expr)
        return node

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        self.generic_visit(node)
        node.iter = _call("__iterated__", ast.Constant(self.names[id(node)]), node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        if id(node) in self.names:
            node.iter = _call("__iterated__", ast.Constant(self.names[id(node)]), node.iter)
        return node


def _call(function: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(function, ast.Load()), list(args), [])


def rebuilt(module: str, text: bytes | str, file: str) -> CodeType:
    """The code of a module with its points in it."""
    tree = ast.parse(text)
    Rebuild(places(module, tree)).visit(tree)
    code: CodeType = compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)
    return code


class Loader(SourceFileLoader):
    """Loads a module with its points in it; the compiled code of the plain one is neither used nor replaced."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return rebuilt(fullname.removeprefix("noetl."), self.get_data(path), path)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(GLOBALS)
        super().exec_module(module)


class Finder(MetaPathFinder):
    """Finds the modules that have points."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(tuple(f"noetl.{package}." for package in PACKAGES)):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Loader(fullname, spec.loader.path)
        return spec


def install() -> None:
    """From here on modules are imported with their points. None of them may have been imported before."""
    assert not [name for name in sys.modules if name.startswith(tuple(f"noetl.{package}." for package in PACKAGES))]
    sys.meta_path.insert(0, Finder())


# -- hitting --------------------------------------------------------------------------------------------------------


class Meter:
    """Counts how often this process has come by each point, and kills it at one of them."""

    def __init__(self) -> None:
        self.armed = False
        self.counts: Counter[str] = Counter()
        self.target: tuple[str, int] | None = None

    def arm(self, target: tuple[str, int] | None) -> None:
        self.armed, self.target = True, target

    def hit(self, point: str) -> None:
        if self.armed:
            self.counts[point] += 1
            if self.target == (point, self.counts[point]):
                os.kill(os.getpid(), signal.SIGKILL)


METER = Meter()


class Entered:
    """An async context manager with points at both of its awaits."""

    def __init__(self, name: str, inner: Any) -> None:
        self.name, self.inner = name, inner

    async def __aenter__(self) -> Any:
        METER.hit(f"{self.name} before entering")
        value = await self.inner.__aenter__()
        METER.hit(f"{self.name} after entering")
        return value

    async def __aexit__(self, *error: Any) -> Any:
        METER.hit(f"{self.name} before leaving")
        value = await self.inner.__aexit__(*error)
        METER.hit(f"{self.name} after leaving")
        return value


async def iterated(name: str, over: Any) -> Any:
    """What an async iterator gives, with points around each await for it."""
    iterator = aiter(over)
    while True:
        METER.hit(f"{name} before the next")
        try:
            value = await anext(iterator)
        except StopAsyncIteration:
            return
        METER.hit(f"{name} after the next")
        yield value


GLOBALS = {"__hit__": METER.hit, "__entered__": Entered, "__iterated__": iterated}


class Watched:
    """A store whose writes are points."""

    def __init__(self, store: Any) -> None:
        self.store = store
        store._db.connection.set_commit_hook(lambda: METER.hit("store:transaction inside") or False)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        return method if name not in WRITES else lambda *args: self._write(name, method, args)

    def _write(self, name: str, method: Any, args: tuple[Any, ...]) -> Any:
        METER.hit(f"store:{name} before")
        done = method(*args)
        METER.hit(f"store:{name} after")
        return done
