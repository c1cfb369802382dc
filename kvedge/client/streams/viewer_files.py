"""The files by which remote-viewer and its like open one guest's screen: `[virt-viewer]`, as they have it.

Called by `kvedge spice` and `kvedge vnc --viewer-file`. Pure. That of SPICE holds no secret, as only its owner reaches
the socket that it names; that of VNC holds a password that is good for one viewer, for as long as its session waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# The way dies with the session, and so should the file.
_PASSING: Final[Mapping[str, str]] = {"delete-this-file": "1"}
# A USB device of the viewer's computer goes to the guest when its user says so, not because it was plugged in.
_SPICE: Final[Mapping[str, str]] = {"enable-usb-autoshare": "0"}


class NotOneLine(ValueError):
    """A value with a line of its own would be a key of its own."""


def render_viewer_file(socket: str, title: str) -> str:
    """The text for a screen by SPICE behind a unix socket of this computer.

    Raises:
        NotOneLine: for what does not fit in the format.
    """
    return _render({"type": "spice", "unix-path": socket, "title": title, **_PASSING, **_SPICE})


def render_vnc_file(host: str, port: int, password: str, title: str) -> str:
    """The text for a screen by VNC behind a port of this computer. Raises NotOneLine."""
    return _render({"type": "vnc", "host": host, "port": str(port), "password": password, "title": title, **_PASSING})


def _render(entries: Mapping[str, str]) -> str:
    for key, value in entries.items():
        if not value.isprintable():
            raise NotOneLine(f"{key}: {value!r} is not one line of text")
    return "".join(["[virt-viewer]\n", *(f"{key}={value}\n" for key, value in entries.items())])
