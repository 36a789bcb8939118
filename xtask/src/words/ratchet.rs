//! Numbers that may only shrink.
//!
//! The baseline has the number of findings of each rule in each crate or document. It also has a
//! bound for each figure of the workspace that has not reached its target.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};

use super::findings::{RuleFinding, WordRule};

/// The head of the baseline's file.
const HEAD: &str = "\
# The findings of `cargo xtask words` that are left: rule, crate or document, number. A number may only
# shrink: `cargo xtask words lower` writes those of today where they are lower.
";

/// The rule name of a baseline line with a figure.
const FIGURE: &str = "figure";

/// The result of one group of rules.
pub(super) struct SurveyPart {
    pub(super) findings: Vec<RuleFinding>,
    pub(super) figures: Vec<WorkspaceFigure>,
}

/// A figure of the whole workspace, with its target.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WorkspaceFigure {
    name: &'static str,
    /// A count, or a share in per mille.
    value: usize,
    target: usize,
    /// The target is a floor, not a ceiling.
    is_floor: bool,
    is_share: bool,
}

impl WorkspaceFigure {
    /// Creates a figure with a ceiling.
    pub(super) const fn at_most(name: &'static str, target: usize, value: usize) -> Self {
        Self {
            name,
            value,
            target,
            is_floor: false,
            is_share: false,
        }
    }

    /// Creates a figure with a floor.
    pub(super) const fn at_least(name: &'static str, target: usize, value: usize) -> Self {
        Self {
            name,
            value,
            target,
            is_floor: true,
            is_share: false,
        }
    }

    /// Creates a share with a ceiling in percent.
    pub(super) fn share_at_most(
        name: &'static str,
        percent: usize,
        part: usize,
        all: usize,
    ) -> Self {
        let value = (1000 * part).div_ceil(all.max(1));
        Self {
            name,
            value,
            target: 10 * percent,
            is_floor: false,
            is_share: true,
        }
    }

    /// Creates a share with a floor in percent.
    pub(super) fn share_at_least(
        name: &'static str,
        percent: usize,
        part: usize,
        all: usize,
    ) -> Self {
        let value = 1000 * part / all.max(1);
        Self {
            name,
            value,
            target: 10 * percent,
            is_floor: true,
            is_share: true,
        }
    }

    /// Returns the line that people read.
    pub(super) fn sentence(&self) -> String {
        let bound = if self.is_floor { "at least" } else { "at most" };
        let (value, target) = (self.text_of(self.value), self.text_of(self.target));
        format!("{:<40} {value:>8}   target: {bound} {target}", self.name)
    }

    fn text_of(&self, value: usize) -> String {
        if self.is_share {
            format!("{}.{} %", value / 10, value % 10)
        } else {
            value.to_string()
        }
    }

    /// Returns the bound that today's value meets, never better than the target. For a share the
    /// bound is a whole percent, so that unrelated changes do not exceed it.
    fn bound(&self) -> usize {
        let step = if self.is_share { 10 } else { 1 };
        if self.is_floor {
            (self.value / step * step).min(self.target)
        } else {
            (self.value.div_ceil(step) * step).max(self.target)
        }
    }

    fn is_worse_than(&self, bound: usize) -> bool {
        if self.is_floor {
            self.value < bound
        } else {
            self.value > bound
        }
    }
}

/// The numbers of the baseline's file, by rule or [`FIGURE`] and by crate, document or figure.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Baseline {
    allowed: BTreeMap<(String, String), usize>,
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub(super) struct BaselineComparison {
    /// Each finding beyond the baseline.
    pub(super) problems: Vec<String>,
    /// Hints that numbers may be lowered.
    pub(super) notes: Vec<String>,
}

