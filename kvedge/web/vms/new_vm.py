"""Making a VM from a page: the form's manifest, the server's check of it, and the making; with the user's own rights.

Called by `page_calls` in threads of their own. Raises what the client raises.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from kvedge.client.errors import ClientError
from kvedge.client.manifests.launch_checks import check_launch_disk
from kvedge.client.manifests.launch_disk import disk_name
from kvedge.client.session import Session, check_name
from kvedge.kube.errors import KubeError
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.vm import VirtualMachine
from kvedge.web.form_fields import read_form
from kvedge.web.texts.shown_text import showable
from kvedge.web.texts.yaml_text import check_object, read_yaml, write_yaml
from kvedge.web.vms.namespace_session import enter_namespace
from kvedge.web.web_failures import failure_of

_SECONDS: Final = 20.0
_MOST: Final = "500"
# What a form may name: each with its path, which has the namespace in it or not.
_CHOICES: Final = {
    "claims": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "dataSources": "/apis/cdi.kubevirt.io/v1beta1/namespaces/{}/datasources",
    "networks": "/apis/k8s.cni.cncf.io/v1/namespaces/{}/network-attachment-definitions",
    "storageClasses": "/apis/storage.k8s.io/v1/storageclasses",
    "types": "/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterinstancetypes",
    "preferences": "/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterpreferences",
}


def read_choices(session: Session, namespace: str) -> JsonObject:
    """Names that the form may offer; those that the user may not list are left out."""
    check_name(namespace, "namespace")
    client = session.client.hurry(_SECONDS)
    found: JsonObject = {}
    for choice, path in _CHOICES.items():
        found[choice] = []
        # A form without suggestions is a form all the same.
        with contextlib.suppress(KubeError):
            listing: Any = client.request("GET", path.format(namespace), query={"limit": _MOST})
            found[choice] = sorted(showable(item["metadata"]["name"]) for item in listing.get("items") or ())
    return found


def make_manifest(form: JsonObject) -> JsonObject:
    """The form's manifest as YAML, or what is wrong with a form, as most are while they are filled in."""
    try:
        return {"yaml": write_yaml(read_form(form))}
    except ClientError as error:
        return {"yaml": "", **failure_of(error).document}


def check_new_vm(session: Session, namespace: str, text: str) -> JsonObject:
    """Have the server check a manifest, and make nothing: its name, and what the server adds to it."""
    return _name(_send(session, namespace, text, is_dry=True))


def create_vm(session: Session, namespace: str, text: str) -> JsonObject:
    """Make it."""
    return _name(_send(session, namespace, text, is_dry=False))


def _send(session: Session, namespace: str, text: str, *, is_dry: bool) -> JsonObject:
    here = enter_namespace(session, namespace)
    document = check_object(read_yaml(text), VirtualMachine.KIND.kind, here.namespace)
    name = check_name(document["metadata"]["name"])
    if disk_name(name) in _template_names(document):
        check_launch_disk(here, name)
    query = {"fieldManager": "kvedge", **({"dryRun": "All"} if is_dry else {})}
    made: Any = here.client.request("POST", VirtualMachine.KIND.path(here.namespace), document, query)
    return dict(made)


def _template_names(document: JsonObject) -> list[str]:
    """Of a manifest that nobody has checked yet."""
    spec = document.get("spec")
    templates = spec.get("dataVolumeTemplates") if isinstance(spec, dict) else None
    found = templates if isinstance(templates, list) else []
    metadata = [each.get("metadata") for each in found if isinstance(each, dict)]
    return [each["name"] for each in metadata if isinstance(each, dict) and isinstance(each.get("name"), str)]


def _name(made: JsonObject) -> JsonObject:
    return {"namespace": showable(made["metadata"]["namespace"]), "name": showable(made["metadata"]["name"])}
