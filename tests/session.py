"""A session of Azure's SDK: creates a table, writes entities and queries them.

session.py CONNECTION_STRING          prints the numbers that a filter finds
session.py CONNECTION_STRING again    only queries
"""

import sys

from azure.data.tables import TableServiceClient

service = TableServiceClient.from_connection_string(sys.argv[1])
table = service.get_table_client("BySdk")
if sys.argv[2:] != ["again"]:
    table = service.create_table("BySdk")
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "Text": "ä", "Number": 1})
    table.submit_transaction([("upsert", {"PartitionKey": "p", "RowKey": str(n), "Number": n}) for n in range(10)])
print(sorted(entity["Number"] for entity in table.query_entities("PartitionKey eq 'p' and Number gt 6")))
