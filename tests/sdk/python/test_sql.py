"""The same data from SQL and through the SDK."""

import os
import subprocess

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError
from azure.data.tables import TableAccessPolicy

from support import ACCOUNT, KEY, both_flavours, sas


def sql(statement, **variables):
    """The first value of a statement. A variable stands as :'name' in it."""
    settings = [part for name, value in variables.items() for part in ("-v", f"{name}={value}")]
    command = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", *settings]
    done = subprocess.run(command, input=statement, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout.rstrip("\n")


def keys(row_key="r", **properties):
    return {"PartitionKey": "p", "RowKey": row_key, **properties}


@both_flavours
class Sql:
    def test_connects_as_the_gateways_role(self):
        self.assertEqual(os.environ["PGUSER"], "gateway")
        self.assertEqual(sql("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"), "f")

    async def test_one_store(self):
        table = await self.table(keys(A=1))
        name = table.table_name
        got = await table.get_entity("p", "r")
        self.assertEqual(
            sql("SELECT table_service.etag(e) FROM table_service.get_entity(:'t', 'p', 'r') AS e", t=name),
            got.metadata["etag"],
        )
        sql("SELECT table_service.merge_entity(:'t', 'p', 'r', '{\"B\": \"é\"}', '*')", t=name)
        self.assertEqual(await table.get_entity("p", "r"), keys(A=1, B="é"))
        got["A"] = 2
        with self.refused(412, "UpdateConditionNotSatisfied", ResourceModifiedError):
            await table.update_entity(got, etag=got.metadata["etag"], match_condition=MatchConditions.IfNotModified)
        sql("SELECT table_service.create_table(:'t' || 'x')", t=name)
        self._tables.append(f"{name}x")
        self.assertIn(f"{name}x", [item.name for item in await self.service.list_tables().list()])

    async def test_signatures_made_in_sql(self):
        table = await self.table(keys("a"), keys("b"))
        make = """SELECT table_service.generate_sas(:'account', :'key', :'t', permissions => 'r', expiry => now() + interval '1 hour',
            start_partition_key => 'p', start_row_key => 'b')"""
        token = sql(make, account=ACCOUNT, key=KEY, t=table.table_name)
        limited = await self.client(table.table_name, credential=sas(token))
        self.assertEqual([e["RowKey"] for e in await limited.list_entities().list()], ["b"])
        with self.refused(403, "AuthorizationFailure"):
            await limited.get_entity("p", "a")
        with self.refused(403, "AuthorizationPermissionMismatch"):
            await limited.create_entity(keys("c"))

    async def test_policies_set_on_either_side(self):
        table = await self.table(keys())
        name = table.table_name
        await table.set_table_access_policy({"ä": TableAccessPolicy(permission="ra")})
        policies = sql("SELECT table_service.get_access_policies(:'t')", t=name)
        self.assertEqual(policies, '[{"Id":"ä","Permission":"ra"}]')
        sql(
            "SELECT table_service.set_access_policies(:'t', '[{\"Id\": \"readers\", \"Expiry\": \"2100-01-01\", \"Permission\": \"r\"}]')",
            t=name,
        )
        self.assertEqual((await table.get_table_access_policy())["readers"].permission, "r")
        token = sql("SELECT table_service.generate_sas(:'a', :'k', :'t', policy_id => 'readers')", a=ACCOUNT, k=KEY, t=name)
        limited = await self.client(name, credential=sas(token))
        self.assertEqual((await limited.get_entity("p", "r"))["RowKey"], "r")
        # Dropped and created again in SQL, it has none of it.
        sql('DROP TABLE table_service_data.:"t"; SELECT table_service.create_table(:\'t\')', t=name)
        self.assertEqual(await table.get_table_access_policy(), {})
        with self.refused(403, "AuthenticationFailed"):
            await limited.get_entity("p", "r")

    async def test_property_indexes_change_no_result(self):
        if not sql("SELECT to_regproc('table_service.create_property_index')"):
            self.skipTest("an extension of 0.1.0 has no property indexes")
        rows = [f"{n:02}" for n in range(12)]
        table = await self.table(*(keys(row, Email=f"user{row}@example.com", Age=int(row) % 4) for row in rows))
        name = table.table_name

        async def found():
            answers = []
            for query, parameters in [
                ("Email eq 'user07@example.com'", {}),
                ("Email eq @email", {"email": "user08@example.com"}),
                ("Age ge 1 and Age lt 3", {}),
                ("Age eq 2 or Email eq 'user01@example.com'", {}),
                ("Age eq 9", {}),
            ]:
                pages = await table.query_entities(query, parameters=parameters, results_per_page=2).by_page().list()
                answers.append([[dict(entity) for entity in page] for page in pages])
            return answers

        without = await found()
        sql("SELECT table_service.create_property_index(:'t', property) FROM unnest('{Email,Age}'::text[]) AS property", t=name)
        access = sql("SELECT access FROM table_service.explain_query(:'t', 'Age eq 2')", t=name)
        # In a distributed table, the other servers read all entities that pass.
        distributed = sql("SELECT count(*) FROM pg_extension WHERE extname = 'citus'") == "1"
        self.assertEqual(access, "table scan" if distributed else "property index scan")
        self.assertEqual(await found(), without)
        # Writes through the SDK keep the indexes.
        await table.update_entity(keys("07", Email="new@example.com"))
        await table.submit_transaction([("delete", keys("08")), ("create", keys("new", Email="new@example.com"))])
        for query, expected in [("Email eq 'new@example.com'", ["07", "new"]), ("Email eq 'user08@example.com'", [])]:
            self.assertEqual([e["RowKey"] for e in await table.query_entities(query).list()], expected)
