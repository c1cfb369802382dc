# Tests: kvedge/api/admission/, kvedge/controller/vmi/launcher_pod/launcher_pod_manifest.py, kvedge/launcher/domain/
"""Every number of a VMI at its extremes, through all that reads it: admission, the launcher Pod, the domain.

What enters must become a Pod that an API server takes, and a domain or a refusal that names its field: a number that
nobody expected must end no role.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import jsonpatch
import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.rules.subject import Cluster
from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.manifests.crd_manifest import crds
from kvedge.resources.values.durations import LONGEST_GRACE_SECONDS
from kvedge.resources.values.quantities import parse_quantity
from kvedge.resources.vmi_facts import grace_seconds
from tests.support.builders import CONFIG, small_vmi, vmi_of
from tests.support.reviews import request
from tests.unit.launcher.domain.vmis import context

CLUSTER: Final = Cluster("amd64")
INT64: Final = 2**63
INTEGERS: Final = (-INT64, -(2**31) - 1, -1, 0, 2**31, 2**53 + 1, 2**62, INT64 - 1)
QUANTITIES: Final = (
    *INTEGERS,
    1e-300,
    1e300,
    0.5,
    "1Ei",
    "9E",
    "1e30",
    "1e-30",
    "-1Gi",
    "1n",
    "9" * 64,
    "9" * 65,
    "²Gi",
)


def numbers_in(schema: JsonObject, path: str = "") -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The path of each integer and each quantity, and what to try there."""
    if schema.get("type") == "integer":
        yield path, INTEGERS
    elif schema.keys() - {"description"} == {"x-kubernetes-preserve-unknown-fields"}:
        yield path, QUANTITIES
    for name, inner in (schema.get("properties") or {}).items():
        yield from numbers_in(inner, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from numbers_in(schema["items"], f"{path}[0]")
    if isinstance(schema.get("additionalProperties"), dict):
        for name in ("cpu", "memory"):
            yield from numbers_in(schema["additionalProperties"], f"{path}.{name}")


def spec_schema() -> JsonObject:
    found = next(crd for crd in crds() if crd["metadata"]["name"] == "virtualmachineinstances.kubevirt.io")
    schema: JsonObject = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


CASES: Final = dict(numbers_in(spec_schema()))


def placed(value: Any, path: str, number: Any) -> Any:
    """A document with the number at a path, and what it had beside it."""
    if not path:
        return number
    if path.startswith("[0]"):
        first, *others = value if isinstance(value, list) and value else [{}]
        return [placed(first, path[3:].removeprefix("."), number), *others]
    name = path.split(".")[0].split("[")[0]
    value = value if isinstance(value, dict) else {}
    return {**value, name: placed(value.get(name), path[len(name) :].removeprefix("."), number)}


def entered(document: JsonObject) -> JsonObject | None:
    """The VMI as it is stored; None when it is refused, which names a field."""
    document = jsonpatch.apply_patch(document, plan_mutation(request(document), CLUSTER, "2026-01-01T00:00:00Z"))
    verdict = plan_verdict(request(document), CLUSTER)
    assert all(cause.field and cause.message for cause in verdict.causes)
    return None if verdict.causes else document


def whole_numbers_of(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for item in value.values():
            yield from whole_numbers_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from whole_numbers_of(item)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


def test_there_are_numbers_of_both_kinds() -> None:
    assert CASES["domain.cpu.cores"] == INTEGERS
    assert CASES["domain.resources.requests.memory"] == CASES["domain.memory.guest"] == QUANTITIES
    assert CASES["readinessProbe.periodSeconds"] == INTEGERS


@pytest.mark.parametrize("path", CASES)
def test_a_number_at_its_extremes_is_refused_or_comes_through(path: str) -> None:
    for number in CASES[path]:
        stored = entered({**small_vmi(), "spec": placed(small_vmi()["spec"], path, number)})
        if stored is None:
            continue
        said = f"{path} = {str(number)[:40]}"
        vmi = vmi_of(stored)
        pod = encode(launcher_pod(vmi, CONFIG))
        assert all(-INT64 <= found < INT64 for found in whole_numbers_of(pod)), said
        for container in pod["spec"]["containers"]:
            for amounts in container.get("resources", {}).values():
                assert all(parse_quantity(amount) >= 0 for amount in amounts.values()), (said, amounts)
        assert 0 <= grace_seconds(vmi) <= LONGEST_GRACE_SECONDS, said
        with contextlib.suppress(ConversionError):
            render_domain(vmi, context())
