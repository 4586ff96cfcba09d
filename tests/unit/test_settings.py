"""Where settings come from, what refuses them, and what is shown of them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events.errors import BadInput
from topolog.projections.durations import duration_ms as moments_ms
from topolog.settings.model import Loaded, load
from topolog.settings.own_api import load_own_api
from topolog.settings.types import duration_ms, duration_text
from topolog.streams.local.roles import environment_of
from topolog.streams.rules.exchange import Patience

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes topolog.toml into the working folder."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        path = tmp_path / "topolog.toml"
        path.write_text(text)
        return path

    return write


def origin(loaded: Loaded, key: str) -> str:
    return next(row.origin for row in loaded.shown() if row.key == key)


def test_the_defaults_hold_where_nobody_says_otherwise(write: Write) -> None:
    """They fit each other, and the clients find the broker that topolog starts."""
    settings = load(environ={}).settings
    assert (settings.lease.fence_ms, settings.lease.margin_ms, settings.lease.heartbeat_ms) == (20_000, 5_000, 1_000)
    assert settings.lease.proceed_ms == 25_000
    exchange = settings.exchange
    assert (exchange.gather_ms, exchange.warn_ms, exchange.evict_ms) == (100, 5_000, 60_000)
    known = Patience(gather_ms=exchange.gather_ms, warn_ms=exchange.warn_ms, evict_ms=exchange.evict_ms)
    assert known == Patience(), "of who has no settings, too"
    assert settings.coordinator.takeover_ms is None, "the fence in the log decides"
    assert environment_of(settings, {})["TOPOLOG_EXCHANGE__EVICT"] == "1m", "the roles of `up` get them all"
    assert "TOPOLOG_COORDINATOR__TAKEOVER" not in environment_of(settings, {}), "for the roles of `up` too"
    assert settings.kafka == {"bootstrap.servers": "127.0.0.1:19092"}
    assert settings.api.url == "http://127.0.0.1:8642"


def test_flag_goes_before_environment_before_file_before_default(write: Write) -> None:
    """Each place wins over the next, and the origin says which one did."""
    write('[lease]\nfence = "11s"\nmargin = "4s"\nheartbeat = "2s"\n')
    environ = {"TOPOLOG_LEASE__FENCE": "12s", "TOPOLOG_LEASE__MARGIN": "6s"}
    loaded = load({"lease.fence": "13s", "api.port": None}, environ=environ)
    lease = loaded.settings.lease
    assert (lease.fence_ms, lease.margin_ms, lease.heartbeat_ms) == (13_000, 6_000, 2_000)
    assert origin(loaded, "lease.fence") == "flag"
    assert origin(loaded, "lease.margin") == "environment TOPOLOG_LEASE__MARGIN"
    assert origin(loaded, "lease.heartbeat") == "topolog.toml"
    assert origin(loaded, "api.port") == "default"


def test_what_follows_from_another_setting_follows_it(write: Write) -> None:
    """Another port is found by the clients. A value given stays."""
    given = {"lease.fence": "10s", "broker.port": 20001, "api.port": 9000, "api.host": "localhost"}
    settings = load(given, environ={}).settings
    assert settings.kafka["bootstrap.servers"] == "127.0.0.1:20001"
    assert settings.api.url == "http://localhost:9000"
    explicit = load({**given, "coordinator.takeover": "3s", "kafka.bootstrap.servers": "k:9092"}, environ={}).settings
    assert explicit.coordinator.takeover_ms == 3_000
    assert explicit.kafka["bootstrap.servers"] == "k:9092"


def test_librdkafka_keys_pass_through_in_every_way_of_writing(write: Write) -> None:
    """Dotted, quoted or from the environment; numbers and booleans as librdkafka spells them."""
    write('[kafka]\nsecurity.protocol = "SASL_SSL"\n"sasl.mechanism" = "PLAIN"\nlog.queue = true\nlinger.ms = 5\n')
    settings = load(environ={"TOPOLOG_KAFKA__SASL_USERNAME": "ada"}).settings
    assert settings.kafka == {
        "bootstrap.servers": "127.0.0.1:19092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ada",
        "log.queue": "true",
        "linger.ms": "5",
    }


@pytest.mark.parametrize("key", ["sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret"])
def test_a_secret_is_never_shown(write: Write, key: str) -> None:
    """Neither in the list, nor in what Python prints of the object, nor in an error about it."""
    loaded = load({f"kafka.{key}": "hunter2"}, environ={})
    assert loaded.settings.kafka[key] == "hunter2"
    assert next(row.value for row in loaded.shown() if row.key == f"kafka.{key}") == "******"
    assert "hunter2" not in repr(loaded.settings)
    with pytest.raises(BadInput) as caught:
        load({f"kafka.{key}": ["hunter2"]}, environ={})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "environ", "toml", "complaint"),
    [
        ({"lease.fense": "9s"}, {}, "", r"lease\.fense is not a setting \(flag\)\. Did you mean lease\.fence\?"),
        ({}, {}, "[lease]\nfense = '9s'", r"lease\.fense .*\(topolog\.toml\)\. Did you mean lease\.fence\?"),
        ({}, {"TOPOLOG_LEASE__FENSE": "9s"}, "", r"^TOPOLOG_LEASE__FENSE .* Did you mean TOPOLOG_LEASE__FENCE\?"),
        ({}, {}, "[leese]\nfence = '9s'", r"leese\.fence .*Did you mean lease\.fence\?"),
        ({}, {}, "zebra = 1", r"zebra is not a setting .*config show"),
        ({}, {"TOPOLOG_KAFKA": "x"}, "", "TOPOLOG_KAFKA is not a setting"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_name(
    write: Write, flags: dict[str, object], environ: dict[str, str], toml: str, complaint: str
) -> None:
    """A misspelt safety margin must not pass for the default."""
    write(toml)
    with pytest.raises(BadInput, match=complaint):
        load(flags, environ=environ)


@pytest.mark.parametrize(("text", "ms"), [("1d", 86_400_000), ("1.5h", 5_400_000), ("24 h", 86_400_000)])
def test_a_setting_takes_the_durations_that_every_command_takes(write: Write, text: str, ms: int) -> None:
    """One grammar: what `--as-of 1d` means, `former_kept = "1d"` means too."""
    write(f"[projector]\nformer_kept = '{text}'")
    assert load(environ={}).settings.projector.former_kept_ms == ms == moments_ms(text)


def test_variables_that_are_no_settings_are_left_alone(write: Write) -> None:
    """The failpoint has other readers, and the world has other variables."""
    load(environ={"TOPOLOG_FAILPOINT": "before-append", "PATH": "/bin"})


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"lease.fence": "20"}, r"lease\.fence \(flag\): a duration needs a number and a unit"),
        ({"lease.fence": 20}, "a duration needs a number and a unit"),
        ({"lease.fence": "0s"}, r"lease\.fence \(flag\): Input should be greater than 0"),
        ({"api.port": 70_000}, r"api\.port \(flag\): Input should be less than or equal to 65535"),
        ({"broker.port": 65_535}, r"broker\.port \(flag\)"),
        (
            {"cluster.name": "Main cluster"},
            r"^cluster\.name \(flag\): a name has 1 to 63 characters of [^;]*$",
        ),
        ({"cluster.name": "ä"}, r"^cluster\.name \(flag\): [^;]*$"),
        (
            {"lease.fence": "4s"},
            r"lease\.fence must be at least 5 × lease\.heartbeat.* lease\.heartbeat is 1s \(default",
        ),
        ({"lease.margin": "999ms"}, r"lease\.margin must be at least 5 % of lease\.fence"),
        ({"coordinator.takeover": "5s"}, r"coordinator\.takeover must be more than a quarter of lease\.fence"),
        ({"coordinator.takeover": "20s"}, r"coordinator\.takeover must be less than lease\.fence"),
        ({"exchange.warn": "0s"}, r"exchange\.warn \(flag\): Input should be greater than 0"),
        ({"exchange.evict": "60"}, r"exchange\.evict \(flag\): a duration needs a number and a unit"),
        (
            {"exchange.evict": "4s"},
            r"exchange\.warn must be less than exchange\.evict.* exchange\.warn is 5s \(default\)",
        ),
        ({"exchange.warn": "1m"}, r"exchange\.warn must be less than exchange\.evict"),
        ({"api.port": 19_093}, r"api\.port must be neither broker\.port nor the port after it"),
        ({"spark.master": "lokal"}, r"spark\.master \(flag\): it is local, local\[4\] or spark://HOST:PORT; .*submit"),
        ({"spark.memory": "4"}, r"spark\.memory \(flag\): memory is a number and a unit"),
        ({"spark.cores": "0"}, r"spark\.cores \(flag\): Input should be greater than or equal to 1"),
        (
            {"spark.cores": "3", "spark.master": "local[4]"},
            r"spark\.cores means nothing beside spark\.master.* spark\.master is local\[4\] \(flag\)",
        ),
        (
            {"spark.master": "spark://far.example:7077"},
            r"spark\.driver_host must be an address that executors of spark\.master reach.* 127\.0\.0\.1 \(default\)",
        ),
    ],
)
def test_a_value_out_of_its_range_or_relation_names_its_key(
    write: Write, flags: dict[str, object], complaint: str
) -> None:
    """Ranges and relations are checked once, here; nobody checks them again."""
    with pytest.raises(BadInput, match=complaint):
        load(flags, environ={})


@pytest.mark.parametrize(
    "flags",
    [
        {"spark.master": "local[*]", "spark.memory": "512M"},
        {"spark.master": "spark://127.0.0.1:7077", "spark.cores": "2"},
        {"spark.master": "spark://a:7077,b:7077", "spark.driver_host": "10.0.0.7"},
    ],
)
def test_spark_takes_a_master_that_its_executors_can_answer(write: Write, flags: dict[str, object]) -> None:
    """Of a machine or of a cluster; the copies of a validator lie with its cluster's other files."""
    settings = load({**flags, "cluster.name": "shop"}, environ={}).settings
    assert settings.spark.master == flags["spark.master"]
    assert settings.spark.data.parts[-2:] == ("shop", "validators")


