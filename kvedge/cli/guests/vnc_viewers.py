"""The VNC viewers that virtctl knows, and which of them is on this computer.

Called by `kvedge vnc`. Looks along $PATH.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Final, NamedTuple

from kvedge.cli.exits import Exit, Refused


class Viewer(NamedTuple):
    """A program, and its arguments for a screen at an address."""

    program: str
    arguments: Callable[[str], list[str]]

    def command(self, place: str) -> list[str]:
        """The argv that shows the screen behind `place`, ADDRESS:PORT."""
        return [self.program, *self.arguments(place)]


def _as_url(place: str) -> list[str]:
    return [f"vnc://{place}"]


def _as_place(place: str) -> list[str]:
    # Two colons before a port: one means a display's number.
    address, _, port = place.rpartition(":")
    return [f"{address}::{port}"]


def _for_real(place: str) -> list[str]:
    return [*_as_place(place), "-WarnUnencrypted=0", "-Shared=0", "-ShareFiles=0"]


# `--vnc-type` → the viewer; without one, those that are there are tried in this order.
VIEWERS: Final = {
    "remote-viewer": Viewer("remote-viewer", _as_url),
    "tiger": Viewer("vncviewer", _as_place),
    "real": Viewer("vncviewer", _for_real),
    "chicken": Viewer("chicken", _as_place),
}


def find_viewer(kind: str, path: str) -> Viewer:
    """The viewer that was asked for, else the first that is installed.

    Raises:
        Refused: with what to install, when there is none.
    """
    wanted = [VIEWERS[kind]] if kind else list(VIEWERS.values())
    if path:
        found = shutil.which(path)
        if found is None:
            raise Refused(f"--vnc-path: {path} is not there, or cannot be run", Exit.HOST)
        # Without a type most viewers take an address; remote-viewer takes a URL only.
        is_remote_viewer = not kind and path.rpartition("/")[2] == "remote-viewer"
        return Viewer(found, (VIEWERS["remote-viewer"] if is_remote_viewer else VIEWERS[kind or "tiger"]).arguments)
    for viewer in wanted:
        if found := shutil.which(viewer.program):
            return Viewer(found, viewer.arguments)
    names = " or ".join(sorted({viewer.program for viewer in wanted}))
    raise Refused(
        f"could not find {names} in $PATH: install a VNC viewer (Debian: apt install virt-viewer, or "
        "tigervnc-viewer), or use --proxy-only and any viewer",
        Exit.HOST,
    )
