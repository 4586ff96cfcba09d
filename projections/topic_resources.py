"""What the API says of the topics of a cluster."""

import msgspec


class TopicPartition(msgspec.Struct, frozen=True):
    """How far one partition is read. `offset`: of the next record, None while that is the oldest kept; `records`: read
    since the process started, the last of them appended at `last_time`."""

    partition: int
    offset: int | None
    records: int
    last_time: str | None


class ClusterTopic(msgspec.Struct, frozen=True):
    """A topic of the cluster. `topic` is the broker's name for it; `retention_ms` -1 is for ever; `policy`: delete, or
    compact, which keeps of each key the newest record; `is_needed`: no process starts without it.

    `is_read`: by this process, `records` since it started. `lag_s`: how long ago this process last knew that it had
    read to the end, by its own clock; None where it is not read, or never was to its end.
    """

    name: str
    topic: str
    partitions: int
    key: str
    policy: str
    retention_ms: int
    is_needed: bool
    says: str
    is_read: bool
    records: int | None
    lag_s: float | None
    read: tuple[TopicPartition, ...]
