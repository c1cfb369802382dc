"""Which labels of VMs become labels of a series, as a site says by KubeVirt's ConfigMap `kubevirt-vm-labels-config`.

Used by followed_objects.py, which reads the ConfigMap, and by vm_series.py. Pure. Users choose the labels of their VMs:
their number is bounded, and two that Prometheus would have one name for are one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject

CONFIG_MAP: Final = "kubevirt-vm-labels-config"
# Of one VM; the others are left out, by name.
MOST_LABELS: Final = 32
_ALL: Final = "*"
_LONGEST_NAME: Final = 128
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_]")


class LabelChoice(Struct, frozen=True):
    """The labels that are told of, all or some, and those that are not."""

    allowed: frozenset[str] = frozenset({_ALL})
    ignored: frozenset[str] = frozenset()

    def choose(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Of an object's labels those that are told of, by the names that Prometheus has for them."""
        chosen: dict[str, str] = {}
        for key in sorted(labels):
            if key not in self.ignored and (_ALL in self.allowed or key in self.allowed):
                chosen.setdefault(f"label_{_fit(key)}", labels[key])
        return dict(list(chosen.items())[:MOST_LABELS])


# Before it is known what a site wants.
NOTHING: Final = LabelChoice(frozenset())


def read_choice(config_map: JsonObject) -> LabelChoice:
    """What the ConfigMap says: `allowlist` and `ignorelist`, with commas; without a word of it all are told of."""
    data = config_map.get("data")
    found = data if isinstance(data, dict) else {}
    return LabelChoice(_read_list(found.get("allowlist", _ALL)), _read_list(found.get("ignorelist", "")))


def _read_list(text: object) -> frozenset[str]:
    parts = text.split(",") if isinstance(text, str) else ()
    return frozenset(name for part in parts if (name := part.strip()))


def _fit(key: str) -> str:
    """The name as Prometheus takes it, as KubeVirt makes it."""
    name = _UNFIT.sub("_", key[:_LONGEST_NAME])
    return f"_{name}" if not name or name[0].isdigit() else name
