"""Defects of the product, seeded one at a time: in which tier of the tests is each caught, and by which test?

    python -m tests.defects [WORD …]

Each defect is a change of a line or two that could happen to somebody who tidies up. It is made in a copy of the
tracked files, and the test that is to catch it runs there; this clone stays as it is. Each test must pass on a copy
without any defect first, for a test that always fails shows nothing. Prints a Markdown table, and ends with 1 if a
defect is not caught.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent
LIMIT_S = 600.0
"""Longer than any of the tests takes on a busy machine; a test that hangs has caught nothing."""

_PASSED, _FAILED = 0, 1
"""Exit codes of pytest: any other one says that the tests did not run."""


class Defect(msgspec.Struct, frozen=True):
    """In `file`, `wrong` in place of `right`, which stands there exactly once, fails the test `caught_by` (an id of
    pytest's)."""

    name: str
    file: str
    right: str
    wrong: str
    caught_by: str

    @property
    def tier(self) -> str:
        """The folder of tests in which it is caught."""
        return Path(self.caught_by).parts[1]


class Unfit(Exception):
    """The defect cannot be seeded, or its test says nothing about it."""


DEFECTS = (
    Defect(
        "A gap no longer closes its term",
        "events/fold.py",
        "            self._open.clear()\n            self.end_term()\n",
        "            self._open.clear()\n",
        "tests/unit/events/test_fold.py::test_k3_the_first_gap_closes_the_term",
    ),
    Defect(
        "A text of a stamp is cut by characters, not by bytes",
        "events/stamp.py",
        "text.encode()[:TEXT_BYTES_MAX]",
        "text[:TEXT_BYTES_MAX].encode()",
        "tests/unit/events/test_stamp.py::test_long_texts_are_cut_so_that_the_largest_record_fits_kafka",
    ),
    Defect(
        "A record is written in the oldest schema that a level allows",
        "events/codec.py",
        "        return allowed[-1]\n",
        "        return allowed[0]\n",
        "tests/unit/events/test_codec.py::test_an_older_reader_that_knows_the_newer_schema_reads_its_bytes",
    ),
    Defect(
        "The anchor of a snapshot is looked for only from its named place on",
        "streams/restoring.py",
        "Offset(max(oldest, taken.anchor.offset - LOOK_BACK))",
        "taken.anchor.offset",
        "tests/unit/streams/test_restoring.py::test_a_repeat_of_the_anchor_behind_the_next_term_proves_nothing",
    ),
    Defect(
        "Metadata is accepted in the order of tables, not of the log",
        "streams/rules/metadata.py",
        "for row in sorted(waiting, key=lambda row: row.position):",
        "for row in waiting:",
        "tests/unit/streams/rules/test_metadata.py::test_what_is_older_does_not_wait_for_what_is_newer_of_either_kind",
    ),
    Defect(
        "A lease runs from the echo, not from the heartbeat",
        "streams/node/lease.py",
        "at_ns + fence_ms * _NS_PER_MS",
        "now_ns + fence_ms * _NS_PER_MS",
        "tests/unit/streams/node/test_lease.py::test_it_runs_from_the_time_before_the_heartbeat_was_sent",
    ),
    Defect(
        "Two processes without a folder prove each other gone",
        "streams/rules/membership.py",
        "held_same_lock = bool(joiner.folder) and joiner.folder == former.folder",
        "held_same_lock = joiner.folder == former.folder",
        "tests/unit/streams/rules/test_membership.py::test_no_lock_on_either_side_proves_nothing",
    ),
    Defect(
        "A new leader renews what was sent to its predecessor",
        "streams/rules/membership.py",
        "    needed = max(waited_through, cluster(state).led_since)\n",
        "    needed = waited_through\n",
        "tests/simulation/test_found.py::"
        "test_a_heartbeat_that_was_copied_with_the_log_is_not_renewed_in_both_histories",
    ),
    Defect(
        "A surplus copy goes before the wanted ones own",
        "events/ownership.py",
        "    return found & _all_wanted_own(columns)\n\n\ndef lost_in",
        "    return found\n\n\ndef lost_in",
        "tests/unit/streams/rules/test_copies.py::test_a_surplus_copy_stays_until_all_that_are_wanted_own",
    ),
    Defect(
        "A hand-over does not wait for a primary that cannot fence itself",
        "streams/rules/hand_over.py",
        "if waited_through >= row.prepared_at and FENCING in node.capabilities:",
        "if waited_through >= row.prepared_at:",
        "tests/unit/streams/rules/test_hand_over.py::test_who_does_not_fence_itself_is_waited_for_until_it_has_drained",
    ),
    Defect(
        "A copy that may be coming back is decided like one that is gone",
        "streams/rules/outcomes.py",
        " | self._has_whole << 2 | self._has_answered << 3",
        " | self._has_whole << 2",
        "tests/unit/streams/rules/test_outcomes.py::"
        "test_a_copy_that_may_be_coming_back_is_told_apart_from_one_that_is_gone",
    ),
    Defect(
        "The end of its pipe makes a sentinel speak",
        "streams/node/sentinel.py",
        "                poll.unregister(_PIPE)  # the end of the pipe proves nothing: wait on\n",
        "                poll.unregister(_PIPE)\n            ready.append(pidfd)\n",
        "tests/unit/streams/node/test_sentinel.py::test_the_end_of_the_pipe_makes_no_sentinel_speak",
    ),
    Defect(
        "The hard timeout of the baseline begins anew with each event",
        "streams/rules/baseline.py",
        'Deadline(f"adjust/hard/{row.first_at}", row.first_at, row.hard_ms)',
        'Deadline(f"adjust/hard/{row.first_at}", row.last_at, row.hard_ms)',
        "tests/unit/streams/rules/test_baseline.py::"
        "test_the_hard_timeout_runs_from_the_first_event_and_the_soft_one_from_the_last",
    ),
    Defect(
        "The number of a dropped column is given again",
        "streams/rules/object_plan.py",
        "    ever = table.columns_ever\n",
        "    ever = max(each.number for each in columns.values())\n",
        "tests/unit/streams/rules/test_schema_traces.py::test_no_number_of_a_column_is_given_twice",
    ),
    Defect(
        "A paused repair session begins new tasks",
        "streams/rules/repair_steps.py",
        "    if ended or stands_still(state, session):\n",
        "    if ended:\n",
        "tests/unit/streams/rules/test_repair_pace.py::"
        "test_a_session_that_is_paused_finishes_its_tasks_and_begins_nothing",
    ),
    Defect(
        "A stand-by whose own connection is gone deposes the leader",
        "streams/coordinator/driver.py",
        "        elif not self._silence.could_be_broken(now_ns):\n"
        "            self._restart_silence(now_ns, is_heard=False)\n",
        "",
        "tests/unit/streams/coordinator/test_driver.py::test_a_stand_by_whose_own_connection_is_gone_calls_nobody_silent",
    ),
    Defect(
        "A leader appends behind a lost connection without a proof (K9)",
        "streams/coordinator/driver.py",
        "lost != self._proven_at and not self._reader.proven()",
        "False",
        "tests/unit/streams/coordinator/test_driver.py::test_a_leader_writes_nothing_into_another_copy_of_the_log",
    ),
    Defect(
        "A read that found nothing is not checked again",
        "streams/node/guards.py",
        "        except NotFound:\n            self._require_still(generation)\n            raise\n",
        "        except NotFound:\n            raise\n",
        "tests/unit/streams/node/test_lease.py::test_nobody_says_late_that_there_is_none",
    ),
    Defect(
        "Another client chooses another partition for a key",
        "events/kafka.py",
        '"partitioner": "murmur2_random"',
        '"partitioner": "consistent_random"',
        "tests/broker/test_writing.py::test_a_key_goes_to_the_partition_that_javas_client_gives_it",
    ),
    Defect(
        "What an aborted transaction wrote is read",
        "events/kafka.py",
        '"isolation.level": "read_committed"',
        '"isolation.level": "read_uncommitted"',
        "tests/broker/test_reading.py::test_what_a_transaction_has_taken_back_is_read_by_nobody",
    ),
    Defect(
        "Once at the end of a topic, a reader says so for ever",
        "events/kafka.py",
        "        self._at_end[partition] = False\n",
        "",
        "tests/broker/test_reading.py::test_a_reader_that_was_at_the_end_is_not_while_it_reads_on",
    ),
    Defect(
        "A client that could not say where a topic ends is asked again",
        "events/kafka_ends.py",
        "            self._admin = None\n            self._open.clear()\n",
        "            self._open.clear()\n",
        "tests/broker/test_broker_outage.py::"
        "test_who_asked_where_a_topic_ends_can_ask_again_after_the_broker_was_restarted",
    ),
    Defect(
        "A store notes its place in a write of its own",
        "projections/store.py",
        "        batch.put(layout.META_KEY, layout.encode(sets[-1].meta))\n"
        "        with translated():\n"
        "            self._db.write(batch)\n",
        "        with translated():\n"
        "            self._db.write(batch)\n"
        "            self._db[layout.META_KEY] = layout.encode(sets[-1].meta)\n",
        "tests/unit/projections/test_store.py::test_killed_before_any_write_the_rows_are_those_of_the_place_it_names",
    ),
    Defect(
        "The folders that a landing makes are not synced",
        "projections/archive/durable.py",
        "for each in path.parents if each.is_relative_to(top)",
        "for each in [path.parent]",
        "tests/unit/projections/archive/test_power_loss.py::test_what_has_landed_is_there_when_the_power_is_back",
    ),
    Defect(
        "A position inside a set shows half of the set",
        "projections/store.py",
        "end = self.surely_decision(Position(position)).set_end",
        "end = Position(position)",
        "tests/unit/projections/test_store.py::test_a_position_inside_a_set_stands_for_the_whole_set",
    ),
    Defect(
        "A grant over some names covers the list of all",
        "projections/api/access/grants.py",
        "        if asked.name is None and self.name != ANY:\n"
        '            return f"it is about {self.name} only, not about all {asked.resource}"\n',
        "",
        "tests/unit/projections/access/test_grants.py::test_a_list_takes_a_grant_that_is_not_narrowed_to_names",
    ),
    Defect(
        "A whole backup is shown once more among the other copies",
        "projections/cli/columns.py",
        '    whole = {item.get("primary"), *(item.get("backups") or ())}',
        '    whole = {item.get("primary")}',
        "tests/unit/projections/cli/test_outputs.py::test_other_copies_are_those_that_neither_act_nor_are_whole",
    ),
    Defect(
        "The settings file goes before the environment",
        "src/topolog/settings/sources.py",
        "        **_from_file(file or Path(FILE_NAME), keys, must_exist=file is not None),\n"
        "        **_from_environment(environ, keys),\n",
        "        **_from_environment(environ, keys),\n"
        "        **_from_file(file or Path(FILE_NAME), keys, must_exist=file is not None),\n",
        "tests/unit/test_settings.py::test_flag_goes_before_environment_before_file_before_default",
    ),
    Defect(
        "Records that have landed land again",
        "projections/spark/lander.py",
        "        new = steps.without(came, taken)\n",
        "        new = came\n",
        "tests/spark/test_lander.py::test_what_is_given_again_lands_once",
    ),
    Defect(
        "A Ctrl-C reaches the children of a supervisor too",
        "streams/local/children.py",
        "                    start_new_session=True,\n",
        "",
        "tests/processes/local/test_up.py::test_ctrl_c_reaches_only_the_supervisor",
    ),
    Defect(
        "Lease health keeps only the heartbeats that it tells of",
        "streams/lease_health/app.py",
        "        self._accounts[key] = windows.encode(told or after)\n"
        "        self._silence.heard(beat.node, asyncio.get_running_loop().time(), is_last=beat.is_release)\n"
        "        if told:\n",
        "        self._silence.heard(beat.node, asyncio.get_running_loop().time(), is_last=beat.is_release)\n"
        "        if told:\n"
        "            self._accounts[key] = windows.encode(told)\n",
        "tests/broker/test_lease_health.py::test_a_late_heartbeat_is_told_with_the_margin_that_it_left",
    ),
)
"""All of them, by what they are about: the log first, then what decides, then what reads."""


def seed(defect: Defect, folder: Path) -> None:
    """Make the change in this copy; raises Unfit unless what is right stands there exactly once."""
    path = folder / defect.file
    text = path.read_text(encoding="utf-8")
    if text.count(defect.right) != 1:
        raise Unfit(f"{defect.name}: {defect.file} has its right text {text.count(defect.right)} times, not once.")
    path.write_text(text.replace(defect.right, defect.wrong), encoding="utf-8")


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the tracked files, as they are in this clone now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    with tempfile.TemporaryDirectory(prefix="topolog-defects-") as name:
        folder = Path(name)
        for each in filter(None, listed.stdout.split("\0")):
            target = folder / each
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / each, target, follow_symlinks=False)
        _check_imported(folder, _environment(folder))
        yield folder


