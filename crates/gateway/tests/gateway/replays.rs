//! What SDKs send that do not run here, in their form: .NET (Azure.Data.Tables and its classic predecessors), Go, Java.

use crate::client::{Answer, Client};
use crate::gateway::Service;

const ENTITY: &str = r#"{"PartitionKey":"Marketing","RowKey":"00001","FirstName":"Don","Age":34,"Id@odata.type":"Edm.Guid","Id":"c9da6455-213d-42c9-9a79-3e9149a57833"}"#;

/// An SDK: how it signs, and the headers of all its requests.
struct Sdk<'a> {
    client: Client,
    headers: &'a [(&'a str, &'a str)],
}

impl Sdk<'_> {
    fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut all = self.headers.to_vec();
        all.extend(headers);
        self.client.send(method, target, &all, body.as_bytes())
    }

    /// A batch of these requests, as they stand.
    fn batch(&self, requests: &[String]) -> Answer {
        let parts: String = requests
            .iter()
            .map(|request| {
                format!("--changeset_6f7e\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n{request}\r\n")
            })
            .collect();
        let body = format!(
            "--batch_a1b2\r\nContent-Type: multipart/mixed; boundary=changeset_6f7e\r\n\r\n{parts}--changeset_6f7e--\r\n--batch_a1b2--\r\n"
        );
        self.send(
            "POST",
            "$batch",
            &[("Content-Type", "multipart/mixed; boundary=batch_a1b2")],
            &body,
        )
    }
}

#[track_caller]
fn succeeded(answer: &Answer, parts: usize) {
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert_eq!(
        answer.text().matches("HTTP/1.1 204 No Content\r\n").count(),
        parts,
        "{}",
        answer.text()
    );
}

#[test]
fn dot_net() {
    let service = Service::start();
    let sdk = Sdk {
        client: Client {
            lite: true,
            ..service.client.clone()
        },
        headers: &[
            ("x-ms-version", "2020-12-06"),
            ("DataServiceVersion", "3.0"),
            ("Accept", "application/json"),
            ("x-ms-client-request-id", "3b1d0fd0-7b7a-4b21-8a3c-1f4f6a3f7f0e"),
            ("x-ms-return-client-request-id", "true"),
            ("User-Agent", "azsdk-net-Data.Tables/12.9.1 (.NET 8.0.8; Linux)"),
        ],
    };
    let format = "$format=application%2Fjson%3Bodata%3Dminimalmetadata";
    let json = ("Content-Type", "application/json; odata=nometadata");
    let quiet = ("Prefer", "return-no-content");
    let create = || {
        sdk.send(
            "POST",
            &format!("Tables?{format}"),
            &[json, quiet],
            "{\"TableName\":\"Employees\"}",
        )
    };
    create().expect(204);
    // CreateIfNotExists takes this for success.
    create().fails_with(409, "TableAlreadyExists", "");
    let inserted = sdk
        .send("POST", &format!("Employees?{format}"), &[json, quiet], ENTITY)
        .expect(204);
    let etag = inserted.header("ETag").unwrap();
    assert_eq!(
        inserted.header("x-ms-client-request-id"),
        Some("3b1d0fd0-7b7a-4b21-8a3c-1f4f6a3f7f0e")
    );

    // LINQ puts every term into parentheses.
    let filter = "%28%28%28PartitionKey%20eq%20%27Marketing%27%29%20and%20%28Age%20gt%2030%29%29%20and%20%28not%20%28FirstName%20eq%20%27Dan%27%29%29%29";
    let found = sdk
        .send(
            "GET",
            &format!("Employees()?{format}&$top=1000&$filter={filter}"),
            &[],
            "",
        )
        .expect(200);
    let entity = &found.json()["value"][0];
    assert_eq!(
        (&entity["FirstName"], &entity["Id@odata.type"]),
        (&"Don".into(), &"Edm.Guid".into())
    );
    let guid = "Id%20eq%20guid%27c9da6455-213d-42c9-9a79-3e9149a57833%27%20and%20Age%20lt%2040";
    let found = sdk
        .send(
            "GET",
            &format!("Employees()?{format}&$filter={guid}&$select=RowKey%2CAge"),
            &[],
            "",
        )
        .expect(200);
    assert_eq!(found.json()["value"].as_array().unwrap().len(), 1);

    let url = format!("Employees(PartitionKey='Marketing',RowKey='00001')?{format}");
    sdk.send(
        "PATCH",
        &url,
        &[("Content-Type", "application/json"), ("If-Match", etag)],
        "{\"Age\":35}",
    )
    .expect(204);
    sdk.send(
        "PATCH",
        &url,
        &[("Content-Type", "application/json"), ("If-Match", etag)],
        "{\"Age\":36}",
    )
    .fails_with(412, "UpdateConditionNotSatisfied", "");
    let base = format!("http://{}/devstoreaccount1", sdk.client.host);
    let part = |method: &str, url: &str, more: &str, body: &str| {
        format!(
            "{method} {base}/{url} HTTP/1.1\r\nHost: {}\r\nx-ms-version: 2020-12-06\r\nDataServiceVersion: 3.0\r\n{more}Accept: application/json\r\n\
             Content-Type: application/json; odata=nometadata\r\nContent-Length: {}\r\n\r\n{body}",
            sdk.client.host,
            body.len()
        )
    };
    let answer = sdk.batch(&[
        part(
            "POST",
            &format!("Employees?{format}"),
            "Prefer: return-no-content\r\n",
            &ENTITY.replace("00001", "00002"),
        ),
        part("PATCH", &url, "If-Match: *\r\n", "{\"Age\":36}"),
        part("PUT", &url.replace("00001", "00003"), "", "{\"Age\":36}"),
        format!(
            "DELETE {base}/{} HTTP/1.1\r\nIf-Match: *\r\nAccept: application/json;odata=minimalmetadata\r\n",
            url.replace("00001", "00004")
        ),
    ]);
    assert!(
        answer.text().contains("3:The specified resource does not exist."),
        "{}",
        answer.text()
    );
}

