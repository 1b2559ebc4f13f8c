"""Filters of text. Every public name of this module is a filter."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

from noetl.expression.budget import ELEMENTS, Budget
from noetl.expression.entries import SLOW_TEXT, bounded_text, changing, short_text, string_of, stripping, whole
from noetl.expression.text import printf, storable, to_json, to_text
from noetl.expression.values import Fault, OutOfBudget, clipped, unwrapped

_WRAPPED_LINE = 1 << 13  # textwrap takes the square of a line


capitalize = changing(str.capitalize, "First character upper case, the rest lower case.")
lower = changing(str.lower, "In lower case.")
upper = changing(str.upper, "In upper case.")
trim = stripping(str.strip, "Without white space (or `chars`) at both ends.")


def center(budget: Budget, value: Any, width: Any = 80) -> str:
    """Centred in a field of `width` characters."""
    budget.string(whole(width, "width"))
    return to_text(value, budget).center(width)


def endswith(budget: Budget, value: Any, suffix: Any) -> bool:
    """Whether it ends with `suffix` (or one of several)."""
    return _has_affix(budget, value, suffix, str.endswith)


def escape(budget: Budget, value: Any) -> str:
    """Characters special in HTML replaced by entities."""
    text = to_text(value, budget)
    for plain, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&#39;"), ('"', "&#34;")):
        text = replace(budget, text, plain, entity)
    return text


def format(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> str:
    """Fills a printf-style text: `"%s is %.1f" | format(name, size)`."""
    if args and kwargs:
        raise Fault("format takes either positional or named arguments")
    return printf(to_text(value, budget), kwargs or args, budget)


def indent(budget: Budget, value: Any, width: Any = 4, first: Any = False, blank: Any = False) -> str:
    """Lines indented by `width` spaces (or by a text); the first one only if `first`."""
    margin = width if isinstance(width, str) else " " * whole(width, "width", high=1000)
    text = to_text(value, budget)
    budget.string(len(text) + len(margin) * (text.count("\n") + 1))
    budget.charge(8 * text.count("\n"))
    lines = text.split("\n")
    body = [margin + line if line or blank else line for line in lines[1:]]
    head = margin + lines[0] if first else lines[0]
    return "\n".join([head, *body])


def removeprefix(budget: Budget, value: Any, prefix: Any) -> str:
    """Without `prefix`, if the text starts with it."""
    return budget.counted(to_text(value, budget).removeprefix(string_of(prefix, "prefix")))


def removesuffix(budget: Budget, value: Any, suffix: Any) -> str:
    """Without `suffix`, if the text ends with it."""
    return budget.counted(to_text(value, budget).removesuffix(string_of(suffix, "suffix")))


def replace(budget: Budget, value: Any, old: Any, new: Any, count: Any = None) -> str:
    """Each `old` replaced by `new`, at most `count` times."""
    text, old, new = to_text(value, budget), to_text(old, budget), to_text(new, budget)
    budget.work(len(text))
    times = text.count(old) if count is None else min(text.count(old), whole(count, "count", low=-1))
    times = text.count(old) if times < 0 else times
    budget.string(len(text) + times * max(len(new) - len(old), 0))
    return text.replace(old, new, times)


def split(budget: Budget, value: Any, separator: Any = None, maxsplit: Any = -1) -> list[str]:
    """The parts between separators (any white space if none is given)."""
    text = to_text(value, budget)
    if separator is not None and not string_of(separator, "separator"):
        raise Fault("the separator is empty")
    budget.work(len(text))
    pieces = text.count(separator) + 1 if separator else min(len(text) // 2 + 1, ELEMENTS)
    limit = whole(maxsplit, "maxsplit", low=-1)
    budget.elements(pieces if limit < 0 else min(pieces, limit + 1))
    budget.charge(len(text))
    parts = text.split(separator, ELEMENTS if limit < 0 else min(limit, ELEMENTS))
    budget.elements(len(parts))
    return parts


def splitlines(budget: Budget, value: Any) -> list[str]:
    """The lines, without line ends."""
    text = to_text(value, budget)
    budget.charge(len(text) * 8)
    lines = text.splitlines()
    budget.elements(len(lines))
    return lines


def startswith(budget: Budget, value: Any, prefix: Any) -> bool:
    """Whether it starts with `prefix` (or one of several)."""
    return _has_affix(budget, value, prefix, str.startswith)


def _has_affix(budget: Budget, value: Any, affixes: Any, test: Callable[[str, str], bool]) -> bool:
    text = to_text(value, budget)
    for affix in budget.each(affixes) if isinstance(affixes, list | tuple) else (affixes,):
        if not isinstance(affix, str):
            raise Fault("a string or a list of strings is needed")
        if test(text, affix):
            return True
    return False


def string(budget: Budget, value: Any) -> str:
    """As text."""
    return to_text(value, budget)


def striptags(budget: Budget, value: Any) -> str:
    """Without HTML comments and tags, white space collapsed."""
    text = short_text(budget, value)
    for opening, closing in (("<!--", "-->"), ("<", ">")):
        parts: list[str] = []
        rest = text
        while (start := rest.find(opening)) >= 0 and (end := rest.find(closing, start)) >= 0:
            parts.append(rest[:start])
            rest = rest[end + len(closing) :]
            budget.check()
        text = "".join(parts) + rest
    return budget.counted(" ".join(text.split()))


def title(budget: Budget, value: Any) -> str:
    """Each word with a capital."""
    out: list[str] = []
    start = True
    for character in short_text(budget, value):
        out.append(character.upper() if start else character.lower())
        start = character in "-([{<" or character.isspace()
    return budget.counted("".join(out))


def truncate(
    budget: Budget, value: Any, length: Any = 255, killwords: Any = False, end: Any = "...", leeway: Any = 5
) -> str:
    """At most `length` characters, cut at a word unless `killwords`."""
    text, end = to_text(value, budget), string_of(end, "end")
    length, leeway = whole(length, "length", low=len(end)), whole(leeway, "leeway")
    if len(text) <= length + leeway:
        return text
    beginning = text[: length - len(end)]
    return budget.counted((beginning if killwords else beginning.rsplit(" ", 1)[0]) + end)


def urlencode(budget: Budget, value: Any) -> str:
    """Quoted for a URL; a map or a list of pairs becomes a query string."""
    value = unwrapped(value, budget.contents)
    if isinstance(value, Mapping):
        value = list(value.items())
    if not isinstance(value, list | tuple):
        return _quoted(budget, value, safe="/")
    pairs = []
    for pair in budget.each(value):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise Fault("urlencode takes text, a map or a list of pairs")
        pairs.append("=".join(_quoted(budget, part).replace("%20", "+") for part in pair))
    return budget.counted("&".join(pairs))


def _quoted(budget: Budget, value: Any, safe: str = "") -> str:
    from urllib.parse import quote  # `noetl validate` starts without it

    budget.check()
    return budget.counted(quote(short_text(budget, value), safe=safe))


def wordcount(budget: Budget, value: Any) -> int:
    """Number of words."""
    text = to_text(value, budget)
    budget.check()
    if len(text) > SLOW_TEXT * 4:
        raise OutOfBudget("the text is too long to count words in")
    return sum(1 for _ in re.finditer(r"\w+", text))


def wordwrap(
    budget: Budget,
    value: Any,
    width: Any = 79,
    break_long_words: Any = True,
    wrapstring: Any = None,
    break_on_hyphens: Any = True,
) -> str:
    """Wrapped into lines of at most `width` characters."""
    import textwrap  # rarely needed and not free to import

    wrap = "\n" if wrapstring is None else string_of(wrapstring, "wrapstring")
    text = short_text(budget, value)
    width = whole(width, "width", low=1)
    if max(map(len, text.splitlines()), default=0) > _WRAPPED_LINE:
        raise OutOfBudget(f"a line to wrap may have at most {_WRAPPED_LINE:,} characters")
    budget.string(len(text) + len(wrap) * (len(text) // width + text.count(" ") + text.count("\n") + 1))
    out = []
    for line in text.splitlines():
        budget.check()
        out += textwrap.wrap(
            line,
            width=width,
            expand_tabs=False,
            replace_whitespace=False,
            break_long_words=bool(break_long_words),
            break_on_hyphens=bool(break_on_hyphens),
        ) or [""]
    budget.string(sum(map(len, out)) + len(wrap) * len(out))
    return wrap.join(out)


def b64decode(budget: Budget, value: Any) -> str:
    """The text (UTF-8) that was encoded as base64."""
    text = string_of(unwrapped(value, budget.contents), "base64")
    budget.charge(8 * len(text))
    try:
        data = "".join(text.split()).encode("ascii")  # mail wraps its lines
        return budget.counted(binascii.a2b_base64(data, strict_mode=True).decode())
    except (ValueError, UnicodeError):
        raise Fault("this is not the base64 of a text") from None


def b64encode(budget: Budget, value: Any) -> str:
    """The text (as UTF-8) in base64."""
    try:
        return budget.counted(binascii.b2a_base64(bounded_text(budget, value).encode(), newline=False).decode())
    except UnicodeError:
        raise Fault("the text has characters that UTF-8 cannot encode") from None


def fromjson(budget: Budget, value: Any) -> Any:
    """The value of a JSON text."""
    import json  # `noetl validate` starts without it

    text = string_of(unwrapped(value, budget.contents), "JSON")
    budget.string(len(text))
    budget.charge(64 * sum(map(text.count, "[{,:")))  # about what each becomes in memory
    try:
        parsed = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise Fault(f"this is not JSON: {clipped(str(error))}") from None
    return storable(parsed, budget)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def tojson(budget: Budget, value: Any, indent: Any = None) -> str:
    """As JSON, keys sorted; indent=2 for people."""
    return to_json(value, budget, None if indent is None else whole(indent, "indent", high=16))
