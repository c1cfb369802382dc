"""The shortcut for plain kubeconfigs: it comes to what the client library comes to, or leaves it to the library."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.configuration import Configuration
from kubernetes.config import load_kube_config_from_dict

from kvedge.kube.kubeconfigs.plain_kubeconfig import load_plain

READ = ("host", "verify_ssl", "ssl_ca_cert", "cert_file", "key_file", "api_key", "proxy", "username", "tls_server_name")


def kubeconfig(cluster: dict[str, Any], user: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster}, {"name": "other", "cluster": {"server": "https://x"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "vms"}}],
        "users": [{"name": "u", "user": user}],
        **more,
    }


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "some.pem"
    path.touch()
    return str(path)


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({"certificate-authority": "FILE"}, {"client-certificate": "FILE", "client-key": "FILE"}),
        ({"certificate-authority": "FILE"}, {"token": "t"}),
        ({"insecure-skip-tls-verify": True}, {"token": "t"}),
        ({"server": "http://10.0.0.1:8080/"}, {"client-certificate": "FILE", "client-key": "FILE"}),
        ({}, {}),
    ],
    ids=["certificates", "a token", "an unchecked server", "no TLS", "nobody"],
)
def test_it_comes_to_what_the_library_comes_to(file: str, cluster: dict[str, Any], user: dict[str, Any]) -> None:
    cluster, user = (
        {key: file if value == "FILE" else value for key, value in part.items()} for part in (cluster, user)
    )
    document = kubeconfig({"server": "https://10.0.0.1:6443/", **cluster}, user)
    ours, theirs = Configuration(), Configuration()
    assert load_plain(copy.deepcopy(document), ours)
    load_kube_config_from_dict(document, client_configuration=theirs, persist_config=False)
    assert {name: getattr(ours, name) for name in READ} == {name: getattr(theirs, name) for name in READ}
    assert ours.get_api_key_with_prefix("BearerToken", alias="authorization") == theirs.get_api_key_with_prefix(
        "BearerToken", alias="authorization"
    )


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({"server": "https://x", "proxy-url": "http://p"}, {}),
        ({"server": "https://x", "tls-server-name": "n"}, {}),
        ({"server": "https://x"}, {"exec": {"command": "c"}}),
        ({"server": "https://x"}, {"token": "t", "username": "u", "password": "p"}),
        ({"server": "https://x"}, {"tokenFile": "/t"}),
        ({"server": "https://x", "certificate-authority": "/no/such/file"}, {}),
        ({"server": "https://x", "certificate-authority": 1}, {}),
        ({"certificate-authority": "/etc/hostname"}, {}),
        ({"server": "https://x"}, {"token": ""}),
    ],
    ids=["proxy", "server name", "exec", "password", "token file", "no such file", "a number", "no server", "no token"],
)
def test_what_is_not_plain_is_left_to_the_library(cluster: dict[str, Any], user: dict[str, Any]) -> None:
    configuration = Configuration()
    before = copy.deepcopy(vars(configuration)["api_key"]), configuration.host
    assert not load_plain(kubeconfig(cluster, user), configuration)
    assert (configuration.api_key, configuration.host) == before


@pytest.mark.parametrize(
    "change",
    [
        {"current-context": "nowhere"},
        {"current-context": None},
        {"contexts": None},
        {"contexts": [{"name": "here"}]},
        {"clusters": {}},
        {"clusters": [{"name": "c", "cluster": {"server": "https://a"}}, {"name": "c", "cluster": {"server": "b"}}]},
        {"users": []},
        {"users": ["u"]},
    ],
)
def test_what_does_not_hold_together_is_left_to_the_library(change: dict[str, Any]) -> None:
    assert not load_plain(kubeconfig({"server": "https://x"}, {}, **change), Configuration())


def test_the_librarys_own_loader_is_not_loaded_for_it(tmp_path: Path) -> None:
    program = (
        "import sys; from kvedge.runtime.light_import import defer_init; defer_init('kubernetes');"
        "from kvedge.kube.kube_client import KubeClient; from kvedge.kube.connection_settings import from_document;"
        "from pathlib import Path; d = {'current-context': 'a', 'contexts': [{'name': 'a', 'context': {'cluster': 'b',"
        " 'user': 'c'}}], 'clusters': [{'name': 'b', 'cluster': {'server': 'https://h'}}], 'users': [{'name': 'c',"
        " 'user': {'token': 't'}}]}; from_document(d, Path('/k'));"
        "loaded = {name.split('.')[0] for name in sys.modules};"
        "print(sorted(loaded & {'requests', 'oauthlib', 'pydantic', 'websocket'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
