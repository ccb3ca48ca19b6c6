//! The signatures of tokens, checked with `ring`, which TLS brings along. The provider that `jsonwebtoken` has takes forty crates more.

use jsonwebtoken::crypto::{CryptoProvider, JwkUtils, JwtVerifier};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

/// Checks signatures, and makes none. It knows the algorithms that have a public key: with a shared secret, a checker of tokens could
/// also make them.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: |&algorithm, key| match scheme(algorithm) {
        Some(scheme) if key.family() == algorithm.family() => Ok(Box::new(PublicKey {
            algorithm,
            scheme,
            key: key.clone(),
        })),
        _ => Err(Error::from(ErrorKind::InvalidKeyFormat)),
    },
    jwk_utils: JwkUtils::new_unimplemented(),
};

/// Makes `jsonwebtoken` check signatures with [`PROVIDER`].
pub fn install() {
    // It is installed already if the process has another account with an issuer.
    let _ = PROVIDER.install_default();
}

/// How a signature is checked.
#[derive(Clone, Copy)]
enum Scheme {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

/// Returns whether tokens with signatures of this algorithm are accepted.
pub fn accepts(algorithm: Algorithm) -> bool {
    scheme(algorithm).is_some()
}

fn scheme(algorithm: Algorithm) -> Option<Scheme> {
    Some(match algorithm {
        Algorithm::RS256 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Scheme::Other(&ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Scheme::Other(&ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Scheme::Other(&ED25519),
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => return None,
    })
}

struct PublicKey {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for PublicKey {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let checked = match (self.scheme, self.key.kind()) {
            (Scheme::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => RsaPublicKeyComponents {
                n: without_leading_zeros(n),
                e: without_leading_zeros(e),
            }
            .verify(parameters, message, signature),
            (Scheme::Rsa(parameters), DecodingKeyKind::SecretOrDer(der)) => {
                UnparsedPublicKey::new(parameters, der).verify(message, signature)
            }
            (Scheme::Other(algorithm), DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(algorithm, point).verify(message, signature)
            }
            (Scheme::Other(_), DecodingKeyKind::RsaModulusExponent { .. }) => return Err(signature::Error::new()),
        };
        checked.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for PublicKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// Some issuers write numbers with the sign byte of ASN.1. RFC 7518, 6.3.1.1, leaves it out, and `ring` refuses it.
fn without_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}
