//! How messages show names, and what they suggest instead of a misspelt one.

/// A name as messages show it: in backticks, control characters escaped, not longer than a line.
pub fn quoted(name: &str) -> String {
    const SHOWN: usize = 60;
    let mut text: String = name.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if name.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    format!("`{}`", text.replace("\\\"", "\"").replace("\\'", "'"))
}

/// ", did you mean `x`?" if one of the candidates looks like the name.
pub fn suggestion<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> String {
    // A hostile file may hold very many and very long names; a suggestion is not worth the time then.
    const LONGEST: usize = 64;
    const MOST: usize = 200;
    const ALIKE: f64 = 0.8;
    if name.len() > LONGEST {
        return String::new();
    }
    candidates
        .into_iter()
        .take(MOST)
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|&(likeness, _)| likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, candidate)| format!(", did you mean {}?", quoted(candidate)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_safely() {
        assert_eq!(quoted("split"), "`split`");
        assert_eq!(quoted("it's"), "`it's`");
        assert_eq!(quoted("\u{1b}[31m"), "`\\u{1b}[31m`");
        assert_eq!(quoted(&"x".repeat(100)), format!("`{}…`", "x".repeat(60)));
    }

    #[test]
    fn suggestions_are_close() {
        assert_eq!(suggestion("aftr", ["name", "after"]), ", did you mean `after`?");
        assert_eq!(suggestion("Timeout", ["name", "timeout"]), ", did you mean `timeout`?");
        assert_eq!(suggestion("colour", ["name", "after"]), "");
    }
}
