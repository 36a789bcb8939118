//! Checks the cost of JSON-LD contexts before the parser sees them.
//!
//! The parser resolves the terms of a context recursively, with one level for each term that refers
//! to another term. Wherever a nested context begins, the parser copies the whole outer context. So
//! a long chain of terms can exhaust the stack, and a file of a few bytes can use gigabytes. To
//! prevent this, [`ContextScan`] finds the contexts in a JSON text as its bytes pass,
//! [`ContextBudget`] adds up their costs, and [`ContextBudget::add_remote`] checks each document
//! that a context refers to.
//!
//! The parser also repeats texts:
//! - The IRI of a node, in each statement of the node.
//! - A namespace, in each name with its prefix.
//! - A language tag, in each text.
//!
//! A file that is read in memory is expanded completely before the parser returns its first
//! statement, and a list of types is always expanded at once. For these,
//! [`ContextBudget::judge_kept`] and the check of the list limit the length of the longest text
//! times the number of values.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use url::Url;

/// Maximum length of a chain of terms that refer to each other. Real contexts have two or three.
const MAX_CHAIN: usize = 32;
/// Maximum nesting of contexts within terms of contexts, and of objects that have contexts.
const MAX_NESTING: usize = 8;
/// Maximum length of the text of one context, in bytes.
const MAX_CONTEXT_BYTES: usize = 4 << 20;
/// Maximum number of contexts in one list, because each can refer to terms of those before.
const MAX_LIST: usize = 1000;
/// Maximum number of terms in a context with an `@import`. Chains of terms can run through both
/// documents.
const MAX_TERMS_WITH_IMPORT: usize = 8;
/// Maximum size of all expanded contexts, in bytes.
const MAX_BYTES: u64 = 8 << 20;
/// Maximum size of all expanded contexts, in bytes, if a term has its own context, because each use
/// of the term copies the contexts.
const MAX_SCOPED_BYTES: u64 = 512 << 10;
/// Maximum number of bytes that are copied while contexts are processed.
const MAX_COPIED_BYTES: u64 = 1 << 30;
/// Maximum number of bytes that are copied for the values of terms with their own contexts. Copying
/// this much takes seconds.
const MAX_BYTES_COPIED_FOR_VALUES: u64 = 16 << 30;
/// Assumed memory of a term without its texts, in bytes.
const TERM_BYTES: u64 = 200;
/// Maximum size of repeated texts that are in memory at once, in bytes.
const MAX_REPEATED_BYTES: u64 = 192 << 20;
/// Maximum number of contexts that are processed because of lists within terms, for all values
/// together. Each context may cause an error, and the parser keeps errors until a value is
/// expanded.
const MAX_LISTED_FOR_VALUES: u64 = 1 << 20;

/// The costs of one context, including the contexts in it. [`ContextBudget`] adds them up.
#[derive(Debug, Default)]
struct ContextWeight {
    terms: u64,
    /// Number of contexts, and of references to contexts.
    contexts: u64,
    references: Vec<String>,
    longest_text: u64,
    /// The length of all texts together, in bytes.
    text: u64,
    chain: u64,
    /// Maximum number of contexts that can build on each other, because they are in a list or
    /// nested within terms.
    layers: u64,
    has_scoped: bool,
    /// Length of the longest list of contexts within a term.
    longest_scoped_list: u64,
    /// True if a context within a term refers to another document.
    has_scoped_reference: bool,
    /// Terms that are defined as a keyword or as another term, with that keyword or term.
    aliases: Vec<(String, String)>,
}

/// A [`ContextBudget`] that a guard and the loader of remote contexts share.
pub(crate) type SharedBudget = Arc<Mutex<ContextBudget>>;

/// The costs of all contexts of a document so far, from the [`ContextWeight`] of each.
#[derive(Debug, Default)]
pub(crate) struct ContextBudget {
    bytes: u64,
    contexts: u64,
    has_scoped: bool,
    /// Number of values of the file so far.
    values: u64,
    /// Number of times that a remote context may be processed, because other contexts refer to it
    /// repeatedly.
    repetitions: u64,
    /// The URLs of remote contexts that refer to other contexts.
    referring: HashSet<String>,
    /// Maximum length of the texts that a context can add to one name, in bytes: the expanded term,
    /// prefix or language.
    term_text: u64,
    longest_scoped_list: u64,
    /// The terms that are aliases of a keyword, each with the keyword.
    keywords: HashMap<String, String>,
    /// The texts of the file, if the parser keeps the whole file in memory.
    kept: Option<KeptTexts>,
}

