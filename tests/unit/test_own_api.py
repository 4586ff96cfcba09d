"""What the command line reads of the settings to find its API, held against the model of all settings."""

import os
from pathlib import Path

import pytest

from topolog.events.errors import BadInput
from topolog.settings.model import load
from topolog.settings.own_api import OwnApi, load_own_api

HOME = str(Path("~/t").expanduser())
TLS = '[api]\ntls_cert = "/c"\ntls_key = "/k"\n'


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def by_the_model(environ: dict[str, str]) -> OwnApi:
    loaded = load(environ=environ)
    api, cluster = loaded.settings.api, loaded.settings.cluster
    return OwnApi(api.url, cluster.name if "cluster.name" in loaded.origins else None, api.token_file, api.ca_file)


def of(environ: dict[str, str], toml: str) -> OwnApi:
    Path("topolog.toml").write_text(toml, encoding="utf-8")
    own = load_own_api(environ)
    assert own == by_the_model(environ)
    return own


@pytest.mark.parametrize(
    ("environ", "toml", "url"),
    [
        ({}, "", "http://127.0.0.1:8642"),
        ({}, '[api]\nhost = "a"\nport = 9', "http://a:9"),
        ({}, "[api]\nport = 65535", "http://127.0.0.1:65535"),
        ({}, '[api]\nport = "9"', "http://127.0.0.1:9"),
        ({"TOPOLOG_API__PORT": "10"}, '[api]\nhost = "a"\nport = 9', "http://a:10"),
        ({"TOPOLOG_API__HOST": "b"}, '[api]\nhost = "a"', "http://b:8642"),
        ({"TOPOLOG_API__HOST": ""}, '[api]\nhost = "a"', "http://127.0.0.1:8642"),
        ({}, TLS, "https://127.0.0.1:8642"),
        ({"TOPOLOG_API__TLS_CERT": "/c", "TOPOLOG_API__TLS_KEY": "/k"}, "", "https://127.0.0.1:8642"),
        ({"TOPOLOG_API__TLS_CERT": "", "TOPOLOG_API__TLS_KEY": ""}, TLS, "http://127.0.0.1:8642"),
        ({"TOPOLOG_API__TLS_CERT": ""}, "", "http://127.0.0.1:8642"),
        ({}, '[api]\nurl = "https://x/y//"\nport = 9', "https://x/y"),
        ({"TOPOLOG_API__URL": "http://z"}, '[api]\nurl = "https://x"', "http://z"),
        ({"TOPOLOG_API__URL": ""}, '[api]\nurl = "https://x"\nport = 9', "http://127.0.0.1:9"),
    ],
)
def test_the_address_is_that_of_the_model(environ: dict[str, str], toml: str, url: str) -> None:
    """Environment before file before default; a certificate makes it https."""
    assert of(environ, toml).url == url


@pytest.mark.parametrize(
    ("environ", "toml", "cluster"),
    [
        ({}, "", None),
        ({}, '[cluster]\nname = "a"', "a"),
        ({"TOPOLOG_CLUSTER__NAME": "b"}, '[cluster]\nname = "a"', "b"),
    ],
)
def test_the_cluster_is_none_unless_somebody_names_it(environ: dict[str, str], toml: str, cluster: str | None) -> None:
    assert of(environ, toml).cluster == cluster


@pytest.mark.parametrize("key", ["token_file", "ca_file"])
@pytest.mark.parametrize(
    ("environ", "file", "path"),
    [
        (None, None, None),
        (None, "/f", "/f"),
        ("/e", "/f", "/e"),
        ("~/t", None, HOME),
        ("", "/f", None),
        ("", None, None),
    ],
)
def test_a_file_is_absolute_and_none_if_it_is_empty(
    key: str, environ: str | None, file: str | None, path: str | None
) -> None:
    variables = {} if environ is None else {f"TOPOLOG_API__{key.upper()}": environ}
    found = getattr(of(variables, "" if file is None else f'[api]\n{key} = "{file}"'), key)
    assert found == (None if path is None else Path(path))


def test_a_file_that_is_named_from_here_is_found_from_elsewhere(tmp_path: Path) -> None:
    assert of({"TOPOLOG_API__TOKEN_FILE": "t"}, "").token_file == tmp_path / "t"


def test_a_file_may_have_any_name_that_the_system_has() -> None:
    """A path is bytes; what is not UTF-8 is kept as it is."""
    assert of({"TOPOLOG_API__TOKEN_FILE": os.fsdecode(b"/\xff")}, "").token_file == Path(os.fsdecode(b"/\xff"))


@pytest.mark.parametrize(
    ("environ", "toml", "place"),
    [
        ({"TOPOLOG_API__PROT": "9"}, "", "TOPOLOG_API__PROT is not"),
        ({}, "[api]\nprot = 9", r"api\.prot .*topolog\.toml"),
        ({}, "[zebra]\nx = 9", r"zebra\.x .*topolog\.toml"),
        ({"TOPOLOG_CONFIG": "none.toml"}, "", r"none\.toml does not exist"),
        ({}, "[api", r"topolog\.toml is not TOML"),
        ({}, f"x = {'[' * 5000}", r"topolog\.toml is not TOML"),
        ({"TOPOLOG_CLUSTER__NAME": "A_B!"}, "", r"cluster\.name \(environment TOPOLOG_CLUSTER__NAME\)"),
        ({"TOPOLOG_CLUSTER__NAME": ""}, "", r"cluster\.name \(environment"),
        ({"TOPOLOG_CLUSTER__NAME": os.fsdecode(b"\xff")}, "", r"cluster\.name \(environment"),
        ({}, "[cluster]\nname = 5", r"cluster\.name \(topolog\.toml"),
        *(({"TOPOLOG_API__PORT": text}, "", r"api\.port \(env") for text in ("", "0", "65536", "x", "-1", "9" * 9999)),
        *(({"TOPOLOG_API__PORT": text}, "", r"api\.port \(env") for text in ("²", "٣", " 9", "+9", "9.0", "1_0")),
        *(({}, f"[api]\nport = {text}", r"api\.port \(topolog") for text in ("true", "9.0", "[9]", "0", "65536")),
        *(({}, f"[api]\n{key} = 5", rf"api\.{key} \(topolog") for key in ("host", "url", "token_file", "ca_file")),
        *(
            ({f"TOPOLOG_API__{key.upper()}": os.fsdecode(b"\xff")}, "", rf"api\.{key} \(environment")
            for key in ("host", "url")
        ),
        *(
            ({f"TOPOLOG_API__{key.upper()}": "~nobody-of-this-name/x"}, "", rf"api\.{key} \(environment.*home folder")
            for key in ("token_file", "ca_file")
        ),
    ],
)
def test_what_the_model_refuses_is_refused(environ: dict[str, str], toml: str, place: str) -> None:
    """By both, with the place: a command must not ask an API that no server of these settings would be."""
    Path("topolog.toml").write_text(toml, encoding="utf-8")
    for reader in (load_own_api, by_the_model):
        with pytest.raises(BadInput, match=place):
            reader(environ)


def test_a_settings_file_that_links_to_nothing_is_refused() -> None:
    """Somebody has meant a file: without it the defaults would hold in silence."""
    Path("topolog.toml").symlink_to("gone.toml")
    for reader in (load_own_api, by_the_model):
        with pytest.raises(BadInput, match="link to nothing"):
            reader({})
