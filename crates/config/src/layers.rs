//! Layers of settings, the later ones over the earlier ones: defaults < file < environment < flags.

use crate::problem::{ConfigProblem, ConfigProblems};
use crate::section::Section;

/// The merged layers so far, and the problems found in them. The lowest layer has the
/// [defaults](Section::defaults) of the sections.
///
/// ```
/// use docstokg_config::{Layers, document, read_text, section};
///
/// section! {
///     /// The settings of a program.
///     Settings {
///         /// Attempts in all
///         attempts: u32 = 4,
///     }
/// }
///
/// let mut layers = Layers::<Settings>::default();
/// layers.add(|_, problems| {
///     let node = read_text("attempts: 2\n", "my.yaml", problems).expect("YAML");
///     document::read(node, problems)
/// });
/// let (attempts, _) = layers.resolve(|settings| Ok(settings.attempts().value))?;
/// assert_eq!(attempts, 2, "the file is over the default");
/// # Ok::<(), docstokg_config::ConfigProblems>(())
/// ```
#[derive(Clone, Debug)]
pub struct Layers<T> {
    settings: T,
    problems: Vec<ConfigProblem>,
}

impl<T: Section> Default for Layers<T> {
    fn default() -> Self {
        Self {
            settings: T::defaults(),
            problems: Vec::new(),
        }
    }
}

impl<T: Section> Layers<T> {
    /// Reads one more layer over those below. `read` receives the layers below, and adds the
    /// problems that it finds.
    pub fn add(&mut self, read: impl FnOnce(&T, &mut Vec<ConfigProblem>) -> T) {
        let upper = read(&self.settings, &mut self.problems);
        self.settings = upper.over(std::mem::take(&mut self.settings));
    }

    /// Checks the settings as a whole, and converts them into the effective configuration.
    ///
    /// # Errors
    /// Returns [`ConfigProblems`] with the problems of all layers, and those that `resolve` finds.
    pub fn resolve<C>(
        self,
        resolve: impl FnOnce(&T) -> Result<C, Vec<ConfigProblem>>,
    ) -> Result<(C, T), ConfigProblems> {
        let Self {
            settings,
            mut problems,
        } = self;
        match resolve(&settings) {
            Ok(config) if problems.is_empty() => return Ok((config, settings)),
            Ok(_) => {}
            Err(found) => problems.extend(found),
        }
        Err(ConfigProblems::sorted(problems))
    }
}