/// The texts of a file that a parser repeats before it returns the first statement.
#[derive(Debug, Default)]
struct KeptTexts {
    values: u64,
    longest_key: u64,
    /// Length of the longest text among the values of each key, in bytes.
    longest_by_key: HashMap<String, u64>,
}

impl KeptTexts {
    fn add(&mut self, value: &Value, key: &str) {
        self.values += 1;
        match value {
            Value::String(text) => {
                let length = text.len() as u64;
                match self.longest_by_key.get_mut(key) {
                    Some(longest) => *longest = length.max(*longest),
                    None => drop(self.longest_by_key.insert(key.to_owned(), length)),
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.add(value, key)),
            Value::Object(members) => {
                for (key, value) in members {
                    self.longest_key = self.longest_key.max(key.len() as u64);
                    self.add(value, key);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => (),
        }
    }
}

impl ContextBudget {
    /// Counts a context of the document.
    ///
    /// Returns the reason if the context is refused.
    fn add(&mut self, context: &Value) -> Result<(), String> {
        let mut weight = ContextWeight::default();
        weight.add(context, 0)?;
        self.charge(weight)
    }

    /// Checks a file that the parser expands completely before it returns the first statement.
    ///
    /// Returns the reason if the file is refused. The caller must have bounded the nesting of the
    /// document.
    pub(crate) fn judge_kept(&mut self, document: &Value) -> Result<(), String> {
        let mut texts = KeptTexts::default();
        texts.add(document, "");
        self.kept = Some(texts);
        self.judge_repeated()
    }

    fn judge_repeated(&self) -> Result<(), String> {
        let Some(kept) = &self.kept else {
            return Ok(());
        };
        // Values of `@value` are not repeated, because each is part of one statement only.
        let is_repeated = |key: &str| match key.strip_prefix('@') {
            Some(keyword) => keyword != "value",
            None => self.keywords.get(key).is_some_and(|word| word != "@value"),
        };
        let of_keywords = kept.longest_by_key.iter();
        let of_keywords = of_keywords
            .filter(|(key, _)| is_repeated(key))
            .map(|(_, longest)| *longest);
        let longest = self.term_text + kept.longest_key + of_keywords.max().unwrap_or(0);
        if longest.saturating_mul(kept.values) > MAX_REPEATED_BYTES {
            return Err(format!(
                "the file has {} values, and each may repeat names of {longest} bytes",
                kept.values
            ));
        }
        Ok(())
    }

    /// Judges the length of a list of types, which are expanded together.
    fn judge_types(&self, types: u64) -> Result<(), String> {
        let longest = self.term_text + TERM_BYTES;
        if longest.saturating_mul(types) > MAX_REPEATED_BYTES {
            return Err(format!(
                "a list has {types} types or more, and each may repeat names of {longest} bytes"
            ));
        }
        Ok(())
    }

    /// Returns true if a key of the file stands for `@type`.
    fn is_type(&self, key: &str) -> bool {
        key == "@type" || self.keywords.get(key).is_some_and(|word| word == "@type")
    }

    /// Adds the cost of a remote document. Returns the reason if the document is refused.
    ///
    /// The contexts of the document may refer to further documents. The parser limits neither
    /// repeated references nor circles through the contexts of terms, so this check limits the
    /// first and refuses the second.
    pub(crate) fn add_remote(&mut self, url: &str, document: &[u8]) -> Result<(), String> {
        let document: Value = serde_json::from_slice(document)
            .map_err(|error| format!("the context is not JSON: {error}"))?;
        let Some(context) = document.get("@context") else {
            return Ok(());
        };
        let mut weight = ContextWeight::default();
        weight.add(context, 0)?;
        if weight.has_scoped_reference {
            return Err("a term of the remote context refers to another context".to_owned());
        }
        if !weight.references.is_empty() {
            let base = Url::parse(url).map_err(|error| format!("this is not a URL: {error}"))?;
            self.referring.insert(base.to_string());
            let mut urls = weight.references.iter().filter_map(|to| base.join(to).ok());
            if urls.any(|url| self.referring.contains(url.as_str())) {
                return Err("remote contexts refer to each other in a circle".to_owned());
            }
            let times = weight.references.len() as u64 + 1;
            self.repetitions = self.repetitions.max(1).saturating_mul(times);
        }
        self.charge(weight)?;
        self.judge_repeated()
    }

    /// Adds to the number of values in the file, and returns the reason if they are too many. The
    /// parser copies the whole context for each value of a term that has its own context.
    fn add_values(&mut self, values: u64) -> Result<(), String> {
        self.values = self.values.saturating_add(values);
        if self.has_scoped && self.values.saturating_mul(self.bytes) > MAX_BYTES_COPIED_FOR_VALUES {
            return Err(
                "the file has too many values for terms with their own contexts".to_owned(),
            );
        }
        // A list of one context is usual and costs nothing extra.
        let listed = self.longest_scoped_list.saturating_sub(1);
        if self.values.saturating_mul(listed) > MAX_LISTED_FOR_VALUES {
            return Err("the file has too many values for terms with lists of contexts".to_owned());
        }
        Ok(())
    }

    fn charge(&mut self, weight: ContextWeight) -> Result<(), String> {
        self.contexts += weight.contexts;
        let links = weight.chain.max(1).saturating_mul(weight.layers.max(1));
        let text = weight.longest_text.saturating_mul(links);
        // Nested contexts build on the contexts around them.
        let layers = self.contexts.clamp(1, MAX_NESTING as u64);
        let text_of_terms = text.min(weight.text).saturating_mul(layers);
        self.term_text = self.term_text.max(text_of_terms);
        self.longest_scoped_list = self.longest_scoped_list.max(weight.longest_scoped_list);
        self.add_aliases(weight.aliases);
        let bytes = (weight.terms + 1).saturating_mul(text.saturating_add(TERM_BYTES));
        // A context that the file repeats replaces the one before.
        self.bytes = self.bytes.max(bytes);
        self.has_scoped |= weight.has_scoped;
        let most = if self.has_scoped {
            MAX_SCOPED_BYTES
        } else {
            MAX_BYTES
        };
        if self.bytes > most {
            return Err(format!(
                "the terms of a context expand to more than {} KiB",
                most >> 10
            ));
        }
        let copied = self.contexts.saturating_mul(self.bytes);
        if copied.saturating_mul(self.repetitions.max(1)) > MAX_COPIED_BYTES {
            return Err("the file has too many contexts for the size of the largest".to_owned());
        }
        Ok(())
    }

    /// Adds the terms that are aliases of keywords, directly or through other terms.
    fn add_aliases(&mut self, mut aliases: Vec<(String, String)>) {
        loop {
            let before = aliases.len();
            aliases.retain(|(term, meaning)| {
                let keyword = if meaning.starts_with('@') {
                    Some(meaning.clone())
                } else {
                    self.keywords.get(meaning).cloned()
                };
                let is_open = keyword.is_none();
                if let Some(keyword) = keyword {
                    self.keywords.insert(term.clone(), keyword);
                }
                is_open
            });
            if aliases.len() == before {
                return;
            }
        }
    }
}

impl ContextWeight {
    /// Adds a context and the contexts within its terms, `nesting` levels deep.
    fn add(&mut self, context: &Value, nesting: usize) -> Result<(), String> {
        match context {
            Value::Array(contexts) if contexts.len() > MAX_LIST => {
                Err(format!("a list has more than {MAX_LIST} contexts"))
            }
            Value::Array(contexts) => {
                let layers = contexts.len().saturating_mul(nesting + 1);
                self.layers = self.layers.max(layers as u64);
                if nesting > 0 {
                    let listed = contexts.len() as u64;
                    self.longest_scoped_list = self.longest_scoped_list.max(listed);
                }
                let mut contexts = contexts.iter();
                contexts.try_for_each(|context| self.add(context, nesting))
            }
            Value::Object(terms) => self.add_terms(terms, nesting),
            Value::String(url) => {
                self.contexts += 1;
                self.has_scoped_reference |= nesting > 0;
                self.references.push(url.clone());
                Ok(())
            }
            Value::Null => {
                self.contexts += 1;
                Ok(())
            }
            Value::Bool(_) | Value::Number(_) => {
                Err(format!("a context is {context}, which is not a context"))
            }
        }
    }

    fn add_terms(&mut self, terms: &Map<String, Value>, nesting: usize) -> Result<(), String> {
        self.contexts += 1;
        self.layers = self.layers.max(nesting as u64 + 1);
        self.terms += terms.len() as u64;
        self.chain = self.chain.max(longest_chain(terms)? as u64);
        if terms.contains_key("@import") {
            self.has_scoped_reference |= nesting > 0;
            if terms.len() > MAX_TERMS_WITH_IMPORT + 1 {
                return Err(format!(
                    "a context has more than {MAX_TERMS_WITH_IMPORT} terms beside its @import"
                ));
            }
        }
        for (term, definition) in terms {
            self.measure(term);
            let meaning = definition.get("@id").unwrap_or(definition);
            if let Some(meaning) = meaning.as_str().filter(|meaning| !meaning.contains(':')) {
                self.aliases.push((term.clone(), meaning.to_owned()));
            }
            match definition {
                Value::String(text) => self.measure(text),
                Value::Object(keys) => {
                    let texts = keys.values().filter_map(Value::as_str);
                    texts.for_each(|text| self.measure(text));
                    if let Some(scoped) = keys.get("@context") {
                        if nesting + 1 > MAX_NESTING {
                            return Err(format!(
                                "contexts are nested more than {MAX_NESTING} deep in terms"
                            ));
                        }
                        self.has_scoped = true;
                        self.add(scoped, nesting + 1)?;
                    }
                }
                _ => (),
            }
        }
        Ok(())
    }

    fn measure(&mut self, text: &str) {
        self.longest_text = self.longest_text.max(text.len() as u64);
        self.text += text.len() as u64;
    }
}

/// Returns the number of terms in the longest chain in which each refers to the next.
fn longest_chain(terms: &Map<String, Value>) -> Result<usize, String> {
    // Begin with the terms that refer to no other term, so that no recursion is needed.
    let mut users: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut open: HashMap<&str, usize> = HashMap::new();
    for (term, definition) in terms {
        let used: HashSet<_> = used_terms(term, definition, terms).collect();
        open.insert(term, used.len());
        for used in used {
            users.entry(used).or_default().push(term);
        }
    }
    let mut level: Vec<&str> = terms.keys().map(String::as_str).collect();
    level.retain(|term| open.get(term) == Some(&0));
    let (mut chain, mut settled) = (0, 0);
    while !level.is_empty() {
        chain += 1;
        settled += level.len();
        let mut next = Vec::new();
        for user in level.iter().filter_map(|term| users.get(term)).flatten() {
            if let Some(left) = open.get_mut(user) {
                *left -= 1;
                if *left == 0 {
                    next.push(*user);
                }
            }
        }
        level = next;
    }
    if settled < terms.len() {
        return Err("the terms of a context refer to each other in a circle".to_owned());
    }
    if chain > MAX_CHAIN {
        return Err(format!(
            "more than {MAX_CHAIN} terms of a context refer to each other in a chain"
        ));
    }
    Ok(chain)
}

/// Returns the other terms of a context that are needed to resolve the definition of `term`.
fn used_terms<'a>(
    term: &'a str,
    definition: &'a Value,
    terms: &'a Map<String, Value>,
) -> impl Iterator<Item = &'a str> {
    let of_keys = ["@id", "@type", "@reverse", "@index"]
        .into_iter()
        .filter_map(move |key| definition.get(key)?.as_str());
    let texts = definition.as_str().into_iter().chain(of_keys);
    let whole = texts.clone();
    let prefixes = texts.chain([term]).filter_map(prefix);
    whole
        .chain(prefixes)
        .filter_map(move |used| Some(terms.get_key_value(used)?.0.as_str()))
        .filter(move |used| *used != term)
}

/// Returns the prefix of a compact IRI: the part before the colon. A colon at the start is ignored.
fn prefix(text: &str) -> Option<&str> {
    let text = text.strip_prefix(':').unwrap_or(text);
    Some(text.split_once(':')?.0)
}

/// Maximum length of the part of a key that is kept, in bytes: enough for `@context` with every
/// letter escaped.
const MAX_KEY_BYTES: usize = 64;

/// An object or array that is open.
#[derive(Debug, Default)]
struct OpenBracket {
    has_context: bool,
    /// Maximum nesting of objects with contexts among the members that are already closed.
    levels: usize,
    /// Number of types so far, if this is a list of types.
    types: Option<u64>,
}

/// Finds contexts in a JSON text as its bytes pass.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "where in a JSON text it is: each is independent of the others"
)]
pub(crate) struct ContextScan {
    is_string: bool,
    is_escaped: bool,
    /// The start of the current or last string, with its quotes.
    string: Vec<u8>,
    is_after_string: bool,
    /// True if the next value belongs to the key `@context`.
    is_awaited: bool,
    /// True if the next value belongs to the key `@type`.
    is_type_awaited: bool,
    /// The number of open brackets around the current context, and the text of the context.
    context: Option<(usize, Vec<u8>)>,
    open: Vec<OpenBracket>,
}

