"""What a preference writes into a VM when it enters: what is too late for its VMI.

Called by mutation_plan.py. Pure; documents of before are not touched.
"""

from __future__ import annotations

import copy

from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.type_application import object_at


def with_preferred_platform(spec: JsonObject, preference: JsonObject) -> JsonObject:
    """A VM's spec with the preferred architecture, machine and storage class, where it names none."""
    made = copy.deepcopy(spec)
    inner = object_at(made, "template", "spec")
    if (architecture := preference.get("preferredArchitecture")) and not inner.get("architecture"):
        inner["architecture"] = architecture
    machine = (preference.get("machine") or {}).get("preferredMachineType")
    if machine and not ((inner.get("domain") or {}).get("machine") or {}).get("type"):
        object_at(inner, "domain", "machine")["type"] = machine
    storage_class = (preference.get("volumes") or {}).get("preferredStorageClassName")
    for template in (made.get("dataVolumeTemplates") or ()) if storage_class else ():
        for name in ("pvc", "storage"):
            claim = (template.get("spec") or {}).get(name)
            if isinstance(claim, dict) and claim.get("storageClassName") is None:
                claim["storageClassName"] = storage_class
    return made
