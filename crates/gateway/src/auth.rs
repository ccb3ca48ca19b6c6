//! Who sends a request, and what that allows (semantics 7). The rules are the model's; here requests are brought to them.

mod bearer;

pub use bearer::{Bearer, BearerError};

use table_service_model::Error;
use table_service_model::access::{AccessPolicies, Authorization, Client, Grant, Sas, SignedRequest};

use crate::account::Tenant;
use crate::clock::now;
use crate::database::Session;
use crate::failure::Failure;
use crate::request::Head;
use crate::request::target::Target;

/// What the credentials of a request allow.
///
/// # Errors
/// The service's refusals of credentials that are missing, wrong, or not for this client.
pub async fn authenticate(
    tenant: &Tenant,
    session: &Session<'_>,
    bearer: Option<&Bearer>,
    head: &Head,
) -> Result<Grant, Failure> {
    if let Some(value) = head.header("authorization") {
        return match Authorization::parse(value)? {
            Authorization::SharedKey(credentials) => {
                let text = |name: &str| head.header(name).unwrap_or_default();
                let verify = |path: &str| {
                    let request = SignedRequest {
                        verb: head.sent_method.as_str(),
                        content_md5: text("content-md5"),
                        content_type: text("content-type"),
                        date: head.header("x-ms-date").unwrap_or_else(|| text("date")),
                        path,
                        comp: head.query.get("comp"),
                    };
                    credentials.verify(&tenant.account, &request, now())
                };
                let primary = || Target::parse(&head.host, &head.path)?.primary_path(&head.path);
                Ok(match (verify(&head.path), primary()) {
                    (Err(_), Some(path)) => verify(&path)?,
                    (verified, _) => verified?,
                })
            }
            Authorization::Bearer(token) => match bearer {
                Some(bearer) => Ok(bearer.grant(token, head.peer.https)?),
                None => Err(failed("Bearer tokens are not accepted here")),
            },
        };
    }
    let Some(sas) = Sas::parse(head.query.pairs())? else {
        return Err(match bearer {
            Some(_) => Error::NotAuthenticated.into(),
            None => failed("The request has neither an Authorization header nor a shared access signature"),
        });
    };
    sas.check_signature(&tenant.account)?;
    let policies = match sas.policy() {
        Some((table, _)) => Some(policies(session, table).await?),
        None => None,
    };
    let client = Client {
        now: now(),
        address: head.peer.address,
        https: head.peer.https,
    };
    Ok(sas.grant(policies.as_ref(), &client)?)
}

/// The stored policies of a table: none for one that does not exist. They are read for every request, so that a changed
/// policy acts at once.
async fn policies(session: &Session<'_>, table: &str) -> Result<AccessPolicies, Failure> {
    match session.get_access_policies(table).await {
        Ok(json) => Ok(AccessPolicies::from_json(&json)?),
        Err(failure) if failure.is_of_table() => Ok(AccessPolicies::default()),
        Err(failure) => Err(failure),
    }
}

fn failed(reason: &str) -> Failure {
    Error::AuthenticationFailed {
        reason: reason.to_owned(),
    }
    .into()
}
