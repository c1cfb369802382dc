"""Kubeconfigs come to what Kubernetes' own Python client comes to, and those that do not hold together say why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.configuration import Configuration
from kubernetes.config import load_kube_config_from_dict

from kvedge.kube.credentials.connection_settings import KubeconfigError, from_document
from tests.support.certificate_files import FileAuthority


def kubeconfig(cluster: dict[str, Any], user: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster}, {"name": "other", "cluster": {"server": "https://x"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "vms"}}],
        "users": [{"name": "u", "user": user}],
        **more,
    }


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({"certificate-authority": "ca.crt"}, {"client-certificate": "ca-admin.crt", "client-key": "ca-admin.key"}),
        ({"certificate-authority": "ca.crt"}, {"token": "t"}),
        ({"insecure-skip-tls-verify": True}, {"token": "t"}),
        ({"server": "http://10.0.0.1:8080/"}, {"client-certificate": "ca-admin.crt", "client-key": "ca-admin.key"}),
        ({}, {}),
        ({"proxy-url": "http://proxy.example:3128"}, {"token": "t"}),
        ({"tls-server-name": "kubernetes.default"}, {"token": "t"}),
        ({}, {"username": "u", "password": "p"}),
        ({}, {"token": "t", "username": "u", "password": "p"}),
        ({}, {"tokenFile": "token"}),
    ],
    ids=[
        "certificates",
        "a token",
        "an unchecked server",
        "no TLS",
        "nobody",
        "a proxy",
        "a server of another name",
        "a password",
        "a token before a password",
        "a token in a file",
    ],
)
def test_it_comes_to_what_the_official_client_comes_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    authority = FileAuthority(tmp_path, "ca")
    authority.issue("admin")
    (tmp_path / "token").write_text("from a file")
    # The official client counts file names from here when it is given a document.
    monkeypatch.chdir(tmp_path)
    document = kubeconfig({"server": "https://10.0.0.1:6443/", **cluster}, user)
    ours, theirs = from_document(document, tmp_path / "kubeconfig"), Configuration()
    load_kube_config_from_dict(document, client_configuration=theirs, persist_config=False)
    assert ours.host == theirs.host
    assert ours.authorization() == (theirs.get_api_key_with_prefix("BearerToken", alias="authorization") or "")
    assert (ours.proxy or None) == theirs.proxy
    assert (ours.server_name or None) == theirs.tls_server_name
    assert (ours.certificate.file if ours.certificate else None) == (
        str(tmp_path / theirs.cert_file) if theirs.cert_file else None
    )
    if ours.tls is None:
        assert theirs.host.startswith("http://")
    else:
        assert ours.tls.check_hostname == theirs.verify_ssl
        # Without an authority of its own the host's are trusted.
        assert (len(ours.tls.get_ca_certs()) == 1) == (theirs.ssl_ca_cert is not None)


@pytest.mark.parametrize(
    ("cluster", "user", "said"),
    [
        ({"certificate-authority": "/no/such/file"}, {}, "certificate-authority: /no/such/file does not exist"),
        ({"certificate-authority": 1}, {}, "certificate-authority is not a text"),
        ({"server": None}, {}, "its cluster has no server"),
        ({"proxy-url": "socks5://127.0.0.1:1080"}, {}, "is neither http:// nor https://"),
        ({}, {"token": 5}, "token is not a text"),
        ({}, {"tokenFile": "/no/such/token"}, "tokenFile: /no/such/token: No such file"),
        ({}, {"auth-provider": {"name": "gcp"}}, "auth-provider gcp is no longer a part of Kubernetes"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(
    cluster: dict[str, Any], user: dict[str, Any], said: str
) -> None:
    with pytest.raises(KubeconfigError, match=f"/k: .*{said}"):
        from_document(kubeconfig({"server": "https://x", **cluster}, user), Path("/k"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"current-context": "nowhere"}, 'no contexts are called "nowhere"'),
        ({"current-context": None}, "it has no current-context"),
        ({"contexts": None}, 'no contexts are called "here"'),
        ({"contexts": [{"name": "here"}]}, "its context names no cluster"),
        ({"clusters": {"c": 1}}, "clusters is not a list"),
        ({"clusters": [{"name": "c"}, {"name": "c"}]}, 'two clusters are called "c"'),
        ({"users": []}, 'no users are called "u"'),
        ({"users": ["u"]}, 'no users are called "u"'),
        ({"users": [{"name": "u", "user": "u"}]}, "user is not a map"),
    ],
)
def test_what_does_not_hold_together_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(KubeconfigError, match=said):
        from_document(kubeconfig({"server": "https://x"}, {}, **change), Path("/k"))


def test_a_context_without_a_user_stands_for_nobody() -> None:
    document = kubeconfig({"server": "http://x"}, {}, contexts=[{"name": "here", "context": {"cluster": "c"}}])
    assert from_document(document, Path("/k")).authorization() == ""


def test_a_document_is_left_as_it_is(tmp_path: Path) -> None:
    document = kubeconfig({"server": "https://x", "certificate-authority-data": "%%%"}, {"tokenFile": "token"})
    (tmp_path / "token").write_text("t")
    with pytest.raises(KubeconfigError, match="certificate-authority-data"):
        from_document(document, tmp_path / "k")
    assert document["clusters"][0]["cluster"]["certificate-authority-data"] == "%%%"


def test_what_only_some_kubeconfigs_need_is_not_loaded_for_the_others() -> None:
    program = (
        "import sys; from kvedge.kube.kube_client import KubeClient;"
        "from kvedge.kube.credentials.connection_settings import from_document;"
        "from pathlib import Path; d = {'current-context': 'a', 'contexts': [{'name': 'a', 'context': {'cluster': 'b',"
        " 'user': 'c'}}], 'clusters': [{'name': 'b', 'cluster': {'server': 'https://h'}}], 'users': [{'name': 'c',"
        " 'user': {'token': 't'}}]}; from_document(d, Path('/k'));"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'requests', 'oauthlib', 'pydantic', 'kubernetes'}"
        " | {name for name in sys.modules if name.endswith(('.exec_credentials', '.oidc_token'))}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
