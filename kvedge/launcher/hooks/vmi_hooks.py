"""What a VMI's preparation asks of hook sidecars; without any, documents stay as they are.

Called by `vmi_preparation`. Imports nothing that a launcher without sidecars does not need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvedge.launcher.hooks.hook_calls import HookCalls


class VmiHooks:
    """The hooks of one VMI, for one attempt to start it."""

    def __init__(self, calls: HookCalls | None = None, vmi_json: bytes = b"") -> None:
        self._calls = calls
        self._vmi_json = vmi_json

    def shape_iso(self, files: Mapping[str, bytes], volume: str) -> Mapping[str, bytes]:
        """cloud-init's files of a volume. Raises as `HookCalls` does."""
        return files if self._calls is None else self._calls.pre_cloud_init_iso(files, volume, self._vmi_json)

    def shape_domain(self, xml: str) -> tuple[str, Sequence[str]]:
        """The domain's document, and the sidecars that changed it. Raises as `HookCalls` does."""
        return (xml, ()) if self._calls is None else self._calls.on_define_domain(xml, self._vmi_json)
