"""The one writer of kubeconfigs: text as it stands in a file, and a file for its owner alone.

Called by the embedded API for the administrator and the roles of one box, and by `kvedge user`. Touches only the file
that it is given. YAML is imported when something is written, as its verbs have help to show.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kvedge.runtime.durable_files import write_durably

MODE: Final = 0o600


def kubeconfig_text(document: dict[str, Any]) -> bytes:
    """A kubeconfig as it stands in a file."""
    import yaml

    # The dumper in C is ten times as fast, and not there in every build; the text is the same. A box writes a dozen.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump(document, Dumper=dumper, sort_keys=False).encode()


def write_kubeconfig(path: Path, document: dict[str, Any]) -> None:
    """Whole or not at all, also after a power cut, and never readable by others: its key is in it.

    Raises:
        OSError: as the file system has it.
    """
    write_durably(path, kubeconfig_text(document), MODE)
