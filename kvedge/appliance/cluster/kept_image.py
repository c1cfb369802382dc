"""Keeps the launcher's image in this node's containerd as long as the handler runs: without it no VM starts here.

A service beside the handler of an installed node. A kubelet that needs room may have removed the image, an operator may
have pruned, and some k3s take pins away when they start; `kvedge install` has left the archive.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.appliance.cluster.image_loader import ARCHIVE, NotLoadedError, is_kept, load_image
from kvedge.appliance.host.distributions import of_node
from kvedge.appliance.host.kubelet_facts import find_running_kubelet
from kvedge.appliance.host.node_places import node_places
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.settings import Settings

log = logging.getLogger(__name__)

# Asking starts a program: often enough for a user who waits for a VM, seldom enough for a small host.
_SECONDS: Final = 120.0


class ImageSource(Struct, frozen=True):
    """Where the image comes from on this node, and the command that loads it; empty where there is none."""

    archive: Path
    load: tuple[str, ...]


def image_source(settings: Settings) -> ImageSource:
    """As the node is now: its kubelet may start after us."""
    places = node_places(settings, of_node(Path.exists), find_running_kubelet(), Path.is_dir)
    return ImageSource((places.images or settings.data_path) / ARCHIVE, places.load)


class KeptImage:
    """A service that looks now and then. A failed look is logged; without the image VMs do not start, and say so."""

    name = "launcher image"

    def __init__(self, find: Callable[[], ImageSource], seconds: float = _SECONDS) -> None:
        self._find = find
        self._seconds = seconds
        self._told = ""
        self._stopping = threading.Event()
        self._thread = BackgroundThread("launcher-image", self._run)

    def start(self) -> None:
        """Begin; nobody waits for the first look, as containerd may start after us."""
        self._thread.start()

    def stop(self) -> None:
        """Do not look any more; a look that is under way harms nobody."""
        self._stopping.set()
        self._thread.stop()

    def failure(self) -> str | None:
        """Why nobody looks any more."""
        return self._thread.failure()

    def _run(self) -> None:
        while True:
            self._look()
            if self._stopping.wait(self._seconds):
                return

    def _look(self) -> None:
        source = self._find()
        # In Pods, and where an operator loads images by other means, it is not ours to keep.
        if not source.load or not source.archive.is_file():
            return
        try:
            if not is_kept(source.load):
                load_image(source.load, source.archive)
                log.info("launcher image loaded", extra={"facts": {"archive": str(source.archive)}})
            self._told = ""
        except NotLoadedError as error:
            if str(error) != self._told:
                self._told = str(error)
                log.warning("launcher image is not kept", extra={"facts": {"error": self._told}})
