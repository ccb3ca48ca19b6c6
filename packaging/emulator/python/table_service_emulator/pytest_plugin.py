"""The pytest fixture `table_service`: an emulator for tests, without any tables when a test begins.

With pytest-xdist each worker has an emulator of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import Emulator, start


class TableService(str):
    """The connection string of the emulator, and what a test may do with it."""

    _emulator: Emulator

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # A copy, in another process perhaps, is the string alone.
        return str, (self.connection_string,)

    @property
    def connection_string(self) -> str:
        """The connection string as an ordinary string."""
        return str.__str__(self)

    def reset(self) -> None:
        """Deletes all tables."""
        self._emulator.reset()

    def faults(self, throttle: str | None = None, inject: str | None = None, seed: int = 0) -> None:
        """Injects these faults, and no others, until the test ends."""
        self._emulator.faults(throttle, inject, seed)


@pytest.fixture(scope="session")
def _table_service_emulator() -> Iterator[Emulator]:
    with start() as emulator:
        yield emulator


@pytest.fixture
def table_service(_table_service_emulator: Emulator) -> Iterator[TableService]:
    """The connection string of an emulator of the Azure Table service that has no tables."""
    _table_service_emulator.reset()
    service = TableService(_table_service_emulator.connection_string)
    service._emulator = _table_service_emulator
    yield service
    _table_service_emulator.faults()
