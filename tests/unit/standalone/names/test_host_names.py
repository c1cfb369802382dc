"""What the host's resolver is told of our names, when, and that it is told to forget them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kvedge.standalone.names.host_names import HostNames, ResolvedError, claim_commands, run_resolvectl

BRIDGE, ADDRESS = "kvedge0", "10.99.0.1"


class PlayedHost:
    """A host with the bridge and the resolver's socket, and what its resolvectl was asked."""

    def __init__(self, path: Path) -> None:
        self.resolved = path / "io.systemd.Resolve"
        self.resolved.touch()
        self.index = 4
        self.asked: list[tuple[str, ...]] = []
        self.refusal = ""
        self.names = HostNames(BRIDGE, ADDRESS, self.run, self.resolved, lambda name: self.index)

    def run(self, arguments: Sequence[str]) -> None:
        self.asked.append(tuple(arguments))
        if self.refusal:
            raise ResolvedError(self.refusal)


@pytest.fixture
def host(tmp_path: Path) -> PlayedHost:
    return PlayedHost(tmp_path)


def test_the_resolver_is_told_of_our_zone_alone_and_of_the_server_last(host: PlayedHost) -> None:
    host.names.look()
    assert host.asked == [
        ("default-route", BRIDGE, "no"),
        ("dnssec", BRIDGE, "no"),
        ("dnsovertls", BRIDGE, "no"),
        ("domain", BRIDGE, "~cluster.local"),
        ("dns", BRIDGE, ADDRESS),
    ]


def test_nothing_is_run_until_the_bridge_or_the_resolver_is_another_one(host: PlayedHost) -> None:
    host.names.look()
    once = len(host.asked)
    host.names.look()
    assert len(host.asked) == once
    host.index = 9
    host.names.look()
    assert len(host.asked) == 2 * once


def test_a_resolver_that_comes_later_is_told_then(host: PlayedHost) -> None:
    host.resolved.unlink()
    host.names.look()
    assert host.asked == []
    host.resolved.touch()
    host.names.look()
    assert host.asked == list(claim_commands(BRIDGE, ADDRESS))


def test_a_refusal_is_warned_of_once_and_tried_again(host: PlayedHost, caplog: pytest.LogCaptureFixture) -> None:
    host.refusal = "resolvectl default-route: access denied"
    host.names.look()
    host.names.look()
    assert [record.message for record in caplog.records] == ["the host does not resolve our names"]
    host.refusal, host.asked = "", []
    host.names.look()
    assert host.asked == list(claim_commands(BRIDGE, ADDRESS))


def test_what_was_told_is_taken_back_and_what_was_not_is_left_alone(host: PlayedHost) -> None:
    host.names.stop()
    assert host.asked == []
    host.names.look()
    host.names.stop()
    assert host.asked[-1] == ("revert", BRIDGE)


def test_without_a_name_server_of_ours_nobody_is_told(tmp_path: Path) -> None:
    names = HostNames(BRIDGE, "", resolved=tmp_path)
    names.start()
    assert names.failure() is None
    names.stop()


def test_a_host_without_resolvectl_and_one_that_refuses_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ResolvedError, match=r"resolvectl dns kvedge0: .*No such file"):
        run_resolvectl(("dns", BRIDGE))
    program = tmp_path / "resolvectl"
    program.write_text("#!/bin/sh\necho no such link >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(ResolvedError, match="resolvectl dns kvedge0: no such link"):
        run_resolvectl(("dns", BRIDGE))
