# Tests: kvedge/resources/values/hook_names.py
"""The annotation by which a VMI asks for hook sidecars: what it stands for, and what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.resources.values.hook_names import HOOK_SIDECARS, sidecar_name
from kvedge.resources.values.hook_sidecars import (
    MOST_SIDECARS,
    HookScript,
    HookSidecar,
    HookSidecarError,
    read_hook_sidecars,
    wants_hooks,
)

SCRIPT = {"name": "my-config-map", "key": "my_script.sh", "hookPath": "/usr/bin/onDefineDomain"}
SHIM = {"args": ["--version", "v1alpha2"], "configMap": SCRIPT}


def read(text: Any) -> tuple[HookSidecar, ...]:
    return read_hook_sidecars({HOOK_SIDECARS: text if isinstance(text, str) else json.dumps(text)})


def test_kubevirts_examples_are_read() -> None:
    image, shim = read([{"args": ["--version", "v1alpha2"], "image": "registry:5000/hook:devel"}, SHIM])
    assert image == HookSidecar(image="registry:5000/hook:devel", args=("--version", "v1alpha2"))
    assert shim.script == HookScript("my-config-map", "my_script.sh", "/usr/bin/onDefineDomain")
    assert sidecar_name(1) == "hook-sidecar-1"


@pytest.mark.parametrize("annotations", [{}, {HOOK_SIDECARS: ""}], ids=["none", "an empty one"])
def test_a_vmi_without_the_annotation_has_no_sidecars(annotations: dict[str, str]) -> None:
    assert read_hook_sidecars(annotations) == ()
    assert not wants_hooks(annotations)


WRONG: dict[str, tuple[Any, str, str]] = {
    "no JSON": ("[{", "", "is no JSON"),
    "deeper than anybody reads": ("[" * 100_000, "", "is no JSON"),
    "no list": ({}, "", "must be a list"),
    "too many": ([SHIM] * (MOST_SIDECARS + 1), "", "at most 8"),
    "no object": (["image"], "[0]", "must be an object"),
    "an unknown field": ([{"image": "a", "volumes": []}], "[0]", "'volumes'"),
    "a claim": ([{"image": "a", "pvc": {"name": "c"}}], "[0].pvc", "is not supported"),
    "neither image nor script": ([SHIM, {"args": []}], "[1].image", "is missing"),
    "a policy of no kind": ([{"image": "a", "imagePullPolicy": "Soon"}], "[0].imagePullPolicy", "Always"),
    "an image that is no text": ([{"image": 1}], "[0].image", "must be a text"),
    "arguments that are no texts": ([{"image": "a", "args": [1]}], "[0].args", "must be a list of texts"),
    "a command without an image": ([{**SHIM, "command": ["/x"]}], "[0].command", "needs an image"),
    "a shim of no version": ([{**SHIM, "args": ["--version", "v2"]}], "[0].args", "v1alpha1, v1alpha2, v1alpha3"),
    "a shim with more arguments": ([{**SHIM, "args": ["--version", "v1alpha2", "-x"]}], "[0].args", "--version"),
    "a map of no name": ([{**SHIM, "configMap": {**SCRIPT, "name": "../x"}}], "[0].configMap.name", "ConfigMap"),
    "a key with a path": ([{**SHIM, "configMap": {**SCRIPT, "key": "../x"}}], "[0].configMap.key", "key"),
    "a dot as a key": ([{**SHIM, "configMap": {**SCRIPT, "key": ".."}}], "[0].configMap.key", "key"),
    "a script at another place": (
        [{**SHIM, "configMap": {**SCRIPT, "hookPath": "/usr/bin/qemu"}}],
        "[0].configMap.hookPath",
        "/usr/bin/onDefineDomain or /usr/bin/preCloudInitIso",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_its_place(case: str) -> None:
    text, path, words = WRONG[case]
    with pytest.raises(HookSidecarError) as caught:
        read(text)
    assert caught.value.path == path
    assert words in str(caught.value)


def test_the_version_may_stand_behind_an_equals_sign() -> None:
    assert read([{**SHIM, "args": ["--version=v1alpha3"]}])[0].args == ("--version=v1alpha3",)
