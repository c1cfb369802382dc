"""Debian's docker-registry on loopback, with and without logins."""

from __future__ import annotations

import base64
import ctypes
import datetime
import http.server
import json
import os
import shutil
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.ports import free_port
from tests.support.waiting import wait_until

USER, PASSWORD = "shelf", "s3cret"


@dataclass(frozen=True)
class Registry:
    """A running registry: `host:port`, and the options with which skopeo may push."""

    address: str
    log: Path

    def push(self, archive: Path, name: str, *options: str) -> None:
        """Put an OCI archive there."""
        words = ["skopeo", "copy", "-q", "--insecure-policy", "--dest-tls-verify=false", *options]
        subprocess.run([*words, f"oci-archive:{archive}", f"docker://{self.address}/{name}"], check=True)


@contextmanager
def registry(folder: Path, auth: dict[str, Any] | None = None, host: str = "127.0.0.1") -> Iterator[Registry]:
    """A registry that keeps its blobs in `folder`, and listens on an address of this host."""
    if shutil.which("docker-registry") is None:
        pytest.fail("docker-registry is missing: apt install docker-registry")
    port = free_port()
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"accesslog": {"disabled": False}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
        "http": {"addr": f"{host}:{port}"},
    }
    if auth:
        config["auth"] = auth
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(folder / "config.yml")], stdout=out, stderr=out, env=os.environ
        )
    try:
        wait_until(lambda: _answers(host, port), "the registry answers")
        yield Registry(f"{host}:{port}", log)
    finally:
        process.terminate()
        process.wait()


def _answers(host: str, port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/v2/", timeout=1):
            return True
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 401
    except OSError:
        return False


def basic_auth(folder: Path) -> dict[str, Any]:
    """The registry itself asks for a login."""
    # bcrypt is what the registry wants, and Debian's crypt(3) has it.
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    hashed = library.crypt(PASSWORD.encode(), b"$2b$05$" + b"kvedgekvedgekvedgekve.").decode()
    (folder / "htpasswd").write_text(f"{USER}:{hashed}\n")
    return {"htpasswd": {"realm": "shelf", "path": str(folder / "htpasswd")}}


@contextmanager
def token_service(folder: Path) -> Iterator[dict[str, Any]]:
    """A token service as Docker's own: it gives tokens for a scope to whoever logs in."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    certificate = _certificate(key)
    (folder / "token.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    chain = [base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            expected = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            if self.headers.get("Authorization") != f"Basic {expected}":
                self.send_error(401)
                return
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            body = json.dumps({"token": _token(key, chain, query["scope"][0])}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silent."""

    with serving(Handler) as port:
        yield {
            "token": {
                "realm": f"http://127.0.0.1:{port}/token",
                "service": "shelf",
                "issuer": "tests",
                "rootcertbundle": str(folder / "token.crt"),
            }
        }


@contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler], host: str = "127.0.0.1") -> Iterator[int]:
    """An HTTP server on a free port."""
    server = http.server.ThreadingHTTPServer((host, 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="test-http")
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _certificate(key: rsa.RSAPrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )


def _token(key: rsa.RSAPrivateKey, chain: list[str], scope: str) -> str:
    kind, name, actions = scope.split(":")
    now = int(datetime.datetime.now(datetime.UTC).timestamp())
    claims = {
        "iss": "tests",
        "aud": "shelf",
        "sub": USER,
        "exp": now + 300,
        "nbf": now - 10,
        "iat": now,
        "jti": str(now),
        "access": [{"type": kind, "name": name, "actions": actions.split(",")}],
    }
    parts = [_base64({"typ": "JWT", "alg": "RS256", "x5c": chain}), _base64(claims)]
    signature = key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
    return ".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=").decode()])


def _base64(document: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()
