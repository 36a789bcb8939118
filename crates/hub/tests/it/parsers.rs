//! The entry function of the configuration's parser, for the property tests here and for a target
//! of `fuzz/`: it panics where a rule is broken.

use std::io::Write as _;

use docstokg_hub::config::load::{ConfigSources, load};

/// Reads a configuration file. One that is refused has at least one problem, and each is a
/// sentence.
pub(crate) fn read_configuration(bytes: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("a file");
    let sources = ConfigSources {
        file: Some(file.path().to_owned()),
        ..ConfigSources::default()
    };
    if let Err(problems) = load(&sources) {
        assert!(!problems.0.is_empty());
        assert!(problems.0.iter().all(|problem| !problem.message.is_empty()));
    }
}
