"""A VM that tries a backup reaches nobody, and has no disk but its own."""

from __future__ import annotations

from typing import Any

from kvedge.controller.backups.isolated_vm import isolate
from kvedge.controller.backups.returned_vm import make_vm
from kvedge.resources.codec import decode, encode
from kvedge.resources.disks.snapshot_names import RETURNED_BY
from kvedge.resources.types.protection.backups import BackupRestore, RestoredVolume
from tests.unit.controller.backups.backup_world import the_content

SPEC: dict[str, Any] = {
    "running": True,
    "dataVolumeTemplates": [{"metadata": {"name": "web-scratch"}}],
    "template": {
        "metadata": {"labels": {"app": "shop"}, "annotations": {"a": "b"}},
        "spec": {
            "domain": {
                "cpu": {"cores": 2},
                "devices": {
                    "interfaces": [{"name": "default", "masquerade": {}}],
                    "hostDevices": [{"name": "card", "deviceName": "vendor/card"}],
                    "gpus": [{"name": "gpu", "deviceName": "vendor/gpu"}],
                    "autoattachVSOCK": True,
                    "disks": [{"name": name, "disk": {}} for name in ("root", "shared", "scratch", "host", "init")],
                    "filesystems": [{"name": "share", "virtiofs": {}}],
                    "rng": {},
                },
            },
            "networks": [{"name": "default", "pod": {}}],
            "readinessProbe": {"tcpSocket": {"port": 80}},
            "livenessProbe": {"tcpSocket": {"port": 80}},
            "subdomain": "shop",
            "resourceClaims": [{"name": "card", "resourceClaimName": "card"}],
            "nodeSelector": {"disk": "fast"},
            "volumes": [
                {"name": "root", "persistentVolumeClaim": {"claimName": "returned-root"}},
                {"name": "shared", "persistentVolumeClaim": {"claimName": "everybodys"}},
                {"name": "scratch", "dataVolume": {"name": "web-scratch"}},
                {"name": "host", "hostDisk": {"path": "/data/disk.img", "type": "Disk"}},
                {"name": "share", "persistentVolumeClaim": {"claimName": "files"}},
                {"name": "init", "cloudInitNoCloud": {"userData": "#!/bin/sh"}},
                {"name": "left", "ephemeral": {"persistentVolumeClaim": {"claimName": "golden"}}},
            ],
        },
    },
}


def test_it_has_no_network_no_hardware_of_others_and_only_its_own_disks() -> None:
    made = isolate(SPEC, {"returned-root"})
    inner = made["template"]["spec"]
    devices = inner["domain"]["devices"]
    assert devices == {
        "autoattachPodInterface": False,
        "disks": [{"name": "root", "disk": {}}, {"name": "init", "disk": {}}],
        "filesystems": [],
        "rng": {},
    }
    assert [each["name"] for each in inner["volumes"]] == ["root", "init"]
    assert not {"networks", "readinessProbe", "livenessProbe", "subdomain", "resourceClaims"} & inner.keys()
    assert (inner["nodeSelector"], inner["domain"]["cpu"]) == ({"disk": "fast"}, {"cores": 2})


def test_it_runs_once_and_no_label_leads_to_it() -> None:
    made = isolate(SPEC, {"returned-root"})
    assert (made["runStrategy"], "running" in made, "dataVolumeTemplates" in made) == ("Once", False, False)
    assert made["template"].keys() == {"spec"}


def test_what_was_given_stays_as_it_was() -> None:
    before = repr(SPEC)
    isolate(SPEC, {"returned-root"})
    assert repr(SPEC) == before


def test_the_vm_goes_with_its_restore() -> None:
    spec = {"vmName": "web", "repositoryName": "usb", "targetName": "tried", "isolated": True}
    restore = decode(BackupRestore, {"metadata": {"name": "r", "namespace": "default", "uid": "u"}, "spec": spec})
    volumes = [RestoredVolume(volume_name=name, claim_name=f"c-{name}") for name in ("root", "data")]
    vm = encode(make_vm(restore, the_content().spec, volumes))
    assert (
        vm["metadata"]["ownerReferences"][0] | {"uid": "u", "kind": "BackupRestore", "controller": True}
        == (vm["metadata"]["ownerReferences"][0])
    )
    assert vm["metadata"]["annotations"] == {RETURNED_BY: "u"}
    assert "labels" not in vm["metadata"]
    assert vm["spec"]["runStrategy"] == "Once"
