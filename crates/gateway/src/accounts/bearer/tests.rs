//! Signatures of other programs (Python's cryptography 48): one signature of each algorithm over the same message.

use jsonwebtoken::crypto::verify;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};

use super::signatures::{accepts, install};

const MESSAGE: &[u8] = b"header.claims";

/// A key of 2,048 bits.
const RSA: &str = r#"{"kty": "RSA", "n": "vK9ZcjLkfhwJiqz--evUCFxSlSbyxE_2BWUWxWpVVgYyN1p1fzsZqGQ2-ljCFMH7gLi6TbWdYLq5KpmSWIgTX9SyL9xLDHz_JxpK5h0KkvUe0NcJAUnDZOAQqiaQZnlbX-qsRUnX0YFNZRFoXMafw9v-dkKW4erTV07o9fDA1qHz14E-SD9hp8ZouIdS7wAS0aUZBWXyjv56oeUN3xjOK2QetSOyv9c-_JpISJZ2smkJQFReaXcf2QwPBXJehVCPiGvxM4lcCGQc4somVf9QUO0vYZh3kXs-WdgfdAPLQk25V4Tet9ORWSGMFzHXMRTrzi9aIRxbPwiHvNeMYYZjqw", "e": "AQAB"}"#;

/// A key of 1,024 bits, and a signature with it.
const WEAK: (&str, &str) = (
    r#"{"kty": "RSA", "n": "riBhT1l8oVqJIM4MBBOtPXml5KtCWaplq0PPaPHc0BUjeHzDsLkOmdABoxTX1hFTlsCyvLNxypZv8rQ0-rcQDNjlgjt6Rj9CKbGtFzQoT5NHuXecLKN5gCrfBM-OrEctDLPzuNe_NnajpG21SwDGcoDU9ddCHGrw6P5C4tbhUxc", "e": "AQAB"}"#,
    "BG52OjzkVqKR52FvJy3wVaHoThfB4fXLHsPsO9gWdoqAm2A3tSYhWncnkevVvkF-evvmn_ZKZ5KZX1fjJobvQ98bg-iq6bRqWixi7MZPS_1q1SGfd3-F9f2CH4HXJqo-6IEx_LP9Qmcpovq7N8bL0syKifZexRLPmAK_14s-IjU",
);

