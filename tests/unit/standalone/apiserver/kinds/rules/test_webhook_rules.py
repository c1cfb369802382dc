"""What webhook configurations may say."""

from __future__ import annotations

from kvedge.standalone.apiserver.kinds.rules.webhook_rules import check_webhooks


def test_a_configuration_is_checked_whole() -> None:
    good = {
        "name": "hook.example.com",
        "clientConfig": {"url": "https://127.0.0.1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
    }
    assert check_webhooks({"webhooks": [good]}) == []
    wrong = {
        **good,
        "clientConfig": {"url": "http://x", "service": None},
        "admissionReviewVersions": ["v1beta1"],
        "sideEffects": "Some",
        "failurePolicy": "Maybe",
        "timeoutSeconds": 31,
    }
    fields = [error.field for error in check_webhooks({"webhooks": [good, wrong]})]
    assert fields == [
        "webhooks[1].name",
        "webhooks[1].clientConfig.url",
        "webhooks[1].admissionReviewVersions",
        "webhooks[1].sideEffects",
        "webhooks[1].failurePolicy",
        "webhooks[1].timeoutSeconds",
    ]
