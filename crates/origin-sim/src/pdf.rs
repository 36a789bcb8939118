//! Creates valid PDFs with one empty page, and given bytes in a stream.

/// Returns a PDF with one empty page, and a stream with these bytes.
#[must_use]
pub fn carrying(bytes: &[u8]) -> Vec<u8> {
    let objects: [Vec<u8>; 4] = [
        b"<< /Type /Catalog /Pages 2 0 R /Metadata 4 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>".to_vec(),
        // Numbers have a fixed width, so that a file is always longer than its content by the same
        // number of bytes.
        [
            format!("<< /Length {:010} >>\nstream\n", bytes.len()).as_bytes(),
            bytes,
            b"\nendstream",
        ]
        .concat(),
    ];
    let mut file = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec();
    let mut table = String::from("xref\n0 5\n0000000000 65535 f \n");
    for (number, object) in (1..).zip(objects) {
        table.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.extend_from_slice(format!("{number} 0 obj\n").as_bytes());
        file.extend_from_slice(&object);
        file.extend_from_slice(b"\nendobj\n");
    }
    let end = format!(
        "trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n{:010}\n%%EOF\n",
        file.len()
    );
    file.extend_from_slice(table.as_bytes());
    file.extend_from_slice(end.as_bytes());
    file
}
