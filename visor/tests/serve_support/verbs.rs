//! The program `monohull` as a client of a server, and as a server that does not start.

use super::root;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The end of a verb: its exit code, and both of its outputs.
pub(crate) struct Done {
    /// The exit code.
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Done {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

/// Runs a verb of `monohull` against the server at an address, with something on standard input.
pub(crate) fn run_verb(server: &str, arguments: &[&str], env: &[(&str, &str)], input: &str) -> Done {
    let mut child = Command::new(env!("CARGO_BIN_EXE_monohull"))
        .current_dir(root())
        .args(arguments)
        .env("MONOHULL_SERVER", server)
        .env_remove("MONOHULL_TOKEN")
        .env_remove("MONOHULL_CA")
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("monohull starts");
    // It may end before it has read.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("a child");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Done { code: output.status.code().expect("an exit code"), out: text(output.stdout), err: text(output.stderr) }
}

/// Starts a server with a grants file that is wrong. Returns its standard error.
pub(crate) fn refused_grants(state: &Path, grants: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_monohull"))
        .args(["serve", "--listen", "127.0.0.1:0", "--state"])
        .arg(state)
        .arg("--grants")
        .arg(grants)
        .output()
        .expect("monohull starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    errors
}
