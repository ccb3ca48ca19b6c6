"""What the tests share: where the service is, and clients of either flavour of the SDK, synchronous and asynchronous.

Every test is written once, with `await`. A synchronous client's methods are wrapped so that they can be awaited too.
"""

import inspect
import json
import os
import sys
import unittest
import uuid
from contextlib import contextmanager

import azure.data.tables
import azure.data.tables.aio
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError

ENDPOINT = os.environ["SDK_ENDPOINT"]  # such as http://127.0.0.1:10002/devstoreaccount1
ACCOUNT = os.environ["SDK_ACCOUNT"]
KEY = os.environ["SDK_KEY"]
OTHER_KEY = os.environ["SDK_OTHER_KEY"]  # an account has two
HOST = ENDPOINT.split("/")[2]
CONNECTION_STRING = (
    f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={ENDPOINT};"
)
CREDENTIAL = AzureNamedKeyCredential(ACCOUNT, KEY)

# A failure is to be seen, not repeated.
OPTIONS = {"retry_total": 0}


class Flavour:
    """One of the SDK's two sets of clients. `calls` has the (class, method) pairs that were used of it."""

    def __init__(self, name, module):
        self.name = name
        self.is_async = module is azure.data.tables.aio
        self.service_class = module.TableServiceClient
        self.table_class = module.TableClient
        self.calls = set()

    def client(self, inner):
        return Client(inner, self)

    def service(self, credential=CREDENTIAL, endpoint=ENDPOINT, **options):
        return self.client(self.service_class(endpoint, credential=credential, **{**OPTIONS, **options}))

    def table(self, name, credential=CREDENTIAL, endpoint=ENDPOINT, **options):
        return self.client(self.table_class(endpoint, name, credential=credential, **{**OPTIONS, **options}))

    def constructor(self, cls, name, *arguments, **options):
        """A client made by a static method of the class."""
        self.calls.add((cls.__name__, name))
        return self.client(getattr(cls, name)(*arguments, **{**OPTIONS, **options}))


SYNC = Flavour("sync", azure.data.tables)
ASYNC = Flavour("async", azure.data.tables.aio)
FLAVOURS = (SYNC, ASYNC)

# Methods that return something else than a result to wait for.
_AT_ONCE = {"get_table_client", "list_entities", "query_entities", "list_tables", "query_tables"}


class Client:
    """A client whose calls are noted, and awaited whatever its flavour is."""

    def __init__(self, inner, flavour):
        self.inner = inner
        self._flavour = flavour

    def __getattr__(self, name):
        attribute = getattr(self.inner, name)
        self._flavour.calls.add((type(self.inner).__name__, name))
        if not callable(attribute):
            return attribute
        if name in _AT_ONCE:
            return lambda *arguments, **options: self._wrap(attribute(*arguments, **options))

        async def call(*arguments, **options):
            result = attribute(*arguments, **options)
            if inspect.isawaitable(result):
                result = await result
            return self._wrap(result)

        return call

    def _wrap(self, result):
        if isinstance(result, (self._flavour.service_class, self._flavour.table_class)):
            return Client(result, self._flavour)
        if hasattr(result, "by_page"):
            return Paged(result)
        return result

    async def __aenter__(self):
        if self._flavour.is_async:
            await self.inner.__aenter__()
        else:
            self.inner.__enter__()
        return self

    async def __aexit__(self, *error):
        if self._flavour.is_async:
            await self.inner.__aexit__(*error)
        else:
            self.inner.__exit__(*error)


class Paged:
    """A result by entities or by pages."""

    def __init__(self, inner):
        self._inner = inner

    async def list(self):
        return await _collect(self._inner)

    def by_page(self, continuation_token=None):
        return Pages(self._inner.by_page(continuation_token))


class Pages:
    """The pages of a result, one by one."""

    def __init__(self, inner):
        self._inner = inner

    @property
    def continuation_token(self):
        return self._inner.continuation_token

    async def next(self):
        """The next page; None after the last."""
        try:
            page = await self._inner.__anext__() if hasattr(self._inner, "__anext__") else next(self._inner)
        except (StopIteration, StopAsyncIteration):
            return None
        return await _collect(page)

    async def list(self):
        pages = []
        while (page := await self.next()) is not None:
            pages.append(page)
        return pages


async def _collect(items):
    if hasattr(items, "__aiter__"):
        return [item async for item in items]
    return list(items)


class Case(unittest.IsolatedAsyncioTestCase):
    """A test with clients of one flavour, and with tables that are gone in the end."""

    flavour: Flavour
    maxDiff = None

    async def asyncSetUp(self):
        self.service = self.flavour.service()
        await self.enterAsyncContext(self.service)
        self._tables = []
        # Last in, first out: while the client is still open.
        self.addAsyncCleanup(self._delete_tables)

    async def _delete_tables(self):
        for name in self._tables:
            await self.service.delete_table(name)

    def name(self):
        """A free name of a table, which is deleted when the test ends, if there is one."""
        name = f"T{uuid.uuid4().hex}"
        self._tables.append(name)
        return name

    async def client(self, name, **options):
        """A client of the table, which closes when the test ends."""
        return await self.enterAsyncContext(self.flavour.table(name, **options))

    async def table(self, *entities):
        """A client of a new table with these entities."""
        table = await self.client(self.name())
        await table.create_table()
        for entity in entities:
            await table.create_entity(entity)
        return table

    @contextmanager
    def refused(self, status, code, error=HttpResponseError):
        """The block ends in this status and error code."""
        with self.assertRaises(error) as caught:
            yield caught
        self.assertEqual((caught.exception.status_code, code_of(caught.exception)), (status, code), caught.exception)


def code_of(error):
    """The service's error code. The SDK gives it with most errors; with the others it is in the answer's body."""
    code = getattr(error, "error_code", None)
    if code is None:
        return json.loads(error.response.text())["odata.error"]["code"]
    return getattr(code, "value", code)


def sas(token):
    return AzureSasCredential(token)


def both_flavours(case):
    """Makes two test classes of one, in its module."""
    module = sys.modules[case.__module__]
    for flavour in FLAVOURS:
        name = f"{case.__name__}_{flavour.name}"
        setattr(module, name, type(name, (case, Case), {"flavour": flavour, "__module__": case.__module__}))
    return case
