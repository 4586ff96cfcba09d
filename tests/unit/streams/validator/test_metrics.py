"""What validators and the rendezvous tell Prometheus of a session: tasks, rows, pages, reports."""

from prometheus_client import CollectorRegistry
from tests.unit.streams.validator.observed import differing_site, serving

from topolog.streams.rendezvous.metrics import RendezvousMetrics
from topolog.streams.validator.metrics import ValidatorMetrics

OF_CLUSTER = {"cluster": "demo"}


def test_a_repair_is_counted_by_all_who_did_it() -> None:
    """Each task that ended, the rows it looked at, the pages that were paired, the leaves that differ."""
    site = differing_site()
    validators = serving(site)
    registry, compared = CollectorRegistry(), RendezvousMetrics("demo")
    validated = ValidatorMetrics("demo")
    registry.register(validated)
    registry.register(compared)
    assert list(validated.collect()) == list(compared.collect()) == [], "nothing is told before there is anything"
    validated.show(validators[0].driver)
    compared.show(site.rendezvous.desk)
    site.repair()
    site.settle()

    def value(name: str, **labels: str) -> float:
        found = registry.get_sample_value(f"topolog_{name}", {**OF_CLUSTER, **labels})
        assert found is not None, name
        return found

    assert value("validator_replicas") == 1
    assert value("validator_busy") == 0
    assert value("validator_tasks_total", outcome="done") == value("validator_task_seconds_count") > 3
    assert value("validator_rows_total") > 50
    assert value("rendezvous_ready") == 1
    assert value("rendezvous_pages_total") > 2
    assert value("rendezvous_reports_total", outcome="different") == 1
    assert value("rendezvous_reports_total", outcome="equal") == 1, "looked at again when it was repaired"
    assert 1 <= value("rendezvous_differing_leaves_total") <= 7
    assert value("rendezvous_unanswered_reports") == 0
    assert value("rendezvous_held_bytes") >= 0
