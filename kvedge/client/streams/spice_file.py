"""The file by which remote-viewer and its like open one guest's screen: `[virt-viewer]`, as they have it.

Called by `kvedge spice`. Pure: the file holds no secret, as only its owner reaches the socket that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_FIXED: Final[Mapping[str, str]] = {
    # The socket dies with the session, and so should the file.
    "delete-this-file": "1",
    # A USB device of the viewer's computer goes to the guest when its user says so, not because it was plugged in.
    "enable-usb-autoshare": "0",
}


class NotOneLine(ValueError):
    """A value with a line of its own would be a key of its own."""


def render_viewer_file(socket: str, title: str) -> str:
    """The text for the screen behind a unix socket of this computer.

    Raises:
        NotOneLine: for what does not fit in the format.
    """
    entries = {"type": "spice", "unix-path": socket, "title": title, **_FIXED}
    for key, value in entries.items():
        if not value.isprintable():
            raise NotOneLine(f"{key}: {value!r} is not one line of text")
    return "".join(["[virt-viewer]\n", *(f"{key}={value}\n" for key, value in entries.items())])
