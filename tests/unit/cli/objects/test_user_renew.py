# Tests: kvedge/cli/objects/user_verbs.py, kvedge/client/users/user_manifest.py
"""`kvedge user renew` where nobody can sign: on a node without the administrator's kubeconfig."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from kvedge.appliance.host.distributions import of_server
from kvedge.cli.exits import Exit
from kvedge.client.users.user_manifest import kubeconfig_manifest, role_user
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest

pytestmark = pytest.mark.skipif(of_server(Path.exists) is not None, reason="this machine is a server of a cluster")


@pytest.mark.parametrize(("days", "code"), [(300, Exit.DONE), (50, Exit.HOST)], ids=["good for long", "due"])
def test_a_certificate_that_is_due_is_told_with_a_way_out_and_another_is_no_matter(
    tmp_path: Path, days: int, code: int
) -> None:
    made, now = role_user("handler", "n1", 365), datetime.now(UTC)
    leaf = CertificateAuthority.create("cluster", now).issue(
        LeafRequest(made.name, list(made.groups), life=timedelta(days=days)), now
    )
    document = kubeconfig_manifest(made, {"server": "https://192.0.2.1:6443"}, leaf.certificate, leaf.key)
    (tmp_path / "handler").write_text(yaml.safe_dump(document))
    before = (tmp_path / "handler").read_bytes()
    (tmp_path / "config.yaml").write_text(f"kubeconfig: {tmp_path}\n")
    command = [sys.executable, "-m", "kvedge", "user", "renew", "--config", str(tmp_path / "config.yaml")]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert done.returncode == code, done.stderr
    if code:
        assert f"the certificates in {tmp_path}/handler are to be renewed" in done.stderr
        assert "make them with `kvedge user role` on a server" in done.stderr
    assert (tmp_path / "handler").read_bytes() == before
