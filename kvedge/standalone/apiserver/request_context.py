"""Who asks for what, and how: the facts of one request that the flows behind the dispatcher need.

Made by the dispatcher. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvedge.standalone.apiserver.api_errors import FieldError, FieldErrorType, Invalid, Target
from kvedge.standalone.apiserver.request_target import RequestTarget, is_true
from kvedge.standalone.apiserver.served_kinds import ServedKind
from kvedge.standalone.apiserver.stored import ObjectKey


@dataclass(frozen=True)
class Caller:
    """An authenticated user."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


# What the server does by itself (collecting garbage, emptying namespaces) it does under this name.
SERVER: Caller = Caller("system:apiserver", ("system:masters", "system:authenticated"))


@dataclass(frozen=True)
class WriteOptions:
    """The query of a write: the options that create, update and patch share."""

    dry_run: bool = False
    field_manager: str = ""
    force: bool = False
    field_validation: str = "Warn"


@dataclass(frozen=True)
class RequestContext:
    """One request for a kind. `warnings` is filled as the request is worked on and sent back as Warning headers."""

    target: RequestTarget
    kind: ServedKind
    caller: Caller
    options: WriteOptions = WriteOptions()
    warnings: list[str] = field(default_factory=list)

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

    def warn(self, text: str) -> None:
        """Have the client show a warning."""
        if text not in self.warnings:
            self.warnings.append(text)


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
