//! `monohull checkpoint` as a user meets it, with the files that the format's own tests keep.

use monohull_checkpoint::record::Contents;
use monohull_checkpoint::{Checkpoint, Key, Packing, Pages, Trust, seal, write};
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The key of the files that are kept.
const KEY: [u8; 32] = [7; 32];

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("checkpoint/tests/golden").join(name)
}

/// A user with a key.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> User {
        let user = User { home: TempDir::new().expect("a folder") };
        user.key("state/monohull/checkpoint.key", KEY);
        user
    }

    fn key(&self, name: &str, bytes: [u8; 32]) -> PathBuf {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("changed");
        path
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.home.path().join(name);
        fs::write(&path, bytes).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// The kept file with other records, and no pages; sealed with the user's key.
    fn changed(&self, name: &str, change: impl FnOnce(&mut Contents)) -> String {
        let good = Checkpoint::read(File::open(kept("format-1-raw.checkpoint")).expect("it is kept"), Trust::Unchecked);
        let mut contents = good.expect("it is good").contents().clone();
        change(&mut contents);
        let path = self.home.path().join(name);
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).expect("made");
        write(&mut file, &contents, &Pages::new(), Packing::Raw).expect("written");
        seal(&file, &Key::new(KEY)).expect("sealed");
        path.to_str().expect("UTF-8").to_owned()
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.arg("checkpoint").args(arguments).env_remove("STATE_DIRECTORY");
        let output = command.env("XDG_STATE_HOME", self.home.path().join("state")).output().expect("it starts");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().expect("an exit code"), text(&output.stdout), text(&output.stderr))
    }

    fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let (code, out, errors) = self.run(&[arguments, &["--json"]].concat());
        (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{errors}")))
    }
}

#[test]
fn describe_says_what_is_in_it() {
    let user = User::new();
    for (name, packing) in [("format-1-raw.checkpoint", "raw"), ("format-1-lz4.checkpoint", "lz4")] {
        let path = kept(name);
        let path = path.to_str().expect("UTF-8");
        let (code, text, _) = user.run(&["describe", path]);
        assert_eq!(code, 0, "{text}");
        for part in [
            "generation 2, `before the payment`",
            "parent      2222",
            "parent      CANNOT BE USED: its file is not named",
            "`orders` of tenant `shop`",
            "at 5s of its clock",
            "seal        valid, by key e0381ad0a2c876ec",
            "processor   x86-64 (2 features)",
            "SHA-256 4444",
            "wait[0]: `order`, id 0x100",
            "thread 0x0 sleeps, at most until 56s after the capture (2026-09-21T14:14:16.000Z)",
            "thread 0x4 waits for slot `payment`",
            "thread 0x3 waits for the end of thread 0x2",
            "thread 0x5 is ready",
            "module      `mm`, version 1",
            "stacks: 2 stored",
            "mapped memory: 1 stored",
            "4 as in the parent",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.contains(&format!("({packing})")), "{text}");

        let (code, json) = user.json(&["describe", path]);
        assert_eq!((code, &json["seal"], &json["generation"]), (0, &"valid".into(), &2.into()));
        assert_eq!(json["instances"][1]["threads"][0]["on"], "payment");
        let bytes: u64 = json["bytes"].as_object().expect("kinds").values().map(|n| n.as_u64().expect("bytes")).sum();
        assert_eq!(bytes, fs::metadata(path).expect("it is kept").len(), "every byte is counted once");
    }
}

#[test]
fn a_seal_is_said_to_be_what_it_is() {
    let user = User::new();
    let good = fs::read(kept("format-1-raw.checkpoint")).expect("it is kept");
    let mut forged = good.clone();
    forged[100] ^= 1;
    let mut unsealed = good.clone();
    unsealed[40..48].fill(0);
    unsealed[96..128].fill(0);
    let (forged, unsealed) = (user.file("forged", &forged), user.file("unsealed", &unsealed));
    let good = user.file("good", &good);
    let other = user.key("other.key", [8; 32]);
    let other = other.to_str().expect("UTF-8");
    let seal = |arguments: &[&str]| user.json(&[&["describe"], arguments].concat()).1["seal"].clone();
    assert_eq!(seal(&[&good]), "valid");
    assert_eq!(seal(&[&good, "--key", other]), "unchecked");
    assert_eq!(seal(&[&forged]), "edited");
    assert_eq!(seal(&[&unsealed]), "none");

    let verdict = |arguments: &[&str]| user.run(&[&["verify"], arguments].concat());
    let (code, text, _) = verdict(&[&good]);
    assert_eq!((code, text), (0, format!("{good}: as it should be\n")));
    for (file, key, reason) in [
        (&forged, None, "it was edited: its contents are complete, but not what key e0381ad0a2c876ec has sealed"),
        (&unsealed, None, "it is not authenticated: no key has sealed it"),
        (&good, Some(other), "another key has sealed it: e0381ad0a2c876ec; this one is "),
    ] {
        let key: Vec<_> = key.into_iter().flat_map(|key| ["--key", key]).collect();
        let (code, text, errors) = verdict(&[&[file.as_str()], key.as_slice()].concat());
        assert!(code == 1 && text.contains(reason) && errors.is_empty(), "{code} {text}{errors}");
    }
    fs::set_permissions(other, Permissions::from_mode(0o644)).expect("changed");
    let (code, _, errors) = verdict(&[&good, "--key", other]);
    assert!(code == 2 && errors.contains("others than its owner may read or write it (mode 644)"), "{errors}");
    fs::remove_file(user.home.path().join("state/monohull/checkpoint.key")).expect("it was there");
    let (code, _, errors) = verdict(&[&good]);
    assert!(code == 2 && errors.contains("the user has no key yet"), "{errors}");
}

