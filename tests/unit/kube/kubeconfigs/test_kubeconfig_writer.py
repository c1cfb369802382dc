"""A kubeconfig's text is the same whether YAML's dumper in C is there or not, so that it is compared and left alone."""

from __future__ import annotations

import pytest
import yaml

from kvedge.kube.kubeconfigs.kubeconfig_writer import kubeconfig_text


def test_a_kubeconfig_reads_the_same_with_and_without_the_dumper_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    user = {"client-certificate-data": "QUJD" * 400 + "Cg==", "exec": {"args": ["on", "1", "a b " * 60], "env": None}}
    document = {"kind": "Config", "current-context": "a:b", "users": [{"name": "Jürgen", "user": user}], "clusters": []}
    assert hasattr(yaml, "CSafeDumper")
    quick = kubeconfig_text(document)
    monkeypatch.delattr(yaml, "CSafeDumper")
    assert kubeconfig_text(document) == quick
    assert yaml.safe_load(quick) == document
    assert list(yaml.safe_load(quick)) == list(document)
