"""What is read of a kubeconfig, and what is told of one that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.kube.kubeconfigs.kubeconfig_reader import (
    CLUSTERS,
    CONTEXTS,
    KubeconfigError,
    entries,
    file_keys,
    read_kubeconfig,
    values_of,
)

TEXT = """
current-context: here
clusters: [{name: c, cluster: {server: "https://box:6443", certificate-authority: ca.crt}}, {cluster: {}}, 5]
contexts: [{name: here, context: {cluster: c, user: u}}, {name: twice, context: {}}, {name: twice, context: {}}]
users: [{name: u, user: {token: t}}, {name: odd, user: 5}]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(TEXT)
    return path


def test_a_name_leads_to_what_its_entry_says(path: Path) -> None:
    document = read_kubeconfig(path)
    assert values_of(document, CONTEXTS, "here") == {"cluster": "c", "user": "u"}
    assert [entry["name"] for entry in entries(document, CLUSTERS)] == ["c"]


@pytest.mark.parametrize(("section", "name"), [("contexts", "twice"), ("users", "odd"), ("users", None), ("none", "u")])
def test_a_name_that_is_not_there_once_leads_nowhere(path: Path, section: str, name: str | None) -> None:
    assert values_of(read_kubeconfig(path), section, name) is None


def test_each_place_that_may_name_a_file_is_found(path: Path) -> None:
    found = [(values.get(key), key) for values, key in file_keys(read_kubeconfig(path))]
    assert found == [
        ("ca.crt", "certificate-authority"),
        (None, "client-certificate"),
        (None, "client-key"),
        (None, "tokenFile"),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe", "is not UTF-8 text: "),
        (b"a: [", "is not YAML: "),
        (b"a: 2026-99-99", "is not YAML: "),
        (b"[" * 5000, "is not YAML: "),
        (b"", "is not a kubeconfig"),
        (b"[1]", "is not a kubeconfig"),
    ],
    ids=["other bytes", "half of it", "no date", "too deep", "nothing", "a list"],
)
def test_what_is_no_kubeconfig_is_told_with_its_place(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(KubeconfigError) as caught:
        read_kubeconfig(path)
    assert str(caught.value).startswith(f"{path}: {words}")


def test_a_file_that_cannot_be_read_is_told_with_its_cause(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="cannot be read: Is a directory") as caught:
        read_kubeconfig(tmp_path)
    assert isinstance(caught.value.__cause__, IsADirectoryError)
