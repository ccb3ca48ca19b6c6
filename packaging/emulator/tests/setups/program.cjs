// The program whose tests need an emulator.
const { TableClient } = require("@azure/data-tables");

async function main() {
  const table = TableClient.fromConnectionString("UseDevelopmentStorage=true", "Employees", { allowInsecureConnection: true });
  await table.createTable();
  await table.upsertEntity({ partitionKey: "p", rowKey: "r", number: 7 });
  console.log("number", (await table.getEntity("p", "r")).number);
}

main();
