"""The settings as the verbs of one box may use them, and the operator's own without what an installation has written.

Called by the verbs that run, end or replace the Pods of one box. Reads settings files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kvedge.cli.config_option import config_path
from kvedge.cli.exits import Exit, Refused
from kvedge.runtime.settings import LoadedSettings, trace_settings


def operators_settings(config: Path | None, **overrides: Any) -> LoadedSettings:
    """The settings without those that an installation has written.

    Raises:
        SettingsError: for an unknown key, a wrong value or an unreadable file.
    """
    from kvedge.appliance.host.layout import Layout

    return trace_settings(config_path(config), os.environ, overrides, leave_out=Layout().node_settings)


def refuse_kubelet_dir(operators: LoadedSettings) -> None:
    """One box keeps its Pods in its data directory: in a kubelet's, they would lie among those of a cluster.

    Raises:
        Refused: when the operator has set another directory.
    """
    settings = operators.settings
    if settings.kubelet_dir:
        raise Refused(
            f"{operators.origins['kubelet-dir']}: kubelet-dir: {settings.kubelet_dir} is for nodes of a cluster; one"
            f" box keeps its Pods in {settings.box_kubelet_path}: stop the VMs that kvedge has started there before,"
            " then take the setting out",
            Exit.USAGE,
        )
