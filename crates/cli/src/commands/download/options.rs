//! Joining the options of a command with those that a directory has stored.

use std::path::Path;

use crate::exit::CommandFailure;

/// An option, as the directory and the command have it.
pub(super) struct JobOption<'a, T> {
    pub(super) flag: &'static str,
    /// The stored value, which becomes the one that applies.
    pub(super) value: &'a mut T,
    /// The value of a job whose commands leave the flag out.
    pub(super) usual: T,
    /// The value of the command, if it has the flag.
    pub(super) given: Option<T>,
    pub(super) shown: fn(&T) -> String,
}

/// Joins options one by one, and collects what is to be said about them.
pub(super) struct OptionJoin {
    is_stored: bool,
    refusals: Vec<String>,
    changes: Vec<String>,
    continued: Vec<String>,
}

impl OptionJoin {
    /// Begins; `is_stored` says whether the directory has options.
    pub(super) const fn new(is_stored: bool) -> Self {
        Self {
            is_stored,
            refusals: Vec::new(),
            changes: Vec::new(),
            continued: Vec::new(),
        }
    }

    /// Joins an option that may not change.
    pub(super) fn fix<T: PartialEq>(&mut self, option: JobOption<'_, T>) {
        let JobOption { flag, shown, .. } = option;
        match option.given {
            Some(given) if self.is_stored && given != *option.value => {
                let (stored, given) = (shown(option.value), shown(&given));
                self.refusals.push(format!(
                    "it was begun with {flag} {stored}, and this command has {flag} {given}: leave \
                     {flag} out to continue that job, or choose another --out"
                ));
            }
            given => self.take(JobOption { given, ..option }),
        }
    }

    /// Joins an option that may change.
    pub(super) fn set<T: PartialEq>(&mut self, option: JobOption<'_, T>) {
        let JobOption { flag, shown, .. } = option;
        let changed = option.given.as_ref().filter(|given| *given != option.value);
        if let Some(given) = changed.filter(|_| self.is_stored) {
            let (stored, given) = (shown(option.value), shown(given));
            let stored = if stored.is_empty() {
                "not set".to_owned()
            } else {
                stored
            };
            self.changes
                .push(format!("{flag} is now {given}; it was {stored}"));
        }
        self.take(option);
    }

    fn take<T: PartialEq>(&mut self, option: JobOption<'_, T>) {
        if let Some(given) = option.given {
            *option.value = given;
        } else if self.is_stored && *option.value != option.usual {
            let (flag, shown) = (option.flag, option.shown);
            self.continued
                .push(format!("{flag} {}", shown(option.value)));
        }
    }

    /// Refuses what a command says.
    pub(super) fn refuse(&mut self, why: String) {
        self.refusals.push(why);
    }

    /// Returns what is to be said.
    ///
    /// # Errors
    /// The command contradicts what is stored.
    pub(super) fn end(self, out: &Path) -> Result<Vec<String>, CommandFailure> {
        let out = out.display();
        if !self.refusals.is_empty() {
            let refusals = self.refusals.join("; ");
            return Err(CommandFailure::Usage(format!(
                "{out} has a job: {refusals}"
            )));
        }
        let mut notices = self.changes;
        if !self.continued.is_empty() {
            let continued = self.continued.join(" ");
            notices.insert(0, format!("the job of {out} continues with {continued}"));
        }
        Ok(notices)
    }
}
