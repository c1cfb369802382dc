# Tests: kvedge/api/admission/admission_plan.py, kvedge/api/admission/mutation_plan.py, kvedge/api/admission/rules/
"""What judging costs: each list and each map that a VMI may have, four times as long, takes no more than in proportion.

The fields are those of the types, so that a new one is measured with the rules that look at it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import msgspec.inspect as shapes
import pytest

from kvedge.api.admission.admission_message import AdmissionRequest, verdict
from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.rules.size_rules import MOST_VALUES
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import shape_of
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec
from tests.support.builders import small_vmi
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
# Of the time for a quarter: in proportion are 4 times, with the square 16.
PER_FOURFOLD = 8
# Of CPU; what is faster is not worth a comparison.
MEASURABLE = 0.03
TRIES = 3
# Of items with at most four values each: four times as many are as many as are judged.
ITEMS = MOST_VALUES // 4 // 4 - 100

Path = tuple[str, ...]


def growing(shape: shapes.Type, path: Path = ()) -> Iterator[tuple[Path, shapes.Type]]:
    """Each list and map below a type; `[]` in a path is an item."""
    match shape:
        case shapes.StructType():
            for field in shape.fields:
                yield from growing(field.type, (*path, field.encode_name))
        case shapes.UnionType():
            for part in shape.types:
                yield from growing(part, path)
        case shapes.ListType():
            yield path, shape
            yield from growing(shape.item_type, (*path, "[]"))
        case shapes.DictType():
            yield path, shape


FIELDS = dict(growing(shape_of(VirtualMachineInstanceSpec)))


def filled(path: Path, value: Any) -> dict[str, Any]:
    """A VMI that has the value there, in the first item of each list on the way."""
    document = small_vmi()
    node: Any = document["spec"]
    for name in path[:-1]:
        if name == "[]":
            node = node[0]
            continue
        following = path[path.index(name) + 1] == "[]"
        if not isinstance(node.get(name), list if following else dict):
            node[name] = [{"name": "x"}] if following else {}
        node = node[name]
    node[0 if path[-1] == "[]" else path[-1]] = value
    return document


def items(shape: shapes.Type, count: int, distinct: bool) -> Any:
    """So many items that the type takes or refuses one by one."""
    if isinstance(shape, shapes.DictType):
        return {f"example.com/k{number}": "v" for number in range(count)}
    inner = shape.item_type if isinstance(shape, shapes.ListType) else None
    texts = [f"x{number if distinct else 0}" for number in range(count)]
    return texts if isinstance(inner, shapes.StrType) else [{"name": text} for text in texts]


@pytest.fixture(autouse=True, scope="module")
def _young_objects_only() -> None:
    """Keep what other tests have loaded out of the collections before each measurement: they would take longest."""
    gc.collect()
    gc.freeze()


def cost(asked: AdmissionRequest) -> float:
    """Seconds of CPU that both webhooks and the answer take."""
    gc.collect()
    start = time.process_time()
    plan_mutation(asked, CLUSTER, "2026-01-01T00:00:00Z")
    judged = plan_verdict(asked, CLUSTER)
    verdict("uid", judged.causes, judged.warnings)
    return time.process_time() - start


def check(small: AdmissionRequest, large: AdmissionRequest) -> None:
    """The large request, four times the small one, costs no more than in proportion."""
    first = min(cost(small) for _ in range(2))
    allowed = PER_FOURFOLD * max(first, MEASURABLE)
    costs: list[float] = []
    for _ in range(TRIES):
        costs.append(cost(large))
        if costs[-1] <= allowed:
            break
    assert min(costs) <= allowed, f"{first:.3f} s for a quarter, {costs} s for all"


@pytest.mark.parametrize("distinct", [True, False], ids=["distinct", "alike"])
@pytest.mark.parametrize("path", FIELDS, ids=".".join)
def test_judging_a_list_takes_time_in_proportion(path: Path, distinct: bool) -> None:
    small, large = (request(filled(path, items(FIELDS[path], count, distinct))) for count in (ITEMS // 4, ITEMS))
    check(small, large)


def attached(count: int) -> AdmissionRequest:
    """A VMI whose lists name each other: disks and their volumes, interfaces and their networks."""
    names = [f"x{number}" for number in range(count)]
    volumes = [{"name": name, "containerDisk": {"image": "demo:1"}} for name in names]
    changes = {
        "domain.devices.disks": [{"name": name, "disk": {"bus": "virtio"}} for name in names],
        "volumes": volumes,
        "domain.devices.interfaces": [{"name": name, "bridge": {}} for name in names],
        "networks": [{"name": name, "multus": {"networkName": name}} for name in names],
    }
    return request(small_vmi(**changes))


def test_judging_lists_that_name_each_other_takes_time_in_proportion() -> None:
    most = MOST_VALUES // 20
    check(attached(most // 4), attached(most))
