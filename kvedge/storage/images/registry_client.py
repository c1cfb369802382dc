"""The one client of image registries: the OCI distribution API over https.

Called by the image store's pull. The answers are a stranger's: sizes are bounded, digests checked, the pace is
watched, and neither a redirect nor a token service may lead from a public registry into the local network.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import ipaddress
import json
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from kvedge.storage.image_errors import BadImage, RegistryError
from kvedge.storage.images.image_manifest import INDEX_TYPES, MANIFEST_TYPES, MAX_DOCUMENT, Descriptor
from kvedge.storage.images.image_names import DEFAULT_REGISTRY, ImageName
from kvedge.storage.images.registry_door import Door, RegistryDoor, handlers, leads_locally
from kvedge.storage.images.registry_pace import Pace, PaceLimits

_TIMEOUT: Final = 30.0
_CHUNK: Final = 1 << 18
_ATTEMPTS: Final = 4
# A token's answer; honest ones have a few KiB.
_MAX_TOKEN: Final = 1 << 18
_CHALLENGE = re.compile(r'([a-zA-Z_]+)="([^"]*)"')
_RETRIED: Final = (408, 425, 429, 500, 502, 503, 504)


class Fetched(Struct, frozen=True):
    """A manifest or index as the registry has it, its digest checked."""

    digest: str
    data: bytes


@dataclass(slots=True)
class RegistryClient:
    """One repository of one registry; `user` and `password` are empty for anonymous access."""

    name: ImageName
    user: str = ""
    password: str = field(default="", repr=False)
    insecure: bool = False
    door: Door = None  # type: ignore[assignment]
    pace: Pace = None  # type: ignore[assignment]
    context: ssl.SSLContext | None = None
    _authorization: str = field(default="", repr=False)
    _scheme: str = ""

    def __post_init__(self) -> None:
        self.door = self.door or RegistryDoor(self.name.registry, own_host=True)
        self.pace = self.pace or Pace(self.name.registry, PaceLimits())

    def manifest(self, reference: str) -> Fetched:
        """The manifest or index of a tag or digest.

        Raises:
            RegistryError: when the registry does not give it.
            BadImage: when it is not what its digest says.
        """
        accept = ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))
        try:
            with self._open(f"manifests/{reference}", {"Accept": accept}) as answer:
                data = answer.read(MAX_DOCUMENT + 1)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable_error(_words(error)) from error
        if len(data) > MAX_DOCUMENT:
            raise BadImage(f"the manifest of {self.name} is larger than any manifest")
        algorithm, colon, _ = reference.partition(":")
        # A tag has no colon; the name's parser knows the algorithms.
        if colon and f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}" != reference:
            raise BadImage(f"the registry's manifest of {self.name} is not {reference}")
        return Fetched(f"sha256:{hashlib.sha256(data).hexdigest()}", data)

    def download_blob(self, descriptor: Descriptor, into: Path, progress: Callable[[int], None]) -> None:
        """Download a blob to a file, going on where an earlier attempt ended; `progress` gets the bytes present so far.

        Raises:
            RegistryError: when the registry does not give it; what came is kept.
            BadImage: when it is not what its digest or size says; the file is then removed.
            OSError: when the file system fails.
        """
        for attempt in range(_ATTEMPTS):
            try:
                self._download(descriptor, into, progress)
            except (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException) as error:
                if attempt == _ATTEMPTS - 1:
                    raise self._unreachable_error(_words(error)) from error
                time.sleep(2**attempt / 4)
                continue
            break
        self._check(descriptor, into)

    def open_blob(self, digest: str, start: int = 0) -> http.client.HTTPResponse:
        """A blob as the registry sends it, from `start` on where it has ranges (206); nothing of it is checked.

        Raises:
            RegistryError: when the registry does not give it.
            OSError, http.client.HTTPException: when the connection fails.
        """
        return self._open(f"blobs/{digest}", {"Range": f"bytes={start}-"} if start else {})

    def _download(self, descriptor: Descriptor, into: Path, progress: Callable[[int], None]) -> None:
        with open(os.open(into, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as stream:
            # An older kvedge has left it readable for others.
            os.fchmod(stream.fileno(), 0o600)
            present = stream.tell()
            if present >= descriptor.size:
                return
            headers = {"Range": f"bytes={present}-"} if present else {}
            with self._open(f"blobs/{descriptor.digest}", headers) as answer:
                if answer.status != http.client.PARTIAL_CONTENT:
                    # The whole blob comes once more.
                    stream.truncate(0)
                    present = 0
                while chunk := answer.read(min(_CHUNK, descriptor.size - present + 1)):
                    present += len(chunk)
                    if present > descriptor.size:
                        stream.truncate(0)
                        raise BadImage(f"blob {descriptor.digest} of {self.name} is larger than its manifest says")
                    stream.write(chunk)
                    progress(present)
            if present < descriptor.size:
                raise ConnectionError("the connection ended early")

    def _check(self, descriptor: Descriptor, into: Path) -> None:
        with into.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
            size = os.fstat(stream.fileno()).st_size
        if f"sha256:{found}" != descriptor.digest or size != descriptor.size:
            into.unlink()
            raise BadImage(f"blob {descriptor.digest} of {self.name} came damaged", "try again")

    def _open(self, path: str, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        """A GET below /v2/<repository>/, with a token when the registry asks for one."""
        url = f"{self._find_base()}/v2/{self._repository()}/{path}"
        try:
            return self._request(url, headers)
        except urllib.error.HTTPError as error:
            with error:
                if error.code != http.client.UNAUTHORIZED:
                    raise self._refusal(error) from error
                self._authorization = self._authorize(error.headers.get("WWW-Authenticate", ""))
        try:
            return self._request(url, headers)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from error

    def _request(self, url: str, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        request = urllib.request.Request(url, headers={**headers, "User-Agent": "kvedge"})
        if self._authorization:
            # Not sent along to where a redirect leads: blobs often live elsewhere.
            request.add_unredirected_header("Authorization", self._authorization)
        try:
            answer = self._opener().open(request, timeout=_TIMEOUT)
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError as error:
            if isinstance(error.reason, (TimeoutError, ConnectionResetError)):
                raise error.reason from error
            raise self._unreachable_error(error.reason) from error
        except ValueError as error:
            # A redirect to what is no address.
            raise self._unreachable_error(_words(error)) from error
        assert isinstance(answer, http.client.HTTPResponse)
        return answer

    def _authorize(self, challenge: str) -> str:
        kind, _, rest = challenge.partition(" ")
        basic = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        if kind.lower() == "basic" and self.user:
            return f"Basic {basic}"
        if kind.lower() != "bearer":
            raise RegistryError(
                f"registry {self.name.registry} wants a login for {self.name}",
                "name an imagePullSecret for it",
                temporary=False,
            )
        facts = dict(_CHALLENGE.findall(rest))
        query = {"scope": f"repository:{self._repository()}:pull", "service": facts.get("service", "")}
        headers = {"Authorization": f"Basic {basic}"} if self.user else {}
        return f"Bearer {self._token(facts.get('realm', ''), query, headers)}"

    def _token(self, realm: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
        parts = urllib.parse.urlsplit(realm)
        if parts.scheme != "https" and not (parts.scheme == "http" and self._scheme == "http"):
            raise RegistryError(f"registry {self.name.registry} names no secure token service", temporary=False)
        url = f"{realm}{'&' if parts.query else '?'}{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers={"User-Agent": "kvedge"})
        for key, value in headers.items():
            request.add_unredirected_header(key, value)
        try:
            with self._opener().open(request, timeout=_TIMEOUT) as answer:
                document = json.loads(answer.read(_MAX_TOKEN))
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from error
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise self._unreachable_error(_words(error)) from error
        token = document.get("token") or document.get("access_token") if isinstance(document, dict) else None
        # It becomes a header's value.
        if not isinstance(token, str) or not token.isprintable():
            raise RegistryError(f"the token service of {self.name.registry} gave no token", temporary=False)
        return token

    def _find_base(self) -> str:
        host = "registry-1.docker.io" if self.name.registry == DEFAULT_REGISTRY else self.name.registry
        if not self._scheme:
            self._scheme = "http" if self.insecure and not self._speaks_tls(host) else "https"
        return f"{self._scheme}://{host}"

    def _repository(self) -> str:
        return self.name.repository

    def _opener(self) -> urllib.request.OpenerDirector:
        used = [_Redirects(), *handlers(self.door, self.pace, self.context)]
        if self.door.leads_locally or self._is_local_name():
            # A proxy does not lead back to this network.
            used.append(urllib.request.ProxyHandler({}))
        return urllib.request.build_opener(*used)

    def _is_local_name(self) -> bool:
        """Whether the registry is in the local network, as far as its name tells before there is a connection."""
        return leads_locally(urllib.parse.urlsplit(self._find_base()).hostname or "")

    def _speaks_tls(self, host: str) -> bool:
        """Whether an insecure registry has https after all: it may be self-signed; then the host must trust it."""
        parts = urllib.parse.urlsplit(f"//{host}")
        try:
            with self.door.connect(parts.hostname or "", parts.port or 443) as plain:
                plain.settimeout(5)
                with (self.context or ssl.create_default_context()).wrap_socket(plain, server_hostname=parts.hostname):
                    return True
        except OSError:
            return False

    def _refusal(self, error: urllib.error.HTTPError) -> RegistryError:
        if error.code in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
            return RegistryError(
                f"pull access denied for {self.name.familiar}, repository does not exist or may require authorization",
                "check the name, or name an imagePullSecret for it",
                temporary=False,
            )
        if error.code == http.client.NOT_FOUND:
            return RegistryError(
                f"{self.name}: not found in its registry", "check the name and the tag", temporary=False
            )
        return RegistryError(
            f"registry {self.name.registry} answered {error.code} for {self.name}", temporary=error.code in _RETRIED
        )

    def _unreachable_error(self, cause: object) -> RegistryError:
        return RegistryError(
            f"registry {self.name.registry} cannot be reached: {cause}",
            "check the network, or import the image: kvedge image import FILE --name NAME",
            temporary=True,
        )


def _words(error: Exception) -> str:
    # Some of them repeat what the registry said.
    return str(error)[:200] or type(error).__name__


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from https to http; the door sees to where they lead."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """urllib's hook."""
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise RegistryError(f"a registry redirects from https to {newurl[:80]}", temporary=False)
        if not newurl.startswith(("http:", "https:")):
            # urllib would also follow to ftp, past the door.
            raise RegistryError(f"a registry redirects to {newurl[:80]}", temporary=False)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def is_loopback(registry: str) -> bool:
    """Whether a registry's name can only mean this machine."""
    host = urllib.parse.urlsplit(f"//{registry}").hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
