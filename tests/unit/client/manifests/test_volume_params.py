"""virtctl's compound flags."""

from __future__ import annotations

import pytest

from kvedge.client.errors import UsageError
from kvedge.client.manifests.access_credentials import parse_access_credential
from kvedge.client.manifests.volume_params import VolumeParams, check_volumes, parse_volume


def test_a_value_may_have_colons_itself() -> None:
    found = parse_volume("volume-containerdisk", "src:registry:5000/a/b@sha256:12,name:root,bootorder:2")
    assert found == VolumeParams("registry:5000/a/b@sha256:12", "root", 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "params need to have at least one colon: a"),
        ("src:a,", "params need to have at least one colon: "),
        ("foo:bar", "unknown param(s): foo:bar"),
        ("src:", "src must be specified"),
        ("name:x", "src must be specified"),
        ("src:a,name:A_b", 'invalid name "A_b"'),
        ("src:a,bootorder:0", "bootorder must be greater than 0"),
        ("src:a,bootorder:x", 'failed to parse param "bootorder"'),
    ],
)
def test_a_mistake_is_told_in_virtctls_words_with_the_flag(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_volume("volume-pvc", text)
    assert caught.value.text.startswith(f'failed to parse "--volume-pvc" flag: {words}')


def test_nothing_may_be_there_twice() -> None:
    check_volumes("f", ["a", "b"], [1, 2])
    with pytest.raises(UsageError, match='already a volume with name "a"'):
        check_volumes("f", ["a", "a"], [])
    with pytest.raises(UsageError, match="bootorder 1 was specified multiple times"):
        check_volumes("f", [], [1, 1])


@pytest.mark.parametrize(
    ("text", "user", "words"),
    [
        ("type:foo,src:s", "", 'invalid access credential type "foo"'),
        ("src:s,method:x", "", 'invalid access credentials ssh method "x", supported values are: ga, nocloud'),
        ("type:password,src:s,method:noCloud", "", 'invalid access credentials password method "noCloud"'),
        ("type:ssh", "", "src must be specified"),
        ("src:s", "", "user must be specified"),
        ("src:s,method:configDrive,user:x", "", "user cannot be specified"),
        ("type:password,src:s,user:x", "", "user cannot be specified"),
        ("src:s,method:configDrive", "", "have to match: configdrive vs nocloud"),
    ],
)
def test_an_access_credential_that_makes_no_sense_is_refused(text: str, user: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_access_credential(text, user, "nocloud")
    assert words in caught.value.text
