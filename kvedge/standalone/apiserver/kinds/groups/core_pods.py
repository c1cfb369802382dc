"""Pods. See `builtin_kind`."""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.vmi_facts import default_pull_policy
from kvedge.standalone.apiserver.kinds.builtin_kind import CORE, BuiltinKind
from kvedge.standalone.apiserver.kinds.defaulting import set_missing, spec_of
from kvedge.standalone.apiserver.kinds.pod_columns import POD_COLUMNS
from kvedge.standalone.apiserver.kinds.rules import pod_rules
from kvedge.standalone.apiserver.kinds.rules.pod_amounts import qos_class
from kvedge.standalone.apiserver.wire.protobuf_body import IN_PODS


def _set_pod_defaults(obj: JsonObject) -> None:
    spec = spec_of(obj)
    set_missing(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
        enableServiceLinks=True,
        priority=0,
        preemptionPolicy="PreemptLowerPriority",
    )
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        if isinstance(container, dict):
            _set_container_defaults(container)
    for volume in spec.get("volumes") or []:
        if isinstance(volume, dict):
            _set_volume_defaults(volume)


def _set_container_defaults(container: JsonObject) -> None:
    set_missing(
        container,
        imagePullPolicy=default_pull_policy(str(container.get("image") or "")),
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    limits = (container["resources"] or {}).get("limits") if isinstance(container["resources"], dict) else None
    if isinstance(limits, dict) and limits:
        # A resource with a limit and no request gets the limit as its request.
        container["resources"]["requests"] = {**limits, **(container["resources"].get("requests") or {})}
    for port in container.get("ports") or []:
        set_missing(port, protocol="TCP")


def _set_volume_defaults(volume: JsonObject) -> None:
    for source, mode in (("secret", 420), ("configMap", 420), ("projected", 420), ("downwardAPI", 420)):
        if isinstance(volume.get(source), dict):
            set_missing(volume[source], defaultMode=mode)
    if isinstance(volume.get("hostPath"), dict):
        set_missing(volume["hostPath"], type="")
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}


def _initial_status(pod: JsonObject) -> JsonObject:
    return {"phase": "Pending", "qosClass": qos_class(pod)}


KINDS: Final = (
    BuiltinKind(
        *CORE,
        kind="Pod",
        plural="pods",
        short_names=("po",),
        categories=("all",),
        subresources=("status", "log", "binding", "eviction", "exec", "attach", "portforward", "resize"),
        counts_generation=True,
        columns=POD_COLUMNS,
        field_labels={
            "spec.nodeName": "",
            "spec.restartPolicy": "",
            "spec.schedulerName": "",
            "spec.serviceAccountName": "",
            "spec.hostNetwork": "false",
            "status.phase": "",
            "status.podIP": "",
            "status.nominatedNodeName": "",
        },
        set_defaults=_set_pod_defaults,
        initial_status=_initial_status,
        metadata_with_status=True,
        check=pod_rules.check_pod,
        check_update=pod_rules.check_pod_update,
        returned_when_deleted=True,
        protobuf=IN_PODS,
    ),
)
