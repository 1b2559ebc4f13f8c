"""Requests and responses of /playbooks."""

from __future__ import annotations

from typing import Annotated

import msgspec

from noetl.server.models.base import Page, QueryString, VersionNumber, text
from noetl.server.problems import Finding
from noetl.store.ports import CatalogVersion
from noetl.timestamps import rfc3339


class ValidateQuery(QueryString, frozen=True):
    strict: Annotated[bool, msgspec.Meta(description="Reject the classic dialect.")] = False


class Validity(msgspec.Struct, frozen=True):
    """Whether a playbook is valid, and all its problems."""

    valid: bool
    problems: list[Finding]


class Registered(msgspec.Struct, frozen=True):
    """The version of a registered text, and its warnings."""

    playbook_id: str
    path: str
    version: int
    problems: list[Finding]


class PlaybookVersion(msgspec.Struct, frozen=True):
    """A version of a playbook. `label` is `metadata.version`."""

    version: int
    playbook_id: str
    label: str
    registered: str

    @classmethod
    def of(cls, version: CatalogVersion) -> PlaybookVersion:
        return cls(version.version, version.digest, version.label, rfc3339(version.registered))


class PlaybookQuery(Page, frozen=True):
    prefix: Annotated[str, text("Start of their paths.")] = ""


class PlaybookItem(msgspec.Struct, frozen=True):
    """A playbook in a list, with its current version."""

    path: str
    version: int
    playbook_id: str
    label: str
    registered: str

    @classmethod
    def of(cls, path: str, version: CatalogVersion) -> PlaybookItem:
        return cls(path, version.version, version.digest, version.label, rfc3339(version.registered))


class PlaybookPage(msgspec.Struct, frozen=True):
    """Playbooks by path; `next` is the cursor of the next page."""

    items: list[PlaybookItem]
    next: str | None


class VersionQuery(QueryString, frozen=True):
    version: Annotated[VersionNumber | None, msgspec.Meta(description="The version; default: the latest.")] = None


class PlaybookText(msgspec.Struct, frozen=True):
    """The text of a version, and all versions, the latest first."""

    path: str
    version: int
    playbook_id: str
    text: str
    versions: list[PlaybookVersion]
