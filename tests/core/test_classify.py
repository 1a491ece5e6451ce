"""What a reply means under `standard`."""

from dataclasses import replace

import pytest

from webhooks_app.core.attempt import AttemptResult
from webhooks_app.core.classify import HOPELESS, OURS, Verdict, control_of, error_of, verdict
from webhooks_app.core.policies import STANDARD, Policy
from webhooks_app.core.states import ERRORS

PICKY = replace(STANDARD, retried=frozenset({429, *range(500, 600)}), retry_refused=False)


def reply(status: int, control: str | None = None) -> AttemptResult:
    headers = () if control is None else (("Webhook-Delivery", control),)
    return AttemptResult(error=error_of(status), http_status=status, headers=headers)


@pytest.mark.parametrize(
    ("statuses", "error"),
    [
        (range(-5, 200), "invalid_response"),
        (range(200, 300), ""),
        (range(300, 400), "redirect"),
        ([*range(400, 410), *range(411, 500)], "status_4xx"),
        ([410], "status_410"),
        (range(500, 600), "status_5xx"),
        ([600, 700, 999, 10**6], "invalid_response"),
    ],
    ids=["1xx-and-less", "2xx", "3xx", "4xx", "410", "5xx", "over-599"],
)
def test_error_of(statuses: list[int], error: str) -> None:
    assert {error_of(status) for status in statuses} == {error}


def test_standard_retries_every_status_but_410() -> None:
    verdicts = {status: verdict(reply(status), STANDARD) for status in (*range(1000), 10**6)}
    succeeded = {status for status, judged in verdicts.items() if judged is Verdict.SUCCESS}
    final = {status for status, judged in verdicts.items() if judged is Verdict.PERMANENT}
    assert succeeded == set(range(200, 300))
    assert final == {410}


@pytest.mark.parametrize(
    ("error", "standard", "picky"),
    [
        ("timeout", Verdict.RETRY, Verdict.RETRY),
        ("dns", Verdict.RETRY, Verdict.RETRY),
        ("tls", Verdict.RETRY, Verdict.RETRY),
        ("connect", Verdict.RETRY, Verdict.RETRY),
        ("reset", Verdict.RETRY, Verdict.RETRY),
        ("invalid_response", Verdict.RETRY, Verdict.RETRY),
        ("secret_unavailable", Verdict.RETRY, Verdict.RETRY),
        ("worker_lost", Verdict.RETRY, Verdict.RETRY),
        ("ssrf_blocked", Verdict.RETRY, Verdict.PERMANENT),
        ("invalid_url", Verdict.RETRY, Verdict.PERMANENT),
        ("event_unavailable", Verdict.PERMANENT, Verdict.PERMANENT),
        ("endpoint_disabled", Verdict.PERMANENT, Verdict.PERMANENT),
        ("endpoint_deleted", Verdict.PERMANENT, Verdict.PERMANENT),
        ("payload_too_large", Verdict.PERMANENT, Verdict.PERMANENT),
    ],
)
def test_errors_without_a_status(error: str, standard: Verdict, picky: Verdict) -> None:
    result = AttemptResult(error=error)
    assert verdict(result, STANDARD) is standard
    assert verdict(result, PICKY) is picky


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, Verdict.SUCCESS),
        (302, Verdict.PERMANENT),
        (404, Verdict.PERMANENT),
        (429, Verdict.RETRY),
        (503, Verdict.RETRY),
    ],
)
def test_the_retried_statuses_are_data(status: int, expected: Verdict) -> None:
    assert verdict(reply(status), PICKY) is expected


@pytest.mark.parametrize(
    ("status", "value", "expected"),
    [
        (500, "abort-message", "abort-message"),
        (500, "disable", "disable"),
        (404, " Abort-Message ", "abort-message"),
        (302, "disable", "disable"),
        (410, "abort-message", "abort-message"),
        (200, "disable", "disable"),
        (200, "abort-message", None),
        (500, "abort", None),
        (500, "abort-message, disable", None),
        (500, "", None),
        (500, None, None),
        (103, "disable", None),
        (999, "abort-message", None),
    ],
)
def test_control_header(status: int, value: str | None, expected: str | None) -> None:
    assert control_of(reply(status, value), STANDARD) == expected


def test_two_different_control_headers_say_nothing() -> None:
    headers = (("webhook-delivery", "disable"), ("webhook-delivery", "abort-message"))
    result = AttemptResult(error="status_5xx", http_status=500, headers=headers)
    assert control_of(result, STANDARD) is None


def test_an_abort_is_final_and_a_disable_is_not() -> None:
    assert verdict(reply(503, "abort-message"), STANDARD) is Verdict.PERMANENT
    assert verdict(reply(503, "disable"), STANDARD) is Verdict.RETRY


@pytest.mark.parametrize("value", ["abort-message", "disable"])
def test_a_policy_may_ignore_the_header(value: str) -> None:
    deaf: Policy = replace(STANDARD, honours_control=False)
    assert control_of(reply(500, value), deaf) is None
    assert verdict(reply(500, value), deaf) is Verdict.RETRY


def test_the_sets_hold_known_codes_only() -> None:
    assert HOPELESS <= OURS <= ERRORS
