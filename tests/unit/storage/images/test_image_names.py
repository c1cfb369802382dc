from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.storage.images.image_names import InvalidImageName, parse_image_name

_DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        pytest.param("fedora", "docker.io/library/fedora:latest", id="a bare name is Docker's own library"),
        pytest.param("fedora:40", "docker.io/library/fedora:40", id="with a tag"),
        pytest.param("kubevirt/fedora-cloud", "docker.io/kubevirt/fedora-cloud:latest", id="a user's repository"),
        pytest.param("quay.io/a/b/c:v1", "quay.io/a/b/c:v1", id="another registry"),
        pytest.param("localhost/x", "localhost/x:latest", id="localhost is a registry"),
        pytest.param("localhost:5000/x:1", "localhost:5000/x:1", id="a port is no tag"),
        pytest.param("box:5000/x", "box:5000/x:latest", id="a host with a port"),
        pytest.param(
            "index.docker.io/fedora", "docker.io/library/fedora:latest", id="the old name of Docker's registry"
        ),
        pytest.param(f"quay.io/a/b@{_DIGEST}", f"quay.io/a/b@{_DIGEST}", id="a digest needs no tag"),
        pytest.param(f"quay.io/a/b:1@{_DIGEST}", f"quay.io/a/b@{_DIGEST}", id="a digest decides over a tag"),
        pytest.param("[::1]:5000/x", "[::1]:5000/x:latest", id="an IPv6 registry"),
        pytest.param("kvedge.local/launcher:0.1.0", "kvedge.local/launcher:0.1.0", id="our own"),
    ],
)
def test_a_reference_has_one_normal_form(text: str, normal: str) -> None:
    name = parse_image_name(text)

    assert str(name) == normal
    assert str(parse_image_name(normal)) == normal


@pytest.mark.parametrize(
    "text",
    ["", ":tag", "Fedora", "a//b", "a/", "a:b:c", "a@sha256:short", "a b", "-x", "a/../b", "x" * 300, "a:" + "t" * 129],
)
def test_what_is_no_reference_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(InvalidImageName) as refused:
        parse_image_name(text)

    assert text[:50] in str(refused.value)


@given(st.text(max_size=60))
def test_any_text_is_either_refused_or_stable(text: str) -> None:
    try:
        name = parse_image_name(text)
    except InvalidImageName:
        return
    assert parse_image_name(str(name)) == parse_image_name(str(parse_image_name(str(name))))
    assert ".." not in name.repository.split("/")
