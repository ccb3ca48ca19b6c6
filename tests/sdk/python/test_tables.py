"""Tables: create, delete, list, query."""

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError

from support import ACCOUNT, CONNECTION_STRING, CREDENTIAL, ENDPOINT, both_flavours


@both_flavours
class Tables:
    async def test_create_and_delete(self):
        name = self.name()
        table = await self.service.create_table(name)
        self.assertEqual(table.table_name, name)
        with self.refused(409, "TableAlreadyExists", ResourceExistsError):
            await self.service.create_table(name.upper())
        with self.refused(409, "TableAlreadyExists", ResourceExistsError):
            await table.create_table()
        self.assertEqual((await self.service.create_table_if_not_exists(name.lower())).table_name, name.lower())
        await self.service.delete_table(name)
        # The SDK takes the answer that there is none for success.
        await self.service.delete_table(name)
        await table.delete_table()
        with self.refused(404, "TableNotFound", ResourceNotFoundError):
            await table.get_entity("p", "r")
        await self.service.create_table_if_not_exists(name)
        self.assertEqual((await self.service.get_table_client(name).list_entities().list()), [])

    async def test_create_through_the_tables_own_client(self):
        table = await self.client(self.name())
        item = await table.create_table()
        self.assertEqual(item.name, table.table_name)
        await table.delete_table()

    async def test_names_that_no_table_can_have(self):
        for name in ["ab", "a" * 64, "1abc", "a_b", "tab-le", "äöü"]:
            # The SDK looks at the name itself once the service has refused it.
            with self.subTest(name), self.assertRaises(ValueError):
                await self.service.create_table(name)
            with self.subTest(name), self.assertRaises(ValueError):
                await (await self.client(name)).create_table()

    async def test_list_and_query(self):
        prefix = self.name()[:20]
        names = sorted(f"{prefix}{letter}" for letter in "abcde")
        for name in names:
            self._tables.append(name)
            await self.service.create_table(name)
        found = [table.name for table in await self.service.list_tables().list()]
        self.assertEqual([name for name in found if name.startswith(prefix)], names)
        self.assertEqual(found, sorted(found, key=str.lower))

        parameters = {"from": names[1], "to": names[4]}
        result = self.service.query_tables("TableName ge @from and TableName lt @to", parameters=parameters)
        self.assertEqual([table.name for table in await result.list()], names[1:4])
        result = self.service.query_tables(f"TableName eq '{names[0]}'")
        self.assertEqual([table.name for table in await result.list()], names[:1])
        self.assertEqual(await self.service.query_tables(f"TableName eq '{prefix}'").list(), [])

    async def test_pages_of_tables(self):
        prefix = self.name()[:20]
        names = sorted(f"{prefix}{letter}" for letter in "abcde")
        for name in names:
            self._tables.append(name)
            await self.service.create_table(name)
        query = f"TableName ge '{prefix}' and TableName le '{names[-1]}'"
        pages = self.service.query_tables(query, results_per_page=2).by_page()
        first = await pages.next()
        self.assertEqual([table.name for table in first], names[:2])
        # Another client goes on at the same place.
        rest = self.service.query_tables(query, results_per_page=2).by_page(pages.continuation_token)
        self.assertEqual([[t.name for t in page] for page in await rest.list()], [names[2:4], names[4:]])
        pages = await self.service.list_tables(results_per_page=1).by_page().list()
        self.assertTrue(all(len(page) <= 1 for page in pages))
        self.assertLessEqual(set(names), {table.name for page in pages for table in page})

    async def test_ways_to_make_a_client(self):
        service_class, table_class = self.flavour.service_class, self.flavour.table_class
        table = await self.table({"PartitionKey": "p", "RowKey": "r"})
        name = table.table_name
        others = [
            self.service.get_table_client(name),
            self.flavour.constructor(table_class, "from_connection_string", CONNECTION_STRING, name),
            self.flavour.constructor(table_class, "from_table_url", f"{ENDPOINT}/{name}", credential=CREDENTIAL),
            self.flavour.constructor(service_class, "from_connection_string", CONNECTION_STRING).get_table_client(name),
        ]
        for other in others:
            async with other:
                self.assertEqual(other.table_name, name)
                self.assertEqual((await other.get_entity("p", "r"))["RowKey"], "r")
        self.assertTrue(table.url.startswith(ENDPOINT))
        self.assertTrue(self.service.url.startswith(ENDPOINT))
        self.assertEqual(self.service.account_name, ACCOUNT)
        for version in ["2019-02-02", "2019-07-07", "2020-12-06"]:
            service = self.flavour.service(api_version=version)
            self.assertEqual(service.api_version, version)
            other = service.get_table_client(name)
            self.assertEqual(other.api_version, version)
            self.assertEqual((await other.get_entity("p", "r"))["RowKey"], "r")
            await other.close()
            await service.close()
