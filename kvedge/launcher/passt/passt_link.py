"""The connection between QEMU and passt, made while the guest starts.

Called by `domain_life`. libvirt before 11.1 starts no passt of itself that QEMU and a launcher without privileges could
use, so this does: QEMU connects to a port on the Pod's loopback, which is closed as soon as it has, and passt is given
that connection. passt goes into the background once it serves, and ends by itself with QEMU; a launcher that is started
again has nothing to take over.
"""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
from collections.abc import Iterable
from typing import Final

from kvedge.launcher.launcher_errors import Unanswered
from kvedge.launcher.passt.passt_command import LINK_ADDRESS, LINK_PORT, PROGRAM, passt_command
from kvedge.rpc.launcher_pb2 import GuestInterface

log = logging.getLogger(__name__)

# QEMU has connected before it says that it runs; passt opens some ten thousand sockets in a second.
_SECONDS: Final = 30.0
_LONGEST_WORD: Final = 300
# passt's complaint about each line that it writes where no system log is.
_NOISE: Final = "Failed to send"


class PasstLink:
    """A passt that waits for QEMU; open until `close`."""

    def __init__(self, entry: GuestInterface) -> None:
        """Raises:
        Unanswered: when the port is taken.
        """
        self._entry = entry
        try:
            self._listener = socket.create_server((LINK_ADDRESS, LINK_PORT), backlog=1)
        except OSError as error:
            raise Unanswered(
                f"port {LINK_PORT} of the Pod's loopback, by which QEMU reaches passt, cannot be used:"
                f" {error.strerror or error}; have no other container of the Pod listen there"
            ) from error

    def connect(self) -> None:
        """Start passt for the QEMU that has come.

        Raises:
            Unanswered: when none has, or passt does not serve; with passt's own words.
        """
        self._listener.settimeout(_SECONDS)
        try:
            qemu, _ = self._listener.accept()
        except OSError as error:
            raise Unanswered(f"QEMU did not connect with passt: {error}") from error
        # passt may have to listen at that port itself.
        self.close()
        with qemu:
            # passt waits for it by itself.
            qemu.setblocking(True)
            start_passt(self._entry, qemu.fileno())

    def close(self) -> None:
        """Let nobody connect any more."""
        self._listener.close()


def open_link(interfaces: Iterable[GuestInterface]) -> PasstLink | None:
    """The link of the one NIC that passt speaks for; None for a guest without: one NIC at most is the Pod's own.

    Raises:
        Unanswered: when it cannot be opened.
    """
    entry = next((each for each in interfaces if each.HasField("passt")), None)
    return None if entry is None else PasstLink(entry)


def start_passt(entry: GuestInterface, descriptor: int) -> None:
    """Start it on this connection; it serves when this returns.

    Raises:
        Unanswered: when it does not.
    """
    program = shutil.which(PROGRAM) or PROGRAM
    command = passt_command(program, entry.passt, entry.mtu, descriptor)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, pass_fds=(descriptor,), timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unanswered(f"passt did not start: {str(error)[:_LONGEST_WORD]}") from error
    if done.returncode:
        raise Unanswered(f"passt did not start: {last_words(done.stderr)}")
    log.info("passt serves", extra={"facts": {"nic": entry.passt.nic, "mtu": entry.mtu}})


def last_words(output: bytes) -> str:
    """What passt says last of why it ends."""
    lines = output.decode(errors="replace").splitlines()
    said = [line.strip() for line in lines if line.strip() and not line.startswith(_NOISE)]
    return "; ".join(said[-2:])[-_LONGEST_WORD:] or "it says no reason"
