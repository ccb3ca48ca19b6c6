//! What holds for every file that the copy program reads. The fuzz targets run these on texts that nobody has written.

use table_service_copy::files::count;

fn of(format: &str, bytes: &[u8], delimiter: u8, infer_types: bool) {
    let read = count(bytes, format, delimiter, infer_types);
    if let Err(fault) = &read {
        // What is wrong has a place.
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
