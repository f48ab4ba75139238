//! Buffers that change hands while a hostcall reads or writes them, where each instance has a key of its own: the libos, which
//! has all keys, reads and writes them for nobody but their owner.

use crate::harness::{Ran, image, visor};
use crate::support::{document, is_refused};
use std::process::{Command, Stdio};

/// Calls and ways, once each: copies are slow on the processor that has keys. `e2e_handover` has all of them.
const ROUNDS: u32 = 1;
const PAIRS: [(&str, &str); 3] = [("read", "publish"), ("write", "publish"), ("read", "free")];

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_buffer_in_use_does_not_change_hands() {
    let image = image("attacks");
    for (call, way) in PAIRS {
        let folder = tempfile::tempdir().expect("a folder for the workflow");
        let file = folder.path().join("workflow.json");
        let document = document(image.to_str().expect("a path in UTF-8"), call, way, ROUNDS);
        std::fs::write(&file, document.to_string()).expect("the workflow");
        let mut command = Command::new(visor());
        command.args(["run", "--json", "--isolation", "mpk"]).arg(&file).stdin(Stdio::null());
        let output = command.output().expect("the visor starts");
        let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let ran = Ran { status: output.status, report, output: text.concat() };
        ran.is_done(&format!("{call}, {way}"));
        assert_eq!(ran.report["isolation"], "mpk");
        is_refused(call, way, &ran.printed("giver"), &ran.printed("taker"));
    }
}
