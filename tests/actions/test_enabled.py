"""Whatever would queue or send something for a disabled endpoint is refused, in the same words."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_delivery, make_endpoint
from webhooks_app.actions.bulk_retry import bulk_retry
from webhooks_app.actions.disable import disable
from webhooks_app.actions.recover import recover, replay_from_earliest
from webhooks_app.actions.replay import replay
from webhooks_app.actions.resend import resend
from webhooks_app.exceptions import Conflict
from webhooks_app.models import Delivery

pytestmark = pytest.mark.django_db

SINCE = timezone.now() - timedelta(days=1)
WAYS: list[Callable[[Delivery], object]] = [
    lambda row: replay(OPERATOR, row.endpoint, since=SINCE),
    lambda row: recover(OPERATOR, row.endpoint, since=SINCE),
    lambda row: replay_from_earliest(OPERATOR, row.endpoint),
    lambda row: bulk_retry(OPERATOR, endpoint=row.endpoint),
    lambda row: resend(OPERATOR, row),
]


@pytest.mark.parametrize("way", WAYS)
def test_a_disabled_endpoint_refuses(way: Callable[[Delivery], object]) -> None:
    row = make_delivery(make_endpoint(), state="exhausted")
    disable(OPERATOR, row.endpoint)
    with pytest.raises(Conflict) as caught:
        way(row)
    refusal = caught.value
    assert (refusal.code, refusal.message) == ("webhook_disabled", "the webhook is disabled")
    assert refusal.fix == "Enable it, then repeat the request."
