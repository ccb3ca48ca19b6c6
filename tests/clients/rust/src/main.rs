//! The crate azure_data_tables, the SDK for Rust with tables. Each point prints one line.

use azure_core::error::ErrorKind;
use azure_core::{Etag, RetryOptions, StatusCode};
use azure_data_tables::clients::TableServiceClientBuilder;
use azure_data_tables::operations::InsertEntityResponse;
use azure_data_tables::prelude::*;
use azure_storage::prelude::*;
use azure_storage::shared_access_signature::account_sas::{
    AccountSasPermissions, AccountSasResource, AccountSasResourceType, AccountSharedAccessSignature,
};
use azure_storage::CloudLocation;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Small {
    #[serde(rename = "PartitionKey")]
    partition: String,
    #[serde(rename = "RowKey")]
    row: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    a: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    b: Option<i32>,
}

fn small(row: &str, a: Option<i32>, b: Option<i32>) -> Small {
    Small {
        partition: "p".into(),
        row: row.into(),
        a,
        b,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Typed {
    #[serde(rename = "PartitionKey")]
    partition: String,
    #[serde(rename = "RowKey")]
    row: String,
    text: String,
    int: i32,
    long: String,
    #[serde(rename = "long@odata.type")]
    long_type: String,
    double: f64,
    yes: bool,
    when: String,
    #[serde(rename = "when@odata.type")]
    when_type: String,
    guid: String,
    #[serde(rename = "guid@odata.type")]
    guid_type: String,
    bytes: String,
    #[serde(rename = "bytes@odata.type")]
    bytes_type: String,
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn service(credentials: StorageCredentials) -> TableServiceClient {
    let location = CloudLocation::Custom {
        account: variable("CLIENT_ACCOUNT"),
        uri: variable("CLIENT_ENDPOINT"),
    };
    TableServiceClientBuilder::with_location(location, credentials)
        .retry(RetryOptions::none())
        .build()
}

fn with_key() -> TableServiceClient {
    service(StorageCredentials::access_key(
        variable("CLIENT_ACCOUNT"),
        variable("CLIENT_KEY"),
    ))
}

fn free_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("R{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn table() -> Result<TableClient> {
    let table = with_key().table_client(free_name());
    table.create().await?;
    Ok(table)
}

async fn insert(table: &TableClient, entity: &Small) -> azure_core::Result<InsertEntityResponse<Small>> {
    table.insert::<_, Small>(entity)?.await
}

fn entity(table: &TableClient, row: &str) -> EntityClient {
    table.partition_key_client("p").entity_client(row)
}

fn equal<T: PartialEq + std::fmt::Debug>(got: T, expected: T) -> Result {
    if got == expected {
        Ok(())
    } else {
        Err(format!("{got:?} is not {expected:?}").into())
    }
}

fn refused<T>(result: azure_core::Result<T>, status: StatusCode, code: &str) -> Result {
    let Err(error) = result else {
        return Err(format!("not refused with {code}").into());
    };
    let ErrorKind::HttpResponse { status: got, .. } = error.kind() else {
        return Err(error.into());
    };
    equal(*got, status)?;
    // The crate looks for the code where other services have it. The cause of the error shows the body, which has it.
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(this) = cause {
        if this.to_string().contains(code) {
            return Ok(());
        }
        cause = this.source();
    }
    Err(format!("{error} does not say {code}").into())
}

async fn rows(table: &TableClient, filter: &str) -> Result<Vec<String>> {
    let mut pages = table.query().filter(filter.to_owned()).into_stream::<Small>();
    let mut rows = Vec::new();
    while let Some(page) = pages.next().await {
        rows.extend(page?.entities.into_iter().map(|each| each.row));
    }
    Ok(rows)
}

async fn tables() -> Result {
    let service = with_key();
    let name = free_name();
    let table = service.table_client(&name);
    table.create().await?;
    refused(table.create().await, StatusCode::Conflict, "TableAlreadyExists")?;
    let mut pages = service.list().into_stream();
    let mut found = false;
    while let Some(page) = pages.next().await {
        found |= page?.tables.iter().any(|each| each.name == name);
    }
    equal(found, true)?;
    table.delete().await?;
    refused(table.delete().await, StatusCode::NotFound, "ResourceNotFound")?;
    refused(
        insert(&table, &small("r", None, None)).await,
        StatusCode::NotFound,
        "TableNotFound",
    )
}

async fn all_types() -> Result {
    let table = table().await?;
    let typed = Typed {
        partition: "p".into(),
        row: "r".into(),
        text: "größe 𝄞 'quoted'".into(),
        int: 42,
        long: "9007199254740993".into(),
        long_type: "Edm.Int64".into(),
        double: 1.5,
        yes: true,
        when: "2024-02-29T12:34:56.789Z".into(),
        when_type: "Edm.DateTime".into(),
        guid: "fb8cd0e6-2ee4-4b0b-9d3e-0a1b2c3d4e5f".into(),
        guid_type: "Edm.Guid".into(),
        bytes: "AAH+/w==".into(),
        bytes_type: "Edm.Binary".into(),
    };
    table.insert::<_, Typed>(&typed)?.await?;
    equal(entity(&table, "r").get::<Typed>().await?.entity, typed)
}

async fn writes() -> Result {
    let table = table().await?;
    insert(&table, &small("r", Some(1), Some(1))).await?;
    let client = entity(&table, "r");
    client.merge(small("r", None, Some(2)), IfMatchCondition::Any)?.await?;
    equal(client.get::<Small>().await?.entity, small("r", Some(1), Some(2)))?;
    client.update(small("r", None, Some(3)), IfMatchCondition::Any)?.await?;
    equal(client.get::<Small>().await?.entity, small("r", None, Some(3)))?;
    let other = entity(&table, "ü % x");
    other.insert_or_merge(small("ü % x", Some(1), None))?.await?;
    other.insert_or_replace(small("ü % x", None, Some(1)))?.await?;
    equal(other.get::<Small>().await?.entity, small("ü % x", None, Some(1)))?;
    other.delete().await?;
    Ok(())
}

async fn conflicts() -> Result {
    let table = table().await?;
    insert(&table, &small("r", Some(1), None)).await?;
    refused(
        insert(&table, &small("r", None, None)).await,
        StatusCode::Conflict,
        "EntityAlreadyExists",
    )?;
    refused(
        entity(&table, "missing").get::<Small>().await,
        StatusCode::NotFound,
        "ResourceNotFound",
    )?;
    let client = entity(&table, "r");
    let tag: Etag = client.get::<Small>().await?.etag;
    client.update(small("r", Some(2), None), tag.clone().into())?.await?;
    let stale = client.update(small("r", Some(3), None), tag.clone().into())?.await;
    refused(stale, StatusCode::PreconditionFailed, "UpdateConditionNotSatisfied")?;
    let stale = client.delete().if_match(IfMatchCondition::from(tag)).await;
    refused(stale, StatusCode::PreconditionFailed, "UpdateConditionNotSatisfied")?;
    let missing = entity(&table, "missing")
        .merge(small("missing", None, None), IfMatchCondition::Any)?
        .await;
    refused(missing, StatusCode::NotFound, "ResourceNotFound")
}

async fn batches() -> Result {
    let table = table().await?;
    for row in ["old", "replaced", "merged"] {
        insert(&table, &small(row, Some(1), None)).await?;
    }
    let mut transaction = table.partition_key_client("p").transaction();
    for i in 0..95 {
        transaction = transaction.insert(small(&format!("n{i}"), Some(i), None))?;
    }
    let done = transaction
        .delete("old", None)?
        .update(
            "replaced",
            small("replaced", None, Some(2)),
            Some(IfMatchCondition::Any),
        )?
        .merge("merged", small("merged", None, Some(2)), Some(IfMatchCondition::Any))?
        .insert_or_replace("o", small("o", Some(1), None))?
        .insert_or_merge("m", small("m", Some(1), None))?
        .await?;
    equal(done.operation_responses.len(), 100)?;
    equal(
        done.operation_responses
            .iter()
            .all(|each| each.status_code.is_success()),
        true,
    )?;
    equal(done.operation_responses[5].etag.is_some(), true)?;
    equal(rows(&table, "PartitionKey eq 'p'").await?.len(), 99)?;
    equal(
        entity(&table, "merged").get::<Small>().await?.entity,
        small("merged", Some(1), Some(2)),
    )
}

async fn refused_batches() -> Result {
    let table = table().await?;
    insert(&table, &small("r", None, None)).await?;
    let transaction = table.partition_key_client("p").transaction();
    let done = transaction
        .insert(small("a", None, None))?
        .insert(small("r", None, None))?
        .await?;
    equal(
        done.operation_responses
            .iter()
            .map(|each| each.status_code)
            .collect::<Vec<_>>(),
        vec![StatusCode::Conflict],
    )?;
    refused(
        entity(&table, "a").get::<Small>().await,
        StatusCode::NotFound,
        "ResourceNotFound",
    )
}

async fn filters() -> Result {
    let table = table().await?;
    for i in 1..=5 {
        insert(&table, &small(&format!("r{i}"), Some(i), Some(i % 2))).await?;
    }
    equal(
        rows(&table, "a gt 2 and a le 4").await?,
        vec!["r3".to_owned(), "r4".into()],
    )?;
    equal(
        rows(&table, "not (b eq 0) and RowKey ne 'r3'").await?,
        vec!["r1".to_owned(), "r5".into()],
    )?;
    let mut pages = table
        .query()
        .select(Select::new("PartitionKey,RowKey,a"))
        .top(Top::new(1))
        .into_stream::<Small>();
    let page = pages.next().await.ok_or("no page")??;
    equal(page.entities, vec![small("r1", Some(1), None)])
}

async fn pages() -> Result {
    let table = table().await?;
    for start in (0..1100).step_by(100) {
        let mut transaction = table.partition_key_client("p").transaction();
        for i in start..start + 100 {
            transaction = transaction.insert(small(&format!("{i:05}"), None, None))?;
        }
        transaction.await?;
    }
    let mut pages = table.query().into_stream::<Small>();
    let mut sizes = Vec::new();
    while let Some(page) = pages.next().await {
        sizes.push(page?.entities.len());
    }
    equal(sizes, vec![1000, 100])
}

async fn sas() -> Result {
    let table = table().await?;
    insert(&table, &small("r", None, None)).await?;
    let signature = AccountSharedAccessSignature::new(
        variable("CLIENT_ACCOUNT"),
        variable("CLIENT_KEY").into(),
        AccountSasResource::Table,
        AccountSasResourceType::Object,
        time::OffsetDateTime::now_utc() + time::Duration::hours(1),
        AccountSasPermissions {
            read: true,
            ..Default::default()
        },
    );
    let reader = service(StorageCredentials::sas_token(signature.token()?)?).table_client(table.table_name());
    equal(entity(&reader, "r").get::<Small>().await?.entity.row, "r".to_owned())?;
    refused(
        insert(&reader, &small("s", None, None)).await,
        StatusCode::Forbidden,
        "AuthorizationPermissionMismatch",
    )
}

#[derive(Serialize)]
struct Line<'a> {
    point: &'a str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

async fn point(name: &str, run: impl Future<Output = Result>) {
    let error = run.await.err().map(|error| error.to_string());
    let line = Line {
        point: name,
        ok: error.is_none(),
        error,
    };
    println!("{}", serde_json::to_string(&line).expect("it is plain data"));
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    point("tables", tables()).await;
    point("all types", all_types()).await;
    point("writes", writes()).await;
    point("conflicts", conflicts()).await;
    point("batches", batches()).await;
    point("refused batches", refused_batches()).await;
    point("filters", filters()).await;
    point("pages", pages()).await;
    point("SAS", sas()).await;
}
