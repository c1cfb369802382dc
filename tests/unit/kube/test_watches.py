"""The lines of a watch as changes of one kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from kvedge.kube.errors import Gone, KubeError
from kvedge.kube.rest_edge import LineStream
from kvedge.kube.watches import Unreadable, Watch, WatchEvent
from kvedge.resources.types.core import Node


class Lines:
    """A stream that brings these lines."""

    def __init__(self, *documents: Any) -> None:
        self._lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents]
        self.is_closed = False

    def lines(self) -> Iterator[bytes]:
        yield from self._lines

    def close(self) -> None:
        self.is_closed = True


def watch(lines: Lines) -> Watch[Node]:
    return Watch(Node, cast(LineStream, lines))


def a_node(version: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n1", "resourceVersion": version}, **fields}


def test_changes_and_bookmarks_come_with_their_versions() -> None:
    lines = Lines(
        {"type": "ADDED", "object": a_node("5")},
        {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": "9"}}},
    )
    added, bookmark = watch(lines)
    assert isinstance(added.object, Node)
    assert (added.type, added.object.metadata.name, added.resource_version) == ("ADDED", "n1", "5")
    assert bookmark == WatchEvent("BOOKMARK", None, "9")


def test_an_object_that_does_not_fit_its_type_ends_nothing() -> None:
    lines = Lines({"type": "MODIFIED", "object": a_node("6", spec=7)}, {"type": "DELETED", "object": a_node("7")})
    broken, deleted = watch(lines)
    assert isinstance(broken.object, Unreadable)
    assert (broken.object.name, broken.resource_version, deleted.type) == ("n1", "6", "DELETED")


def test_an_error_of_the_server_is_raised() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    with pytest.raises(Gone, match="too old"):
        list(watch(Lines({"type": "ERROR", "object": status})))


def test_a_line_that_is_no_change_names_the_kind() -> None:
    with pytest.raises(KubeError, match="watch of nodes"):
        list(watch(Lines(b"{")))


def test_closing_a_watch_closes_its_stream() -> None:
    lines = Lines()
    watch(lines).close()
    assert lines.is_closed
