"""What a container disk says of itself in its environment, as labels of the claim that it fills. Pure.

Called for images of a registry and of an archive.
"""

from __future__ import annotations

import re
from typing import Final

from kvedge.storage.images.image_manifest import ImageConfig

_LABEL_VARIABLE: Final = "_KUBEVIRT_IO_"
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_MOST_LABELS: Final = 16


def labels_of(config: ImageConfig) -> dict[str, str]:
    """INSTANCETYPE_KUBEVIRT_IO_DEFAULT_PREFERENCE=x of an image's environment, as the label that it stands for."""
    found: dict[str, str] = {}
    for line in config.env:
        key, _, value = line.partition("=")
        begin, mark, end = key.partition(_LABEL_VARIABLE)
        if not mark or not begin or not end or not _LABEL_VALUE.fullmatch(value) or len(found) >= _MOST_LABELS:
            continue
        group, name = begin.lower().replace("_", "-"), end.lower().replace("_", "-")
        label = f"{group}.kubevirt.io/{name}"
        if _LABEL_VALUE.fullmatch(name) and len(label) < 128:
            found[label] = value
    return found