impl Baseline {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut allowed = BTreeMap::new();
        for line in text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[rule, scope, count] = words.as_slice() else {
                bail!("'{line}' is not: rule, scope, number")
            };
            if rule != FIGURE && WordRule::from_name(rule).is_none() {
                bail!("'{line}' names no rule");
            }
            let count = count
                .parse()
                .with_context(|| format!("'{line}' has no number"))?;
            if allowed
                .insert((rule.to_owned(), scope.to_owned()), count)
                .is_some()
            {
                bail!("'{line}': its rule and scope are there twice");
            }
        }
        Ok(Self { allowed })
    }

    /// Returns the file's text.
    pub(super) fn to_text(&self) -> String {
        let mut text = HEAD.to_owned();
        for ((rule, scope), count) in &self.allowed {
            text += &format!("{rule} {scope} {count}\n");
        }
        text
    }

    fn allowed(&self, rule: &str, scope: &str) -> Option<usize> {
        self.allowed
            .get(&(rule.to_owned(), scope.to_owned()))
            .copied()
    }

    /// Compares the findings with the [`Baseline`].
    pub(super) fn compare(
        &self,
        findings: &[RuleFinding],
        figures: &[WorkspaceFigure],
    ) -> BaselineComparison {
        let mut report = BaselineComparison::default();
        let today = counts(findings);
        for ((rule, scope), found) in &today {
            let allowed = self.allowed(rule.name(), scope).unwrap_or(0);
            if found.len() > allowed {
                report.problems.push(format!(
                    "{} in {scope}: {} found, {allowed} allowed by the baseline",
                    rule.name(),
                    found.len()
                ));
                report
                    .problems
                    .extend(found.iter().map(|found| format!("  {}", found.sentence())));
            }
        }
        let mut lower = 0;
        for ((rule, scope), allowed) in &self.allowed {
            if let Some(rule) = WordRule::from_name(rule) {
                lower +=
                    usize::from(today.get(&(rule, scope.as_str())).map_or(0, Vec::len) < *allowed);
            }
        }
        for figure in figures {
            let allowed = self.allowed(FIGURE, figure.name).unwrap_or(figure.target);
            if figure.is_worse_than(allowed) {
                let allowed = figure.text_of(allowed);
                report
                    .problems
                    .push(format!("{}   allowed: {allowed}", figure.sentence()));
            }
            lower += usize::from(figure.bound() != allowed && !figure.is_worse_than(allowed));
        }
        if lower > 0 {
            report.notes.push(format!(
                "numbers of the baseline that can be lowered: {lower} (cargo xtask words lower)"
            ));
        }
        report
    }

    /// Returns the baseline with today's numbers, if they are better.
    pub(super) fn lowered(&self, findings: &[RuleFinding], figures: &[WorkspaceFigure]) -> Self {
        let today = counts(findings);
        let mut allowed = BTreeMap::new();
        for ((rule, scope), count) in &self.allowed {
            let Some(known) = WordRule::from_name(rule) else {
                continue;
            };
            let left = today
                .get(&(known, scope.as_str()))
                .map_or(0, Vec::len)
                .min(*count);
            if left > 0 {
                allowed.insert((rule.clone(), scope.clone()), left);
            }
        }
        for figure in figures {
            let now = self.allowed(FIGURE, figure.name).unwrap_or(figure.target);
            let bound = if figure.is_worse_than(now) {
                now
            } else {
                figure.bound()
            };
            if bound != figure.target {
                allowed.insert((FIGURE.to_owned(), figure.name.to_owned()), bound);
            }
        }
        Self { allowed }
    }
}

fn counts(findings: &[RuleFinding]) -> BTreeMap<(WordRule, &str), Vec<&RuleFinding>> {
    let mut counts: BTreeMap<(WordRule, &str), Vec<&RuleFinding>> = BTreeMap::new();
    for found in findings {
        counts
            .entry((found.rule, found.scope()))
            .or_default()
            .push(found);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(path: &str) -> RuleFinding {
        let (rule, subject, problem) = (WordRule::Link, "b".to_owned(), "is broken".to_owned());
        RuleFinding {
            rule,
            path: path.to_owned(),
            line: 3,
            subject,
            problem,
        }
    }

    #[test]
    fn a_number_may_shrink_and_not_grow() -> anyhow::Result<()> {
        let baseline = Baseline::parse("# head\n\nlink a.md 1\nlink b.md 2\n")?;
        let found = [
            finding("a.md"),
            finding("a.md"),
            finding("b.md"),
            finding("c.md"),
        ];
        let report = baseline.compare(&found, &[]);
        let expected = [
            "link in a.md: 2 found, 1 allowed by the baseline",
            "  a.md:3: is broken",
            "  a.md:3: is broken",
            "link in c.md: 1 found, 0 allowed by the baseline",
            "  c.md:3: is broken",
        ];
        assert_eq!(report.problems, expected);
        assert_eq!(report.notes.len(), 1, "b.md has fewer");
        let lowered = baseline.lowered(&found, &[]);
        assert_eq!(lowered, Baseline::parse("link a.md 1\nlink b.md 1\n")?);
        assert_eq!(Baseline::parse(&lowered.to_text())?, lowered);
        Ok(())
    }

    #[test]
    fn a_figure_may_come_nearer_to_its_target_and_not_leave_it() -> anyhow::Result<()> {
        let baseline = Baseline::parse("figure ceiling 200\nfigure floor 10\n")?;
        let ceiling = |part| WorkspaceFigure::share_at_most("ceiling", 4, part, 1000);
        let floor = |part| WorkspaceFigure::share_at_least("floor", 12, part, 1000);
        assert!(
            baseline
                .compare(&[], &[ceiling(200), floor(10)])
                .problems
                .is_empty()
        );
        assert_eq!(
            baseline
                .compare(&[], &[ceiling(201), floor(9)])
                .problems
                .len(),
            2
        );
        let lowered = baseline.lowered(&[], &[ceiling(151), floor(39)]);
        assert_eq!(
            lowered,
            Baseline::parse("figure ceiling 160\nfigure floor 30\n")?
        );
        let reached = baseline.lowered(&[], &[ceiling(7), floor(300)]);
        assert_eq!(reached, Baseline::default());
        assert_eq!(
            reached
                .compare(&[], &[ceiling(41), floor(119)])
                .problems
                .len(),
            2
        );
        Ok(())
    }

    #[test]
    fn a_line_without_rule_scope_and_number_is_an_error() {
        for wrong in [
            "link a.md",
            "unheard a.md 1",
            "link a.md many",
            "link a.md 1\nlink a.md 1",
        ] {
            assert!(Baseline::parse(wrong).is_err(), "{wrong}");
        }
    }
}