#[test]
fn files_that_are_not_as_they_should_be_are_refused_with_the_reason() {
    let user = User::new();
    let good = fs::read(kept("format-1-raw.checkpoint")).expect("it is kept");
    let with = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 2;
        bytes
    };
    let newer = [&good[..8], &2u16.to_le_bytes(), &good[10..]].concat();
    let section = u64::from_le_bytes(good[136..144].try_into().expect("8 bytes")) as usize;
    for (name, bytes, reason) in [
        ("empty", Vec::new(), "it is truncated, in the header: 128 bytes are needed, and there are 0"),
        (
            "cut",
            good[..9000].to_vec(),
            "it is truncated, in the contents of pages: 24576 bytes are needed, and there are 9000",
        ),
        ("longer", [&good[..], &[0]].concat(), "it goes on after its end"),
        ("foreign", b"\x7fELF and more".to_vec(), "it is no checkpoint: it does not begin as one"),
        ("newer", newer, "a newer version of Monohull wrote it: its format is 2, and this program reads 1"),
        ("table", with(200), "it is damaged: the header or the table of sections (bytes 0 to 832)"),
        ("section", with(section), "it is damaged: section `identity` (bytes 832 to "),
    ] {
        let path = user.file(name, &bytes);
        let (code, text, _) = user.run(&["verify", &path]);
        assert!(code == 1 && text.starts_with(&format!("{path}: {reason}")), "{name}: {code} {text}");
        for verb in [vec!["describe", &path], vec!["diff", &path, &path]] {
            let (code, text, errors) = user.run(&verb);
            assert!(code == 2 && text.is_empty() && errors.contains(reason), "{name}: {code} {errors}");
        }
    }
    // `describe` does not read pages; `verify` does.
    let page = user.file("page", &with(good.len() - 1));
    let (code, text, _) = user.run(&["verify", &page]);
    assert!(code == 1 && text.contains("it is damaged: page 0x"), "{text}");
    assert_eq!(user.run(&["describe", &page]).0, 0);

    let larger = user.changed("larger", |contents| {
        contents.identity.processor.words.push(1 << 6);
        contents.identity.parent = None;
    });
    let (code, text, _) = user.run(&["verify", &larger]);
    assert!(code == 1 && text.contains("this processor is not enough: it has no feature 70"), "{text}");

    let (code, _, errors) = user.run(&["verify", "/dev/zero"]);
    assert!(code == 2 && errors.contains("it is no regular file"), "{errors}");
    let (code, _, errors) = user.run(&["describe", "none.checkpoint"]);
    assert!(code == 2 && errors.contains("none.checkpoint: No such file"), "{errors}");
}

#[test]
fn diff_says_what_differs() {
    let user = User::new();
    let (raw, lz4) = (kept("format-1-raw.checkpoint"), kept("format-1-lz4.checkpoint"));
    let (raw, lz4) = (raw.to_str().expect("UTF-8"), lz4.to_str().expect("UTF-8"));
    let (code, json) = user.json(&["diff", raw, lz4]);
    assert_eq!((code, &json["same"], &json["same_pages"]), (0, &true.into(), &16.into()));

    let other = user.changed("other", |contents| {
        contents.identity.generation = 3;
        contents.instances[1].attempt = 2;
        contents.modules.pop();
    });
    let (code, text, _) = user.run(&["diff", raw, &other]);
    assert_eq!(code, 1, "{text}");
    for part in ["instance    changed: wait[1] (0x203)", "module      only in the first: stdio", "16 only in the first"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// A stranger's texts do nothing to the terminal.
#[test]
fn texts_are_escaped() {
    let user = User::new();
    let evil = "\u{1b}]52;c;ZXZpbA==\u{7}\r\n\u{202e}\u{9b}2J";
    let path = user.changed("evil", |contents| {
        let identity = &mut contents.identity;
        for text in [&mut identity.label, &mut identity.workflow, &mut identity.tenant, &mut identity.program] {
            *text = evil.to_owned();
        }
        contents.functions[0].name = evil.to_owned();
        contents.instances.iter_mut().for_each(|instance| instance.step = evil.to_owned());
        contents.modules[0].name = evil.to_owned();
        contents.identity.wall_ns = u64::MAX;
        contents.identity.domain_ns = u64::MAX;
    });
    let raw = kept("format-1-raw.checkpoint");
    let raw = raw.to_str().expect("UTF-8");
    for verb in [vec!["describe", &path], vec!["diff", raw, &path], vec!["diff", &path, raw]] {
        for json in [false, true] {
            let json: &[&str] = if json { &["--json"] } else { &[] };
            let (_, out, errors) = user.run(&[&verb, json].concat());
            let active = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!out.contains(active) && !errors.contains(active), "{out:?}{errors:?}");
            assert!(out.len() > 100, "{out}{errors}");
            if json.is_empty() {
                assert!(out.lines().all(|line| !line.starts_with("2J")), "no line end of theirs: {out}");
            }
        }
    }
}
