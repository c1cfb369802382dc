"""What the provisioners of edge sites can do, as far as it is known; users fill a StorageProfile's spec for others.

Called by the plans of claims and of profiles. Pure data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.resources.types.data_volumes import ClaimPropertySet
from kvedge.resources.types.storage import BLOCK, BOX_PROVISIONER, FILESYSTEM, READ_WRITE_MANY, READ_WRITE_ONCE

_ONE_NODE: Final = ((READ_WRITE_ONCE, FILESYSTEM),)
_BLOCK_SHARED: Final = ((READ_WRITE_MANY, BLOCK), (READ_WRITE_ONCE, BLOCK), (READ_WRITE_ONCE, FILESYSTEM))
_FILES_SHARED: Final = ((READ_WRITE_MANY, FILESYSTEM),)
_ONE_NODE_BOTH: Final = ((READ_WRITE_ONCE, BLOCK), (READ_WRITE_ONCE, FILESYSTEM))
# By the provisioner, best first: access mode and volume mode.
_PROVISIONERS: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    BOX_PROVISIONER: ((READ_WRITE_ONCE, FILESYSTEM), (READ_WRITE_ONCE, BLOCK)),
    "rancher.io/local-path": _ONE_NODE,
    "kubevirt.io/hostpath-provisioner": _ONE_NODE,
    "kubevirt.io.hostpath-provisioner": _ONE_NODE,
    "driver.longhorn.io": ((READ_WRITE_MANY, BLOCK), (READ_WRITE_ONCE, BLOCK), (READ_WRITE_ONCE, FILESYSTEM)),
    "rook-ceph.rbd.csi.ceph.com": _BLOCK_SHARED,
    "rbd.csi.ceph.com": _BLOCK_SHARED,
    "rook-ceph.cephfs.csi.ceph.com": _FILES_SHARED,
    "cephfs.csi.ceph.com": _FILES_SHARED,
    "nfs.csi.k8s.io": _FILES_SHARED,
    "topolvm.io": _ONE_NODE_BOTH,
    "local.csi.openebs.io": _ONE_NODE_BOTH,
    "openebs.io/local": _ONE_NODE,
    "linstor.csi.linbit.com": _BLOCK_SHARED,
}


def find_property_sets(provisioner: str) -> list[ClaimPropertySet]:
    """What claims of a provisioner can be, best first; nothing when it is not known."""
    known = _PROVISIONERS.get(provisioner, ())
    return [ClaimPropertySet(access_modes=[access], volume_mode=mode) for access, mode in known]
