"""The loop of a child: read a call, run its code, respond, until the engine closes the channel.

A call is four bytes of length, four bytes of serial number, and JSON: `code, libs, args, action, auth, file, line` and
`paths`, the folders of modules before the standard library and those of packages after it. A response is four bytes of
length, the serial number of the call (which data that code writes to the channel by mistake does not have), a byte for
success, a byte that says whether to replace the child, and JSON.
"""

from __future__ import annotations

import os
import sys
from _thread import _count as count_threads
from contextlib import suppress
from json import JSONEncoder, loads
from resource import RUSAGE_SELF, getrusage
from signal import alarm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, TextIO

MAX_RESULT_BYTES = 200 * 1024 * 1024
GROWTH_KILOBYTES = 256 * 1024
"""A child whose memory grew by more is replaced."""
MAX_CACHED_PROGRAMS = 128
LARGE = 10_000
"""Results with more parts are encoded with msgspec, which is faster and needs less memory, but has to be imported."""
TRACEBACK_LINES = 60
LINE_CHARACTERS = 2000
MESSAGE_CHARACTERS = 4000
CO_VARKEYWORDS = 0x08
POSITIONAL, NAMED, REST = range(3)

Module = type(sys)
MAIN = Module("__main__")
"""The main module between calls, so that no object of a call stays reachable."""
encode_small = JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")).encode


class Process:
    def __init__(self, flush_c: Callable[[], None]) -> None:
        self.flush_c = flush_c
        self.pid = os.getpid()
        self.original_environ = os.environ
        self.environ = dict(os.environ)
        self.live_environ = vars(os.environ)["_data"]  # comparing os.environ itself takes twenty times as long
        self.raw_environ = dict(self.live_environ)
        self.path = list(sys.path)
        self.recursion = sys.getrecursionlimit()
        self.folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # a sandbox may forbid to read it
        self.peak = getrusage(RUSAGE_SELF).ru_maxrss
        self.streams = {1: open_text(1), 2: open_text(2)}
        self.pipes = os.fstat(1).st_ino, os.fstat(2).st_ino

    def restore(self) -> None:
        vars(os)["environ"] = self.original_environ
        os.environ.pop("NOETL_ACTION_ID", None)
        if self.live_environ != self.raw_environ:
            os.environ.clear()
            os.environ.update(self.environ)
        os.fchdir(self.folder)
        if sys.path != self.path:
            sys.path = list(self.path)
        if sys.getrecursionlimit() != self.recursion:
            sys.setrecursionlimit(self.recursion)
        for fd, name in ((1, "stdout"), (2, "stderr")):
            vars(sys)[name] = stream = self.streams[fd]  # what the code has put there goes, and may close ours
            try:
                closed = stream.closed
            except ValueError:
                closed = True  # detached
            if closed:
                stream = self.streams[fd] = open_text(fd)
            vars(sys)[name] = vars(sys)[f"__{name}__"] = stream

    def flush(self) -> None:
        """Write all output before the response, so that it belongs to this call."""
        for stream in (sys.stdout, sys.stderr, *self.streams.values()):
            with suppress(Exception):  # closed by the code, or something of its own
                stream.flush()
        self.flush_c()

    def is_worn_out(self) -> bool:
        """Whether the call left something that would affect the next one."""
        if count_threads() > 0 or getrusage(RUSAGE_SELF).ru_maxrss - self.peak > GROWTH_KILOBYTES:
            return True
        try:
            if (os.fstat(1).st_ino, os.fstat(2).st_ino) != self.pipes:
                return True
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        except OSError:
            pass  # a stream is closed
        return True


