"""Work in other namespaces, and their names under /run/netns."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.network import netns
from kvedge.network.errors import NetworkError
from kvedge.network.links import Links
from kvedge.network.netns import (
    create_netns,
    delete_netns,
    identify_netns,
    is_netns,
    list_netns,
    netns_path,
    release_run_directory,
    run_in_netns,
)

NAME = f"kvt{os.getpid()}-netns"


@pytest.fixture
def name() -> Iterator[str]:
    yield NAME
    delete_netns(NAME)


def link_names() -> list[str]:
    with Links() as links:
        return [link.name for link in links.list_links()]


def test_work_is_done_in_the_namespace_and_this_process_stays_where_it_is(name: str) -> None:
    path = create_netns(name)
    before = os.stat("/proc/self/ns/net").st_ino
    assert run_in_netns(path, link_names) == ["lo"]
    assert os.stat("/proc/self/ns/net").st_ino == before
    assert len(link_names()) > 1


def test_a_descriptor_serves_as_well_as_a_path(name: str) -> None:
    opened = os.open(create_netns(name), os.O_RDONLY)
    try:
        assert run_in_netns(opened, link_names) == ["lo"]
        assert identify_netns(opened) == identify_netns(netns_path(name))
    finally:
        os.close(opened)


def test_kernel_settings_are_those_of_the_namespace(name: str) -> None:
    setting = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    here = setting.read_text()
    run_in_netns(create_netns(name), lambda: setting.write_text("7"))
    assert run_in_netns(netns_path(name), setting.read_text) == "7\n"
    assert setting.read_text() == here


def test_what_goes_wrong_there_is_raised_here(name: str) -> None:
    def fail() -> None:
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        run_in_netns(create_netns(name), fail)


def test_no_thread_is_left_behind(name: str) -> None:
    before = threading.active_count()
    run_in_netns(create_netns(name), link_names)
    assert threading.active_count() == before


def test_a_namespace_that_is_none_is_told_by_its_name() -> None:
    with pytest.raises(NetworkError, match="/run/netns/kvt-never"):
        run_in_netns("/run/netns/kvt-never", link_names)
    with pytest.raises(NetworkError, match="cannot enter"):
        run_in_netns("/etc/hostname", link_names)


def test_the_distributions_ip_knows_the_namespace(name: str) -> None:
    create_netns(name)
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert name in listed
    assert subprocess.run(["ip", "-n", name, "link"], capture_output=True, check=False).returncode == 0


def test_creating_twice_keeps_the_first(name: str) -> None:
    first = identify_netns(create_netns(name))
    assert identify_netns(create_netns(name)) == first


def test_a_creation_that_left_only_its_file_is_finished(name: str) -> None:
    create_netns(name)
    delete_netns(name)
    netns_path(name).touch()
    assert not is_netns(netns_path(name))
    assert list_netns(NAME) == [NAME]
    assert is_netns(create_netns(name))


def test_deleting_is_repeatable_and_takes_half_made_ones_too(name: str) -> None:
    create_netns(name)
    delete_netns(name)
    delete_netns(name)
    netns_path(name).touch()
    delete_netns(name)
    assert list_netns(NAME) == []


def test_a_host_that_never_had_a_named_namespace_gets_the_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netns, "RUN_DIRECTORY", tmp_path / "run" / "netns")
    assert list_netns("") == []
    assert run_in_netns(create_netns(name), link_names) == ["lo"]
    assert list_netns("") == [name]
    delete_netns(name)
    assert list_netns("") == []
    release_run_directory()
    # Only the empty directory stays: no mount.
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def test_somebody_elses_first_ip_netns_add_does_not_hide_ours(name: str) -> None:
    create_netns(name)
    other = f"{NAME}-ip"
    subprocess.run(["ip", "netns", "add", other], check=True)
    try:
        delete_netns(name)
        assert not netns_path(name).exists()
        assert name not in list_netns(NAME)
    finally:
        subprocess.run(["ip", "netns", "delete", other], check=True)


def test_a_name_that_lies_hidden_below_another_mount_holds_nobody_up(name: str) -> None:
    script = f"""
import ctypes
from kvedge.network.netns import create_netns, delete_netns
create_netns({name!r})
libc = ctypes.CDLL(None)
assert libc.mount(b"/run/netns", b"/run/netns", b"none", 0x5000, None) == 0
delete_netns({name!r})
delete_netns({name!r})
"""
    # In a mount namespace of its own: what is hidden goes with it.
    command = ["unshare", "--mount", "--propagation=private", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
