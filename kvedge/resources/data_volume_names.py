"""Annotations, labels and words of DataVolumes that roles, workers and clients meet at; all of them are CDI's.

Touches nothing.
"""

from __future__ import annotations

from typing import Final

_PREFIX: Final = "cdi.kubevirt.io/"
# On a DataVolume or a claim, by users.
BIND_IMMEDIATELY: Final = f"{_PREFIX}storage.bind.immediate.requested"
PRE_POPULATED: Final = f"{_PREFIX}storage.prePopulated"
STATIC_VOLUME: Final = f"{_PREFIX}storage.checkStaticVolume"
ALLOW_ADOPTION: Final = f"{_PREFIX}allowClaimAdoption"
EXTERNAL_POPULATION: Final = f"{_PREFIX}externalPopulation"
RETAIN_POD: Final = f"{_PREFIX}storage.pod.retainAfterCompletion"
# On a claim, by the controller: what virtctl and users' tools read.
CONTENT_TYPE: Final = f"{_PREFIX}storage.contentType"
UPLOAD_TARGET: Final = f"{_PREFIX}storage.upload.target"
POD_PHASE: Final = f"{_PREFIX}storage.pod.phase"
POD_READY: Final = f"{_PREFIX}storage.pod.ready"
POD_RESTARTS: Final = f"{_PREFIX}storage.pod.restarts"
RUNNING: Final = f"{_PREFIX}storage.condition.running"
RUNNING_REASON: Final = f"{_PREFIX}storage.condition.running.reason"
RUNNING_MESSAGE: Final = f"{_PREFIX}storage.condition.running.message"
FATAL_ERROR: Final = f"{_PREFIX}storage.import.fatalError"
PREALLOCATED: Final = f"{_PREFIX}storage.preallocation"
POPULATED_FOR: Final = f"{_PREFIX}storage.populatedFor"
# Ours: the UID of the last worker that was counted among the restarts.
COUNTED_WORKER: Final = "kvedge.io/counted-worker"
# On storage classes.
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
DEFAULT_VIRT_CLASS: Final = "storageclass.kubevirt.io/is-default-virt-class"
# On all that CDI makes, and on its workers' Pods.
APP_LABEL: Final = "app"
APP: Final = "containerized-data-importer"
WORKER_LABEL: Final = f"{_PREFIX}storage.import.importPvcName"
# How an image that DataVolumes are made from describes itself: labels from the DataSource to the claim.
INSTANCETYPE_LABELS: Final = "instancetype.kubevirt.io/default-"