def run(tests: Iterable[str], folder: Path, limit_s: float = LIMIT_S) -> tuple[int, str]:
    """The exit code of pytest over these tests of a copy, and what it says; raises Unfit if it hangs."""
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-o",
        f"processor_limit_s={LIMIT_S}",
        *tests,
    ]
    with subprocess.Popen(
        words,
        cwd=folder,
        env=_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit_s)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as error:
            os.killpg(process.pid, signal.SIGKILL)  # its broker too
            if isinstance(error, KeyboardInterrupt):
                raise
            raise Unfit(f"{' '.join(tests)} is not over after {limit_s:g} s.") from error
    return process.returncode, output


def is_caught(defect: Defect) -> bool:
    """Whether its test fails; raises Unfit if it did not run."""
    with copied() as folder:
        seed(defect, folder)
        code, output = run([defect.caught_by], folder)
    if code not in (_PASSED, _FAILED):
        raise Unfit(f"{defect.name}: pytest ended with {code}.\n{output}")
    return code == _FAILED


def row(defect: Defect) -> str:
    """Its line of the table."""
    return f"| {defect.name} (`{defect.file}`) | {defect.tier} | `{defect.caught_by.removeprefix('tests/')}` |"


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder / "src")}


def _check_imported(folder: Path, environment: Mapping[str, str]) -> None:
    """Raise Unfit if the copy is not what Python would import."""
    words = [sys.executable, "-c", "import topolog; print(topolog.__file__)"]
    found = subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    if not Path(found.stdout.strip()).resolve().is_relative_to(folder.resolve()):
        raise Unfit(f"Python imports {found.stdout.strip()}, which is not the copy in {folder}.")


def _check_sound(defects: Sequence[Defect]) -> None:
    """Raise Unfit if a test fails without its defect."""
    with copied() as folder:
        code, output = run(dict.fromkeys(defect.caught_by for defect in defects), folder)
    if code != _PASSED:
        raise Unfit(f"Without a defect pytest ended with {code}.\n{output}")


def _chosen(words: Sequence[str]) -> list[Defect]:
    """Those whose name, file or test has one of these words, all without any; raises Unfit if there is none."""
    found = [
        defect
        for defect in DEFECTS
        if not words or any(word in " ".join((defect.name, defect.file, defect.caught_by)) for word in words)
    ]
    if not found:
        raise Unfit(f"No defect has {' or '.join(words)}.")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD", help="those alone that have it in name, file or test")
    try:
        defects = _chosen(parser.parse_args().words)
        _check_sound(defects)
        print("| defect | tier | caught by |\n|---|---|---|", flush=True)
        missed = 0
        for defect in defects:
            found = is_caught(defect)
            missed += not found
            print(row(defect) if found else f"| {defect.name} (`{defect.file}`) | **not caught** | |", flush=True)
    except Unfit as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
