//! Certificates for servers of tests.

use std::fs::{Permissions, metadata, set_permissions, write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// A certificate for `localhost` that nobody has signed but itself, and its key.
pub struct Certificate {
    pub made: rcgen::CertifiedKey<rcgen::KeyPair>,
    /// The path of the certificate.
    pub certificate: String,
    /// The path of the key. Only the user of the PostgreSQL servers can read it, as PostgreSQL requires.
    pub key: String,
}

impl Certificate {
    /// Makes the files `<name>.pem` and `<name>.key`.
    pub fn new(directory: &Path, name: &str) -> Certificate {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let file = |ending: &str, content: String| {
            let path = directory.join(format!("{name}.{ending}"));
            write(&path, content).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let certificate = file("pem", made.cert.pem());
        let key = file("key", made.signing_key.serialize_pem());
        make_servers_own(&key);
        Certificate { made, certificate, key }
    }
}

/// Gives a file to the user of the servers, and removes access for all others.
fn make_servers_own(file: &str) {
    set_permissions(file, Permissions::from_mode(0o600)).unwrap();
    if metadata("/proc/self").unwrap().uid() == 0 {
        let id = Command::new("id").args(["-u", "postgres"]).output().unwrap();
        let id: u32 = String::from_utf8(id.stdout).unwrap().trim().parse().unwrap();
        chown(file, Some(id), None).unwrap();
    }
}
