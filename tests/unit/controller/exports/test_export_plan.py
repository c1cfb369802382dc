# Tests: kvedge/controller/exports/export_links.py, kvedge/controller/exports/export_view.py
# Tests: kvedge/controller/exports/exporter_manifest.py, kvedge/resources/disks/exports.py
"""What becomes of an export: its exporter, its status, its end."""

from __future__ import annotations

import base64
import gzip
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509

from kvedge.controller.exports.export_plan import expiry, plan_export
from kvedge.controller.exports.export_view import (
    EndExport,
    EndExporter,
    ExportView,
    Front,
    KeepSecret,
    KeepService,
    Report,
    Serve,
    SourceSeen,
    SourceVolume,
)
from kvedge.controller.exports.exporter_manifest import (
    Certified,
    export_service,
    exporter_pod,
    own_secret,
    own_secret_name,
    token_secret,
)
from kvedge.resources.codec import decode, decode_json
from kvedge.resources.configuration.support_containers import VM_EXPORT
from kvedge.resources.disks.exports import exporter_name, split_outside_path
from kvedge.resources.types.core import Pod, ResourceRequirements
from kvedge.resources.types.protection.export_job import MANIFESTS_KEY, ExportJob, ExportManifests, ServedBackup
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.runtime.clock import rfc3339
from tests.support.builders import CONFIG, NOW, a_claim
from tests.support.played_upload import an_authority
from tests.support.values import replace

UID = "0f5c0000-0000-4000-8000-000000000000"
VOLUMES = (
    SourceVolume("disk", a_claim("disk")),
    SourceVolume("raw", a_claim("raw", volume_mode="Block")),
    SourceVolume("files", a_claim("files"), disk=False),
)
SOURCE = SourceSeen(volumes=VOLUMES, vm="web", manifests=ExportManifests())
FRONT = Front("https://box:6443", "BOX CA\n")
BASE = "https://box:6443/api/export.kubevirt.io/v1/namespaces/default/virtualmachineexports/web"


def an_export(status: dict[str, Any] | None = None, name: str = "web", **spec: Any) -> VirtualMachineExport:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": UID,
        "creationTimestamp": rfc3339(NOW),
        "labels": {"istio": "yes", "app": "mine"},
        "annotations": {"note": "x"},
    }
    return decode(VirtualMachineExport, {"metadata": metadata, "spec": spec, "status": status or {}})


def a_pod(phase: str = "Running", ready: bool = True, **metadata: Any) -> Pod:
    pod = exporter_pod(an_export(), SourceSeen(VOLUMES), NOW + timedelta(hours=2), CONFIG)
    pod.status.phase = phase
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = decode(Pod, {"status": {"phase": phase, "conditions": [condition]}}).status
    pod.status = status
    pod.metadata.uid = "uid-of-pod"
    for key, value in metadata.items():
        setattr(pod.metadata, key, value)
    return pod


def status_of(view: ExportView) -> dict[str, Any]:
    reports = [each.body["status"] for each in plan_export(view, NOW).actions if isinstance(each, Report)]
    return reports[0] if reports else {}


def told(view: ExportView) -> tuple[str, str, str]:
    status = status_of(view)
    ready = next(each for each in status["conditions"] if each["type"] == "Ready")
    return status["phase"], ready["status"], ready["reason"]


def test_a_source_at_rest_is_served() -> None:
    plan = plan_export(ExportView(an_export(), SOURCE), NOW)
    assert [type(each) for each in plan.actions] == [Report, Serve]
    assert told(ExportView(an_export(), SOURCE)) == ("Pending", "False", "Initializing")
    status = status_of(ExportView(an_export(), SOURCE))
    assert status["tokenSecretRef"] == "export-token-web"
    assert status["serviceName"] == "virt-export-web"
    assert status["virtualMachineName"] == "web"
    assert status["ttlExpirationTime"] == rfc3339(NOW + timedelta(hours=2))


