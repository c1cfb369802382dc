"""Annotations, labels and words of DataVolumes that roles, workers and clients meet at; all of them are CDI's.

Touches nothing.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

CDI_GROUP: Final = "cdi.kubevirt.io"
UPLOAD_GROUP: Final = "upload.cdi.kubevirt.io"
# What the contents of a claim may be: a disk's image, or a directory's files.
KUBEVIRT_CONTENT: Final = "kubevirt"
ARCHIVE_CONTENT: Final = "archive"

_PREFIX: Final = f"{CDI_GROUP}/"
# On a DataVolume or a claim, by users.
BIND_IMMEDIATELY: Final = f"{_PREFIX}storage.bind.immediate.requested"
PRE_POPULATED: Final = f"{_PREFIX}storage.prePopulated"
STATIC_VOLUME: Final = f"{_PREFIX}storage.checkStaticVolume"
ALLOW_ADOPTION: Final = f"{_PREFIX}allowClaimAdoption"
EXTERNAL_POPULATION: Final = f"{_PREFIX}externalPopulation"
RETAIN_POD: Final = f"{_PREFIX}storage.pod.retainAfterCompletion"
# On a claim, by the controller: what virtctl and users' tools read.
CONTENT_TYPE: Final = f"{_PREFIX}storage.contentType"
# The UID of the DataVolume that a claim was made for; a claim that was there before it has none.
CREATED_FOR: Final = f"{_PREFIX}createdForDataVolume"
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
# The container of a worker's Pod that does the work.
WORKER_CONTAINER: Final = "importer"
# Ours, on a DataVolume that a pool has kept: the pool's name. The pool's next VM that brings it along owns it again.
KEPT_FOR_POOL: Final = "kvedge.io/kept-for-pool"
# Ours: the UID of the last worker that was counted among the restarts.
COUNTED_WORKER: Final = "kvedge.io/counted-worker"
# On a DataImportCron: the digest that is to be imported, as the last look at the source found it.
DESIRED_DIGEST: Final = f"{_PREFIX}storage.import.sourceDesiredDigest"
# On what a DataImportCron makes: its name.
CRON_LABEL: Final = f"{_PREFIX}dataImportCron"
# Ours, on a DataImportCron: any new value asks to look at the source now, and the last one that was answered.
POLL_REQUESTED: Final = "kvedge.io/poll-requested"
POLL_ANSWERED: Final = "kvedge.io/poll-answered"
# And why the source was not reached, until it is.
POLL_FAILED: Final = "kvedge.io/poll-failed"
# Ours, on the Pod that sends a claim to another namespace: as a label the UID of the DataVolume that is filled, as an
# annotation its namespace and name.
CLONE_TARGET: Final = "kvedge.io/clone-target"
# What a file system takes of a claim, where no CDIConfig says otherwise.
DEFAULT_OVERHEAD: Final = "0.06"
# On storage classes.
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
DEFAULT_VIRT_CLASS: Final = "storageclass.kubevirt.io/is-default-virt-class"
# On all that CDI makes, and on its workers' Pods.
APP_LABEL: Final = "app"
APP: Final = "containerized-data-importer"
WORKER_LABEL: Final = f"{_PREFIX}storage.import.importPvcName"
# How an image that DataVolumes are made from describes itself: labels from the DataSource to the claim.
INSTANCETYPE_LABELS: Final = "instancetype.kubevirt.io/default-"
# Ours, on a DataSource: the names of the labels that it has of its source, with commas between them.
TOLD_LABELS: Final = "kvedge.io/told-labels"
_LONGEST_NAME: Final = 253
# CDI's own are left out: one of them says by which DataImportCron a DataSource is led.
_TOLD: Final = re.compile(r"(?!cdi\.)(?:[\w.]+\.)?kubevirt\.io/[\w.-]+$")


def is_told_label(name: str) -> bool:
    """Whether CDI copies a label: from a DataImportCron to its imports, and from a claim to its DataSource.

    >>> is_told_label("instancetype.kubevirt.io/default-preference"), is_told_label("cdi.kubevirt.io/dataImportCron")
    (True, False)
    """
    return _TOLD.match(name) is not None


def name_after(prefix: str, claim: str) -> str:
    """The name of what is made for a claim, from which the claim's is told as long as it fits.

    >>> name_after("importer-", "disk")
    'importer-disk'
    """
    name = f"{prefix}{claim}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(claim.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - len(digest) - 1].rstrip('.-')}-{digest}"
