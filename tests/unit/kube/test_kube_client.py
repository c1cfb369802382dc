"""What the client sends; all else of it is tested against servers, in the contract tier."""

from __future__ import annotations

from pathlib import Path

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.controller_revision import ControllerRevision
from tests.support.scripted_api import scripted_api


def test_an_object_is_sent_in_the_bytes_in_which_a_server_would_write_it(tmp_path: Path) -> None:
    data = {"spec": {"userData": "a && b <c>\u2028\u00e9", "autostart": 1}}
    revision = ControllerRevision(metadata=ObjectMeta(name="r", namespace="n"), data=data, revision=1)
    with scripted_api(lambda exchange: exchange.answer(201, {"metadata": {"name": "r"}, "revision": 1})) as api:
        KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig")).create(revision)
    written = r'"data":{"spec":{"autostart":1,"userData":"a \u0026\u0026 b \u003cc\u003e\u2028' + "\u00e9" + '"}},'
    assert written.encode() in api.requests[0].body
