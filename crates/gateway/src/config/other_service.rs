//! The services that azurite has beside tables. An emulator refuses their requests.

/// A service that is not the Table service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherService {
    Blob,
    Queue,
}

impl OtherService {
    /// The name of the setting that says where it listens.
    pub fn setting(self) -> &'static str {
        match self {
            OtherService::Blob => "blob_listen",
            OtherService::Queue => "queue_listen",
        }
    }

    /// Its name, as the service writes it.
    pub fn name(self) -> &'static str {
        match self {
            OtherService::Blob => "Blob",
            OtherService::Queue => "Queue",
        }
    }
}
