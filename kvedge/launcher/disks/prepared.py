"""What the preparation of a VMI hands to the run of its domain.

Made by `vmi_preparation`, carried over by `preparation_process`, used by `domain_life`. Imports nothing, as the
launcher keeps it.
"""

from __future__ import annotations


class Prepared:
    """A domain's document; whether its CPUs wait for an unpause; warnings of its disks for the user; the hook sidecars
    that changed the document."""

    def __init__(self, xml: str, *, paused: bool, notes: tuple[str, ...] = (), hooks: tuple[str, ...] = ()) -> None:
        self.xml = xml
        self.paused = paused
        self.notes = notes
        self.hooks = hooks
