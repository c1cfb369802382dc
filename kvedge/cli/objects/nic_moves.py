"""A bridge of a NIC of this host, for `kvedge network create --nic`, `confirm` and `delete`.

Called by these verbs, as root on the box. Prints, and reads the terminal: Enter says that a second connection was made
after the move. A session from before it proves less, as a firewall knows its connection.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from kvedge.cli.config_option import config_path
from kvedge.cli.exits import Exit, Refused
from kvedge.network.errors import NetworkError
from kvedge.network.nics.nic_back import give_back, take_back
from kvedge.network.nics.nic_filters import filters_of_nic
from kvedge.network.nics.nic_guard import outcome, run_guard, start_guard, wait_moved, waiting_bridges
from kvedge.network.nics.nic_journal import NicJournal, nics_path
from kvedge.network.nics.nic_move import CONFIRM_SECONDS, survey_nic
from kvedge.network.nics.nic_rules import cut_names
from kvedge.network.nics.nic_state import NicPhase, NicRecord
from kvedge.resources.types.core import Node

if TYPE_CHECKING:
    from kvedge.kube.kube_client import KubeClient
    from kvedge.runtime.settings import Settings

_POLL_SECONDS: Final = 0.2
# Until the guard has read the word.
_KEEP_SECONDS: Final = 10.0
_LEARNT: Final = "the addresses that routers tell it"


def open_nic_journal(config: Path | None, data_dir: str | None) -> NicJournal:
    """The journal of this box.

    Raises:
        Refused: for whoever is not root.
        SettingsError: for settings that cannot be read.
    """
    if os.geteuid() != 0:
        raise Refused("a NIC of this host is changed by root alone: run it with sudo, on the box itself", Exit.HOST)
    return NicJournal(nics_path(_settings(config, data_dir).data_path))


def refuse_unkept(client: KubeClient, config: Path | None, data_dir: str | None) -> None:
    """Refuse where no node agent would make the bridge again after a reboot, or move the NIC back after a crash.

    Raises:
        Refused: when this host runs no box, or not the one whose API this is.
    """
    from kvedge.appliance.install.installed import role_here
    from kvedge.runtime.linux.boot import read_boot_id
    from kvedge.standalone.box_lock import is_box_running

    settings = _settings(config, data_dir)
    if (role := role_here(settings)) in ("server", "agent"):
        raise Refused(
            f"--nic: this host is a node of a cluster, installed as {role}, and nobody makes a NIC's bridge there after"
            " a reboot: make the bridge in this host's network configuration, and name it with --bridge",
            Exit.HOST,
        )
    if not is_box_running(settings.data_path):
        raise Refused(
            f"--nic: no kvedge standalone runs in {settings.data_path}, which would keep the NIC's bridge: start it, or"
            " name its directory with --data-dir",
            Exit.HOST,
        )
    boot = read_boot_id()
    if not any(node.status.node_info.get("bootID") == boot for node in client.list(Node, None)):
        raise Refused(
            f"--nic: {client.host} is not the API of this host's box, as through a tunnel: run it on the box whose NIC"
            " it is, or name this box's kubeconfig with --kubeconfig",
            Exit.HOST,
        )


def _settings(config: Path | None, data_dir: str | None) -> Settings:
    from kvedge.runtime.settings import load_settings

    return load_settings(config_path(config), os.environ, {"data_dir": data_dir} if data_dir else {})


def refuse_elsewhere(server: str) -> None:
    """Refuse a server that is not this host's: its box has other NICs.

    Raises:
        Refused: for such a server.
    """
    host = urlsplit(server).hostname or ""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
    except OSError as error:
        raise Refused(f"{server} is another host's API: run this on the box whose NIC it is", Exit.HOST) from error


def make_bridge(journal: NicJournal, nic: str, bridge: str) -> bool:
    """Move the NIC's addresses onto a bridge, and ask for the word that keeps them; whether anything was moved.

    Raises:
        Refused: when the NIC cannot be moved, or was moved back.
    """
    with _translate_errors():
        # The record of an earlier guard is put right first: it says nothing of this move.
        known = take_back(journal, bridge)
        if known is not None and known.phase is NicPhase.KEPT:
            if known.nic != nic:
                raise Refused(f"{bridge} is a bridge of {known.nic}: name another one with --bridge", Exit.USAGE)
            return False
        survey_nic(nic, bridge)
        filters = filters_of_nic(nic, _index(nic))
        guard = start_guard(journal, nic, bridge, os.environ)
        phase = wait_moved(journal, bridge, guard)
        record = journal.read(bridge)
        if phase is NicPhase.MOVED and record is not None:
            listens = sys.stdin.isatty() and not filters
            _ask(record, filters, listens=listens)
            _wait_for_word(journal, bridge, listens=listens)
        click.echo(f"{nic} is a port of {bridge}, which has its addresses")
    return True


def confirm_moves(journal: NicJournal) -> list[str]:
    """Keep what waits for a word; the bridges.

    Raises:
        Refused: when nothing waits, or it was moved back meanwhile.
    """
    with _translate_errors():
        bridges = list(waiting_bridges(journal))
        for bridge in bridges:
            journal.confirm(bridge)
        for bridge in bridges:
            if not _await_end(journal, bridge, _KEEP_SECONDS):
                raise Refused(f"{bridge} was taken back before: create the network again", Exit.TIMED_OUT)
    if not bridges:
        raise Refused("no NIC waits for a word", Exit.NOT_FOUND)
    return bridges


def give_nic_back(journal: NicJournal, bridge: str) -> None:
    """Move the addresses back to their NIC; nothing for a bridge that kvedge has not made.

    Raises:
        Refused: when guests are on the bridge.
    """
    with _translate_errors():
        record = journal.read(bridge)
        if record is not None and give_back(journal, bridge):
            click.echo(f"{record.nic} has its addresses again, and {bridge} is gone")


def guard(nic: str, bridge: str, directory: Path, seconds: float) -> None:
    """What the process does that waits for the word.

    Raises:
        Refused: when the NIC cannot be moved, or nobody has confirmed it.
    """
    with _translate_errors():
        if not run_guard(nic, bridge, directory, seconds):
            raise Refused(f"nobody has confirmed {bridge}: {nic} is as it was", Exit.TIMED_OUT)


def _index(nic: str) -> int:
    try:
        return socket.if_nametoindex(nic)
    except OSError:
        return 0


def _ask(record: NicRecord, filters: Sequence[str], *, listens: bool) -> None:
    if sys.stdin.isatty():
        # Keys that were pressed before the question do not answer it.
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    addresses = ", ".join(each.address for each in record.addresses) or ("its routes" if record.routes else _LEARNT)
    click.echo(
        f"{record.nic} is a port of {record.bridge} now, which has {addresses}.\n"
        f"It is moved back in {CONFIRM_SECONDS:.0f} s, unless you confirm that this host is still reached: open a"
        f" second connection first, and run `kvedge network confirm` there{', or press Enter here' if listens else ''}."
    )
    if filters:
        click.echo(
            f"This session shows nothing: rules of {cut_names(filters)} (nftables) are about {record.nic}. They let old"
            f" connections go on, and may refuse new ones by {record.bridge}."
        )
    else:
        click.echo(
            f"This session alone shows little: firewall rules that name {record.nic} let it go on, and refuse new ones"
            f" by {record.bridge}, which they do not know."
        )


def _wait_for_word(journal: NicJournal, bridge: str, *, listens: bool) -> None:
    while (found := outcome(journal, bridge)) is None:
        if not listens:
            time.sleep(_POLL_SECONDS)
        elif select.select([sys.stdin], [], [], _POLL_SECONDS)[0]:
            # An end of the input is no word: the session may just have been lost.
            listens = bool(sys.stdin.readline())
            if listens:
                journal.confirm(bridge)
    if not found:
        raise Refused(
            f"nobody has confirmed it: {bridge} is gone, and the NIC as it was. No network was created.", Exit.TIMED_OUT
        )


def _await_end(journal: NicJournal, bridge: str, seconds: float) -> bool:
    for _ in range(round(seconds / _POLL_SECONDS)):
        found = outcome(journal, bridge)
        if found is not None:
            return found
        time.sleep(_POLL_SECONDS)
    return False


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except NetworkError as error:
        raise Refused(str(error), Exit.HOST) from error
