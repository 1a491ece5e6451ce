"""AttemptResult: what it says about itself."""

import pytest

from webhooks_app.core.attempt import AttemptResult


def test_a_result_without_error_is_ok() -> None:
    assert AttemptResult(http_status=204).ok
    assert not AttemptResult(error="dns").ok


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ((), None),
        ((("Other", "1"),), None),
        ((("Retry-After", "1"),), "1"),
        ((("RETRY-AFTER", " 1\t"),), "1"),
        ((("Retry-After", "1"), ("retry-after", "1 ")), "1"),
        ((("Retry-After", "1"), ("retry-after", "2")), None),
        ((("Retry-After", ""),), ""),
        ((("Retry-After", "\u00a01"),), "\u00a01"),
    ],
    ids=["none", "other", "same", "case", "twice-same", "twice-different", "empty", "not-a-blank"],
)
def test_header(headers: tuple[tuple[str, str], ...], expected: str | None) -> None:
    result = AttemptResult(headers=headers)
    assert result.header("retry-after") == expected
    assert result.header("Retry-After") == expected
