"""DataImportCrons on both servers, by the controller's own rights; the test plays the polls and the imports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.errors import NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import decode
from kvedge.resources.data_volume_names import POLL_REQUESTED
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_import_cron import DataImportCron
from kvedge.resources.types.data_volumes import DataSource, DataVolume, data_volume_condition
from kvedge.resources.types.storage import StorageClass
from tests.contract.controller.test_data_volumes import bound_claim, phase_is, play, worker_of
from tests.support.builders import CONFIG
from tests.support.either_server import EitherServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
CLASS = "cron-tests"
FIRST, SECOND = (f"sha256:{digit * 64}" for digit in "12")


@pytest.fixture(scope="module", autouse=True)
def controller(either_server: EitherServer) -> Iterator[None]:
    document = {"metadata": {"name": CLASS}, "provisioner": "rancher.io/local-path"}
    either_server.admin.create(decode(StorageClass, document))
    role = ControllerRole(either_server.kubeconfig_of(CONTROLLER_USER, CONTROLLER_GROUP), CONFIG, leader_election=False)
    role.start()
    yield
    role.stop()
    either_server.admin.delete(StorageClass, "", CLASS)


def make(server: EitherServer, namespace: str, **spec: Any) -> None:
    storage = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": CLASS}
    source = {"registry": {"url": "docker://registry.example:5000/linux:9", "secretRef": "login"}}
    template = {"spec": {"source": source, "storage": storage}}
    document = {
        "metadata": {"name": "nightly", "namespace": namespace},
        "spec": {"template": template, "schedule": "30 3 * * *", "managedDataSource": "linux", **spec},
    }
    server.admin.create(decode(DataImportCron, document))


def poll_of(server: EitherServer, namespace: str, but: str = "") -> Pod:
    def there() -> Pod | None:
        found = [pod for pod in server.admin.list(Pod, namespace) if pod.metadata.name == "poll-nightly"]
        return found[0] if found and found[0].metadata.uid != but else None

    return wait_until(there, "the source is looked at")


def points_at(server: EitherServer, namespace: str, name: str) -> bool:
    try:
        pvc = server.admin.get(DataSource, namespace, "linux").spec.source.pvc
    except NotFound:
        return False
    return pvc is not None and pvc.name == name


def import_(server: EitherServer, namespace: str, name: str) -> None:
    wait_until(lambda: _there(server, namespace, name), f"{name} is made")
    bound_claim(server, namespace, name)
    play(server, worker_of(server, namespace, name), "Succeeded", {"message": "Import Complete"})
    phase_is(server, namespace, name, "Succeeded")
    wait_until(lambda: points_at(server, namespace, name), f"the DataSource points at {name}")


def _there(server: EitherServer, namespace: str, name: str) -> bool:
    return any(dv.metadata.name == name for dv in server.admin.list(DataVolume, namespace))


def test_an_image_is_kept_fresh_and_the_last_good_one_stays(either_server: EitherServer, namespace: str) -> None:
    server = either_server
    make(server, namespace, importsToKeep=1)
    poll = poll_of(server, namespace)
    # It has the source's credentials, and nothing to fill.
    assert [volume.secret.secret_name for volume in poll.spec.volumes if volume.secret] == ["login"]
    assert not any(volume.persistent_volume_claim for volume in poll.spec.volumes)
    assert poll.spec.automount_service_account_token is False
    play(server, poll, "Succeeded", {"message": "Poll Complete", "digest": FIRST})
    import_(server, namespace, "linux-111111111111")
    made = server.admin.get(DataVolume, namespace, "linux-111111111111")
    assert made.spec.source is not None
    assert made.spec.source.registry is not None
    assert made.spec.source.registry.url == f"docker://registry.example:5000/linux@{FIRST}"

    def is_fresh() -> bool:
        status = server.admin.get(DataImportCron, namespace, "nightly").status
        fresh = data_volume_condition(status.conditions, "UpToDate")
        return fresh is not None and fresh.status == "True" and status.last_imported_pvc is not None

    wait_until(is_fresh, "it is up to date")
    ask = MergePatch({"metadata": {"annotations": {POLL_REQUESTED: "1"}}})
    server.admin.patch(DataImportCron, namespace, "nightly", ask)
    poll = poll_of(server, namespace, but=poll.metadata.uid)
    play(server, poll, "Failed", {"message": "no route to host"})

    def is_told() -> bool:
        found = server.admin.get(DataImportCron, namespace, "nightly").status.conditions
        fresh = data_volume_condition(found, "UpToDate")
        return fresh is not None and "no route to host" in fresh.message

    wait_until(is_told, "that there is no network is told")
    assert points_at(server, namespace, "linux-111111111111")
    # Its end is long ago: it is tried again at once.
    poll = poll_of(server, namespace, but=poll.metadata.uid)
    play(server, poll, "Succeeded", {"message": "Poll Complete", "digest": SECOND})
    import_(server, namespace, "linux-222222222222")
    wait_until(lambda: not _there(server, namespace, "linux-111111111111"), "the old one goes")


def test_one_that_cannot_be_says_why(either_server: EitherServer, namespace: str) -> None:
    make(either_server, namespace, schedule="soon")

    def told() -> str:
        found = either_server.admin.get(DataImportCron, namespace, "nightly").status.conditions
        fresh = data_volume_condition(found, "UpToDate")
        return "" if fresh is None else fresh.message

    assert wait_until(told, "it is told").startswith("spec.schedule: Illegal cron schedule 'soon'")
    assert not any(pod.metadata.name == "poll-nightly" for pod in either_server.admin.list(Pod, namespace))
