"""Limits of bandwidth on VMs' templates and on VMIs."""

from __future__ import annotations

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.values.bandwidth import EGRESS, INGRESS
from tests.support.builders import small_vmi, vm_of
from tests.support.reviews import request


def test_a_limit_that_can_be_kept_is_accepted() -> None:
    vmi = small_vmi()
    vmi["metadata"]["annotations"] = {INGRESS: "10M", EGRESS: "1G"}
    assert plan_verdict(request(vmi), Cluster("amd64")).causes == ()


def test_both_wrong_ones_are_named_in_a_vms_template() -> None:
    vm = vm_of(small_vmi())
    vm["spec"]["template"]["metadata"] = {"annotations": {INGRESS: "much", EGRESS: "10"}}
    found = [(cause.field, cause.message) for cause in plan_verdict(request(vm), Cluster("amd64")).causes]
    at = "spec.template.metadata.annotations"
    assert found == [
        (f"{at}[{INGRESS}]", f"{at}[{INGRESS}]: 'much' is no quantity: use bits per second, such as 10M or 1G"),
        (f"{at}[{EGRESS}]", f"{at}[{EGRESS}]: '10' is not between 1k and 1P bits per second"),
    ]