def test_links_are_told_while_it_is_ready() -> None:
    view = ExportView(an_export(), SOURCE, a_pod(), ca="OWN CA", front=FRONT)
    assert told(view) == ("Ready", "True", "PodReady")
    links = status_of(view)["links"]
    assert links["external"]["cert"] == "BOX CA"
    disk, raw, files = links["external"]["volumes"]
    assert [each["url"] for each in disk["formats"]] == [
        f"{BASE}/volumes/disk/disk.img",
        f"{BASE}/volumes/disk/disk.img.gz",
    ]
    assert [each["format"] for each in raw["formats"]] == ["raw", "gzip"]
    assert [(each["format"], each["url"]) for each in files["formats"]] == [
        ("dir", f"{BASE}/volumes/files/dir/"),
        ("tar.gz", f"{BASE}/volumes/files/disk.tar.gz"),
    ]
    assert links["external"]["manifests"] == [
        {"type": "all", "url": f"{BASE}/external/manifests/all"},
        {"type": "auth-header-secret", "url": f"{BASE}/external/manifests/secret"},
    ]
    inside = links["internal"]
    assert inside["cert"] == "OWN CA"
    assert inside["manifests"][0]["url"] == "https://virt-export-web.default.svc/internal/manifests/all"


def test_without_a_way_in_there_is_no_link_from_outside() -> None:
    assert "external" not in status_of(ExportView(an_export(), SOURCE, a_pod()))["links"]


def test_a_guest_that_starts_takes_the_exporter_away() -> None:
    before = {"phase": "Ready", "links": {"internal": {"cert": "x"}}, "tokenSecretRef": "export-token-web"}
    used = SourceSeen(volumes=VOLUMES, reason="InUse", message="Virtual Machine default/web is running", vm="web")
    view = ExportView(an_export(before), used, a_pod())
    plan = plan_export(view, NOW)
    assert [type(each) for each in plan.actions] == [Report, EndExporter]
    assert [(each.reason, each.message) for each in plan.told] == [
        ("ExportPaused", "Virtual Machine default/web is running")
    ]
    assert told(view) == ("Pending", "False", "InUse")
    assert status_of(view)["links"] is None
    # The same token opens it later.
    assert "tokenSecretRef" not in status_of(view)


@pytest.mark.parametrize("given", [None, "30m", "nonsense"])
def test_its_time_ends_whatever_it_waits_for(given: str | None) -> None:
    export = an_export(**({} if given is None else {"ttlDuration": given}))
    end = expiry(export)
    assert end == NOW + (timedelta(minutes=30) if given == "30m" else timedelta(hours=2))
    waiting = SourceSeen(reason="VMNotFound", message="not there")
    again = plan_export(ExportView(export, waiting), end - timedelta(seconds=1)).again_after
    assert again == 1.0
    assert plan_export(ExportView(export, waiting), end).actions == (EndExport(),)


def test_an_exporter_that_ended_is_made_anew() -> None:
    view = ExportView(an_export(), SOURCE, a_pod("Succeeded", ready=False))
    assert told(view) == ("Terminated", "False", "PodCompleted")
    plan = plan_export(view, NOW)
    assert isinstance(plan.actions[-1], EndExporter)
    assert plan.told[0].reason == "ExporterPodFailedOrCompleted"


def test_one_that_fails_is_not_made_without_a_pause() -> None:
    pod = a_pod("Failed", ready=False)
    state = {"terminated": {"exitCode": 1, "finishedAt": rfc3339(NOW - timedelta(seconds=2))}}
    container = {"name": "exporter", "ready": False, "restartCount": 0, "image": "", "imageID": "", "state": state}
    pod.status.container_statuses = decode(
        Pod, {"status": {"containerStatuses": [container]}}
    ).status.container_statuses
    plan = plan_export(ExportView(an_export(), SOURCE, pod), NOW)
    assert not any(isinstance(each, EndExporter) for each in plan.actions)
    assert plan.again_after == 3.0
    later = plan_export(ExportView(an_export(), SOURCE, pod), NOW + timedelta(seconds=3))
    assert isinstance(later.actions[-1], EndExporter)


