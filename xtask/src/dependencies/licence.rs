//! SPDX expressions: `MIT OR (Apache-2.0 AND ISC)`, and the older `MIT/Apache-2.0`.

/// Returns whether an expression can be satisfied with allowed licences alone.
pub(super) fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut tokens: Vec<&str> = spaced.split_whitespace().rev().collect();
    either(&mut tokens, allowed) && tokens.is_empty()
}

/// Reads `A OR B`. The tokens are in reverse order, the next one last.
fn either(tokens: &mut Vec<&str>, allowed: &[&str]) -> bool {
    let mut is_allowed = both(tokens, allowed);
    while tokens.pop_if(|token| *token == "OR").is_some() {
        is_allowed |= both(tokens, allowed);
    }
    is_allowed
}

/// Reads `A AND B`, which binds closer than `OR`.
fn both(tokens: &mut Vec<&str>, allowed: &[&str]) -> bool {
    let mut is_allowed = one(tokens, allowed);
    while tokens.pop_if(|token| *token == "AND").is_some() {
        is_allowed &= one(tokens, allowed);
    }
    is_allowed
}

/// Reads a licence with its exception, or an expression in parentheses.
fn one(tokens: &mut Vec<&str>, allowed: &[&str]) -> bool {
    if tokens.pop_if(|token| *token == "(").is_some() {
        let is_allowed = either(tokens, allowed);
        return is_allowed && tokens.pop() == Some(")");
    }
    let Some(licence) = tokens.pop() else {
        return false;
    };
    if tokens.pop_if(|token| *token == "WITH").is_none() {
        return allowed.contains(&licence);
    }
    let exception = tokens.pop().unwrap_or_default();
    let whole = format!("{licence} WITH {exception}");
    allowed.iter().any(|known| *known == whole)
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn an_expression_is_allowed_if_allowed_licences_satisfy_it() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT OR GPL-3.0-only", true),
            ("GPL-3.0-only/MIT", true),
            ("MIT AND GPL-3.0-only", false),
            ("(GPL-3.0-only OR MIT) AND ISC", true),
            ("GPL-3.0-only OR MIT AND ISC", true),
            ("(MIT OR ISC) AND GPL-3.0-only", false),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0", true),
            ("Apache-2.0", false),
            ("", false),
            ("(MIT", false),
            ("MIT ISC", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
    }
}
