"""The commands that help in trouble: `topolog doctor`, `topolog bundle`, `topolog open`."""

import contextlib
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from topolog.commands.command_line import Config, Set, load_settings, say
from topolog.commands.open_files import open_files_max, raise_open_files_max
from topolog.events.errors import BadInput, TopologError
from topolog.projections.cli import bundle as bundles
from topolog.projections.cli import doctor as doctors
from topolog.projections.cli.clusters_meant import Meant
from topolog.projections.cli.connecting import connect, standing_of
from topolog.projections.cli.context_commands import standing_rows
from topolog.projections.cli.contexts import without_credentials
from topolog.projections.cli.exit_codes import ExitCode
from topolog.projections.cli.options import Shape, Target
from topolog.projections.cli.terminal import Screen
from topolog.settings.model import Loaded, cluster_folder
from topolog.settings.secret_files import SECRET


def doctor(config: Config = None, pairs: Set = None, *, target: Target, shape: Shape) -> None:
    """Look for what is wrong with API, broker, topics, access, clocks and settings, and say how to mend it. Exit code
    8 if there is something."""
    found, _, broken = _settings(config, pairs)
    screen = Screen(no_color=shape.no_color)
    doctors.show(screen, shape, doctors.examine(replace(target, no_session=True), found, broken))


def bundle(
    file: Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help="The zip to write.")] = None,
    log_mib: Annotated[
        int, typer.Option("--log-mib", min=0, metavar="N", help="Leave out a log of more MiB; 0 leaves out any.")
    ] = 256,
    logs: Annotated[
        list[Path] | None,
        typer.Option("--logs", metavar="FOLDER", help="What processes have said lies there, too."),
    ] = None,
    config: Config = None,
    pairs: Set = None,
    *,
    target: Target,
) -> None:
    """Write all that helps others to understand what happened into one zip without secrets; `topolog open` shows it.
    Exit code 9 if it has to do without the log."""
    known = target
    target = replace(target, no_session=True)
    around, settings, broken = _settings(config, pairs)
    standing = standing_of(target)
    made = bundles.Bundle(_secrets(settings, standing.token_path))
    path = file or Path(f"topolog-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.zip")
    if path.exists():
        raise BadInput(f"{path} is there already.", hint="--file names another one.")
    made.add_json("doctor.json", msgspec.to_builtins(doctors.examine(target, around, broken)))
    rows = [] if settings is None else settings.shown()
    made.add_json("settings.json", {"settings": msgspec.to_builtins(rows), "command_line": standing_rows(standing)})
    meant = doctors.meant(known, around) if around else Meant(standing.cluster.value, standing.cluster.origin)
    try:
        with connect(target) as api:
            bundles.gather_api(made, api)
            meant = Meant(api.cluster, "the API")
    except TopologError as error:
        made.missing["resources"] = error.message
    found = [meant.named] if meant.named else []
    if around is None:
        made.missing["log"] = f"settings are broken: {broken}"
    else:
        made.attempt("log", lambda: found.extend(_gather_logs(made, around, meant, log_mib << 20)))
    clusters = list(dict.fromkeys(found)) or list(meant.heard) or [meant.default]
    bundles.gather_processes(made, [*(cluster_folder(each) / "logs" for each in clusters if each), *(logs or ())])
    made.write(path, bundles.about(clusters, without_credentials(standing.api.value)))
    say(f"{path} has {len(made.entries)} entries. `topolog open {path}` shows what it holds.")
    for name, why in made.missing.items():
        say(f"Left out: {name}: {why}")
    if log_mib and not any(bundles.log_entry(each) in made.entries for each in clusters):
        raise typer.Exit(ExitCode.PARTIAL)


def open_bundle(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `topolog bundle` has written.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to answer on this machine; 0 is any.")] = 0,
) -> None:
    """Answer the query API and the page from a bundle, without its cluster, on this machine alone, until Ctrl-C."""
    manifest, logs = bundles.read_bundle(file)
    if not logs:
        missing = manifest.get("missing") or {}
        said = [str(why).rstrip(".") for name, why in missing.items() if name.startswith("log")]
        why = "; ".join(said) or "the broker was not asked"
        raise BadInput(f"{file} has no log to replay: {why}.", hint="Its other files are JSON: unzip it.")
    from topolog.projections.api.connections import Bounds
    from topolog.projections.api.server import Front, Source, serve
    from topolog.projections.recorded_log import RecordedReader, RefusingWriter, decode

    raise_open_files_max()
    entries = {cluster: decode(log) for cluster, log in logs.items()}

    def on_ready(url: str) -> None:
        noun = "Cluster" if len(entries) == 1 else "Clusters"
        say(f"{noun} {', '.join(entries)} as it was at {manifest.get('made_at')}: {url}  (Ctrl-C ends this)")
        for cluster in entries:
            say(f"topolog get nodes --api {url} --cluster {cluster} --no-session")

    with tempfile.TemporaryDirectory(prefix="topolog-open-") as folder, contextlib.suppress(KeyboardInterrupt):
        sources = [
            Source(cluster, RecordedReader(held), RefusingWriter(), Path(folder) / cluster)
            for cluster, held in entries.items()
        ]
        front = Front(bounds=Bounds().within(open_files_max()))
        serve(sources, "127.0.0.1", port, address=f"the file {file}", front=front, on_ready=on_ready)


def _settings(config: Path | None, pairs: list[str] | None) -> tuple[doctors.Surroundings | None, Loaded | None, str]:
    """What settings say, or why they say nothing."""
    try:
        found = load_settings(config, pairs)
    except BadInput as error:
        return None, None, error.message
    is_named = "cluster.name" in found.origins
    return doctors.Surroundings(found.settings.kafka, found.settings.cluster.name, is_named), found, ""


def _secrets(settings: Loaded | None, token: Path | None) -> list[str]:
    """What must not leave this machine: secrets of [kafka], and the tokens and passwords in files."""
    kafka = {} if settings is None else settings.settings.kafka
    return bundles.known_secrets(
        {key: value for key, value in kafka.items() if SECRET.search(key)}, [token] if token else []
    )


def _gather_logs(made: bundles.Bundle, around: doctors.Surroundings, meant: Meant, bytes_max: int) -> Sequence[str]:
    """The log of each cluster that is meant, none if it may have no bytes; which these are."""
    from topolog.events.kafka import KafkaReader
    from topolog.events.kafka_admin import KafkaAdmin
    from topolog.events.topics import Topic, topic_name

    admin = KafkaAdmin(around.kafka)
    there = admin.topics()
    clusters, _ = meant.among(there)
    for cluster in clusters if bytes_max else ():
        name = topic_name(cluster, Topic.DECISIONS)
        if name not in there:
            made.missing[bundles.log_entry(cluster)] = admin.not_found(cluster, name, there).message
            continue
        with contextlib.closing(KafkaReader(around.kafka, cluster)) as reader:
            made.attempt(bundles.log_entry(cluster), partial(bundles.gather_log, made, cluster, reader, bytes_max))
    return clusters
