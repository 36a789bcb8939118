//! The directory of the library: of `--library` or the configuration, else one that does not depend
//! on the working directory.

use std::path::{Path, PathBuf};

use docstokg_ontology::config::OntologyConfig;
use docstokg_ontology::library::Library;

use super::arguments::LibraryFlag;
use crate::arguments::GlobalArguments;
use crate::output;

/// The library of earlier versions, in the working directory.
const EARLIER_DIRECTORY: &str = "ontologies";
/// The library below the data directory of the user.
const DATA_SUBDIRECTORY: &str = "docstokg/ontologies";

/// Returns the library that a command uses.
pub(super) fn library(
    global: &GlobalArguments,
    flag: &LibraryFlag,
    config: &OntologyConfig,
) -> Library {
    let written = flag.library.as_ref().or(config.library.as_ref());
    if let Some(directory) = written {
        return Library::at(directory);
    }
    let Some(data) = data_directory(|name| std::env::var_os(name).map(PathBuf::from)) else {
        return Library::at(EARLIER_DIRECTORY);
    };
    let earlier = Library::at(EARLIER_DIRECTORY);
    if !earlier.is_present() {
        return Library::at(data.join(DATA_SUBDIRECTORY));
    }
    if !global.quiet {
        output::print_note(&format!(
            "using the library ./{EARLIER_DIRECTORY} of this directory; elsewhere the library is {}",
            data.join(DATA_SUBDIRECTORY).display()
        ));
    }
    earlier
}

/// Returns the data directory of the user (XDG base directories: relative paths do not count).
fn data_directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|path| Path::is_absolute(path));
    absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_directory_is_absolute() {
        let of = |data: Option<&str>, home: Option<&str>| {
            data_directory(|name| match name {
                "XDG_DATA_HOME" => data.map(PathBuf::from),
                _ => home.map(PathBuf::from),
            })
        };
        let home = Some("/home/me");
        assert_eq!(of(Some("/data"), home), Some("/data".into()));
        for unusable in [None, Some(""), Some("data")] {
            let expected = Some("/home/me/.local/share".into());
            assert_eq!(of(unusable, home), expected, "{unusable:?}");
        }
        assert_eq!(of(None, None), None);
    }
}
