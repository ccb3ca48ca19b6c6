//! Checks the credentials of a request (semantics 7). The rules are in the model crate.

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use table_service_model::access::{AccessPolicies, Authorization, Client, Sas, SignedRequest};
use table_service_model::{Error, Grant};

use super::bearer::check_transport;
use super::tenant::Tenant;
use crate::clock::now;
use crate::database::Session;
use crate::failure::Failure;
use crate::limits::shares::Share;
use crate::request::Head;
use crate::request::target::Target;

/// Checks the credentials of a request, and returns their grant and the OID of the table with their stored policy. The
/// request may concern no other table.
///
/// `challenged` says whether refused clients get a challenge. `other_issuer` may take a token for an account without an
/// issuer. `permit` takes a permit to run for a request that needs the database. Only a request with a right signature
/// needs it, so that the answers to all others do not depend on the account.
///
/// # Errors
/// For credentials that are missing, wrong, or not valid for this client.
pub async fn authenticate(
    tenant: &Tenant,
    session: &Session<'_>,
    head: &Head,
    target: &Target<'_>,
    challenged: bool,
    other_issuer: impl FnOnce(&str) -> Option<Result<Grant, Error>>,
    permit: impl FnOnce() -> Result<Share, Failure>,
) -> Result<(Grant, Option<u32>), Failure> {
    if let Some(value) = head.header(AUTHORIZATION) {
        return match Authorization::parse(value)? {
            Authorization::SharedKey(credentials) => {
                let text = |name: &str| head.header(name).unwrap_or_default();
                let verify = |path: &str| {
                    let request = SignedRequest {
                        verb: head.sent_method.as_str(),
                        content_md5: text("content-md5"),
                        content_type: head.header(CONTENT_TYPE).unwrap_or_default(),
                        date: head.header("x-ms-date").unwrap_or_else(|| text("date")),
                        path,
                        comp: head.query.get("comp"),
                    };
                    credentials.verify(&tenant.account, &request, now())
                };
                let primary = || target.primary_path(&head.path);
                let verified = verify(&head.path).or_else(|error| match primary() {
                    Some(path) => verify(&path),
                    None => Err(error),
                });
                Ok((verified?, None))
            }
            Authorization::Bearer(token) => match &tenant.bearer {
                Some(bearer) => Ok((bearer.grant(token, head.peer.https)?, None)),
                None => match other_issuer(token) {
                    Some(checked) => Ok((checked?, None)),
                    None => Err(no_issuer(head, challenged)),
                },
            },
        };
    }
    let Some(sas) = Sas::parse(head.query.pairs())? else {
        return Err(no_credentials(challenged));
    };
    sas.check_signature(&tenant.account)?;
    let (policies, relation) = match sas.policy() {
        Some((table, _)) => {
            let _permit = permit()?;
            let (policies, relation) = Box::pin(policies(session, table)).await?;
            (Some(policies), relation)
        }
        None => (None, None),
    };
    let client = Client {
        now: now(),
        address: head.peer.address,
        https: head.peer.https,
    };
    Ok((sas.grant(policies.as_ref(), &client)?, relation))
}

/// Returns the stored access policies of a table, and its OID; none if the table does not exist. They are read for every request, so
/// a change takes effect at once.
async fn policies(session: &Session<'_>, table: &str) -> Result<(AccessPolicies, Option<u32>), Failure> {
    match session.get_access_policies(table).await {
        Ok((json, relation)) => Ok((AccessPolicies::from_json(&json)?, relation)),
        Err(failure) if failure.is_of_table() => Ok((AccessPolicies::default(), None)),
        Err(failure) => Err(failure),
    }
}

/// Returns the error for a request to an account that does not exist. It is the same as for wrong credentials, so that it does not tell
/// which accounts exist.
pub fn refuse_unknown_account(head: &Head, challenged: bool) -> Failure {
    let unknown = || failed("There is no such account");
    match head.header("authorization") {
        Some(value) => match Authorization::parse(value) {
            Ok(Authorization::SharedKey(_)) => unknown(),
            Ok(Authorization::Bearer(_)) => no_issuer(head, challenged),
            Err(error) => error.into(),
        },
        None => match Sas::parse(head.query.pairs()) {
            Ok(Some(_)) => unknown(),
            Ok(None) => no_credentials(challenged),
            Err(error) => error.into(),
        },
    }
}

/// Returns the error for a bearer token to an account without an issuer: the same as for a wrong token to an account
/// with one.
fn no_issuer(head: &Head, challenged: bool) -> Failure {
    match challenged {
        true => check_transport(head.peer.https).map_or_else(Failure::from, |()| Error::NotAuthenticated.into()),
        false => failed("Bearer tokens are not accepted here"),
    }
}

fn no_credentials(challenged: bool) -> Failure {
    match challenged {
        true => Error::NotAuthenticated.into(),
        false => failed("The request has neither an Authorization header nor a shared access signature"),
    }
}

fn failed(reason: &str) -> Failure {
    Error::AuthenticationFailed {
        reason: reason.to_owned(),
    }
    .into()
}
