"""The files of the pages, as they lie beside this module: read once, served from memory by their exact names.

Called by `console_app`. Nothing that a client sends becomes a path of the file system.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_NONCE: Final = b"@NONCE@"


class PageFile(Struct, frozen=True):
    """One file and its media type."""

    content: bytes
    media_type: str

    def with_nonce(self, nonce: str) -> bytes:
        """The page, with the nonce where it reads it from."""
        return self.content.replace(_NONCE, nonce.encode())


def read_page_files() -> dict[str, PageFile]:
    """Each file by its path below `static/`."""
    root = Path(__file__).parent / "static"
    return {
        path.relative_to(root).as_posix(): PageFile(path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(root.rglob("*"))
        if path.suffix in _TYPES
    }
