"""Dropped manifest files, good and bad, taken apart."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.drop_ins.manifest_documents import MOST_BYTES, BadManifest, manifest_documents

GOOD = b"""# two
apiVersion: v1
kind: Namespace
metadata: {name: site}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
---
"""


def test_each_document_has_its_line_and_lists_are_taken_apart() -> None:
    found = manifest_documents(GOOD)
    assert [(item.line, item.label) for item in found] == [
        (2, "Namespace site"),
        (6, "ConfigMap a"),
        (6, "ConfigMap b"),
    ]


def test_json_is_read_as_well() -> None:
    data = b'\xef\xbb\xbf{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}'
    assert manifest_documents(data)[0].label == "Namespace a"


BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n".encode() for i in range(8)
)


@pytest.mark.parametrize(
    ("data", "line", "said"),
    [
        pytest.param(b"a: 1\nb: [\n", 3, "not YAML", id="cut off"),
        pytest.param(b"kind: A\n---\n- 1\n", 1, "apiVersion: is missing", id="no apiVersion"),
        pytest.param(GOOD + b"just text\n", 12, "a manifest is a mapping", id="text"),
        pytest.param(b"apiVersion: v1\nkind: A\nmetadata: {}\n", 1, "metadata.name: is missing", id="no name"),
        pytest.param(b"\n\xff\xfe", 2, "no UTF-8 text", id="no text"),
        pytest.param(b"a: &a\n  b: *a\n", 1, "contains itself", id="an alias in itself"),
        pytest.param(BOMB, 1, "come to more than", id="a bomb of aliases"),
        pytest.param(b"[" * 5000, 1, "nested too deeply", id="deep"),
        pytest.param(b"a: !!python/object:os.system {}\n", 1, "could not determine a constructor", id="python tag"),
        pytest.param(b" " * (MOST_BYTES + 1), 1, "split it", id="huge"),
        pytest.param(b"a: 2026-99-99\n", 1, "month", id="a date that is none"),
    ],
)
def test_a_bad_file_is_named_with_its_line_and_what_is_wrong(data: bytes, line: int, said: str) -> None:
    with pytest.raises(BadManifest) as caught:
        manifest_documents(data)
    assert said in str(caught.value)
    assert caught.value.line == line


@given(st.binary(max_size=200) | st.text(alphabet="{}[]:-&*!|> \nab'\"", max_size=200).map(str.encode))
def test_no_content_raises_anything_else(data: bytes) -> None:
    with contextlib.suppress(BadManifest):
        assert all(item.line >= 1 for item in manifest_documents(data))
