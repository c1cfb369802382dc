"""What keeps a guest from being started in its Pod, besides its network and its launcher.

Raised by what prepares a launcher's Pod, caught by the sync loop.
"""

from __future__ import annotations


class PodNotReady(Exception):
    """The Pod lacks something (yet); the text is for the user, and trying again may help."""
