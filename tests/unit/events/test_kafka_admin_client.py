"""A client that is destroyed by its own thread aborts its process: seen in a process of its own, without a broker."""

import subprocess
import sys

LOST_WHILE_IT_ASKS = """
import gc, threading
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec
from topolog.events import kafka_admin_client
from topolog.events.kafka import client
from topolog.events.kafka_admin_client import AdminClient

class Frame: pass
collected = threading.Event()

def answered(_):
    gc.collect()
    collected.set()

def lose():
    frame = Frame()
    frame.itself, frame.admin = frame, client(AdminClient, {"bootstrap.servers": "127.0.0.1:1"})
    asked = frame.admin.list_offsets({TopicPartition("t", 0): OffsetSpec.latest()}, request_timeout=0.1)
    for answer in asked.values():
        answer.add_done_callback(answered)

gc.disable()
lose()
assert collected.wait(10), "no answer"
print("kept", len(kafka_admin_client._unreachable))
client(AdminClient, {"bootstrap.servers": "127.0.0.1:1"})
print("kept", len(kafka_admin_client._unreachable))
"""


def test_a_client_that_its_own_thread_finds_unreachable_lives_until_another_thread_destroys_it() -> None:
    """Bad input: no broker answers, and whoever asked is garbage when librdkafka says so, on that client's thread."""
    command = [sys.executable, "-c", LOST_WHILE_IT_ASKS]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "kept 1\nkept 0\n"), done.stderr