#[test]
fn classic_dot_net() {
    let service = Service::start();
    let sdk = Sdk {
        client: service.client.clone(),
        headers: &[
            ("x-ms-version", "2017-07-29"),
            ("DataServiceVersion", "3.0;"),
            ("MaxDataServiceVersion", "3.0;NetFx"),
            ("Accept", "application/json;odata=minimalmetadata"),
        ],
    };
    let json = ("Content-Type", "application/json");
    sdk.send(
        "POST",
        "Tables()",
        &[json, ("Prefer", "return-no-content")],
        "{\"TableName\":\"Employees\"}",
    )
    .expect(204);
    let url = "Employees(PartitionKey='Marketing',RowKey='00001')";
    // Insert or merge, without an ETag.
    sdk.send("POST", url, &[json, ("X-HTTP-Method", "MERGE")], "{\"Age\":1}")
        .expect(204);
    sdk.send("MERGE", url, &[json, ("If-Match", "*")], "{\"Name\":\"Don\"}")
        .expect(204);
    let got = sdk
        .send("GET", &format!("{url}?timeout=30"), &[], "")
        .expect(200)
        .json();
    assert_eq!((&got["Age"], &got["Name"]), (&1.into(), &"Don".into()));
    let parts = sdk.batch(&[
        format!("MERGE http://x.table.core.windows.net/devstoreaccount1/{url} HTTP/1.1\r\nContent-ID: 0\r\nIf-Match: *\r\nContent-Type: application/json;\r\n\r\n{{\"Age\":2}}"),
        format!("DELETE http://x.table.core.windows.net/{} HTTP/1.1\r\nContent-ID: 1\r\nIf-Match: *\r\n\r\n", url.replace("00001", "00002")),
    ]);
    assert!(
        parts.text().contains("1:The specified resource does not exist."),
        "{}",
        parts.text()
    );
    sdk.send("DELETE", "Tables('Employees')", &[], "").expect(204);
}

