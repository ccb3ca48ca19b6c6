//! Entities that cannot be copied, with the reason.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use parking_lot::Mutex;
use table_service_model::Code;

use crate::created;
use crate::failure::Failure;

use super::record::Reject;

/// The rejects file, and how many rejects are too many.
pub struct Rejects {
    file: Option<(PathBuf, Mutex<File>)>,
    most: Option<u64>,
    count: Mutex<u64>,
}

impl Rejects {
    /// Without a file the first reject ends the copy. With one, more than `most` do.
    pub fn open(path: Option<PathBuf>, most: Option<u64>) -> Result<Rejects, Failure> {
        let file = path
            .map(|path| {
                created::appended(&path)
                    .map(|file| (path.clone(), Mutex::new(file)))
                    .map_err(|error| Failure::new(format!("{}: {error}", path.display())))
            })
            .transpose()?;
        Ok(Rejects {
            file,
            most,
            count: Mutex::new(0),
        })
    }

    /// Writes rejects into the file.
    ///
    /// # Errors
    /// The reason of a reject if there is no file, too many of them, a file that cannot be written.
    pub fn add(&self, rejects: &[Reject]) -> Result<(), Failure> {
        let Some(first) = rejects.first() else { return Ok(()) };
        let Some((path, file)) = &self.file else {
            let place = first.place.clone().unwrap_or_else(|| {
                let key = |name| first.entity.get(name).and_then(|key| key.as_str()).unwrap_or_default();
                format!("PartitionKey '{}', RowKey '{}'", key("PartitionKey"), key("RowKey"))
            });
            // Of a copy that is run again, all entities would be rejects.
            let choice = match first.reason.starts_with(Code::EntityAlreadyExists.as_str()) {
                true => {
                    "--on-conflict says what becomes of entities that the target has: skip, replace, merge or newer. "
                }
                false => "",
            };
            return Err(Failure::new(format!(
                "Table {}, {place}: {} ({choice}With --rejects FILE such entities are written into a file, and the program goes on.)",
                first.table, first.reason
            )));
        };
        let mut lines = Vec::new();
        for reject in rejects {
            // Writing to a Vec cannot fail.
            let _ = serde_json::to_writer(&mut lines, reject);
            lines.push(b'\n');
        }
        let mut file = file.lock();
        file.write_all(&lines)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        let mut count = self.count.lock();
        *count += rejects.len() as u64;
        match self.most {
            Some(most) if *count > most => Err(Failure::new(format!(
                "More than {most} entities were rejected; the last reason: {}",
                rejects.last().map_or("", |reject| &reject.reason)
            ))),
            _ => Ok(()),
        }
    }
}