class Runner:
    def __init__(self, control: int, flush_c: Callable[[], None], plain: Any) -> None:
        self.control, self.plain = control, plain
        self.process = Process(flush_c)
        self.programs: dict[tuple[str, int, str], tuple[CodeType, Any]] = {}
        self.source: Any = (0, None, [], "")

    def run(self) -> None:
        while True:
            frame = bytearray()
            while len(frame) < 8 or len(frame) < 8 + int.from_bytes(frame[:4], "little"):
                chunk = os.read(self.control, 65536)
                if not chunk:
                    return
                frame += chunk
            serial = bytes(frame[4:8])
            del frame[:8]
            ok, worn_out, response = self.respond(loads(frame))
            del frame, chunk
            head = len(response).to_bytes(4, "little") + serial + bytes((ok, worn_out))
            written = os.writev(self.control, (head, response)) - len(head)
            view = memoryview(response)
            while written < len(response):
                written += os.write(self.control, view[written:])
            del response, view

    def respond(self, call: dict[str, Any]) -> tuple[bool, bool, bytes]:
        """Run a call; return whether it succeeded, whether the child is worn out, and the result or error as JSON."""
        self.process.restore()
        os.environ["NOETL_ACTION_ID"] = call["action"]
        modules, packages = call["paths"]
        if packages:
            installed = (i for i, path in enumerate(sys.path) if path.endswith(("site-packages", "dist-packages")))
            sys.path[(place := next(installed, len(sys.path))) : place] = packages
        sys.path[:0] = modules
        fault: dict[str, Any] | None = None
        out_of_memory, response = False, b""
        try:
            response = self.encode(self.evaluate(call))
        except self.plain.NotPlain as error:
            fault = as_fault("python", str(error))
        except BaseException as error:
            out_of_memory = isinstance(error, MemoryError)
            fault = explain(error, call["file"], self.source)
        alarm(0)
        self.process.flush()
        sys.modules["__main__"] = MAIN
        if os.getpid() != self.process.pid:  # the code has forked and this is the copy
            os._exit(1 if fault else 0)
        if len(response) > MAX_RESULT_BYTES:
            size, limit = len(response) / 1024 / 1024, MAX_RESULT_BYTES // 1024 // 1024
            fault = as_fault("too_large", f"the result takes {size:.0f} MiB as JSON, more than {limit} MiB")
        if fault is not None:
            response = encode_small(fault).encode("utf-8", "replace")
        return fault is None, out_of_memory or self.process.is_worn_out(), response

    def evaluate(self, call: dict[str, Any]) -> Any:
        """The value of `result`, or of `main()`, or null. `sys.exit()` is a normal end."""
        args = call["args"]
        module = sys.modules["__main__"] = Module("__main__")
        space = module.__dict__
        import_libs(call["libs"], space)
        space["__file__"] = call["file"]
        if call["auth"] is not None:
            space["auth"] = call["auth"]
        space.update(args)
        code = self.compile(call["file"], call["line"], call["code"])
        try:
            exec(code, space)
            main = space.get("main")
            if callable(main) and ("result" not in space or ("result" in args and space["result"] is args["result"])):
                return call_main(main, args)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
        return space.get("result")

    def compile(self, file: str, line: int, code: str) -> CodeType:
        """The compiled program, from a cache. Tracebacks find its lines in `linecache`, numbered as in the playbook."""
        key = file, line, code
        program = self.programs.pop(key, None)
        if program is None:
            above = "\n" * (line - 1)
            self.source = (len(code), None, f"{above}{code}\n".splitlines(True), file)
            program = compile(above + code, file, "exec", dont_inherit=True), self.source
            if len(self.programs) >= MAX_CACHED_PROGRAMS:
                del self.programs[next(iter(self.programs))]
        self.programs[key] = program
        compiled, self.source = program
        if "linecache" in sys.modules:
            sys.modules["linecache"].cache[file] = self.source
        return compiled

    def encode(self, value: Any) -> bytes:
        plain = self.plain.Plain()
        value = plain.value(value)
        try:
            if plain.count > LARGE:
                from msgspec.json import encode

                return encode(value, order="sorted")  # it is stored as it is, and known by its hash
            return encode_small(value).encode()
        except UnicodeEncodeError:
            raise self.plain.find_surrogate(value) from None


def open_text(fd: int) -> TextIO:
    return open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def import_libs(libs: list[str] | dict[str, str | dict[str, Any]], space: dict[str, Any]) -> None:
    """A list imports like `import a.b`, a map like `import a.b as name` or `from a.b import c as name`."""
    if isinstance(libs, dict):
        for name, lib in libs.items():
            source, member = (lib["from"], lib.get("import")) if isinstance(lib, dict) else (lib, None)
            __import__(source)
            space[name] = sys.modules[source] if member is None else getattr(sys.modules[source], member)
    else:
        for source in libs:
            space[source.partition(".")[0]] = __import__(source)


