"""The KubeVirt object's settings in words."""

from __future__ import annotations

from typing import Any

from kvedge.resources.codec import decode
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.web.site.settings_view import WORDS, settings_view


def view_of(spec: Any, **status: Any) -> dict[str, Any]:
    about = {"name": "kubevirt", "namespace": "kubevirt"}
    return settings_view(decode(KubeVirt, {"metadata": about, "spec": spec, "status": status}))


def rows_of(spec: Any) -> list[tuple[str, str, str]]:
    return [(row["words"], row["value"], row["path"]) for row in view_of(spec)["rows"]]


def test_a_setting_is_told_in_words_and_with_its_field() -> None:
    configuration = {
        "developerConfiguration": {"featureGates": ["A", "B"], "useEmulation": True, "nodeSelectors": {"zone": "a"}},
        "migrations": {"disableTLS": False},
    }
    start = "spec.configuration.developerConfiguration"
    assert rows_of({"configuration": configuration}) == [
        ("Features that are switched on", "A, B", f"{start}.featureGates"),
        ("Guests run without KVM where a node has none", "yes", f"{start}.useEmulation"),
        ("Labels of nodes that take guests", "zone=a", f"{start}.nodeSelectors"),
        ("Migrations are not encrypted", "no", "spec.configuration.migrations.disableTLS"),
    ]


def test_a_setting_without_words_is_told_by_its_path() -> None:
    path = "configuration.network.permitBridgeInterfaceOnPodNetwork"
    spec: Any = {"configuration": {"network": {"permitBridgeInterfaceOnPodNetwork": None, "binding": {}}}}
    assert path not in WORDS
    assert rows_of(spec) == [
        (path, "unset", f"spec.{path}"),
        ("configuration.network.binding", "as by default", "spec.configuration.network.binding"),
    ]


def test_nothing_set_is_nothing_to_tell() -> None:
    assert rows_of({}) == []


def test_many_settings_deep_ones_and_long_ones_have_an_end() -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = {"a": deep}
    view = view_of({"deep": deep, "long": "\u202e" * 10_000, **{f"k{number}": 1 for number in range(300)}})
    assert (len(view["rows"]), view["more"]) == (200, True)
    assert max(len(row["value"]) for row in view["rows"]) <= 1024
    assert "\u202e" not in str(view)


def test_what_became_of_it_is_told() -> None:
    condition = {"type": "Available", "status": "False", "reason": "x", "message": "\u202e" * 10_000}
    view = view_of({}, phase="Deployed", observedKubeVirtVersion="v1", conditions=[condition])
    assert (view["phase"], view["version"]) == ("Deployed", "v1")
    [told] = view["conditions"]
    assert (told["type"], told["status"], len(told["message"])) == ("Available", "False", 1024)
