//! The secret that the page sends with its calls, and paths that work once.

use std::hint::black_box;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};

/// A random text of 256 bits.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Makes a new one.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn new() -> Result<Token, String> {
        let mut bytes = [0; 32];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| "the system gives no random numbers".to_owned())?;
        Ok(Token(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Returns the text, which is a secret.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not depend on where the texts differ.
    pub fn is(&self, other: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), other.as_bytes());
        let differences = own.iter().zip(other).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
        own.len() == other.len() && differences == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_256_bits_of_its_own_and_equals_itself_only() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert_eq!(URL_SAFE_NO_PAD.decode(one.expose()).unwrap().len(), 32);
        assert!(one.is(one.expose()));
        for text in ["", other.expose(), &one.expose()[1..], &format!("{}A", one.expose())] {
            assert!(!one.is(text), "{text}");
        }
    }
}