def call_main(main: Any, args: dict[str, Any]) -> Any:
    """Call `main` with the args it accepts, and run an `async def main` to its end."""
    by_position: list[Any] = []
    by_name: dict[str, Any] = {}
    missing: list[str] = []
    rest = dict(args)
    takes_rest = gap = False
    for name, kind, required in parameters(main):
        if kind == REST:
            takes_rest = True
        elif name not in args:
            gap = True
            if required:
                missing.append(name)
        elif kind == NAMED:
            by_name[name] = rest.pop(name)
        elif not gap:
            by_position.append(rest.pop(name))
    if missing:
        raise TypeError(f"main() requires {', '.join(missing)}, but the args are {', '.join(args) or 'empty'}")
    value = main(*by_position, **by_name, **(rest if takes_rest else {}))
    if type(value).__name__ == "coroutine":
        import asyncio

        value = asyncio.run(value)
    return value


def parameters(main: Any) -> list[tuple[str, int, bool]]:
    code = getattr(main, "__code__", None)
    if code is None or hasattr(main, "__wrapped__") or hasattr(main, "__self__"):
        import inspect

        kinds: dict[Any, int] = {inspect.Parameter.POSITIONAL_ONLY: POSITIONAL, inspect.Parameter.VAR_KEYWORD: REST}
        return [
            (name, kinds.get(parameter.kind, NAMED), parameter.default is parameter.empty)
            for name, parameter in inspect.signature(main).parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_POSITIONAL
        ]
    # The same for an ordinary function, without the time it takes to load inspect.
    positional, total = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    optional = {*code.co_varnames[positional - len(main.__defaults__ or ()) : positional], *(main.__kwdefaults__ or ())}
    named = [
        (name, POSITIONAL if index < code.co_posonlyargcount else NAMED, name not in optional)
        for index, name in enumerate(code.co_varnames[:total])
    ]
    return [*named, ("", REST, False)] if code.co_flags & CO_VARKEYWORDS else named


def explain(error: BaseException, file: str, source: Any) -> dict[str, Any]:
    """An exception for the author: lines of the code, none of this file."""
    try:
        import linecache
        from traceback import TracebackException

        linecache.cache[file] = source
        kind = type(error).__name__
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        line, column = place_in(file, trace, source[2])
        text = str(error)
        if isinstance(error, SyntaxError) and error.filename == file:
            line, column, text = error.lineno, error.offset or 1, error.msg
        if len(text) > MESSAGE_CHARACTERS:
            text = text[:MESSAGE_CHARACTERS] + " ..."
        of = "" if file.startswith("<") else f" of {file}"
        message = kind + (f": {text}" if text else "") + (f" (line {line}{of})" if line is not None else "")
        message += installation_hint(error)
        lines = "".join(TracebackException(type(error), error, trace, compact=True).format()).splitlines()
    except BaseException as another:  # the exception's own __str__ may fail, or the memory may not suffice
        kind = type(error).__name__
        return as_fault("python", f"{kind} (it cannot be shown: {type(another).__name__})", kind)
    if len(lines) > TRACEBACK_LINES:
        half = TRACEBACK_LINES // 2
        lines = [*lines[:half], f"  ... {len(lines) - 2 * half} lines ...", *lines[-half:]]
    place = {"line": line, "column": column} if line is not None else {}
    return as_fault("python", message, kind, [text[:LINE_CHARACTERS] for text in lines]) | place


def installation_hint(error: BaseException) -> str:
    """Where to install the package of a missing module."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package = error.name.partition(".")[0]
    if package in sys.modules or package in sys.stdlib_module_names:
        return ""
    install = f"{sys.executable} -m pip install {package}"
    return f"; add its package to `requirements`, or install it where the worker runs: {install}"


def place_in(file: str, trace: Any, lines: list[str]) -> tuple[int | None, int]:
    """Line and column of the innermost frame of a file."""
    line, column = None, 1
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == file:
            line, column = trace.tb_lineno, 1
            start, _, offset, _ = list(code.co_positions())[trace.tb_lasti // 2]
            if start == line and offset is not None and line <= len(lines):
                column = len(lines[line - 1].encode()[:offset].decode("utf-8", "replace")) + 1
        trace = trace.tb_next
    return line, column


def as_fault(kind: str, message: str, exception_type: str | None = None, traceback: Any = ()) -> dict[str, Any]:
    return {"kind": kind, "message": message, "exception_type": exception_type, "traceback": list(traceback)}
