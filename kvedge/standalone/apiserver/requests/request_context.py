"""The facts of one request that the flows behind the dispatcher need: its caller, target and options.

Made by the dispatcher. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from aiohttp import web
from msgspec import Struct, field

from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.requests.request_target import RequestTarget, is_true
from kvedge.standalone.apiserver.store.stored import ObjectKey
from kvedge.standalone.apiserver.wire.api_errors import FieldError, FieldErrorType, Invalid, Target
from kvedge.standalone.apiserver.wire.large_work import AtOnce, Lane
from kvedge.standalone.apiserver.wire.told import MOST_TOLD, cut

# All of them, before they are escaped; servers and proxies on the way bound the headers of an answer, mostly at 8 KB.
_ALL_WARNINGS: Final = 4096
LONGEST_WARNING: Final = 256

T = TypeVar("T")


class Caller(Struct, frozen=True):
    """An authenticated user."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


# On a request over a connection that was opened inside this process, for this caller.
OWN_CALLER: Final = web.RequestKey("own caller", Caller)
# The server collects garbage and empties namespaces under this name.
SERVER: Caller = Caller("system:apiserver", ("system:masters", "system:authenticated"))


class WriteOptions(Struct, frozen=True):
    """The query of a write: the options that create, update and patch share."""

    dry_run: bool = False
    field_manager: str = ""
    force: bool = False
    field_validation: str = "Warn"


class Warnings:
    """The warnings of one answer, each once. Each becomes a header, of which clients take a hundred and no more."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._bytes = 0
        self._more = False

    def add(self, text: str) -> None:
        """One more, unless it is known or there are enough."""
        text = cut(text, LONGEST_WARNING)
        if text in self._texts or self._more:
            return
        self._bytes += len(text.encode(errors="replace"))
        if len(self._texts) >= MOST_TOLD or self._bytes > _ALL_WARNINGS:
            self._more, text = True, "there are more warnings than are shown"
        self._texts[text] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)


class RequestContext(Struct, frozen=True):
    """One request for a kind. `warnings` are gathered as it is worked on and sent back as Warning headers."""

    target: RequestTarget
    kind: ServedKind
    caller: Caller
    options: WriteOptions = WriteOptions()
    warnings: Warnings = field(default_factory=Warnings)
    # Where work on it is done, and the bytes of its body.
    lane: Lane = field(default_factory=AtOnce)
    size: int = 0

    @property
    def key(self) -> ObjectKey:
        """The object that the URL names."""
        return self.key_of(self.target.name)

    def key_of(self, name: str) -> ObjectKey:
        """The object of that name in the URL's namespace."""
        return ObjectKey(self.kind.storage, self.target.namespace if self.kind.namespaced else "", name)

    @property
    def namespace(self) -> str:
        return self.target.namespace if self.kind.namespaced else ""

    @property
    def error_target(self) -> Target:
        """What errors about this request's object name."""
        return Target(self.kind.plural, self.target.name, self.kind.group)

    async def work(self, do: Callable[[], T], more: int = 0) -> T:
        """What `do` returns or raises: pure work on the request's body and `more` bytes of JSON."""
        return await self.lane.run(self.size + more, do)

    def warn(self, text: str) -> None:
        """Have the client show a warning."""
        self.warnings.add(text)


def write_options(query: Mapping[str, str], user_agent: str, kind_name: str, *, applies: bool = False) -> WriteOptions:
    """Read the options of a write off its query.

    `kind_name` is the options' kind; `applies` says that the write is a server-side apply.

    Raises:
        Invalid: with every cause.
    """
    errors = []
    dry_run, validation = query.get("dryRun", ""), query.get("fieldValidation", "")
    if dry_run not in ("", "All"):
        errors.append(FieldError(FieldErrorType.NOT_SUPPORTED, "dryRun", 'supported values: "All"', [dry_run]))
    if validation not in ("", "Ignore", "Warn", "Strict"):
        words = 'supported values: "Ignore", "Warn", "Strict"'
        errors.append(FieldError(FieldErrorType.NOT_SUPPORTED, "fieldValidation", words, validation))
    manager = query.get("fieldManager", "")
    if len(manager) > 128:
        errors.append(FieldError(FieldErrorType.TOO_LONG, "fieldManager", "may not be more than 128 bytes", manager))
    if query.get("force") and kind_name == "PatchOptions" and not applies:
        errors.append(FieldError(FieldErrorType.FORBIDDEN, "force", "may not be specified for non-apply patch"))
    if errors:
        raise Invalid(Target(kind_name, group="meta.k8s.io"), errors)
    return WriteOptions(
        dry_run=bool(dry_run),
        # As the real server does for writers that do not name themselves.
        field_manager=manager or user_agent.partition("/")[0][:128] or "unknown",
        force=is_true(query.get("force", "")),
        field_validation=validation or "Warn",
    )
