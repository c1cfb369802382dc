"""Pictures of the guest's screen, one at a time.

Kept by `domain_run`; called by the gRPC server's threads. The picture comes from libvirt and goes out in pieces.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from kvedge.launcher.launcher_errors import LibvirtFailed, Unanswered
from kvedge.launcher.run.screen_picture import BadPicture, png_pieces

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

# How long a picture of the screen waits for another one.
PICTURE_SECONDS: Final = 5.0


class Screenshots:
    """The screen of one guest; its method may be called from any thread."""

    def __init__(self, session: LibvirtSession) -> None:
        self._session = session
        self._picturing = threading.Lock()

    def take(self, *, move_cursor: bool) -> Generator[bytes, None, None]:
        """The guest's screen as a PNG file, in pieces.

        Raises:
            LauncherError: when there is none, or when it is too large.
        """
        if not self._picturing.acquire(timeout=PICTURE_SECONDS):
            raise Unanswered("another picture of the screen is being taken")
        try:
            if move_cursor:
                self._session.move_pointer()
            yield from png_pieces(self._session.screenshot())
        except BadPicture as error:
            raise LibvirtFailed("taking a picture of the screen", 0, 0, str(error)) from error
        finally:
            self._picturing.release()
