use serde_json::{Value, json};
use tokio_postgres::{Client, Error};

async fn employees(client: &Client) -> Result<(), Error> {
    client.execute("SELECT create_table('Employees', if_not_exists => true)", &[]).await?;

    // $3 would be of type properties, which the driver does not know. With ::jsonb it is a jsonb, for which there is an implicit cast.
    let properties = json!({"FirstName": "Don", "Age": 34, "Hired@odata.type": "Edm.DateTime", "Hired": "2014-08-22T00:50:32Z"});
    let insert = client.prepare("SELECT insert_or_replace_entity('Employees', $1, $2, $3::jsonb)").await?;
    let etag: String = client.query_one(&insert, &[&"Marketing", &"00001", &properties]).await?.get(0);

    // A string goes by way of text.
    let merge = client.prepare("SELECT merge_entity('Employees', $1, $2, $3::text::properties, $4)").await?;
    client.query_one(&merge, &[&"Marketing", &"00001", &r#"{"Age": 35}"#, &etag]).await?;
    if let Err(error) = client.query_one(&merge, &[&"Marketing", &"00001", &r#"{"Age": 99}"#, &etag]).await {
        let error = error.as_db_error().unwrap();
        println!("{} {}", error.code().code(), error.message().split(':').next().unwrap());
    }

    let query = "SELECT row_key, properties::jsonb FROM query_entities('Employees', $$Age gt @age$$, parameters => $1::jsonb)";
    for row in client.query(query, &[&json!({"age": 30})]).await? {
        println!("{} {}", row.get::<_, &str>(0), row.get::<_, Value>(1)["FirstName"]);
    }

    let operations = json!([
        {"insert_or_merge": {"RowKey": "00002", "FirstName": "Jun"}},
        {"merge": {"RowKey": "00001", "Age": 36}, "if_match": "*"},
    ]);
    let batch = "SELECT index, row_key FROM execute_batch_json('Employees', $1, $2)";
    for row in client.query(batch, &[&"Marketing", &operations.to_string()]).await? {
        println!("{} {}", row.get::<_, i32>(0), row.get::<_, &str>(1));
    }

    let mut token: Option<String> = None;
    loop {
        let page = "SELECT query_page_json('Employees', top => 1, continuation_token => $1)";
        let page: Value = client.query_one(page, &[&token]).await?.get(0);
        println!("{}", page["value"][0]["RowKey"]);
        match page["continuationToken"].as_str() {
            Some(next) => token = Some(next.to_owned()),
            None => break,
        }
    }
    Ok(())
}
