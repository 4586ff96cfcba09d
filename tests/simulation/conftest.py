"""Simulated coordinators warn of every fault they meet; a hundred seeds would drown what pytest has to say."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
