"""What a DRA driver tells a Pod of the devices of its claims, as its kubelet plugin writes it (KEP-5304)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvedge.launcher.passthrough.claim_metadata import METADATA_DIRECTORY

DRIVER = "gpu.example.com"


def metadata(request: str, *devices: dict[str, str], version: str = "v1alpha1") -> str:
    """One document of a file: the attributes of each device of a request."""
    told: list[dict[str, Any]] = [
        {
            "driver": DRIVER,
            "pool": "node-1",
            "name": f"device-{number}",
            # What else drivers tell, in all types that there are.
            "attributes": {
                **{name: {"string": value} for name, value in attributes.items()},
                "model": {"string": "LATEST"},
                "cores": {"int": 64},
                "resource.kubernetes.io/healthy": {"bool": True},
                "driverVersion": {"version": "1.0.0"},
            },
        }
        for number, attributes in enumerate(devices)
    ]
    document = {
        "apiVersion": f"metadata.resource.k8s.io/{version}",
        "kind": "DeviceMetadata",
        "metadata": {"name": "a-claim", "namespace": "default", "uid": "u", "generation": 1},
        "requests": [{"name": request, "devices": told}],
    }
    # Drivers indent it.
    return json.dumps(document, indent=2) + "\n"


def pci(address: str) -> dict[str, str]:
    """The attribute of a function."""
    return {"resource.kubernetes.io/pciBusID": address}


def tell_device(root: Path, place: str, text: str, driver: str = DRIVER) -> Path:
    """Write a driver's file for a request, by its place such as `resourceclaims/gpus/whole`."""
    path = root / METADATA_DIRECTORY.lstrip("/") / place / f"{driver}-metadata.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
