"""Requirements of Python code: the form in which installers take them. Whether a package exists is not checked."""

from __future__ import annotations

import re

OPTIONS = frozenset(["--index-url", "--extra-index-url", "--find-links", "--no-index"])
"""Options of the installers that may be in the list, since `uv` and `pip` agree on them."""
ARCHIVES = (".whl", ".zip", ".tar.gz", ".tar.bz2")
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_EXTRAS = rf"\[\s*(?:{_NAME}(?:\s*,\s*{_NAME})*)?\s*\]"
_VERSION = r"(?:===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+"
_VERSIONS = rf"{_VERSION}(?:\s*,\s*{_VERSION})*"
_REQUIREMENT = re.compile(
    rf"({_NAME})\s*(?:{_EXTRAS})?\s*(?:@\s*\S+|\(\s*{_VERSIONS}\s*\)|{_VERSIONS})?\s*(?:;.+)?", re.ASCII
)


def fault(requirement: str) -> str | None:
    """The error in a requirement; None if an installer can read it."""
    text = _normal(requirement)
    if text.startswith("-"):
        option = re.split(r"[\s=]", text, maxsplit=1)[0]
        return None if option in OPTIONS else f"the option {option} is not supported; these are: {_options()}"
    if is_location(text) or _REQUIREMENT.fullmatch(text):
        return None
    return f"{text[:80]!r} is not a requirement, such as 'pandas', 'pandas==2.2.*' or 'httpx[http2]>=0.27'"


def is_location(text: str) -> bool:
    """Whether it is a path or a URL, and not the name of a package."""
    return "/" in text.partition("@")[0] or text.startswith(".") or text.endswith(ARCHIVES) or "://" in text


def package_name(requirement: str) -> str | None:
    """The normalized name of its package; None for an option, a path or a URL."""
    match = None if is_location(requirement) else _REQUIREMENT.fullmatch(_normal(requirement))
    return re.sub(r"[-_.]+", "-", match[1]).lower() if match else None


def _normal(text: str) -> str:
    return " ".join(text.split())  # many blanks would take the pattern long


def _options() -> str:
    return ", ".join(sorted(OPTIONS))
