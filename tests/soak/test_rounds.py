"""A few rounds of the soak on three real brokers; `make soak` plays hundreds."""

from collections.abc import Callable
from pathlib import Path

from tests.soak.rounds import Rounds
from tests.soak.schedule import Fault, Kind, Target
from tests.soak.stage import Stage, ports_needed

ROUNDS = (
    (
        Fault(100, 1_500, Kind.KILL, Target.BROKER_LEADER),
        Fault(300, 1_000, Kind.FOREIGN, Target.TOPICS),
        Fault(900, 800, Kind.HOLD, Target.NODE, which=1),
    ),
    (
        Fault(100, 2_200, Kind.ZOMBIE, Target.LEADER),
        Fault(300, 2_500, Kind.PAUSE, Target.NODE, which=0),
        Fault(500, 1_000, Kind.CLOCK, Target.STAND_BY, size=-3_600),
    ),
    (
        Fault(100, 1_000, Kind.KILL, Target.LEADER),
        Fault(200, 500, Kind.KILL, Target.NODE, which=2),
        Fault(600, 800, Kind.CUT, Target.PROJECTOR),
    ),
)


def test_the_history_of_a_few_rounds_of_faults_is_legal(
    tmp_path: Path, unused_ports: Callable[[int], int], cluster: str
) -> None:
    """K3 to K9 on a real Kafka of three: nothing acknowledged is lost, nobody reads the past or acts from outside."""
    with Stage(tmp_path, cluster, 3, unused_ports(ports_needed(3))) as stage:
        rounds = Rounds(stage)
        assert rounds.settle() == []
        for seed, faults in enumerate(ROUNDS):
            ended = rounds.play(seed, faults)
            assert ended.violations == (), f"{tmp_path} has the logs"
            assert ended.operations > 100
        rounds.close()
