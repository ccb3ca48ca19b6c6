use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::wait_until;

/// The output of a program, read while it runs.
pub struct Log {
    text: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl Log {
    /// Begins to read.
    pub fn of(mut stream: impl Read + Send + 'static) -> Log {
        let text = Arc::new(Mutex::new(String::new()));
        let copy = text.clone();
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                copy.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
        });
        Log { text, reader }
    }

    /// The output as far as it has been read: a line may come later than its event.
    pub fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// Waits until the program has said this.
    pub fn waits_for(&self, text: &str) {
        wait_until(&format!("the log says {text:?}"), || self.text().contains(text));
    }

    /// All that was said, once the program has ended.
    pub fn whole(self) -> String {
        self.reader.join().unwrap();
        std::mem::take(&mut self.text.lock().unwrap())
    }
}
