"""What librdkafka says and raises, as errors of ours."""

import contextlib
from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaError, KafkaException

from topolog.events.errors import BadInput, LogDiverged, NotAllowed, TopologError, Unreachable

_NOT_LET_IN = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL)
DENIED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)


def not_let_in(settings: Mapping[str, str], error: KafkaError) -> NotAllowed:
    """That the broker knows nobody by these credentials, or that one of both does not believe the other's."""
    who = settings.get("sasl.username", "this client")
    return NotAllowed(
        f"The broker at {settings.get('bootstrap.servers', '')} does not let {who} in: {error.str()}.",
        hint="kafka.security.protocol, kafka.sasl.… and kafka.ssl.… say as whom this process comes (docs/security.md).",
    )


def is_not_let_in(error: KafkaError) -> bool:
    return error.code() in _NOT_LET_IN


def denied(settings: Mapping[str, str], topic: str) -> NotAllowed:
    who = settings.get("sasl.username", "this client")
    return NotAllowed(
        f"The broker at {settings.get('bootstrap.servers', '')} does not let {who} use topic {topic}.",
        hint="`topolog cluster init --plan` prints what each role needs.",
    )


def not_delivered(settings: Mapping[str, str], topic: str, error: KafkaError) -> TopologError:
    """What librdkafka says of a record that it did not deliver: NotAllowed if the broker has turned it away for want
    of rights, else Unreachable, and it may still arrive."""
    if error.code() in DENIED:
        return denied(settings, topic)
    return Unreachable(f"Topic {topic} did not confirm the record: {error.str()}.")


@contextlib.contextmanager
def producing() -> Iterator[None]:
    """What librdkafka raises of a producer: a fatal error is the end of it, every later call raises it again.

    With an idempotent producer that is a broker which no longer knows what it has acknowledged to this producer.
    """
    try:
        yield
    except (KafkaException, SystemError) as raised:
        error = _of_librdkafka(raised)
        if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
            raise BadInput("The record is larger than a record may be.") from error
        if not error.args[0].fatal():
            raise Unreachable(f"The broker takes no more records: {error.args[0].str()}.") from error
        if error.args[0].code() in DENIED:
            raise NotAllowed(
                f"The broker lets this process write nothing: {error.args[0].str()}.",
                hint="`topolog cluster init --plan` prints what each role needs.",
            ) from error
        raise LogDiverged(
            f"The broker takes nothing more from this process: {error.args[0].str()}.",
            hint="It has lost what it acknowledged before, as after an older copy of its data was put back. Compare "
            "the log with a backup, then start this process again.",
        ) from error


def _of_librdkafka(raised: KafkaException | SystemError) -> KafkaException:
    """A fatal error comes as a SystemError when callbacks are still run after it: its cause is what was meant."""
    cause: BaseException | None = raised
    while cause is not None and not isinstance(cause, KafkaException):
        cause = cause.__cause__
    if cause is None:
        raise raised
    return cause
