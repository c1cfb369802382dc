from __future__ import annotations

from kvedge.resources.codec import decode_json, encode_json
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim


def test_a_claim_is_a_file_system_unless_it_says_block() -> None:
    plain = decode_json(
        PersistentVolumeClaim, b'{"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"]}}'
    )
    block = decode_json(PersistentVolumeClaim, b'{"metadata": {"name": "a"}, "spec": {"volumeMode": "Block"}}')
    assert not plain.is_block
    assert block.is_block


def test_no_class_and_the_empty_class_are_kept_apart() -> None:
    none = decode_json(PersistentVolumeClaim, b'{"metadata": {"name": "a"}, "spec": {}}')
    empty = decode_json(PersistentVolumeClaim, b'{"metadata": {"name": "a"}, "spec": {"storageClassName": ""}}')
    assert none.spec.storage_class_name is None
    assert empty.spec.storage_class_name == ""
    assert b'"storageClassName":""' in encode_json(empty)


def test_a_volume_names_its_claim_and_its_place() -> None:
    document = b"""{"metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "1Gi"}, "local": {"path": "/srv/a"},
        "claimRef": {"namespace": "default", "name": "a", "uid": "u"}}}"""
    volume = decode_json(PersistentVolume, document)
    assert volume.spec.local is not None
    assert volume.spec.local.path == "/srv/a"
    assert volume.spec.claim_ref is not None
    assert volume.spec.claim_ref.uid == "u"
