"""What hook sidecars are asked, and where: names of hook points, paths of methods, bounds. Pure data.

Used by the client's side and by the shim. The names are KubeVirt's.
"""

from __future__ import annotations

from typing import Final

ON_DEFINE_DOMAIN: Final = "OnDefineDomain"
PRE_CLOUD_INIT_ISO: Final = "PreCloudInitIso"
SHUTDOWN: Final = "Shutdown"
INFO_PATH: Final = "/kubevirt.hooks.info.Info/Info"
# The first protocol that has each.
SINCE: Final = {ON_DEFINE_DOMAIN: "v1alpha1", PRE_CLOUD_INIT_ISO: "v1alpha2", SHUTDOWN: "v1alpha3"}
# A domain with a hundred disks has 100 KB; user data from a Secret has one megabyte at most, twice as JSON.
LARGEST_MESSAGE: Final = 8 << 20
LARGEST_DOMAIN: Final = 1 << 20


def callback_path(version: str, point: str) -> str:
    """The path of a hook point's method in one version of the protocol."""
    return f"/kubevirt.hooks.{version}.Callbacks/{point}"
