"""migrate of a VM: makes the migration of its VMI, and says beforehand what would keep it out.

Called by the subresource server in a worker thread, as the API client blocks. 202 means that the migration is there:
the controller carries it out. The webhook of migrations judges the same again, for those who make one themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge.api.admission.migrations.migration_verdict import added_labels_causes, judge_surroundings, refusal_words
from kvedge.api.admission.migrations.surroundings import look_around
from kvedge.api.admission.rules.causes import Cause, summary
from kvedge.api.subresources.call_options import MigrateOptions, parse_options
from kvedge.api.subresources.status_message import VM, VMI, Refusal, conflict, not_found_refusal
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import encode
from kvedge.resources.guest_verbs import GuestVerb
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.migrations import (
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationSpec,
)
from kvedge.resources.types.vm import VirtualMachine

# KubeVirt's, by which its tests and users know such migrations.
_NAME: Final = "kubevirt-migrate-vm-"
_UNPROCESSABLE: Final = 422


class MigrationCalls:
    """The call for the VMs of one API server."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def call(self, verb: GuestVerb, namespace: str, name: str, body: bytes) -> Sequence[str]:
        """Make the migration; what its author should know of it. Raises Refusal."""
        options = parse_options(MigrateOptions, body)
        try:
            self._client.get(VirtualMachine, namespace, name)
        except NotFound as error:
            raise not_found_refusal(VM, name) from error
        migration = VirtualMachineInstanceMigration(
            metadata=ObjectMeta(generate_name=_NAME, namespace=namespace),
            spec=VirtualMachineInstanceMigrationSpec(vmi_name=name, added_node_selector=options.added_node_selector),
        )
        warnings = self._judge(migration)
        self._make(migration, dry_run=options.is_dry_run)
        return warnings

    def _judge(self, migration: VirtualMachineInstanceMigration) -> Sequence[str]:
        _raise_causes(tuple(added_labels_causes(migration)))
        name, around = migration.spec.vmi_name, look_around(self._client, migration)
        if around.vmi is None:
            raise not_found_refusal(VMI, name)
        if around.vmi.status.phase != "Running":
            raise conflict(VM, name, "VM is not running")
        if words := refusal_words(migration, around):
            raise conflict(VM, name, words)
        judged = judge_surroundings(migration, around)
        _raise_causes(judged.causes)
        return judged.warnings

    def _make(self, migration: VirtualMachineInstanceMigration, *, dry_run: bool) -> None:
        path = migration.KIND.path(migration.metadata.namespace)
        try:
            self._client.request("POST", path, encode(migration), {"dryRun": "All"} if dry_run else {})
        except KubeError as error:
            if not 400 <= error.status < 500:
                raise
            # Admission, a quota: the caller hears it as somebody does who makes the migration itself.
            raise Refusal(error.status, error.message) from error


def _raise_causes(causes: Sequence[Cause]) -> None:
    if causes:
        raise Refusal(_UNPROCESSABLE, summary(causes), causes=[cause.document() for cause in causes])
