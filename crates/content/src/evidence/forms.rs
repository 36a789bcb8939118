//! Forms of PDF pages, which the library does not read.
//!
//! Proceedings embed each paper's page as a form: the outer page has only a header and a page
//! number.

use lopdf::{Document, Object, ObjectId};

/// Returns at most `most` forms that a page may show.
pub(super) fn of_page(document: &Document, page: ObjectId, most: usize) -> Vec<ObjectId> {
    let Ok((own, shared)) = document.get_page_resources(page) else {
        return Vec::new();
    };
    let shared = shared
        .iter()
        .filter_map(|id| document.get_dictionary(*id).ok());
    let named = own.into_iter().chain(shared).filter_map(|resources| {
        let objects = resources.get_deref(b"XObject", document).ok()?;
        objects.as_dict().ok()
    });
    let references = named.flat_map(|objects| objects.iter());
    let references = references.filter_map(|(_, object)| object.as_reference().ok());
    let is_form = |id: &ObjectId| {
        let stream = document.get_object(*id).and_then(Object::as_stream);
        let kind = stream.and_then(|stream| stream.dict.get(b"Subtype")?.as_name());
        kind.is_ok_and(|kind| kind == b"Form")
    };
    references.filter(is_form).take(most).collect()
}

/// Replaces the content of a page by that of a form, in the loaded document.
pub(super) fn show(document: &mut Document, page: ObjectId, form: ObjectId) {
    let stream = document.get_object(form).and_then(Object::as_stream);
    let resources = stream.and_then(|stream| stream.dict.get(b"Resources").cloned());
    let Ok(page) = document.get_object_mut(page).and_then(Object::as_dict_mut) else {
        return;
    };
    page.set("Contents", Object::Reference(form));
    // A form without resources uses those of its page.
    if let Ok(resources) = resources {
        page.set("Resources", resources);
    }
}

#[cfg(test)]
mod tests {
    use super::super::file_identity::{first_page, load};

    fn stream(dictionary: &str, data: &str) -> String {
        let length = data.len();
        format!("<< {dictionary} /Length {length} >>\nstream\n{data}\nendstream")
    }

    fn text_of(objects: &[String]) -> Option<String> {
        let mut file = "%PDF-1.5\n".to_owned();
        for (number, object) in (1..).zip(objects) {
            file.push_str(&format!("{number} 0 obj\n{object}\nendobj\n"));
        }
        // The file has no cross-reference table, so the library searches for objects.
        file.push_str("trailer\n<< /Root 1 0 R >>\n%%EOF\n");
        first_page(&mut load(file.as_bytes()).unwrap())
    }

    #[test]
    fn text_of_forms_is_read_where_a_page_has_little_of_its_own() {
        let form = |resources: &str, data: &str| {
            stream(
                &format!("/Type /XObject /Subtype /Form /Resources << {resources} >>"),
                data,
            )
        };
        let paper = |own: &str| {
            let text = format!("BT /F1 9 Tf (Proceedings {own}) Tj ET /X Do");
            text_of(&[
                "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
                "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
                "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources 8 0 R >>".to_owned(),
                stream("", &text),
                form("/XObject << /Y 6 0 R /X 5 0 R >>", "/Y Do"),
                form(
                    "/Font << /F2 7 0 R >>",
                    "BT /F2 9 Tf (Reeds of the coast) Tj ET",
                ),
                "<< /Type /Font /Subtype /Type1 /Encoding /WinAnsiEncoding >>".to_owned(),
                "<< /Font << /F1 7 0 R >> /XObject << /X 5 0 R >> >>".to_owned(),
            ])
        };
        let found = paper("2019").unwrap();
        assert!(
            found.starts_with("Proceedings 2019 Reeds of the coast"),
            "{found}"
        );
        let full = paper(&"words of its own ".repeat(40)).unwrap();
        assert!(!full.contains("Reeds"), "{full}");
    }
}
