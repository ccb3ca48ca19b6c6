"""azure-cosmosdb-table, which followed azure-storage."""

import azure.cosmosdb.table as sdk
import azure.cosmosdb.table.common.models as common
from azure.cosmosdb.table.tableservice import TableService

from classic import run

run(sdk, TableService, common)
