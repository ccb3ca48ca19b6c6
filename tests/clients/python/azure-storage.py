"""azure-storage, the classic SDK for Python, in its last version with tables.

It loses the path of an endpoint with the second page of a query, so it is used as in the cloud, with the account in the host
name. It does not double quotes in keys of URLs either.
"""

import azure.storage.models as common
import azure.storage.table as sdk
from azure.storage.table import TableService

from classic import run
from support import host_style

run(sdk, TableService, common, endpoint=f"EndpointSuffix={host_style()}", odd_key="% ü")