impl ContextScan {
    /// Scans the next bytes, and adds each context that ends in them to `budget`.
    ///
    /// Returns the reason if a context is refused. The caller must bound the nesting of brackets.
    pub(crate) fn pass(&mut self, bytes: &[u8], budget: &mut ContextBudget) -> Result<(), String> {
        let mut values = 0;
        for &byte in bytes {
            if let Some((_, context)) = &mut self.context {
                context.push(byte);
                if context.len() > MAX_CONTEXT_BYTES {
                    let most = MAX_CONTEXT_BYTES >> 20;
                    return Err(format!("a context is larger than {most} MiB"));
                }
            }
            if self.is_string {
                self.pass_string(byte, budget)?;
            } else {
                // Each of these characters is followed by a value.
                let is_value = matches!(byte, b',' | b':' | b'[') && self.context.is_none();
                values += u64::from(is_value);
                self.pass_code(byte, budget);
            }
            let around = self.context.as_ref().map(|(around, _)| *around);
            if around == Some(self.open.len()) && !self.is_string {
                self.end_context(budget)?;
            }
        }
        budget.add_values(values)
    }

    fn end_context(&mut self, budget: &mut ContextBudget) -> Result<(), String> {
        let Some((_, context)) = self.context.take() else {
            return Ok(());
        };
        let context: Value = serde_json::from_slice(&context)
            .map_err(|error| format!("a context is not JSON: {error}"))?;
        budget.add(&context)?;
        let mut below = 0;
        if let Some(owner) = self.open.last_mut() {
            owner.has_context = true;
            below = owner.levels;
        }
        let above = self.open.iter().filter(|open| open.has_context).count();
        if above + below > MAX_NESTING {
            return Err(format!(
                "objects with contexts are nested more than {MAX_NESTING} deep"
            ));
        }
        Ok(())
    }

