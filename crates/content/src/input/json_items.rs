//! JSON values one after the other: the items of an array, or values that follow each other. Items
//! are split without reading the whole text, so that neither its length nor its depth costs memory.

/// The longest item, in bytes. An abstract and a thousand authors fit.
pub(super) const MAX_ITEM_BYTES: usize = 1 << 20;

/// A part of the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JsonItem {
    /// The text of one value, which may be invalid.
    Whole(Vec<u8>),
    /// The beginning of a value longer than [`MAX_ITEM_BYTES`].
    Overlong(Vec<u8>),
}

/// Splits a text into its items, byte by byte.
#[derive(Debug, Default)]
pub(super) struct ItemSplitter {
    item: Vec<u8>,
    is_overlong: bool,
    /// The number of brackets of the item that are open.
    depth: u64,
    /// The bracket around all items is open.
    is_in_array: bool,
    string: StringState,
}

/// The position of the next byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StringState {
    #[default]
    Outside,
    Inside,
    /// Inside a string, behind a backslash.
    Escaped,
}

impl ItemSplitter {
    /// Adds a byte. Returns the item that ends with or before the byte.
    pub(super) fn push(&mut self, byte: u8) -> Option<JsonItem> {
        if self.string != StringState::Outside {
            self.keep(byte);
            self.string = match (self.string, byte) {
                (StringState::Inside, b'"') => StringState::Outside,
                (StringState::Inside, b'\\') => StringState::Escaped,
                _ => StringState::Inside,
            };
            let is_ended = self.string == StringState::Outside;
            return self.take_if(is_ended && self.depth == 0);
        }
        let is_between = self.depth == 0;
        match byte {
            b'[' if is_between && self.item.is_empty() && !self.is_in_array => {
                self.is_in_array = true;
                None
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.keep(byte);
                None
            }
            b'}' | b']' if is_between => {
                self.is_in_array &= byte != b']';
                self.take_if(true)
            }
            b'}' | b']' => {
                self.depth -= 1;
                self.keep(byte);
                self.take_if(self.depth == 0)
            }
            b',' if is_between => self.take_if(true),
            _ if is_between && byte.is_ascii_whitespace() => self.take_if(true),
            _ => {
                if byte == b'"' {
                    self.string = StringState::Inside;
                }
                self.keep(byte);
                None
            }
        }
    }

    /// Returns the last item at the end of the text, or an error if a bracket or quote is open.
    pub(super) fn end(&mut self) -> Result<Option<JsonItem>, ()> {
        let is_in_string = self.string != StringState::Outside;
        let is_cut = self.is_in_array || is_in_string || self.depth > 0;
        let last = self.take_if(true);
        if is_cut { Err(()) } else { Ok(last) }
    }

    fn keep(&mut self, byte: u8) {
        if self.item.len() < MAX_ITEM_BYTES {
            self.item.push(byte);
        } else {
            self.is_overlong = true;
        }
    }

    fn take_if(&mut self, is_ended: bool) -> Option<JsonItem> {
        if !is_ended || self.item.is_empty() {
            return None;
        }
        let item = std::mem::take(&mut self.item);
        Some(if std::mem::take(&mut self.is_overlong) {
            JsonItem::Overlong(item)
        } else {
            JsonItem::Whole(item)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> (Vec<String>, bool) {
        let mut splitter = ItemSplitter::default();
        let mut items: Vec<_> = text
            .bytes()
            .filter_map(|byte| splitter.push(byte))
            .collect();
        let is_whole = splitter.end().map(|last| items.extend(last)).is_ok();
        let shown = |item| match item {
            JsonItem::Whole(text) => String::from_utf8(text).unwrap(),
            JsonItem::Overlong(text) => format!("overlong {}", text.len()),
        };
        (items.into_iter().map(shown).collect(), is_whole)
    }

    #[test]
    fn items_are_split_at_their_ends_only() {
        for (text, items) in [
            (
                r#"["a, ]\"b", {"c": [1, 2]} , 7 ,null]"#,
                vec![r#""a, ]\"b""#, r#"{"c": [1, 2]}"#, "7", "null"],
            ),
            (
                "{\n \"a\": 1\n}\n{\"b\": \"}\"}",
                vec!["{\n \"a\": 1\n}", r#"{"b": "}"}"#],
            ),
            ("[] [\"a\"]", vec!["\"a\""]),
            ("[[1], []]", vec!["[1]", "[]"]),
            ("", vec![]),
        ] {
            let items = items.into_iter().map(str::to_owned).collect();
            assert_eq!(split(text), (items, true), "{text}");
        }
        for cut in ["[", "[1, \"a", "{\"a\": [1]", "[{}"] {
            assert!(!split(cut).1, "{cut}");
        }
    }

    #[test]
    fn long_and_deep_items_keep_no_more_than_the_limit() {
        let mut splitter = ItemSplitter::default();
        for _ in 0..2 * MAX_ITEM_BYTES {
            assert_eq!(splitter.push(b'['), None);
        }
        assert_eq!(splitter.item.len(), MAX_ITEM_BYTES);
        assert_eq!(splitter.end(), Err(()));
        let long = format!("[\"{}\", 1]", "x".repeat(MAX_ITEM_BYTES));
        let overlong = format!("overlong {MAX_ITEM_BYTES}");
        assert_eq!(split(&long).0, [overlong, "1".to_owned()]);
    }
}
