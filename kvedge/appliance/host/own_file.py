"""A file of an installation that is no part of the program: settings, kubeconfigs, images, manifests.

Told by what prepares a node for its role, written by the installation. Touches nothing.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class OwnFile(Struct, frozen=True):
    """A file that is ours to write and to replace; without content it must not be there."""

    path: Path
    content: bytes | None
    mode: int = 0o644
