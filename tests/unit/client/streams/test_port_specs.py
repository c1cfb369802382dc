"""Targets and ports as they are typed."""

from __future__ import annotations

import pytest

from kvedge.client.errors import UsageError
from kvedge.client.streams.port_specs import ForwardedPort, Target, parse_port, parse_target, parse_user_target
from kvedge.client.subresources import VM, VMI


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("vm/web", Target(VM, "web")),
        ("vmi/web/shop", Target(VMI, "web", "shop")),
        ("VirtualMachines/web", Target(VM, "web")),
        ("vmis/a.b", Target(VMI, "a.b")),
    ],
)
def test_a_target_is_a_kind_a_name_and_perhaps_a_namespace(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("web", "type and name separated by '/': vm/web", id="no kind"),
        pytest.param("", "type and name", id="nothing"),
        pytest.param("pod/web", "unsupported resource type 'pod'", id="another kind"),
        pytest.param("vm/", "name ''", id="no name"),
        pytest.param("vm/web/", "namespace cannot be empty", id="no namespace after its slash"),
        pytest.param("vm/a/b/c", "more than two '/'", id="too much"),
        pytest.param("vm/we?b", "may not have '?'", id="a name that would change the path"),
        pytest.param("vm/..", "is not a name", id="a way up"),
        pytest.param("vm/wéb", "is not a name", id="a name in other letters"),
    ],
)
def test_what_is_no_target_is_refused_as_wrong_usage(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_target(text)
    assert words in caught.value.text


def test_a_user_stands_before_the_target() -> None:
    assert parse_user_target("joe@vm/web/shop") == Target(VM, "web", "shop", "joe")
    assert parse_user_target("joe@example.com@vm/web").user == "joe@example.com"
    assert parse_user_target("vm/web").user == ""


@pytest.mark.parametrize(("text", "words"), [("@vm/web", "username before '@'"), ("joe@", "target after '@'")])
def test_half_of_a_user_and_target_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_user_target(text)


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("8080", ForwardedPort("tcp", 8080, 8080)),
        ("8080:80", ForwardedPort("tcp", 8080, 80)),
        ("udp/5353:53", ForwardedPort("udp", 5353, 53)),
        ("TCP/22", ForwardedPort("tcp", 22, 22)),
        ("0:80", ForwardedPort("tcp", 0, 80)),
        # virtctl reads these two so.
        (":80", ForwardedPort("tcp", 80, 80)),
        ("80:", ForwardedPort("tcp", 80, 80)),
        ("0.0.0.0:8080:80", ForwardedPort("tcp", 8080, 80, "0.0.0.0")),
        ("udp/localhost:53:5353", ForwardedPort("udp", 53, 5353, "localhost")),
        ("[::1]:8080:80", ForwardedPort("tcp", 8080, 80, "::1")),
        ("[::1]:80", ForwardedPort("tcp", 80, 80, "::1")),
    ],
)
def test_a_port_may_have_a_protocol_an_address_and_another_number_in_the_guest(text: str, port: ForwardedPort) -> None:
    assert parse_port(text) == port


@pytest.mark.parametrize(
    "text", ["", ":", "x", "80x", "-1", "65536", "80:65536", "0", "80:0", "1:2:3:4", "sctp/80", "tcp/", "[::1:80", "٣"]
)
def test_what_is_no_port_is_refused_as_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError):
        parse_port(text)