    fn pass_string(&mut self, byte: u8, budget: &ContextBudget) -> Result<(), String> {
        if self.string.len() < MAX_KEY_BYTES {
            self.string.push(byte);
        }
        if self.is_escaped {
            self.is_escaped = false;
        } else if byte == b'"' {
            self.is_string = false;
            self.is_after_string = true;
            if let Some(types) = self.open.last_mut().and_then(|open| open.types.as_mut()) {
                *types += 1;
                budget.judge_types(*types)?;
            }
        } else {
            self.is_escaped = byte == b'\\';
        }
        Ok(())
    }

    fn pass_code(&mut self, byte: u8, budget: &ContextBudget) {
        if byte.is_ascii_whitespace() {
            return;
        }
        let is_value = std::mem::take(&mut self.is_awaited) && self.context.is_none();
        let is_type = std::mem::take(&mut self.is_type_awaited);
        let is_after_string = std::mem::take(&mut self.is_after_string);
        if is_value && matches!(byte, b'{' | b'[' | b'"') {
            self.context = Some((self.open.len(), vec![byte]));
        }
        match byte {
            b':' if is_after_string => {
                let key = serde_json::from_slice::<String>(&self.string);
                self.is_awaited = key.as_ref().is_ok_and(|key| key == "@context");
                self.is_type_awaited = key.is_ok_and(|key| budget.is_type(&key));
            }
            b'"' => {
                self.is_string = true;
                self.string.clear();
                self.string.push(byte);
            }
            b'{' | b'[' => self.open.push(OpenBracket {
                types: (is_type && byte == b'[').then_some(0),
                ..OpenBracket::default()
            }),
            b'}' | b']' => {
                let closed = self.open.pop().unwrap_or_default();
                if let Some(parent) = self.open.last_mut() {
                    let levels = closed.levels + usize::from(closed.has_context);
                    parent.levels = parent.levels.max(levels);
                }
            }
            _ => (),
        }
    }
}

#[cfg(test)]
#[path = "contexts_tests.rs"]
mod tests;
