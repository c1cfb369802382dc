"""`--config`: the settings file of the verbs that work on this host.

Used by the verbs for this host and by `kvedge user renew`. Reads the environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

CONFIG: Final = click.option(
    "--config", type=click.Path(path_type=Path), default=None, help="Settings file [/etc/kvedge/config.yaml]."
)


def config_path(option: Path | None) -> Path | None:
    """The settings file that the option, or else the environment, names."""
    named = os.environ.get("KVEDGE_CONFIG")
    return Path(named) if option is None and named else option