def test_the_limits_themselves_are_allowed(write: Write) -> None:
    """Five heartbeats, five percent: the relations hold at equality."""
    load({"lease.fence": "5s", "lease.heartbeat": "1s", "lease.margin": "250ms"}, environ={})


def test_another_file_can_be_named(write: Write, tmp_path: Path) -> None:
    """By argument or variable, the argument first; a named file must be there, a default one need not."""
    other = tmp_path / "other.toml"
    other.write_text('[cluster]\nname = "other"\n')
    assert load(environ={"TOPOLOG_CONFIG": str(other)}).settings.cluster.name == "other"
    assert load(config=other, environ={"TOPOLOG_CONFIG": "/nowhere"}).settings.cluster.name == "other"
    with pytest.raises(BadInput, match="/nowhere does not exist"):
        load(environ={"TOPOLOG_CONFIG": "/nowhere"})


def test_a_file_that_is_not_toml_is_named_with_the_line(write: Write, tmp_path: Path) -> None:
    """So is one that cannot be read at all."""
    write("[lease]\nfence == 3\n")
    with pytest.raises(BadInput, match=r"topolog\.toml is not TOML: .*line 2"):
        load(environ={})
    with pytest.raises(BadInput, match="cannot be read: Is a directory"):
        load(config=tmp_path, environ={})