#[test]
fn go() {
    let service = Service::start();
    let sdk = Sdk {
        client: service.client.clone(),
        headers: &[
            ("x-ms-version", "2019-02-02"),
            ("DataServiceVersion", "3.0"),
            ("Accept", "application/json;odata=minimalmetadata"),
            ("User-Agent", "azsdk-go-aztables/v1.3.0 (go1.22; linux)"),
        ],
    };
    let json = ("Content-Type", "application/json;odata=nometadata");
    sdk.send(
        "POST",
        "Tables",
        &[json, ("Prefer", "return-content")],
        "{\"TableName\":\"Employees\"}",
    )
    .expect(201);
    sdk.send("POST", "Employees", &[json, ("Prefer", "return-no-content")], ENTITY)
        .expect(204);
    // Queries are encoded as forms: a plus sign is a space.
    let found = sdk.send("GET", "Employees()?%24filter=PartitionKey+eq+%27Marketing%27&%24format=application%2Fjson%3Bodata%3Dminimalmetadata&%24top=1", &[], "");
    assert_eq!(found.expect(200).json()["value"][0]["RowKey"], "00001");
    let url = "Employees(PartitionKey=%27Marketing%27,RowKey=%2700001%27)";
    sdk.send(
        "PATCH",
        url,
        &[("Content-Type", "application/json"), ("If-Match", "*")],
        "{\"Age\":35}",
    )
    .expect(204);
    let base = format!("http://{}/devstoreaccount1", sdk.client.host);
    let part = |method: &str, url: &str, more: &str, body: &str| {
        format!(
            "{method} {base}/{url} HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\nContent-Type: application/json;odata=nometadata\r\n\
             Dataserviceversion: 3.0\r\n{more}X-Ms-Version: 2019-02-02\r\n\r\n{body}"
        )
    };
    let answer = sdk.batch(&[
        part(
            "POST",
            "Employees",
            "Prefer: return-no-content\r\n",
            &ENTITY.replace("00001", "00002"),
        ),
        part("PATCH", url, "If-Match: *\r\n", "{\"Age\":36}"),
        part("DELETE", &url.replace("00001", "00003"), "If-Match: *\r\n", ""),
    ]);
    assert!(
        answer.text().contains("2:The specified resource does not exist."),
        "{}",
        answer.text()
    );
    let answer = sdk.batch(&[
        part("PUT", url, "", "{\"Age\":36}"),
        part("PUT", &url.replace("00001", "00002"), "", "{\"Age\":36}"),
    ]);
    succeeded(&answer, 2);
}

#[test]
fn java() {
    let service = Service::start();
    let sdk = Sdk {
        client: service.client.clone(),
        headers: &[
            ("x-ms-version", "2019-02-02"),
            ("DataServiceVersion", "3.0"),
            ("Accept", "application/json;odata=fullmetadata"),
            (
                "User-Agent",
                "azsdk-java-azure-data-tables/12.5.0 (17.0.12; Linux; 6.1)",
            ),
            ("x-ms-return-client-request-id", "true"),
        ],
    };
    let json = ("Content-Type", "application/json");
    let format = "$format=application/json%3Bodata%3Dfullmetadata";
    sdk.send(
        "POST",
        &format!("Tables?{format}"),
        &[json, ("Prefer", "return-no-content")],
        "{\"TableName\":\"Employees\"}",
    )
    .expect(204);
    sdk.send(
        "POST",
        &format!("Employees?{format}"),
        &[json, ("Prefer", "return-no-content")],
        ENTITY,
    )
    .expect(204);
    let url = "Employees(PartitionKey='Marketing',RowKey='00001')";
    let got = sdk.send("GET", &format!("{url}?{format}"), &[], "").expect(200).json();
    assert_eq!(got["odata.type"], "devstoreaccount1.Employees");
    assert_eq!(got["Timestamp@odata.type"], "Edm.DateTime");
    assert_eq!(got["odata.editLink"], url);
    let base = format!("http://{}/devstoreaccount1", sdk.client.host);
    // Its signature stands in the inner URLs, too.
    let part = |method: &str, url: &str, more: &str, body: &str| {
        format!(
            "{method} {base}/{url}?sv=2019-02-02&tn=Employees&sp=raud&sig=a%2Fb%3D HTTP/1.1\r\nx-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\n\
             Accept: application/json;odata=minimalmetadata\r\nContent-Type: application/json;odata=nometadata\r\n{more}\r\n{body}"
        )
    };
    let answer = sdk.batch(&[
        part(
            "POST",
            "Employees",
            "Prefer: return-no-content\r\n",
            &ENTITY.replace("00001", "00002"),
        ),
        part("PATCH", url, "If-Match: *\r\n", "{\"Age\":36}"),
        part("DELETE", &url.replace("00001", "00003"), "If-Match: *\r\n", ""),
    ]);
    assert!(
        answer.text().contains("2:The specified resource does not exist."),
        "{}",
        answer.text()
    );
    let answer = sdk.batch(&[
        part("PATCH", url, "If-Match: *\r\n", "{\"Age\":36}"),
        part("DELETE", url, "If-Match: *\r\n", ""),
    ]);
    assert!(
        answer.text().contains("InvalidDuplicateRow") && answer.text().contains("1:The batch request"),
        "{}",
        answer.text()
    );
    let all = sdk
        .send("GET", &format!("Employees()?{format}&$top=1"), &[], "")
        .expect(200);
    assert_eq!(all.json()["value"][0]["odata.id"], format!("{base}/{url}"));
    sdk.send("DELETE", url, &[("If-Match", "*")], "").expect(204);
}
