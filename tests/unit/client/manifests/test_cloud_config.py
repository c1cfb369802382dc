"""The cloud-config that is written for logins is YAML that says what was asked for."""

from __future__ import annotations

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.client.manifests.cloud_config import Login, cloud_config


def test_ordinary_values_stand_as_virtctl_writes_them() -> None:
    login = Login("joe", "secret", ("ssh-ed25519 AAAA joe@home", "ssh-rsa BBBB"), manage_ssh=True)
    assert cloud_config(login) == (
        "#cloud-config\nuser: joe\npassword: secret\nchpasswd: { expire: False }\nssh_authorized_keys:\n"
        "  - ssh-ed25519 AAAA joe@home\n  - ssh-rsa BBBB\nruncmd:\n"
        "  - [ setsebool, -P, 'virt_qemu_ga_manage_ssh', 'on' ]"
    )


# NUL and the like are in no password that anybody can type, and YAML cannot hold them.
_TYPED = st.text(st.characters(blacklist_categories=["Cc", "Cs", "Cn", "Co", "Zl", "Zp"]), min_size=1, max_size=20)


@settings(max_examples=60)
@given(_TYPED, _TYPED, _TYPED)
def test_whatever_is_typed_arrives_as_it_was(user: str, password: str, key: str) -> None:
    document = yaml.safe_load(cloud_config(Login(user, password, (key,))))
    assert (document["user"], document["password"], document["ssh_authorized_keys"]) == (user, password, [key])
