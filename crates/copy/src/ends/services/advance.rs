//! The law of lists that come in pages: each answer moves the position forward, or the copy ends with an error.
//!
//! A service may send pages without an entity, and its tokens and its order of keys are its own. But no token comes
//! twice, no page begins with the entity that an earlier one began with, and the pages without an entity end.

/// How many pages without an entity may follow each other. The service sends one where the range of a server ends.
pub const EMPTY_PAGES: u64 = 1000;
/// The same where it looks at every entity of a table and finds few.
pub const SEARCHED_PAGES: u64 = 100_000;

/// The most bytes of a token: two keys, in any coding.
const LONGEST_TOKEN: usize = 16 << 10;

/// The position in a list so far.
pub struct Advance {
    empty: u64,
    most_empty: u64,
    tokens: Circle,
    firsts: Circle,
}

impl Advance {
    /// The beginning of a list, in which so many pages in turn may have no entity.
    pub fn new(most_empty: u64) -> Advance {
        Advance {
            empty: 0,
            most_empty,
            tokens: Circle::default(),
            firsts: Circle::default(),
        }
    }

    /// Notes a page: its first key, and the token of the next page.
    pub fn page(&mut self, first: Option<&str>, next: Option<&str>) -> Result<(), String> {
        match first {
            Some(first) if self.firsts.has(first) => {
                return Err("the same page comes again and again, so the list has no end".to_owned());
            }
            Some(_) => self.empty = 0,
            None => self.empty += 1,
        }
        let Some(next) = next else { return Ok(()) };
        if next.len() > LONGEST_TOKEN {
            return Err(format!("a continuation token has {} bytes", next.len()));
        }
        if self.tokens.has(next) {
            return Err("the same continuation token comes again and again, so the list has no end".to_owned());
        }
        if self.empty >= self.most_empty {
            return Err(format!(
                "{} pages in turn have no entity, and yet another one is to come",
                self.empty
            ));
        }
        Ok(())
    }
}

/// Finds that a sequence goes in a circle, with one value in memory: it compares each with one from before, which it
/// changes less and less often.
#[derive(Default)]
struct Circle {
    count: u64,
    mark: Option<String>,
}

impl Circle {
    fn has(&mut self, value: &str) -> bool {
        if self.mark.as_deref() == Some(value) {
            return true;
        }
        self.count += 1;
        if self.count.is_power_of_two() {
            self.mark = Some(value.to_owned());
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many pages are taken before it is refused.
    fn taken(most: usize, page: impl Fn(usize) -> (Option<String>, String)) -> usize {
        let mut advance = Advance::new(EMPTY_PAGES);
        (0..most)
            .find(|&number| {
                let (first, next) = page(number);
                advance.page(first.as_deref(), Some(&next)).is_err()
            })
            .unwrap_or(most)
    }

    #[test]
    fn circles_of_every_length_are_found() {
        for length in [1, 2, 3, 7, 100] {
            let tokens = taken(5000, |number| (Some(number.to_string()), (number % length).to_string()));
            assert!(tokens <= 4 * length + 2, "{length}: {tokens}");
            let firsts = taken(5000, |number| (Some((number % length).to_string()), number.to_string()));
            assert!(firsts <= 4 * length + 2, "{length}: {firsts}");
        }
    }

    #[test]
    fn pages_without_an_entity_end() {
        assert_eq!(taken(5000, |number| (None, number.to_string())), 999);
        let sometimes = |number: usize| {
            (
                (number.is_multiple_of(900)).then(|| number.to_string()),
                number.to_string(),
            )
        };
        assert_eq!(taken(5000, sometimes), 5000);
        assert_eq!(taken(5000, |_| (None, "x".repeat(20_000))), 0);
    }

    #[test]
    fn a_list_that_moves_is_taken() {
        assert_eq!(
            taken(5000, |number| (Some(number.to_string()), number.to_string())),
            5000
        );
        let mut advance = Advance::new(EMPTY_PAGES);
        assert!(advance.page(None, None).is_ok());
    }
}