const SIGNED: [(Algorithm, &str, &str); 9] = [
    (
        Algorithm::RS256,
        RSA,
        "Y5Q1qSqLQx5uVp4ZI8jB5u-jIfhsPP3jH1m5zJUJ86aUWX1qy0sATt4fDPs-pBku4pYwcajuob4juJnbyRo6726nS2TO0yhsT_jAPIYx1azesaPPgforrAi9-dK8OX6EIVryp0acLcAhCelsQyaslvyFCtJyPPyJ8grpMTzXx04p2DTk4HPz5Ae14UcX3Xks9ZguZkJChHg-7P_tXFaVYUplkYmt1jVN2-DpLc-0A4zzNrDnlIPm_GADD7ikbMzcUFLz4OGTI5XiFrzQ3lO0EQMURZPcvL40QrevHKv7PyDy5S_vwoYU9B2LWIYv-Ry9OiWFonyfE_B-VAsPd6q7-w",
    ),
    (
        Algorithm::PS256,
        RSA,
        "BB7VWvZme0UsrWUuvyXdDN-zRCLywmlNxL1CESMpOqVzVkQtq9G6_aM4YvS5yk-Rs1i_DZuYUkktHrks0kjSbGCwRnQgFkvs4kkvccCVIObCN_fvh7ing1i2yIlDZ7Kb2uOMjr2yKxyDF4fIlc7eaRbs9DUjeyx4gDAtW3hmo8ygsM-OWCNJK6qCJbn3PiaFwHSXP4tGeis3i6lvSnDcJDl84UaRwYWEt8TyD4vq3rhaJbruxEatWKT8m7tABM9AomaH6V_XQuYioq6PbEi2o7X1wYQ05oHvWt9faA0v0VuokcOSJnlY4RsSLNQOLLKxuUtwo4_fzR4Ig3jU8QV_bA",
    ),
    (
        Algorithm::RS384,
        RSA,
        "S2Ac9MHfpRwclE74Z6fucPvhlElc6Fo1LfkbH-IpOiLbdNoDujzV5zH6nO1aBmA7FvheraZLWR9WQy29jnRW2RO7IXf7QBmcb_EljXZyxZ93NHb4bq7BDWcDgH8jU0hjPT0PTYL3neHKcseXYpKTCYkSLcOx2yhJTWZttHb3LrZpb4Xb-c10Q7c4q0yO_XwGoR98uQk00hVQd3ZRC0RxbhGHIX8WM2xoWGr5CugTXDDz1VPtUlftud8bf0I0CIxtGp_vaVWvIEfDycNb6kMfJzyEER7HHPJJlH4iscC-ZX1xvp2I1MtAlyrS64sRX2F4Zvg5A9gu9zA3VujjTc_6kw",
    ),
    (
        Algorithm::PS384,
        RSA,
        "R2ljthxbdNiH6155bp3-oEfb7qmZe1LcvkTqWpD3iKG66sYJQDanshhV77_VILJBt_eQVX10SbqAZWT0ZvM5I84_FIVaF-KxYprfZAmYEeRyN1ZOBq2mjZxF3tULNEl7-QCXEhBOVPzb1j6WRdTx8LRA9z7UjzUbViOs-S6OsQ1RbDvWQrAGi-_LTpN1Tgs5lYySeLunpdbROEF8kwD__UFG9Ec9yqTfBFgFLhjQhCbJ8o5k9Z6IjSGhwzaB9dyAu5OJV0BKiqonkxADrpzFOujFtZD-PabqWOtkkoTe9QKlGJpmTAv1xlQi8__xEevflAP07CWNwl4MLl1LuZkPOA",
    ),
    (
        Algorithm::RS512,
        RSA,
        "VtstPer8Ou_MqdETxU-TA0UfXdcqMoF1UmQnryEYh8hO8TI0WtSu-5sg-TKMCey35Kw1UNox9MKFAlLK96s3Oxy6dfL2KkgTWGTV1fwA47hAF5VOuQuUxyqEml3qyT7wOJ7qXB1ORVVj9Oz37LgKu7hFP6R8YdmnGrXA1PaOGbh6pGz4h2aS5_zfHgQoArVjjD1Y5nosiv-JhJSF6oRz6PiagTBK-lDsNR52dJ0x4tBRPh_DVGZJT9PdIhUiO5KrlFnE29g2aNFwlTGOziBs3jdGIVvsWPf0KwaeHdxJBAv8tGPX1TjghLjIsslMLJ_WxSjzKZt0ZOqT6IbkQs5eEA",
    ),
    (
        Algorithm::PS512,
        RSA,
        "uigv1f7oCMExOReqfnd-eKU2MTa-fwRjDckqRkH8XOkFq_z1GTITh8WgrsKYeAOB0xwXChX6H718NUrjfdfI8lBERWd7_o_PrS5TXeIkMzw6IxC6akNyc3vJ_18mIfLnkTgyPNHkWU5O1ANC9yb1f162N8JU1V4Q7_kDzkBH78W8B8_GLCRxqinzLAHwEEXLou5X3AFN6gi1eyu5f7pZ9c3HnB9SjbhcRmg-R_cKY5ZDXbtAEDhpt76NZco8e_DC-3MMrd253bD45NKwrFNB6q6I5P8iflVqDnQ-KblGlDIuOic9GL7ptTRnkPZCR_PIVX4F1NgozAeUe4YMYqZ94w",
    ),
    (
        Algorithm::ES256,
        r#"{"kty": "EC", "crv": "P-256", "x": "IE17vqsUszNfZz7zSjust8j2mmhgnfqTBQp6OvKvafs", "y": "CrFuqvAgrC3Ky0vOM0p3RJv9clXMmRwb9H6nQ5SJqCQ"}"#,
        "LOysuMujp-YHMbYnw1cS0Seqa1CxUxh9wH6-7Dw2qgpTohg9-15NAJN75cT2WSleJ9DiFUaiIrEM6NL9hBs3bQ",
    ),
    (
        Algorithm::ES384,
        r#"{"kty": "EC", "crv": "P-384", "x": "slL34H5CIrKw8SErD30id1uucfEbRKzk1-jIoRDNeVnVwqLGt9FcZlO64gW_DYfk", "y": "0HOSJSJtnsDBPMnSoAsYaphL2kAdMp0LCfBQlRMyVVTvnjzMvodoxqgBtHxsNvrF"}"#,
        "QAl7eqPdZ2AdFRoerNaqyz8Mhc1g7Jfbac3-6e96D6FNw0GzYiPaTGZhi3rqMD7ITmwu6uIBS_d7KktWofXZchnVRs0M1rg5CaV4-Pl3MoECmitc098ltfK0FZSR1ft7",
    ),
    (
        Algorithm::EdDSA,
        r#"{"kty": "OKP", "crv": "Ed25519", "x": "dMNq8cMW7jVdmy6k1rTZF1CcpgRI1Oo2l92zbb64mUM"}"#,
        "sF3iXA5yLq1zgmMPJsG88JPGOtma3fTsDzu6__GynhUIliOlpOR4a1hJeDfMHifVJV5f3VorbATTuc6qLM3IBw",
    ),
];

fn key(jwk: &str) -> DecodingKey {
    let jwk: Jwk = serde_json::from_str(jwk).unwrap();
    DecodingKey::from_jwk(&jwk).unwrap()
}

#[test]
fn signatures_of_every_accepted_algorithm_are_checked() {
    install();
    for (algorithm, jwk, signature) in SIGNED {
        assert!(accepts(algorithm));
        let key = key(jwk);
        assert_eq!(verify(signature, MESSAGE, &key, algorithm), Ok(true), "{algorithm:?}");
        assert_eq!(
            verify(signature, b"header.claimt", &key, algorithm),
            Ok(false),
            "{algorithm:?}"
        );
        // No other algorithm takes the same signature.
        for (other, _, _) in SIGNED {
            let taken = verify(signature, MESSAGE, &key, other) == Ok(true);
            assert_eq!(taken, other == algorithm, "{algorithm:?} as {other:?}");
        }
    }
}

#[test]
fn shared_secrets_and_short_keys_are_refused() {
    install();
    for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
        assert!(!accepts(algorithm));
        assert!(verify("c2ln", MESSAGE, &DecodingKey::from_secret(b"secret"), algorithm).is_err());
    }
    assert_eq!(verify(WEAK.1, MESSAGE, &key(WEAK.0), Algorithm::RS256), Ok(false));
}

#[test]
fn a_modulus_may_have_the_sign_byte_of_asn1() {
    install();
    let key = key(RSA);
    let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() else {
        panic!("the key is of RSA")
    };
    let with_sign_byte =
        DecodingKey::from_rsa_raw_components(&[&[0], n.as_slice()].concat(), &[&[0], e.as_slice()].concat());
    let (algorithm, _, signature) = SIGNED[0];
    assert_eq!(verify(signature, MESSAGE, &with_sign_byte, algorithm), Ok(true));
}
