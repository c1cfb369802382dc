"""What a CertificateSigningRequest may say, and what of it may change.

Called by the kind's row, and by `access` where requests are settled and signed. Pure; the object has the types of its
kind (`builtin_shape`). All causes at once.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Final

from cryptography import x509

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.name_grammar import too_long
from kvedge.runtime.tls.certificate_requests import parse_request
from kvedge.runtime.tls.certificates import CertificateError
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import duplicate, forbidden, invalid, not_supported_error, required_error
from kvedge.standalone.apiserver.wire.json_values import same

APPROVED: Final = "Approved"
DENIED: Final = "Denied"
FAILED: Final = "Failed"
_LEGACY: Final = "kubernetes.io/legacy-unknown"
_SHORTEST_SECONDS: Final = 600
_KNOWN_CONDITIONS: Final = (APPROVED, DENIED, FAILED)
_USAGES: Final = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_LONGEST_SIGNER: Final = 571


def parse_certificate_request(request: str) -> x509.CertificateSigningRequest:
    """The PKCS #10 request in `spec.request`, its signature checked.

    Raises:
        ValueError: it is none; the text says why.
    """
    try:
        pem = base64.b64decode(request, validate=True)
    except ValueError as error:
        raise ValueError("illegal base64 data") from error
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        return parse_request(pem)
    except CertificateError as error:
        raise ValueError(str(error)) from error


def check_request(request: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a request."""
    spec = request.get("spec") or {}
    try:
        parse_certificate_request(spec.get("request") or "")
    except ValueError as error:
        yield invalid("spec.request", spec.get("request") or "", str(error))
    yield from _check_usages(spec.get("usages") or [])
    yield from _check_signer(spec.get("signerName") or "")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST_SECONDS:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid("spec.expirationSeconds", seconds, text)
    yield from _check_conditions((request.get("status") or {}).get("conditions") or [])


def check_request_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """A certificate stays as it was given, and so does what was decided."""
    after, before = new.get("status") or {}, old.get("status") or {}
    if before.get("certificate") and not same(after.get("certificate"), before["certificate"]):
        yield forbidden("status.certificate", "updates may not change existing certificate content")
    elif after.get("certificate") and not same(after.get("certificate"), before.get("certificate")):
        yield from _check_certificate(after["certificate"])
    had, has = condition_types(before), condition_types(after)
    for kind in _KNOWN_CONDITIONS:
        if kind in had and kind not in has:
            yield forbidden("status.conditions", f'updates may not remove a condition of type "{kind}"')


def condition_types(status: JsonObject) -> set[str]:
    """The types of the conditions in a request's status."""
    return {condition.get("type") or "" for condition in status.get("conditions") or []}


def _check_usages(usages: list[str]) -> Iterator[FieldError]:
    if not usages:
        yield required_error("spec.usages")
    seen: set[str] = set()
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            yield not_supported_error(f"spec.usages[{index}]", usage, _USAGES)
        if usage in seen:
            yield duplicate(f"spec.usages[{index}]", usage)
        seen.add(usage)


def _check_signer(signer: str) -> Iterator[FieldError]:
    if not signer:
        yield required_error("spec.signerName")
        return
    domain, _, path = signer.partition("/")
    if not path or "/" in path:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid("spec.signerName", signer, text)
        return
    complaints = [*name_rules.dns_subdomain(domain), *name_rules.dns_subdomain(path)]
    if "." not in domain:
        complaints.append("should be a domain with at least two segments separated by dots")
    if len(signer) > _LONGEST_SIGNER:
        complaints.append(too_long(_LONGEST_SIGNER))
    for complaint in complaints:
        yield invalid("spec.signerName", signer, complaint)
    if signer == _LEGACY:
        yield invalid("spec.signerName", signer, "the legacy signerName is not allowed via this API version")


def _check_conditions(conditions: list[JsonObject]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        path, kind = f"status.conditions[{index}]", condition.get("type") or ""
        if not kind:
            yield required_error(f"{path}.type")
        elif kind in _KNOWN_CONDITIONS and condition.get("status") != "True":
            yield not_supported_error(f"{path}.status", condition.get("status") or "", ["True"])
        if kind in seen:
            yield duplicate(f"{path}.type", kind)
        if {APPROVED: DENIED, DENIED: APPROVED}.get(kind) in seen:
            text = "Approved and Denied conditions are mutually exclusive"
            yield invalid(f"{path}.type", kind, text)
        seen.add(kind)


def _check_certificate(text: str) -> Iterator[FieldError]:
    pem = base64.b64decode(text)
    blocks = _CERTIFICATE.findall(pem)
    try:
        for block in blocks:
            x509.load_pem_x509_certificate(block)
    except ValueError as error:
        yield invalid("status.certificate", "<certificate data>", str(error))
        return
    if not blocks:
        yield invalid("status.certificate", "<certificate data>", "must contain at least one CERTIFICATE PEM block")
