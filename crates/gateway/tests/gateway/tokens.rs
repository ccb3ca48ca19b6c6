//! JSON Web Tokens as an issuer makes them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

/// Returns a token with a signature of the key `k1`.
pub fn token(key: &rcgen::KeyPair, claims: &Value) -> String {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key.serialize_der(), &random).unwrap();
    signed("ES256", claims, |text| {
        key.sign(&random, text).unwrap().as_ref().to_vec()
    })
}

/// Returns a token that is signed with a shared secret.
pub fn with_secret(secret: &[u8], claims: &Value) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    signed("HS256", claims, |text| hmac::sign(&key, text).as_ref().to_vec())
}

fn signed(algorithm: &str, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let header = json!({"typ": "JWT", "alg": algorithm, "kid": "k1"}).to_string();
    let text = format!("{}.{}", part(header.as_bytes()), part(claims.to_string().as_bytes()));
    let signature = part(&sign(text.as_bytes()));
    format!("{text}.{signature}")
}
