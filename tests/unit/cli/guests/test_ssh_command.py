"""The command lines of ssh and scp, held to what virtctl runs."""

from __future__ import annotations

import shlex

import pytest

from kvedge.cli.exits import Refused
from kvedge.cli.guests.ssh_command import SshOptions, client_options, host_alias, parse_copy, proxy_command
from kvedge.client.streams.port_specs import Target
from kvedge.client.subresources import VM, VMI

WEB = Target(VM, "web")


def test_the_way_to_the_guest_is_port_forward_on_standard_input_and_output() -> None:
    # What virtctl of 2026 hands to ssh, but for its own path.
    assert proxy_command(["kvedge"], WEB, "shop", 2222) == (
        "ProxyCommand=kvedge port-forward --stdio=true vm/web/shop 2222"
    )


def test_a_path_with_blanks_and_percent_signs_survives_the_shell_and_ssh() -> None:
    odd = "/opt/my 50%/kvedge's"
    command = proxy_command([odd], Target(VMI, "web"), "shop", 22).removeprefix("ProxyCommand=")
    # ssh takes %% for one percent sign, and hands the rest to a shell.
    assert shlex.split(command.replace("%%", "%"))[0] == odd
    assert "%" not in command.replace("%%", "")


def test_only_what_was_given_is_handed_on() -> None:
    assert client_options(SshOptions(), "P") == ["-o", "P"]
    options = SshOptions(identity_file="/key", known_hosts="/hosts", local_options=("-o Foo=bar", "-v"))
    assert client_options(options, "P") == [
        *("-o", "P", "-o Foo=bar", "-v"),
        *("-o", "UserKnownHostsFile=/hosts", "-i", "/key"),
    ]


def test_the_guest_is_known_by_kind_name_and_namespace() -> None:
    assert host_alias(WEB, "shop", "") == "vm.web.shop"
    assert host_alias(WEB, "shop", "joe") == "joe@vm.web.shop"
    assert host_alias(Target(VM, "web", user="ann"), "shop", "joe") == "ann@vm.web.shop"


@pytest.mark.parametrize(("user", "username"), [("-oProxyCommand=x", ""), ("", "-oProxyCommand=x")])
def test_a_user_is_never_an_option(user: str, username: str) -> None:
    with pytest.raises(Refused, match="is no user's name"):
        host_alias(Target(VM, "web", user=user), "shop", username)


def test_a_copy_goes_to_or_from_the_guest() -> None:
    there = parse_copy("notes.txt", "joe@vm/web/shop:/tmp/x:y")
    assert (there.target, there.remote, there.local, there.is_to_guest) == (
        *(Target(VM, "web", "shop", "joe"), "/tmp/x:y"),
        *("notes.txt", True),
    )
    back = parse_copy("vmi/web:", ".")
    assert (back.target, back.remote, back.local, back.is_to_guest) == (Target(VMI, "web"), "", ".", False)


@pytest.mark.parametrize(("source", "destination"), [("a", "b"), ("vm/a:x", "vm/b:y")])
def test_a_copy_between_two_places_of_one_kind_is_refused(source: str, destination: str) -> None:
    with pytest.raises(Refused, match="remote location"):
        parse_copy(source, destination)
