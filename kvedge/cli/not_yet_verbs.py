"""Verbs that virtctl has and kvedge has not, and what to do instead.

Read by the group where a verb is unknown. Pure data.
"""

from __future__ import annotations

from typing import Final

# Verb of virtctl → why not, and what to do.
NOT_YET: Final[dict[str, str]] = {
    "guestfs": "use virtctl guestfs; `guestfish --ro -a FILE` looks into an image before `kvedge image import`",
    "template": "there are no templates of VMs: `kvedge launch --dry-run -o yaml` makes a manifest to start from",
}

# Kinds that `virtctl create` makes beside a VM → the remedy here.
NOT_CREATED: Final[dict[str, str]] = {
    "clone": "`kvedge clone VM [TARGET]` clones a VM; `virtctl create clone` makes a manifest",
}
