"""Which kubeconfig counts, and what of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kvedge.client import kubeconfigs
from kvedge.client.errors import UsageError
from kvedge.client.kubeconfigs import kubeconfig_paths, load_kubeconfigs


def write(path: Path, *names: str, current: str = "", **cluster: Any) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"https://{path.stem}-{name}", **cluster}} for name in names],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}} for name in names
        ],
        "users": [{"name": name, "user": {}} for name in names],
    }
    path.write_text(yaml.safe_dump(document | ({"current-context": current} if current else {})))
    return path


def servers(document: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["cluster"]["server"] for entry in document["clusters"]}


def test_what_is_named_comes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/from-variable")
    assert kubeconfig_paths("/named") == (Path("/named"),)
    assert kubeconfig_paths(None) == (Path("/from-variable"),)


def test_files_of_the_variable_that_are_not_there_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write(tmp_path / "one", "a")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none:{one}:")
    assert kubeconfig_paths(None) == (one,)
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none:{tmp_path}/neither")
    assert kubeconfig_paths(None) == (tmp_path / "none",)


def test_the_usual_places_are_tried_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(kubeconfigs, "PLACES", (f"{tmp_path}/none", f"{tmp_path}/k3s"))
    with pytest.raises(UsageError, match="name one with --kubeconfig or"):
        kubeconfig_paths(None)
    write(tmp_path / "k3s", "a")
    assert kubeconfig_paths(None) == (tmp_path / "k3s",)


def test_several_files_are_one_and_the_first_that_says_a_thing_wins(tmp_path: Path) -> None:
    paths = (write(tmp_path / "one", "a", "b"), write(tmp_path / "two", "b", "c", current="c"))
    found = load_kubeconfigs(paths, None)
    assert servers(found.document) == {"a": "https://one-a", "b": "https://one-b", "c": "https://two-c"}
    assert (found.context, found.namespace) == ("c", "ns-c")


def test_another_context_may_be_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "one", "a", "b", current="a")
    found = load_kubeconfigs((path,), "b")
    assert (found.document["current-context"], found.namespace) == ("b", "ns-b")
    with pytest.raises(UsageError) as caught:
        load_kubeconfigs((path,), "c")
    assert caught.value.text == f'there is no context "c" in {path}: there is a, b'


def test_without_a_current_context_one_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it has no current-context; name one with --context: there is a"):
        load_kubeconfigs((write(tmp_path / "one", "a"),), None)


def test_names_of_files_count_from_the_file_that_they_stand_in(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    paths = (
        write(tmp_path / "one", "a", current="a", **{"certificate-authority": "ca.crt"}),
        write(tmp_path / "deep" / "two", "b", **{"certificate-authority": "ca.crt"}),
    )
    authorities = [
        entry["cluster"]["certificate-authority"] for entry in load_kubeconfigs(paths, None).document["clusters"]
    ]
    assert authorities == [f"{tmp_path}/ca.crt", f"{tmp_path}/deep/ca.crt"]


def test_a_context_without_a_namespace_means_default(tmp_path: Path) -> None:
    path = tmp_path / "one"
    path.write_text("current-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n")
    assert load_kubeconfigs((path,), None).namespace == "default"
