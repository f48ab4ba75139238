//! The files of cases.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A file of cases.
pub(super) struct Subject {
    /// The file's name.
    pub(super) name: String,
    pub(super) cases: Vec<Case>,
}

/// One case, which begins with `== NAME`, and may have settings behind it: an object of JSON. One with settings has a run to itself; the others of a
/// subject are run together.
pub(super) struct Case {
    pub(super) name: String,
    /// The lines that the program reads, the first of them with the name alone.
    pub(super) script: String,
    pub(super) settings: Option<Settings>,
}

/// What else a run has.
#[derive(Clone, Default)]
pub(super) struct Settings {
    /// Arguments behind the script.
    pub(super) args: Vec<String>,
    /// Environment variables.
    pub(super) env: Vec<(String, String)>,
    /// Standard input.
    pub(super) stdin: Option<String>,
    /// Symbolic links that the host has made in the case's directory, and what is in them. There can be none in memory.
    links: Vec<(String, String)>,
}

pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wasi_conformance")
}

/// All subjects, in the order of their names.
pub(super) fn all() -> Vec<Subject> {
    let files = fs::read_dir(folder().join("cases")).expect("the cases");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files.iter().map(|file| subject(file)).collect()
}

fn subject(file: &Path) -> Subject {
    let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
    let text = fs::read_to_string(file).expect("UTF-8");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut cases: Vec<Case> = Vec::new();
    for line in lines {
        match line.strip_prefix("== ") {
            Some(head) => {
                let (case, settings) = head.split_once(' ').map_or((head, None), |(case, json)| (case, Some(json)));
                assert!(cases.iter().all(|other| other.name != case), "{name}: {case} is there twice");
                let settings = settings.map(|json| settings_of(&format!("{name}::{case}"), json));
                cases.push(Case { name: case.to_owned(), script: format!("== {case}\n"), settings });
            }
            None => {
                let case = cases.last_mut().unwrap_or_else(|| panic!("{name}: {line} belongs to no case"));
                case.script += &format!("{line}\n");
            }
        }
    }
    Subject { name, cases }
}

fn settings_of(case: &str, json: &str) -> Settings {
    let value: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{case}: {error}"));
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{case}: a text")).to_owned();
    let pairs = |value: &Value| -> Vec<(String, String)> {
        value.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect()
    };
    let mut settings = Settings::default();
    for (key, value) in value.as_object().unwrap_or_else(|| panic!("{case}: an object")) {
        match key.as_str() {
            "alone" => assert_eq!(value, true, "{case}"),
            "args" => settings.args = value.as_array().into_iter().flatten().map(text).collect(),
            "env" => settings.env = pairs(value),
            "links" => settings.links = pairs(value),
            "stdin" => settings.stdin = Some(text(value)),
            _ => panic!("{case}: there is no setting `{key}`"),
        }
    }
    settings
}

/// Cases that run together: those of a subject without settings, or one that has some.
pub(super) struct Run {
    pub(super) script: String,
    pub(super) settings: Settings,
}

impl Subject {
    /// The run that has those without settings.
    pub(super) fn together(&self) -> Run {
        let cases = self.cases.iter().filter(|case| case.settings.is_none());
        let script = cases.map(|case| case.script.as_str()).collect();
        Run { script, settings: Settings::default() }
    }
}

impl Case {
    /// Whether it can run on a mount in memory.
    pub(super) fn is_for_memory(&self) -> bool {
        self.settings.as_ref().is_none_or(|settings| settings.links.is_empty())
    }

    /// Makes what the host has beneath the root of the program, which is this folder.
    pub(super) fn prepare(&self, root: &Path) -> Result<(), String> {
        let folder = root.join(&self.name);
        for (name, content) in self.settings.iter().flat_map(|settings| &settings.links) {
            fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            symlink(content, folder.join(name)).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The case's own run, if it has one.
    pub(super) fn alone(&self) -> Option<Run> {
        let settings = self.settings.clone()?;
        Some(Run { script: self.script.clone(), settings })
    }
}
