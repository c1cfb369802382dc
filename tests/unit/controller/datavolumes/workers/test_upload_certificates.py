"""The Secret of an upload's worker."""

from __future__ import annotations

import base64
from datetime import timedelta

from cryptography import x509

from kvedge.controller.datavolumes.workers.upload_certificates import upload_secret
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.runtime.tls.authority_plan import Authorities
from kvedge.runtime.tls.certificates import CertificateAuthority, ends_at
from tests.support.builders import NOW

UID = "44444444-4444-4444-4444-444444444444"


def test_a_workers_certificate_is_for_its_claim_alone_and_ends_with_its_authority() -> None:
    authority = Authorities(CertificateAuthority.create("uploads", NOW))
    claim = PersistentVolumeClaim(metadata=ObjectMeta(name="disk", namespace="shop", uid=UID))

    made = upload_secret(authority, claim, NOW)

    assert (made.metadata.namespace, made.metadata.name) == ("shop", "cdi-upload-disk")
    assert made.metadata.owner_references == [
        OwnerReference(api_version="v1", kind="PersistentVolumeClaim", name="disk", uid=UID)
    ]
    parts = {key: base64.b64decode(value) for key, value in made.data.items()}
    certificate = x509.load_pem_x509_certificate(parts["tls.crt"])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [f"{UID}.upload.kvedge.io"]
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]
    assert authority.signing.has_issued(parts["tls.crt"])
    assert parts["ca.crt"] == authority.bundle
    assert ends_at(parts["tls.crt"]) - NOW > timedelta(days=3600)
