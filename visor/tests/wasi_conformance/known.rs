//! The table of `docs/wasi.md` that says what may differ.

use super::cases::{Case, Subject};
use super::here::Mount;
use libtest_mimic::Failed;

const PAGE: &str = include_str!("../../../docs/wasi.md");
const HEAD: &str = "| case | here | in Wasmtime | why |";

/// A row of it.
#[derive(Debug)]
pub(super) struct Row {
    /// `subject::case`, or `mount::subject::case` where it differs on that mount alone.
    cases: Vec<String>,
    /// How the first line that differs ends here; and in Wasmtime.
    here: String,
    there: String,
}

impl Row {
    /// Whether this is the difference that the row is about.
    pub(super) fn fits(&self, ours: &str, theirs: &str) -> bool {
        ours.ends_with(&self.here) && theirs.ends_with(&self.there)
    }
}

/// The table.
pub(super) struct Known(Vec<Row>);

impl Known {
    pub(super) fn read() -> Known {
        let rows = PAGE.split(HEAD).nth(1).expect("the table").lines().skip(2).take_while(|line| line.starts_with('|'));
        let row = |line: &str| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [cases, here, there, why] = cells[..] else { panic!("four cells: {line}") };
            assert!(!why.is_empty(), "a reason: {line}");
            let text = |cell: &str| cell.trim_matches('`').to_owned();
            let cases = cases.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            Row { cases, here: text(here), there: text(there) }
        };
        Known(rows.map(row).collect())
    }

    /// The row of a case.
    pub(super) fn of(&self, mount: Mount, subject: &Subject, case: &Case) -> Option<&Row> {
        let name = format!("{}::{}", subject.name, case.name);
        let on_mount = format!("{mount}::{name}");
        self.0.iter().find(|row| row.cases.iter().any(|case| *case == name || *case == on_mount))
    }

    /// Each name is that of a case, and none is there twice.
    pub(super) fn check_names(&self, subjects: &[Subject]) -> Result<(), Failed> {
        let mut seen = Vec::new();
        for name in self.0.iter().flat_map(|row| &row.cases) {
            let mounts: Vec<Mount> =
                Mount::ALL.into_iter().filter(|mount| name.starts_with(&format!("{mount}::"))).collect();
            let rest = mounts.first().map_or(name.as_str(), |mount| &name[mount.to_string().len() + 2..]);
            let is_there = subjects
                .iter()
                .any(|subject| subject.cases.iter().any(|case| format!("{}::{}", subject.name, case.name) == rest));
            if !is_there {
                return Err(format!("docs/wasi.md: there is no case {name}").into());
            }
            let on = if mounts.is_empty() { Mount::ALL.to_vec() } else { mounts };
            for place in on.into_iter().map(|mount| (mount, rest.to_owned())) {
                if seen.contains(&place) {
                    return Err(format!("docs/wasi.md: {name} is in two rows").into());
                }
                seen.push(place);
            }
        }
        Ok(())
    }
}