def test_java_home_counts_unless_a_setting_names_a_java(write: Write) -> None:
    """What the machine says in general gives way to what was said to topolog."""
    loaded = load(environ={"JAVA_HOME": "/opt/java"})
    assert loaded.settings.broker.java == Path("/opt/java")
    assert origin(loaded, "broker.java") == "environment JAVA_HOME"
    write('[broker]\njava = "/opt/other"\n')
    assert load(environ={"JAVA_HOME": "/opt/java"}).settings.broker.java == Path("/opt/other")
    assert load(environ={"JAVA_HOME": ""}).settings.broker.java == Path("/opt/other")


def test_settings_cannot_be_changed(write: Write) -> None:
    """One object for the whole run, the same for everyone who holds it."""
    settings = load(environ={}).settings
    with pytest.raises(ValueError, match="frozen"):
        settings.lease.fence_ms = 1  # type: ignore[misc]


@given(st.integers(min_value=1, max_value=10**9))
def test_a_duration_reads_back_as_it_was_written(ms: int) -> None:
    """What `config show` prints can be pasted into the file."""
    assert duration_ms(duration_text(ms)) == ms


@pytest.mark.parametrize("name", ["sasl.password_file", "sasl.password.file"])
def test_a_secret_may_stand_in_a_file_of_its_own(write: Write, tmp_path: Path, name: str) -> None:
    """Ask 22. The setting is the secret's, the origin tells of the file, and nothing shows what is in it."""
    secret = tmp_path / "password"
    secret.touch(0o600)
    secret.write_text("hunter2\n")
    loaded = load({f"kafka.{name}": str(secret)}, environ={})
    assert loaded.settings.kafka["sasl.password"] == "hunter2"
    assert origin(loaded, "kafka.sasl.password") == f"flag, file {secret}"
    assert load(environ={"TOPOLOG_KAFKA__SASL_PASSWORD_FILE": str(secret)}).settings == loaded.settings
    assert "hunter2" not in f"{loaded} {loaded.shown()} {loaded.settings}"
    with pytest.raises(BadInput, match=r"kafka\.sasl\.password is set, and so is"):
        load({f"kafka.{name}": str(secret), "kafka.sasl.password": "x"}, environ={})


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o602, 0o660])
def test_a_secret_that_others_may_read_is_none(write: Write, tmp_path: Path, mode: int) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2")
    secret.chmod(mode)
    with pytest.raises(BadInput, match=f"mode {mode:o}") as caught:
        load({"kafka.sasl.password_file": str(secret)}, environ={})
    assert "hunter2" not in str(caught.value)
    assert caught.value.hint == f"chmod 600 {secret}"


