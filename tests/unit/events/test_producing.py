"""What librdkafka raises of a producer, and says of its records, becomes an error of ours."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from topolog.events.errors import BadInput, LogDiverged, NotAllowed, Unreachable
from topolog.events.kafka_errors import not_delivered, producing


def test_a_fatal_error_is_the_end_also_where_a_callback_ran_behind_it() -> None:
    """K9: Python calls a callback's success with an exception pending a SystemError, and names what was pending."""
    fatal = KafkaException(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "lost", fatal=True))
    with pytest.raises(LogDiverged, match="takes nothing more"), producing():
        raise SystemError("returned a result with an exception set") from fatal


def test_an_error_that_passes_is_no_end() -> None:
    with pytest.raises(Unreachable), producing():
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "late"))


def test_a_record_that_is_too_large_is_the_fault_of_who_gave_it() -> None:
    """Not of the broker, to which the next one may go."""
    with pytest.raises(BadInput), producing():
        raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "large"))


def test_a_defect_stays_one() -> None:
    with pytest.raises(SystemError), producing():
        raise SystemError("something else")


def test_a_record_that_is_turned_away_is_told_from_one_that_may_still_arrive() -> None:
    """K7: of the first it is known that the log has it not; the second must not be sent under another id."""
    settings = {"bootstrap.servers": "broker:9092", "sasl.username": "api"}
    denied = not_delivered(settings, "topolog.demo.operations", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    lost = not_delivered(settings, "topolog.demo.operations", KafkaError(KafkaError._MSG_TIMED_OUT))
    assert isinstance(denied, NotAllowed)
    assert denied.message == "The broker at broker:9092 does not let api use topic topolog.demo.operations."
    assert isinstance(lost, Unreachable)
    assert lost.message == "Topic topolog.demo.operations did not confirm the record: Local: Message timed out."
