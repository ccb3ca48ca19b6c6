"""Tests as users of the wheel write them."""

import copy
import importlib.metadata
import os
import pickle
import signal
import subprocess
import sys

import pytest
import table_service_emulator
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient, UpdateMode


def test_the_module_runs_the_command_and_has_its_version():
    version = table_service_emulator.__version__
    assert version == importlib.metadata.version("table-service-emulator")
    said = subprocess.run([sys.executable, "-m", "table_service_emulator", "--version"], capture_output=True, check=True, text=True)
    assert said.stdout == f"table-service-emulator {version}\n"


@pytest.mark.parametrize("number", range(8))
def test_each_begins_without_tables(table_service, number):
    service = TableServiceClient.from_connection_string(table_service)
    assert list(service.list_tables()) == []
    table = service.create_table("Employees")
    table.create_entity({"PartitionKey": "p", "RowKey": str(number), "Number": number})
    assert [entity["Number"] for entity in table.list_entities()] == [number]


def test_it_is_reset_on_demand(table_service):
    service = TableServiceClient.from_connection_string(table_service.connection_string)
    service.create_table("Employees")
    table_service.reset()
    assert list(service.list_tables()) == []


def test_a_copy_is_the_string(table_service):
    string = table_service.connection_string
    assert type(string) is str
    for same in [pickle.loads(pickle.dumps(table_service)), copy.copy(table_service), copy.deepcopy([table_service])[0]]:
        assert type(same) is str and same == string


def test_the_retries_of_the_sdk_survive_a_bad_day(table_service):
    table = TableServiceClient.from_connection_string(table_service).create_table("Employees")
    table_service.faults(inject="503=1%,timeout=1%,reset=1%,latency=0ms..2ms", seed=7)
    for number in range(300):
        # The SDK does not repeat a merge after its connection breaks.
        table.upsert_entity({"PartitionKey": "p", "RowKey": f"{number:03}"}, mode=UpdateMode.REPLACE)
    table_service.faults()
    assert len(list(table.list_entities())) == 300


def test_the_same_seed_fails_the_same(table_service):
    service = TableServiceClient.from_connection_string(table_service, retry_total=0)
    table = service.create_table("Employees")

    def outcomes():
        table_service.faults(inject="503=20%,timeout=20%", seed=3)
        result = []
        for number in range(50):
            try:
                table.upsert_entity({"PartitionKey": "p", "RowKey": str(number)})
                result.append("ok")
            except HttpResponseError as error:
                result.append(str(error.error_code))
        return result

    first = outcomes()
    assert len(set(first)) == 3
    assert outcomes() == first


@pytest.mark.skipif("FAIL" not in os.environ, reason="only when a failure is wanted")
def test_that_fails(table_service):
    TableServiceClient.from_connection_string(table_service).create_table("Left")
    if os.environ["FAIL"] == "abort":
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ["FAIL"] == "interrupt":
        # As Ctrl-C in a terminal does, to all processes.
        os.killpg(0, signal.SIGINT)
    raise AssertionError("as wanted")
