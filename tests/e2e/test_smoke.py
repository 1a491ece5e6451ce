"""The whole path in real processes: beat, worker, broker, database, receiver."""

import ssl

import trustme
from standardwebhooks import Webhook

from tests.e2e.broker import redis_broker
from tests.e2e.invariants import check
from tests.e2e.receiver import Receiver
from webhooks_app.actions.register_endpoint import register_endpoint


def test_every_event_arrives_once(stage):
    for name in ("a", "b"):
        stage.endpoint(name)
    stage.beat()
    stage.worker()
    events = stage.emit(20)
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=2)
    assert (report.posts, report.attempts, report.unrecorded) == (40, 40, [])


def test_https_and_a_signature_that_the_official_library_accepts(make_stage, redis_url, tmp_path):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("a.e2e").configure_cert(context)
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    stage = make_stage(
        redis_broker(redis_url),
        receiver=Receiver(context=context),
        CA_BUNDLE=str(bundle),
        REQUIRE_HTTPS=True,
    )
    made = register_endpoint(stage.actor, url=stage.receiver.url("a"), events=["*"], tenant_id="t")
    stage.worker(concurrency=1)
    events = stage.emit(5)
    stage.settle()
    check(stage.receiver.posts, events, endpoints=1)
    for post in stage.receiver.posts:
        assert Webhook(made.secret).verify(post.body, post.headers)["id"] == post.event_id
