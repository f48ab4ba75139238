//! Where `monohull run --output` writes: through links, with the rights that a file has, and known to be right before anything runs.

use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A folder with a workflow that gives back its input, and an input.
fn folder() -> TempDir {
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/echo.so");
    let document = json!({
        "name": "echo",
        "functions": { "echo": { "image": image } },
        "steps": [{ "name": "echo", "function": "echo" }],
        "inputs": ["in"],
        "outputs": ["out"],
    });
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("echo.json"), document.to_string()).expect("written");
    fs::write(folder.path().join("in.txt"), "result").expect("written");
    folder
}

/// Runs the workflow: the exit code, standard output and standard error.
fn run(folder: &TempDir, stdout: Stdio, arguments: &[&OsStr]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.current_dir(folder.path()).args(["run", "echo.json"]).args(arguments);
    let output = command.stdin(Stdio::null()).stdout(stdout).output().expect("monohull starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("a code"), text(&output.stdout), text(&output.stderr))
}

/// `SLOT=PATH`.
fn option(slot: &str, path: &OsStr) -> OsString {
    let mut option = OsString::from(format!("{slot}="));
    option.push(path);
    option
}

/// The same with an output and `--json`.
fn report(folder: &TempDir, output: &OsStr, more: &[&str]) -> (i32, Value) {
    let output = option("out", output);
    let mut arguments = ["--json", "--input", "in=in.txt", "--output"].map(OsStr::new).to_vec();
    arguments.push(&output);
    arguments.extend(more.iter().map(OsStr::new));
    let (code, out, err) = run(folder, Stdio::piped(), &arguments);
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}")))
}

fn names(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("it").file_name()).collect();
    names.sort();
    names
}

#[test]
fn a_link_stays_and_its_file_keeps_its_rights() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("secret.txt"), "old").expect("written");
    fs::set_permissions(at("secret.txt"), Permissions::from_mode(0o600)).expect("set");
    symlink("secret.txt", at("link.txt")).expect("a link");
    let (code, shown) = report(&folder, "link.txt".as_ref(), &[]);
    assert_eq!((code, &shown["output"]["out"]["path"]), (0, &"link.txt".into()));
    assert!(fs::symlink_metadata(at("link.txt")).expect("there").is_symlink());
    assert_eq!(fs::read_to_string(at("secret.txt")).expect("read"), "result");
    assert_eq!(fs::metadata(at("secret.txt")).expect("there").permissions().mode() & 0o777, 0o600);
}

/// A link to the name of standard output is what `/dev/stdout` is. Standard output is a file here, which is not replaced: the report
/// follows in it.
#[test]
fn what_leads_to_standard_output_is_written_there() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    symlink("/proc/self/fd/1", at("stdout")).expect("a link");
    let stdout = File::create(at("all.txt")).expect("a file");
    let arguments = ["--input", "in=in.txt", "--output", "out=stdout"].map(OsStr::new);
    let (code, _, err) = run(&folder, stdout.into(), &arguments);
    assert_eq!(code, 0, "{err}");
    let all = fs::read_to_string(at("all.txt")).expect("read");
    assert!(all.starts_with("result") && all.contains("workflow"), "{all}");
    assert!(fs::symlink_metadata(at("stdout")).expect("there").is_symlink());
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_anything_runs() {
    let folder = folder();
    fs::create_dir(folder.path().join("dd")).expect("a folder");
    let before = names(folder.path());
    for (output, why) in [
        ("nofolder/x", "nofolder/x cannot be written: No such file"),
        ("dd", "dd cannot be written: is a directory"),
        ("in.txt/x", "in.txt/x cannot be written: not a directory"),
        ("-", "`-` stands for standard output, which has the report; `./-` is a file of that name"),
    ] {
        for more in [&[][..], &["--state", "state"], &["--suspend", "dd"]] {
            let (code, shown) = report(&folder, output.as_ref(), more);
            let error = &shown["error"];
            assert_eq!((code, &shown["status"], &shown["steps"]), (2, &"refused".into(), &json!([])), "{error}");
            assert_eq!(error["blame"], "invocation");
            let message = error["message"].as_str().expect("a message");
            assert!(message.starts_with(&format!("--output: slot `out`: {why}")), "{message}");
        }
    }
    assert_eq!(names(folder.path()), before);
}

#[test]
fn a_path_need_not_be_utf_8() {
    let folder = folder();
    let (input, output) = (OsStr::from_bytes(b"caf\xe9=.in"), OsStr::from_bytes(b"caf\xe9=.out"));
    let at = |name: &OsStr| -> PathBuf { folder.path().join(name) };
    fs::rename(at("in.txt".as_ref()), at(input)).expect("renamed");
    let (input, written) = (option("in", input), option("out", output));
    let (code, out, err) =
        run(&folder, Stdio::piped(), &["--json".as_ref(), "--input".as_ref(), &input, "--output".as_ref(), &written]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(fs::read_to_string(at(output)).expect("read"), "result");
    let shown: Value = serde_json::from_str(&out).expect("a document");
    assert_eq!(shown["output"]["out"]["path"], "caf\u{fffd}=.out");
    // It could not be kept with what is left of the workflow.
    let arguments = ["--input".as_ref(), &*input, "--output".as_ref(), &written, "--suspend".as_ref(), ".".as_ref()];
    let (code, _, err) = run(&folder, Stdio::piped(), &arguments);
    assert!(code == 2 && err.contains("caf\u{fffd}=.out is not UTF-8"), "{code}: {err}");
}
