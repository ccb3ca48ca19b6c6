"""The tour, last part: Azure's own SDK, unmodified, on the tables that SQL has filled."""

import os

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient, TableTransactionError, UpdateMode

service = TableServiceClient.from_connection_string(os.environ["TABLES_CONNECTION_STRING"])
print("Tables:", ", ".join(table.name for table in service.list_tables()))

employees = service.get_table_client("Employees")
print("\nquery_entities(\"PartitionKey eq 'Marketing' and Age gt 30\"):")
for entity in employees.query_entities("PartitionKey eq 'Marketing' and Age gt 30"):
    print("  ", entity["RowKey"], entity["FirstName"], entity["LastName"], entity["Age"])

don = employees.get_entity("Marketing", "00001")
don["Age"] += 1
unchanged = {"mode": UpdateMode.REPLACE, "etag": don.metadata["etag"], "match_condition": MatchConditions.IfNotModified}
employees.update_entity(don, **unchanged)
try:
    employees.update_entity(don, **unchanged)
except HttpResponseError as error:
    print("\nThe second update with one ETag:", error.status_code, error.error_code)

operations = [("create", {"PartitionKey": "Sales", "RowKey": key}) for key in ("00011", "00012", "00010")]
try:
    employees.submit_transaction(operations)
except TableTransactionError as error:
    print("A transaction whose operation", error.index, "fails writes nothing:", error.error_code)

pages = employees.query_entities("", results_per_page=2).by_page()
print("By pages of two:", [[entity["RowKey"] for entity in page] for page in pages])
