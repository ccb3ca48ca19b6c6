//! The checks of every file and every answer of a service that the copy program reads. The fuzz targets run them on texts that nobody has written.

use table_service_copy::ends::files::count;
use table_service_copy::ends::services::{AnswerKind, read};

fn of(format: &str, bytes: &[u8], delimiter: u8, infer_types: bool) {
    let read = count(bytes, format, delimiter, infer_types);
    if let Err(fault) = &read {
        // A fault has a place.
        assert!(fault.starts_with("line ") && fault.len() < 10_000, "{fault}");
    }
    // The same text in another encoding is the same file.
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.starts_with('\u{feff}')
        && !bytes.iter().take(3).any(|&byte| byte == 0)
    {
        let wide = std::iter::once(0xfeff).chain(text.encode_utf16());
        let wide: Vec<u8> = wide.flat_map(u16::to_le_bytes).collect();
        assert_eq!(count(&wide, format, delimiter, infer_types), read);
    }
}

pub fn csv(bytes: &[u8]) {
    of("csv", bytes, b',', false);
    of("csv", bytes, b'\t', true);
}

pub fn json_lines(bytes: &[u8]) {
    of("jsonl", bytes, b',', false);
}

pub fn json_document(bytes: &[u8]) {
    of("azcopy", bytes, b',', false);
}

pub fn azurite(bytes: &[u8]) {
    of("azurite", bytes, b',', false);
}

fn answer(kind: AnswerKind, body: &[u8]) {
    // Each item takes some bytes of the body. In a text, a byte that is not UTF-8 becomes three, and a control character is
    // escaped with up to six. Code and message may be the same text.
    match (kind, read(kind, body)) {
        (AnswerKind::Error, Ok(length)) => assert!(length <= 2 * 3 * body.len(), "{length}"),
        (_, Ok(count)) => assert!(count <= body.len(), "{count}"),
        (_, Err(problem)) => assert!(problem.len() <= 2 * 6 * body.len() + 1000, "{problem:?}"),
    }
}

pub fn pages(bytes: &[u8]) {
    for kind in [AnswerKind::Entities, AnswerKind::Keys, AnswerKind::Tables] {
        answer(kind, bytes);
    }
}

pub fn batch_answer(bytes: &[u8]) {
    answer(AnswerKind::Batch, bytes);
}

pub fn service_xml(bytes: &[u8]) {
    for kind in [AnswerKind::Policies, AnswerKind::Properties, AnswerKind::Error] {
        answer(kind, bytes);
    }
}