def test_a_secret_of_another_user_may_be_read_by_our_group(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a container gets one mounted."""
    secret = tmp_path / "password"
    secret.write_text("hunter2")
    secret.chmod(0o440)
    monkeypatch.setattr(os, "geteuid", lambda: secret.stat().st_uid + 1)
    assert load({"kafka.sasl.password_file": str(secret)}, environ={}).settings.kafka["sasl.password"] == "hunter2"


OIDC = {"auth.oidc_issuer": "https://id.example", "auth.oidc_audience": "topolog", "auth.oidc_jwks": "keys.json"}


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"api.tls_cert": "c.pem"}, "api.tls_cert and api.tls_key belong together"),
        ({"api.tls_key": "k.pem"}, "api.tls_cert and api.tls_key belong together"),
        ({**OIDC, "auth.oidc_audience": ""}, "auth.oidc_issuer needs auth.oidc_audience and auth.oidc_jwks"),
        ({"auth.oidc_jwks": "keys.json"}, "mean nothing without auth.oidc_issuer"),
        (OIDC, "auth.roles must say what roles give"),
        ({"auth.proxy_from": "10.0.0.1"}, "auth.roles must say what roles give"),
        ({"auth.roles": "ops = viewer"}, "auth.roles means nothing without"),
        ({**OIDC, "auth.authorization": "false", "auth.roles": "ops = viewer"}, "auth.roles decides nothing"),
        ({"auth.authorization": "false"}, "auth.authorization is off, and nothing of auth.tokens_file"),
        ({"auth.authorization": "false", "auth.anonymous": "viewer"}, "everybody do everything"),
        ({"auth.changes_per_minute": 0}, "auth.changes_per_minute"),
        ({"auth.oidc_leeway": "30"}, "auth.oidc_leeway .*needs a number and a unit"),
        ({"auth.token_file": "x"}, "Did you mean a"),
    ],
)
def test_access_that_contradicts_itself_is_refused_at_the_start(
    write: Write, flags: dict[str, object], complaint: str
) -> None:
    """Part 6: authentication and authorization are switched apart, and an invalid combination is no start."""
    with pytest.raises(BadInput, match=complaint):
        load(flags, environ={})


def test_access_reaches_the_processes_of_up_as_it_was_set(write: Write) -> None:
    """A list of the file is one text, so that the environment can hold it too."""
    write('[auth]\nproxy_from = ["10.0.0.1", "10.1.0.0/16"]\nroles = ["ops = operator@main", "boss = admin"]\n')
    settings = load(environ={}).settings
    assert settings.auth.roles == "ops = operator@main; boss = admin"
    assert load(environ=environment_of(settings, {})).settings.auth == settings.auth


def test_an_api_with_a_certificate_is_found_over_https(write: Write) -> None:
    assert load({"api.tls_cert": "c", "api.tls_key": "k"}, environ={}).settings.api.url == "https://127.0.0.1:8642"


@pytest.mark.parametrize("key", ["kafka.sasl.password_file", "projector.data", "auth.tokens_file"])
def test_a_path_in_the_home_folder_of_nobody_is_refused_with_its_key(write: Write, key: str) -> None:
    with pytest.raises(BadInput, match=rf"^{key} \(flag\).*~nobody-of-this-name/x begins with a home folder"):
        load({key: "~nobody-of-this-name/x"}, environ={})


def test_what_is_no_address_is_refused_by_all_that_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`config show` and a command that only asks have one check."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topolog.toml").write_text('[api]\nurl = "nope"\n')
    for read in (lambda: load({}, environ={}), lambda: load_own_api({})):
        with pytest.raises(BadInput, match=r"api\.url \(.*topolog\.toml\): an API's address begins with http"):
            read()
