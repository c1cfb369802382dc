from __future__ import annotations

from kvedge.controller.confinement import make_container_context, make_pod_context
from kvedge.resources.codec import encode


def test_a_confined_pod_gives_its_volumes_to_the_guests_group_and_its_calls_to_a_filter() -> None:
    pod = encode(make_pod_context())
    assert (pod["runAsUser"], pod["runAsNonRoot"], pod["fsGroup"]) == (107, True, 107)
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}


def test_a_confined_container_has_no_capability_and_no_way_to_one() -> None:
    container = encode(make_container_context(read_only_root=True))
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert (container["privileged"], container["allowPrivilegeEscalation"]) == (False, False)
    assert container["readOnlyRootFilesystem"] is True
