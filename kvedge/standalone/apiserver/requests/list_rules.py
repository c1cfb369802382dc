"""What a list or a watch selects: its options, its selectors, its page.

Used by the REST routes. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.resources.codec import learn
from kvedge.resources.label_selectors import LabelSelector
from kvedge.resources.values.whole_numbers import INT64, whole_number
from kvedge.standalone.apiserver.kinds.field_labels import check_field_selector, field_value
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.requests.request_target import is_true
from kvedge.standalone.apiserver.schema.selectors import (
    FieldSelector,
    parse_field_selector,
    parse_label_selector,
)
from kvedge.standalone.apiserver.store.stored import Stored
from kvedge.standalone.apiserver.wire.api_errors import (
    ApiError,
    BadRequest,
    Expired,
    FieldError,
    FieldErrorType,
    Invalid,
    Target,
)

_OPTIONS: Final = Target("ListOptions", group="meta.k8s.io")
_FROM_METADATA: Final = frozenset({"metadata.name", "metadata.namespace"})


class ListOptions(Struct, frozen=True):
    """A metav1.ListOptions, checked. `revision` is None when the client names none."""

    labels: LabelSelector
    fields: FieldSelector
    revision: int | None = None
    match: str = ""
    limit: int = 0
    continue_token: str = ""
    timeout_seconds: int | None = None
    bookmarks: bool = False
    send_initial: bool | None = None


class Page(Struct, frozen=True):
    """One page of a list, and what the next one needs."""

    objects: Sequence[Stored]
    token: str = ""
    remaining: int | None = None


class _Token(msgspec.Struct):
    """Where the next page starts: behind this namespace and name, in the list as it was at this revision."""

    revision: int
    namespace: str
    name: str


learn(_Token)


def list_options(kind: ServedKind, query: Mapping[str, str]) -> ListOptions:
    """Read the options of a list, watch or deletecollection.

    Raises:
        BadRequest, Invalid: they are wrong or contradict each other.
    """
    fields = parse_field_selector(query.get("fieldSelector", ""))
    check_field_selector(fields, kind.storage, _selectable_fields(kind))
    options = ListOptions(
        labels=parse_label_selector(query.get("labelSelector", "")),
        fields=fields,
        revision=_revision(query.get("resourceVersion", "")),
        match=query.get("resourceVersionMatch", ""),
        # A negative one is none, as with the real server.
        limit=max(0, _number(query, "limit") or 0),
        continue_token=query.get("continue", ""),
        timeout_seconds=_number(query, "timeoutSeconds"),
        bookmarks=is_true(query.get("allowWatchBookmarks", "")),
        send_initial=is_true(query["sendInitialEvents"]) if "sendInitialEvents" in query else None,
    )
    errors = list(_contradictions(options, is_true(query.get("watch", ""))))
    if errors:
        raise Invalid(_OPTIONS, errors)
    return options


def selects(options: ListOptions, stored: Stored) -> bool:
    """Whether the selectors choose this object."""
    if options.labels.requirements and not options.labels.matches(stored.meta.labels):
        return False
    terms = options.fields.terms
    if not terms:
        return True
    if all(term.field in _FROM_METADATA for term in terms):
        known = {"metadata.name": stored.key.name, "metadata.namespace": stored.key.namespace}
        return options.fields.matches(lambda path: known[path])
    document = stored.load()
    return options.fields.matches(lambda path: field_value(document, path))


def page_of(objects: Sequence[Stored], options: ListOptions, revision: int) -> Page:
    """Cut the page that the options ask for out of the whole list (in order, already selected)."""
    if options.continue_token:
        start = read_token(options.continue_token)
        objects = [stored for stored in objects if stored.key[1:] > (start.namespace, start.name)]
    if not options.limit or len(objects) <= options.limit:
        return Page(objects)
    chosen = objects[: options.limit]
    token = msgspec.json.encode(_Token(revision, chosen[-1].key.namespace, chosen[-1].key.name))
    remaining = len(objects) - len(chosen)
    selected = options.labels.requirements or options.fields.terms
    # With a selector the real server does not know how many are left, and says nothing.
    return Page(chosen, base64.urlsafe_b64encode(token).decode(), None if selected else remaining)


def list_revision(options: ListOptions) -> int | None:
    """The revision whose state is asked for; None for the present one."""
    if options.continue_token:
        return read_token(options.continue_token).revision
    return options.revision if options.match == "Exact" else None


def read_token(text: str) -> _Token:
    """Read a continue token.

    Raises:
        BadRequest: it is not one of ours.
    """
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=_Token)
    except ValueError as error:
        raise BadRequest(f"continue key is not valid: {error}") from error


def refuse_expired_token() -> Expired:
    """The refusal of a continue token whose revision is not kept any more."""
    return Expired(
        "The provided continue parameter is too old to display a consistent list result. You must start a new list"
        " without the continue parameter."
    )


def too_large_revision(wanted: int, current: int) -> ApiError:
    """The refusal of a revision that does not exist yet."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    text = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return ApiError(504, "Timeout", text, causes=causes, retry_after_seconds=1)


def _selectable_fields(kind: ServedKind) -> list[str]:
    declared = (kind.crd_version or {}).get("selectableFields") or []
    return [str(item["jsonPath"]).removeprefix(".") for item in declared]


def _revision(text: str) -> int | None:
    if not text:
        return None
    number = whole_number(text, (0, INT64[1]))
    if number is None:
        error = FieldError(
            FieldErrorType.INVALID, "resourceVersion", "must be the revision of a list or an object", text[:64]
        )
        raise BadRequest(f"invalid resource version: {error.text()}")
    return number


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    number = whole_number(text)
    if number is None:
        raise BadRequest(f'unable to parse the option {name}: "{text[:64]}" is not a number of 64 bits')
    return number


def _contradictions(options: ListOptions, watch: bool) -> list[FieldError]:
    errors = []
    match, forbidden = options.match, FieldErrorType.FORBIDDEN
    if match and options.revision is None and not (watch and options.send_initial is not None):
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        errors.append(FieldError(forbidden, "resourceVersionMatch", text))
    if match and options.continue_token:
        text = "resourceVersionMatch is forbidden when continue is provided"
        errors.append(FieldError(forbidden, "resourceVersionMatch", text))
    if match and match not in ("Exact", "NotOlderThan"):
        text = 'supported values: "Exact", "NotOlderThan"'
        errors.append(FieldError(FieldErrorType.NOT_SUPPORTED, "resourceVersionMatch", text, match))
    if match == "Exact" and options.revision == 0:
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        errors.append(FieldError(forbidden, "resourceVersionMatch", text))
    if watch and match and options.send_initial is None:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        errors.append(FieldError(forbidden, "resourceVersionMatch", text))
    if options.send_initial is not None and not watch:
        errors.append(FieldError(forbidden, "sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if options.send_initial is not None and watch and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(FieldError(forbidden, "resourceVersionMatch", text))
    if options.continue_token and options.revision not in (None, 0):
        text = "specifying resource version is not allowed when using continue"
        errors.append(FieldError(FieldErrorType.INVALID, "continue", text, options.continue_token))
    return errors
