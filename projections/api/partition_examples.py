"""Examples of partitions, maps and exchanges: n4 joins, and its copy of a partition loads."""

import msgspec

from topolog.projections.partition_resources import (
    Exchange,
    ExchangeAnswer,
    ExchangeDetail,
    ExchangePhase,
    ExchangeTrigger,
    Forecast,
    GroupForecast,
    NodeMap,
    NodeMapDetail,
    Partition,
    PartitionCopy,
    SingleMap,
    SingleMapDetail,
    SingleMapOfGroup,
)

_TIME = "2026-11-21T02:00:00.000Z"
_MAP = NodeMap(
    name="orders/n1",
    group="orders",
    node="n1",
    is_member=True,
    copies=5,
    primaries=2,
    wanted=5,
    states={"MOVING": 1, "OWNING": 4},
)
_SINGLE_MAP = SingleMap(
    node="n1",
    state="AGREE",
    sentence="It says what the log says. Beside that: 1 copy finished that the log does not show yet.",
    incarnation=7,
    sequence=12,
    exchange="4.0",
    applied=44,
    time=_TIME,
    age_ms=310,
    copies={"OWNING": 5},
    in_log={"MOVING": 1, "OWNING": 4},
    differences=0,
    finished=1,
    outdated=0,
)
_EXCHANGE = Exchange(
    version="4.0",
    result="5.0",
    types=("JOIN", "LEAVE"),
    state="COMPLETED",
    triggers=(ExchangeTrigger("JOIN", "n4", "4.0"), ExchangeTrigger("LEAVE", "n2", "5.0")),
    awaited=(),
    waited=(ExchangeAnswer("n1", 7), ExchangeAnswer("n4", 31)),
    started_at=44,
    started_time=_TIME,
    completed_at=48,
    completed_time=_TIME,
    duration_ms=34,
)
_PHASES = (
    ExchangePhase("BEGAN", 44, _TIME, 0),
    ExchangePhase("MERGED", 46, _TIME, 12),
    ExchangePhase("COMPLETED", 48, _TIME, 34),
)
EXAMPLES: tuple[msgspec.Struct, ...] = (
    Partition(
        name="orders/17",
        group="orders",
        partition=17,
        state="MOVING",
        primary="n1",
        backups=(),
        wanted=("n1", "n4"),
        copies=(PartitionCopy("n1", "OWNING", True, 39, True), PartitionCopy("n4", "MOVING", True, 46, True)),
        token=39,
        since=46,
        lost=False,
        awaits=(),
    ),
    _MAP,
    NodeMapDetail(**msgspec.structs.asdict(_MAP), partitions={"MOVING": "17", "OWNING": "0-2, 9"}, primary_of="0, 9"),
    _EXCHANGE,
    ExchangeDetail(**msgspec.structs.asdict(_EXCHANGE), changed={"orders": 212}, lost={}, phases=_PHASES),
    Forecast(
        node="n2",
        event="dies",
        sentence="If n2 dies, 1 partition is lost; others act for 3 partitions in its place, and 5 copies are loaded "
        "to replace its 5.",
        facts={"until it is out": "its partitions pause until it says that it has stopped, 25000 ms at most"},
        groups=(GroupForecast("orders", 5, 3, 1, "9", {"n1": 2, "n4": 3}, {"0": 1, "1": 4}),),
    ),
    _SINGLE_MAP,
    SingleMapDetail(
        **msgspec.structs.asdict(_SINGLE_MAP),
        groups=(
            SingleMapOfGroup(
                group="orders",
                copies={"OWNING": 5},
                in_log={"MOVING": 1, "OWNING": 4},
                differences=0,
                finished=1,
                outdated=0,
                differing="",
            ),
        ),
    ),
)
