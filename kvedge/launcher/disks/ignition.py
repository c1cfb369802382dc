"""The config that Ignition finds in a guest: a file that QEMU hands to the guest's firmware.

Called by `vmi_preparation`. Writes below the directory of the run.
"""

from __future__ import annotations

import os

from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.names import IGNITION
from kvedge.resources.types.vmi import VirtualMachineInstance


def write_ignition(vmi: VirtualMachineInstance, options: LauncherOptions) -> str | None:
    """The file's path; None for a VMI without a config. Raises OSError."""
    text = vmi.metadata.annotations.get(IGNITION, "")
    if not text:
        return None
    path = f"{options.run_directory}/ignition.json"
    os.makedirs(options.run_directory, mode=0o700, exist_ok=True)
    # QEMU reads it when the guest is started: half a file of a launcher that was killed is written over before that.
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path
