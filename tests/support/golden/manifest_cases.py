"""Command lines whose manifests are held in golden files, and compared with virtctl's.

Used by unit and contract tests. `password`, `key.pub` and `user-data` are files in the working directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

GOLDEN: Final = Path(__file__).parent / "manifests"

_VM: Final = ["create", "vm", "--name=box"]
_NO_TYPES: Final = ["--infer-instancetype=false", "--infer-preference=false"]

# Each of these is taken by virtctl as well, and makes the same there.
CREATE_CASES: Final = {
    "create-plain": _VM,
    "create-container-disks": [
        *_VM,
        "--memory=1024Mi",
        "--run-strategy=Manual",
        "--termination-grace-period=0",
        "--volume-containerdisk=src:my.registry:5000/img:tag",
        "--volume-containerdisk=src:other,name:two,bootorder:1",
    ],
    "create-claims": [
        *_VM,
        *_NO_TYPES,
        "--volume-pvc=src:p,bootorder:3",
        "--volume-pvc=src:q,name:second,bootorder:1",
        "--volume-containerdisk=src:z",
        "--volume-sysprep=src:answers",
    ],
    "create-login": [
        *_VM,
        "--volume-containerdisk=src:z",
        "--user=joe",
        "--password-file=password",
        "--ssh-key=ssh-ed25519 AAAA joe@home",
        "--ssh-key=k1,k2",
        "--ga-manage-ssh=true",
    ],
    "create-config-drive": [
        *_VM,
        "--cloud-init=configdrive",
        "--user=joe",
        "--cloud-init-network-data=dmVyc2lvbjogMgo=",
    ],
    "create-no-cloud-init": [*_VM, "--cloud-init=none", "--user=joe"],
    "create-own-user-data": [*_VM, "--cloud-init-user-data=I2Nsb3VkLWNvbmZpZwo=", "--volume-sysprep=src:a,type:secret"],
    "create-keys-by-agent": [*_VM, "--user=joe", "--access-cred=type:ssh,src:keys", "--access-cred=src:more,user:ann"],
    "create-keys-by-cloud-init": [*_VM, "--access-cred=type:ssh,src:keys,method:noCloud"],
    "create-types": [
        *_VM,
        "--instancetype=virtualmachineinstancetype/small",
        "--preference=debian",
        "--volume-pvc=src:p",
    ],
    "create-types-from-a-volume": [
        *_VM,
        "--infer-instancetype-from=q",
        "--infer-preference-from=p",
        "--volume-pvc=src:p",
        "--volume-pvc=src:q",
    ],
    "create-types-if-the-first-volume-says-them": [
        *_VM,
        "--volume-pvc=src:p",
        "--volume-pvc=src:q,bootorder:1",
    ],
    "create-password-by-agent": [*_VM, "--access-cred=type:password,src:pw,method:ga"],
}

_LAUNCH: Final = ["launch", "local/debian:12", "web", "--dry-run"]
LAUNCH_CASES: Final = {
    "launch-plain": _LAUNCH,
    "launch-type-and-system": [*_LAUNCH, "--type=u1.small", "--os=debian", "--network=plant"],
    "launch-system": [*_LAUNCH, "--os=virtualmachinepreference/debian", "--cpu=2", "--memory=2Gi"],
    "launch-everything": [
        *_LAUNCH,
        *("--memory", "2048Mi", "--cpu", "2", "--disk-size", "10Gi", "--run-strategy", "Halted"),
        *("--label", "app=shop", "--label", "tier="),
        *("--user", "joe", "--ssh-key", "./key.pub", "--ssh-key", "ssh-rsa BBBB", "--password-file", "password"),
    ],
    "launch-windows-installer": [
        *("launch", "local/windows:11", "win", "--dry-run", "--install", "--disk", "64Gi", "--type", "u1.large"),
        *("--os", "windows.11.virtio", "--cdrom", "local/virtio-win:1"),
    ],
    "launch-cdrom": [*_LAUNCH, "--cdrom", "local/tools:1", "--cdrom", "local/drivers:2"],
    "launch-own-user-data": [*_LAUNCH, "--user-data", "user-data"],
    "launch-disk": [*_LAUNCH, "--disk", "20Gi", "--storage-class", "fast"],
    "launch-disk-of-url": ["launch", "https://example.com/debian.qcow2", "web", "--dry-run", "--disk", "20480Mi"],
    "launch-disk-of-file": [
        *("launch", "./user-data", "web", "--dry-run", "--disk", "20Gi", "--run-strategy", "Halted"),
    ],
}
