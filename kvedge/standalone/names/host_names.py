"""The host itself finds the box's names where it has systemd-resolved: that asks our name server for our zone.

Started by `kvedge standalone` after the node agent, which makes the node bridge. Runs resolvectl, whose settings belong
to the bridge and go with it; nothing in /etc is touched. Other names are never asked here: no VM hides a site.
"""

from __future__ import annotations

import logging
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from kvedge.runtime.rounds import Rounds
from kvedge.standalone.names.name_table import ZONE

log = logging.getLogger(__name__)

# The socket of a systemd-resolved that runs.
_RESOLVED: Final = Path("/run/systemd/resolve/io.systemd.Resolve")
_SECONDS: Final = 10.0
# A bridge that was made anew, or a resolver that came later, is seen that soon.
_PERIOD: Final = 10.0

Run = Callable[[Sequence[str]], None]


class ResolvedError(Exception):
    """resolvectl failed; the text says what was asked and what it said."""


def run_resolvectl(arguments: Sequence[str]) -> None:
    """Run resolvectl.

    Raises:
        ResolvedError: when it is missing, fails, or takes too long.
    """
    command = ["resolvectl", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ResolvedError(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        raise ResolvedError(f"{' '.join(command)}: {done.stderr.strip()[:500] or done.returncode}")


def claim_commands(bridge: str, address: str) -> Iterator[tuple[str, ...]]:
    """What has the resolver ask at this address, for our zone alone."""
    # First: without it, the server that comes next would be asked for everything.
    yield "default-route", bridge, "no"
    # Our zone is signed by nobody.
    yield "dnssec", bridge, "no"
    yield "dnsovertls", bridge, "no"
    yield "domain", bridge, f"~{ZONE}"
    yield "dns", bridge, address


class HostNames:
    """The host's way to the names of one box."""

    name = "host names"

    def __init__(
        self,
        bridge: str,
        address: str,
        run: Run = run_resolvectl,
        resolved: Path = _RESOLVED,
        index_of: Callable[[str], int] = socket.if_nametoindex,
    ) -> None:
        """`address` is that of our name server; empty where there is none."""
        self._bridge, self._address = bridge, address
        self._run, self._resolved, self._index_of = run, resolved, index_of
        # Which resolver was told of which bridge.
        self._told: tuple[int, int] | None = None
        self._error = ""
        self.rounds = Rounds("host-names", "tells the host's resolver of our names", _PERIOD, self.look, at_once=True)

    def start(self) -> None:
        """Tell the resolver, now and whenever it or the bridge is another one."""
        if self._address:
            self.rounds.start()

    def stop(self) -> None:
        """No server answers any more: the resolver is not to ask here."""
        self.rounds.stop()
        if self._told is None:
            return
        self._told = None
        try:
            self._run(("revert", self._bridge))
        except ResolvedError as error:
            log.warning("the host's resolver still asks for our names here", extra={"facts": {"error": str(error)}})

    def failure(self) -> str | None:
        """Why nobody looks after it any more, or None."""
        return self.rounds.failure() if self._address else None

    def look(self) -> None:
        """One look; nothing is run where all is as it was."""
        try:
            there = self._resolved.stat().st_ino, self._index_of(self._bridge)
        except OSError:
            # No such resolver, or no bridge yet.
            self._told = None
            return
        if there == self._told:
            return
        try:
            for command in claim_commands(self._bridge, self._address):
                self._run(command)
        except ResolvedError as error:
            if str(error) != self._error:
                log.warning("the host does not resolve our names", extra={"facts": {"error": str(error)}})
            self._error = str(error)
            return
        self._told, self._error = there, ""
