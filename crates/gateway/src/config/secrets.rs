//! Secrets among the settings.

use serde::Serializer;
use table_service_model::Secret;

/// Hands secrets of the command line and the environment to figment, which merges them with those of the file.
///
/// # Errors
/// Those of the serialiser.
pub fn exposed<S: Serializer>(secrets: &[Secret], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(secrets.iter().map(Secret::expose))
}
