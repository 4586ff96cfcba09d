"""Kafka's own names for the headers that say why a record was put aside: coordinators write them, projectors read them.

Values are text; `TRUNCATED_FROM_BYTES` is there only where a record was too big to be kept whole.
"""

ERRORS = "__dlq.errors."
"""What each of these names begins with."""

TOPIC = f"{ERRORS}topic"
PARTITION = f"{ERRORS}partition"
OFFSET = f"{ERRORS}offset"
MESSAGE = f"{ERRORS}message"
EXCEPTION = f"{ERRORS}exception"
TRUNCATED_FROM_BYTES = f"{ERRORS}truncated.from.bytes"
