//! rustc's flags for a function: those that the user has set for cargo, and those of Monohull.
//!
//! Cargo takes flags from one place, the first of these that has some. Monohull's go to the same place, so that none of the user's are
//! lost:
//!
//! ```text
//!   CARGO_ENCODED_RUSTFLAGS   ┐
//!   RUSTFLAGS                 ┘ read here, and handed on together with Monohull's
//!   target.TRIPLE.rustflags, target.'cfg(…)'.rustflags   cargo joins them, with Monohull's by `--config`
//!   build.rustflags             read here
//! ```
//!
//! What `.cargo/config.toml` says, of this folder and of those above, is asked of cargo itself (`cargo config get`). It answers as an
//! unstable command, which every release of cargo has with `RUSTC_BOOTSTRAP`.

use std::env;
use std::ffi::OsString;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::output;
use super::real_std::TARGET;

/// Conditions that our target meets. Cargo joins the flags of all that hold in the order of their texts, and of two flags that contradict
/// each other rustc takes the latter: the first of these comes behind nearly all that users write.
const ALWAYS: [&str; 3] = ["cfg(unix)", "cfg(not(windows))", "cfg(all())"];

/// What the user has set, and where Monohull's flags go.
#[derive(Debug)]
pub(super) enum Theirs {
    /// These alone hold; with Monohull's they go into the environment.
    Flags(Vec<String>),
    /// Cargo takes those for the target, and joins them with what it is given under this condition.
    Joined(&'static str),
}

impl Theirs {
    /// Asks cargo for those of the crate that this command is for, unless the environment has some. This starts cargo, so it is done once.
    pub(super) fn find(cargo: Command) -> Theirs {
        if let Some(flags) = from_environment() {
            return Theirs::Flags(flags);
        }
        let configured = Configured::ask(cargo);
        if !configured.for_target {
            return Theirs::Flags(configured.build);
        }
        if configured.is_unclear && !configured.build.is_empty() {
            output::note(
                "warning: `target.'cfg(…)'.rustflags` of cargo's configuration stand beside `build.rustflags`, which are not taken",
            );
        }
        Theirs::Joined(configured.always)
    }

    /// Sets the flags of a command of cargo.
    pub(super) fn set(&self, command: &mut Command, ours: Vec<OsString>) {
        match self {
            Theirs::Flags(theirs) => {
                let flags: Vec<OsString> = theirs.iter().map(OsString::from).chain(ours).collect();
                command.env("CARGO_ENCODED_RUSTFLAGS", flags.join(&OsString::from("\x1f"))).env_remove("RUSTFLAGS");
            }
            Theirs::Joined(always) => {
                let ours = ours.iter().map(|flag| Value::from(flag.to_string_lossy())).collect::<Vec<_>>();
                command.arg("--config").arg(format!("target.'{always}'.rustflags={}", Value::from(ours)));
            }
        }
    }
}

/// The flags of the environment, if it has any for every target.
fn from_environment() -> Option<Vec<String>> {
    let encoded = env::var_os("CARGO_ENCODED_RUSTFLAGS").map(|flags| (flags, '\x1f'));
    let plain = env::var_os("RUSTFLAGS").map(|flags| (flags, ' '));
    let (flags, separator) = encoded.or(plain)?;
    Some(words(&flags.to_string_lossy(), separator))
}

fn words(text: &str, separator: char) -> Vec<String> {
    text.split(separator).filter(|flag| !flag.is_empty()).map(str::to_owned).collect()
}

/// What cargo's configuration has.
#[derive(PartialEq, Debug)]
struct Configured {
    /// `build.rustflags`.
    build: Vec<String>,
    /// There are flags for the target, which come in their place.
    for_target: bool,
    /// These are under conditions alone, which may not hold.
    is_unclear: bool,
    /// The condition under which ours are given: a list cannot be added to a text that a user has there.
    always: &'static str,
}

impl Default for Configured {
    fn default() -> Self {
        Configured { build: Vec::new(), for_target: false, is_unclear: false, always: ALWAYS[0] }
    }
}

impl Configured {
    fn ask(mut ask: Command) -> Configured {
        ask.args(["-Zunstable-options", "config", "get", "--format=json"]).env("RUSTC_BOOTSTRAP", "1");
        // Remarks are about variables of the environment, which are read here.
        let answer = ask.stdin(Stdio::null()).stderr(Stdio::null()).output();
        let settings = answer.ok().filter(|answer| answer.status.success());
        let Some(settings) = settings.and_then(|answer| serde_json::from_slice(&answer.stdout).ok()) else {
            output::note("warning: cargo does not say what its configuration is: flags of rustc in it are not taken");
            return Configured::default();
        };
        Configured::of(&settings, |name| env::var(name).ok())
    }

    /// Of the whole configuration, and of the variables by which the environment adds to it.
    fn of(settings: &Value, variable: impl Fn(&str) -> Option<String>) -> Configured {
        let mut build = flags(&settings["build"]["rustflags"]);
        build.extend(variable("CARGO_BUILD_RUSTFLAGS").iter().flat_map(|text| words(text, ' ')));
        let is_free = |condition: &&&str| !settings["target"][**condition]["rustflags"].is_string();
        let targets = settings["target"].as_object().into_iter().flatten();
        let of_targets = targets.filter(|(_, target)| !flags(&target["rustflags"]).is_empty()).map(|(name, _)| name);
        let (conditions, names): (Vec<_>, Vec<_>) = of_targets.partition(|name| name.starts_with("cfg("));
        let variable_of_target = format!("CARGO_TARGET_{}_RUSTFLAGS", TARGET.replace('-', "_").to_uppercase());
        let is_named = names.iter().any(|name| *name == TARGET) || variable(&variable_of_target).is_some();
        Configured {
            build,
            for_target: is_named || !conditions.is_empty(),
            is_unclear: !is_named && !conditions.is_empty(),
            always: ALWAYS.iter().find(is_free).unwrap_or(&ALWAYS[0]),
        }
    }
}

/// Flags are a list, or a text with spaces.
fn flags(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => words(text, ' '),
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flags_are_looked_for_where_cargo_does() {
        let of = |settings| Configured::of(&settings, |_| None);
        assert_eq!(of(json!({})), Configured::default());
        let build =
            json!({ "build": { "rustflags": "--cfg  a" }, "target": { "wasm32-wasip1": { "rustflags": ["-x"] } } });
        assert_eq!(of(build.clone()), Configured { build: vec!["--cfg".into(), "a".into()], ..Configured::default() });
        let with = Configured::of(&build, |name| (name == "CARGO_BUILD_RUSTFLAGS").then(|| "b".to_owned()));
        assert_eq!(with.build, ["--cfg", "a", "b"]);
        let named =
            json!({ "target": { TARGET: { "rustflags": ["-x"], "linker": "l" }, "cfg(unix)": { "rustflags": "y" } } });
        assert_eq!(of(named), Configured { for_target: true, always: ALWAYS[1], ..Configured::default() });
        let unclear = json!({ "target": { "cfg(target_os = \"linux\")": { "rustflags": "y" } } });
        assert_eq!(of(unclear), Configured { for_target: true, is_unclear: true, ..Configured::default() });
        for (flags, always) in [(json!("y"), ALWAYS[1]), (json!(["y"]), ALWAYS[0])] {
            assert_eq!(of(json!({ "target": { "cfg(unix)": { "rustflags": flags } } })).always, always);
        }
        let variable = |name: &str| (name == "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS").then(String::new);
        assert!(Configured::of(&json!({}), variable).for_target);
    }
}