def test_other_volumes_need_another_exporter() -> None:
    other = SourceSeen(volumes=(SourceVolume("disk", a_claim("another")),))
    assert isinstance(plan_export(ExportView(an_export(), other, a_pod()), NOW).actions[-1], EndExporter)


def test_the_secret_of_an_exporter_is_made_by_the_next_controller() -> None:
    pod = a_pod("Pending", ready=False)
    assert plan_export(ExportView(an_export(), SOURCE, pod, has_secret=False), NOW).actions[-1] == KeepSecret(pod)


def test_a_service_that_somebody_has_deleted_is_made_anew() -> None:
    view = ExportView(an_export(), SOURCE, a_pod(), has_service=False)
    assert plan_export(view, NOW).actions[-1] == KeepService()


def test_a_refusal_is_told() -> None:
    view = ExportView(an_export(), SOURCE, refusal="exceeded quota")
    assert told(view) == ("Pending", "False", "PodPending")
    assert status_of(view)["conditions"][0]["message"] == "exceeded quota"


def test_what_goes_or_has_nothing_is_left_alone() -> None:
    export = an_export()
    export.metadata.deletion_timestamp = rfc3339(NOW)
    assert plan_export(ExportView(export, SOURCE), NOW + timedelta(days=9)).actions == ()
    nothing = SourceSeen(reason="VMNoVolumes", message="no volumes", is_skipped=True)
    view = ExportView(an_export(), nothing)
    assert told(view) == ("Skipped", "False", "VMNoVolumes")
    assert not any(isinstance(each, Serve) for each in plan_export(view, NOW).actions)


def test_a_status_that_is_true_is_not_written_again() -> None:
    view = ExportView(an_export(), SOURCE, a_pod(), ca="CA", front=FRONT)
    settled = ExportView(an_export(status_of(view)), SOURCE, a_pod(), ca="CA", front=FRONT)
    plan = plan_export(settled, NOW + timedelta(minutes=1))
    assert (plan.actions, plan.told) == ((), ())


def test_the_exporter_reads_and_has_no_rights() -> None:
    pod = exporter_pod(an_export(tokenSecretRef="mine"), SourceSeen(VOLUMES), NOW, CONFIG)
    claims = [each.persistent_volume_claim for each in pod.spec.volumes if each.persistent_volume_claim is not None]
    assert [(each.claim_name, each.read_only) for each in claims] == [("disk", True), ("raw", True), ("files", True)]
    (container,) = pod.spec.containers
    assert {each.mount_path: each.read_only for each in container.volume_mounts if "exports" in each.mount_path} == {
        "/exports/0": True,
        "/exports/2": True,
    }
    assert [each.device_path for each in container.volume_devices] == ["/dev/kvedge-export-1"]
    assert pod.spec.automount_service_account_token is False
    assert container.security_context is not None
    assert container.security_context.run_as_non_root
    job = decode_json(ExportJob, container.env[0].value)
    assert [(each.name, each.block, each.disk) for each in job.volumes] == [
        ("disk", False, True),
        ("raw", True, True),
        ("files", False, False),
    ]
    assert "mine" in [each.secret.secret_name for each in pod.spec.volumes if each.secret is not None]
    # A user's labels come along, and do not lead the Service elsewhere.
    assert pod.metadata.labels["istio"] == "yes"
    selector = export_service(an_export()).spec.selector
    assert selector.items() <= pod.metadata.labels.items()


