//! Buffers that grow with the input of clients and the answers of the database.

use super::needs;

/// A buffer up to this size doubles. A larger one gets its whole limit at once: it is not copied again, so there are never two of
/// them, and the system gives memory only for written pages.
const DOUBLED: usize = 256 * 1024;

/// Bytes that never have more capacity than the request has taken memory for.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    limit: usize,
}

/// There is no room within the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl Buffer {
    /// Returns a buffer for at most so many bytes, which the request has taken.
    pub fn within(limit: usize) -> Buffer {
        Buffer {
            bytes: Vec::new(),
            limit,
        }
    }

    /// Returns the number of bytes that still have room.
    pub fn room(&self) -> usize {
        self.limit - self.bytes.len()
    }

    /// Appends bytes, or nothing if they have no room.
    ///
    /// # Errors
    /// [`Full`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if bytes.len() > self.room() {
            return Err(Full);
        }
        let length = self.bytes.len() + bytes.len();
        if length > self.bytes.capacity() {
            let doubled = (2 * self.bytes.capacity()).max(length);
            let capacity = if doubled > DOUBLED {
                self.limit
            } else {
                doubled.min(self.limit)
            };
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Removes all bytes behind a length.
    pub fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Returns the capacity for the JSON of an entity with so many bytes in its bag. A character of one byte becomes up to six bytes. A large
/// entity gets all that its request has taken for it, so that it is not copied while it is printed.
pub fn capacity_for_entity(bag: usize) -> usize {
    if bag > DOUBLED / 6 { needs::ENTITY } else { bag + 512 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capacity_stays_within_the_limit() {
        for limit in [0, 1, 100, 1000, 2 * DOUBLED] {
            let mut buffer = Buffer::within(limit);
            let mut pushed = 0;
            for length in [0, 1, 7, 40, 51, 300, 2, 900, 1, limit / 3]
                .into_iter()
                .cycle()
                .take(50)
            {
                let fits = pushed + length <= limit;
                assert_eq!(
                    buffer.push(&vec![b'x'; length]).is_ok(),
                    fits,
                    "{limit} {pushed} {length}"
                );
                pushed += if fits { length } else { 0 };
                assert_eq!(buffer.room(), limit - pushed);
                assert!(buffer.bytes.capacity() <= limit);
            }
            assert_eq!(buffer.into_bytes().len(), pushed);
        }
    }
}
