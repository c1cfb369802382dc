"""Names as values of labels, which hold less than names do.

The controller labels launcher and worker Pods with them, and clients make selectors of the same values. Pure.
"""

from __future__ import annotations

import hashlib

from kvedge.resources.values.name_grammar import LABEL_LENGTH


def as_label_value(name: str) -> str:
    """A name as a label's value: whole when it fits, else cut, with a hash that keeps it apart from others."""
    if len(name) <= LABEL_LENGTH:
        return name
    # KubeVirt's, by which virtctl finds the Pods of a VM.
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{name[: LABEL_LENGTH - len(digest) - 1]}-{digest}"