def test_its_certificate_is_for_this_export_and_goes_with_the_pod() -> None:
    pod = a_pod()
    certified = Certified(an_authority(), NOW, NOW + timedelta(hours=2))
    secret = own_secret(an_export(), pod, certified, ExportManifests(data_volumes=[{"a": 1}]))
    assert secret.metadata.name == own_secret_name(pod) != own_secret_name(a_pod())
    assert [owner.uid for owner in secret.metadata.owner_references] == ["uid-of-pod"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(secret.data["tls.crt"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [
        f"{UID}.export.kvedge.io",
        "virt-export-web.default.svc",
        "virt-export-web.default.svc.cluster.local",
        "virt-export-web.default",
    ]
    packed = base64.b64decode(secret.data[MANIFESTS_KEY])
    manifests = decode_json(ExportManifests, gzip.decompress(packed))
    assert manifests.data_volumes == [{"a": 1}]
    # The way within the cluster, for the exporter to put into its documents.
    assert manifests.base == "https://virt-export-web.default.svc"
    assert manifests.ca == certified.authority.bundle.decode()
    assert MANIFESTS_KEY not in own_secret(an_export(), pod, certified, None).data


def test_tokens_are_letters_and_digits_and_never_the_same() -> None:
    made = {base64.b64decode(token_secret(an_export()).data["token"]).decode() for _ in range(50)}
    assert len(made) == 50
    assert all(len(each) == 20 and each.isalnum() and each.isascii() for each in made)


def test_two_exports_never_share_a_service() -> None:
    names = ["a.b", "a-b", "a" * 80, "a" * 81]
    made = {exporter_name(name) for name in names}
    assert len(made) == 4
    assert all(len(each) <= 63 and "." not in each for each in made)


def test_a_long_name_is_shortened_as_kubevirt_does_it() -> None:
    """By FNV-1a: of the whole name, or of the words before the export's while these leave room for a letter."""
    assert exporter_name("a" * 51) == f"virt-export-{'a' * 51}"
    assert exporter_name("a" * 52) == f"v-efa2f187-{'a' * 52}"
    assert exporter_name("a" * 53) == "virt-export-a2194091"


@pytest.mark.parametrize(
    "path",
    [
        "/api/export.kubevirt.io/v2/namespaces/a/virtualmachineexports/b/x",
        "/api/export.kubevirt.io/v1/namespaces/a/virtualmachineexports/b",
        "/api/export.kubevirt.io/v1/namespaces/A/virtualmachineexports/b/x",
        "/api/export.kubevirt.io/v1/namespaces/a/virtualmachineexports/b/../../secret",
        "/api/export.kubevirt.io/v1/namespaces/a/virtualmachineexports/b/x/%2E%2e/y",
        "/api/v1/namespaces/a/pods",
    ],
)
def test_a_path_of_something_else_leads_to_no_export(path: str) -> None:
    assert split_outside_path(path) is None


def test_the_path_of_an_earlier_version_leads_there_too() -> None:
    path = "/api/export.kubevirt.io/v1beta1/namespaces/a/virtualmachineexports/b/volumes/c/disk.img"
    assert split_outside_path(path) == ("a", "b", "/volumes/c/disk.img")


def test_the_kubevirt_object_says_what_an_exporter_may_use():
    told = ResourceRequirements(requests={"memory": "200Mi"}, limits={"cpu": "1", "memory": "1Gi"})
    pod = exporter_pod(an_export(), SourceSeen(VOLUMES), NOW, replace(CONFIG, support={VM_EXPORT: told}))
    made = pod.spec.containers[0].resources
    assert (made.requests["memory"], made.limits) == ("200Mi", {"cpu": "1", "memory": "1Gi"})


def test_the_exporter_of_a_backup_is_rather_on_the_node_of_its_vm():
    backup = ServedBackup(directory="web/b-1", images={"root": "b-root.qcow2"})
    served = replace(VOLUMES[0], backup=backup)
    assert exporter_pod(an_export(), SourceSeen(VOLUMES, vm="web"), NOW, CONFIG).spec.affinity is None
    affinity = exporter_pod(an_export(), SourceSeen((served,), vm="web"), NOW, CONFIG).spec.affinity
    assert affinity is not None
    (term,) = affinity["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["weight"] == 100
    assert term["podAffinityTerm"] == {
        "labelSelector": {"matchLabels": {"kubevirt.io": "virt-launcher", "vmi.kubevirt.io/id": "web"}},
        "topologyKey": "kubernetes.io/hostname",
    }
