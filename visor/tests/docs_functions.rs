//! Every block of Rust in `docs/functions.md` is a function crate that compiles; those with a name are run. So are those of
//! `docs/std.md` about the crate getrandom.
//!
//! The blocks become examples of one crate, made by `monohull new`, so that one run of cargo checks all of them. Blocks
//! of TOML are its dependencies.

mod docs_support;

use docs_support::{Page, cache};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A crate with each source as an example; what cargo says about it.
fn check(sources: &[String], dependencies: &str) -> Result<(), String> {
    let folder = TempDir::new().expect("a folder");
    let made =
        Command::new(env!("CARGO_BIN_EXE_monohull")).args(["new", "--small", "page"]).current_dir(&folder).output();
    let made = made.expect("monohull starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let here = folder.path().join("page");
    let manifest = fs::read_to_string(here.join("Cargo.toml")).expect("a manifest");
    let usual = manifest.split("[dependencies]\n").nth(1).and_then(|rest| rest.lines().next()).expect("its dependency");
    assert!(dependencies.is_empty() || dependencies.contains(usual), "the page has another version than {usual}");
    let own: String = dependencies.lines().filter(|line| *line != "[dependencies]" && *line != usual).fold(
        String::new(),
        |mut own, line| {
            own.extend([line, "\n"]);
            own
        },
    );
    let mut manifest = manifest.replace("[dependencies]\n", &format!("[dependencies]\n{own}"));
    fs::create_dir(here.join("examples")).expect("made");
    for (number, source) in sources.iter().enumerate() {
        // As `monohull build` compiles it: a library.
        let _ = write!(manifest, "\n[[example]]\nname = \"block{number}\"\ncrate-type = [\"lib\"]\n");
        fs::write(here.join(format!("examples/block{number}.rs")), source).expect("written");
    }
    fs::write(here.join("Cargo.toml"), manifest).expect("written");
    let cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["check", "--quiet", "--examples", "--keep-going"])
        .current_dir(&here)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs_functions"))
        .env("RUSTFLAGS", "-D warnings")
        .output()
        .expect("cargo starts");
    if cargo.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&cargo.stderr).into_owned()) }
}

#[test]
fn every_block_compiles() {
    let page = Page::named("docs/functions.md");
    let blocks = page.blocks();
    let of = |language| blocks.iter().filter(move |block| block.language == language);
    let sources: Vec<String> = of("rust").map(|block| format!("//! {}\n{}", block.place, block.text)).collect();
    assert!(sources.len() > 10, "the blocks were not found");
    let dependencies: String = of("toml").map(|block| block.text.as_str()).collect();
    check(&sources, &dependencies).unwrap_or_else(|said| panic!("{said}"));
}

#[test]
fn a_block_that_is_wrong_is_found() {
    let right = "#[std::main]\nfn main(count: u32) {\n    println!(\"{count}\");\n}\n".to_owned();
    let wrong = right.replace("u32", "&'static Missing");
    let said = check(&[right, wrong], "").expect_err("there is no such type");
    assert!(said.contains("examples/block1.rs:2") && !said.contains("block0"), "{said}");
}

/// A folder with images of blocks, and workflows that run them.
struct Functions(TempDir);

impl Functions {
    fn build(page: &Page, names: &[&str]) -> Functions {
        let functions = Functions(TempDir::new().expect("a folder"));
        for name in names {
            functions.monohull(&["new", "--small", name]);
            let source = functions.0.path().join(name).join("src/lib.rs");
            fs::write(source, page.block(name).text).expect("written");
            functions.monohull(&["build", name, "--out", "images"]);
        }
        functions
    }

    fn monohull(&self, arguments: &[&str]) {
        let output = self.start(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn start(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.args(arguments).current_dir(&self.0).env("XDG_CACHE_HOME", cache());
        for chosen in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_BUILD_DIR"] {
            command.env_remove(chosen);
        }
        command.output().expect("monohull starts")
    }

    /// Runs a workflow with one input; its report.
    fn run(&self, fields: Value, slot: &str, input: &str) -> Value {
        let mut document = Map::from_iter([("name".to_owned(), json!("page"))]);
        document.extend(fields.as_object().expect("fields of a workflow").clone());
        fs::write(self.0.path().join("workflow.json"), Value::from(document).to_string()).expect("written");
        fs::write(self.0.path().join("input"), input).expect("written");
        let output = self.start(&["run", "workflow.json", "--input", &format!("{slot}=input"), "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }
}

#[test]
fn parts_are_counted_and_added_up() {
    let page = Page::named("docs/functions.md");
    let functions = Functions::build(&page, &["split", "count", "sum"]);
    let fields = serde_json::from_str(&page.block("count-words").text).expect("JSON");
    let report = functions.run(fields, "text", "a b\nc d e\nf\ng\nh i\n");
    assert_eq!(report["status"], "done", "{report:#}");
    assert_eq!(report["output"]["total"]["text"], "9 words\n", "{report:#}");
    assert_eq!(report["steps"][1]["instances"].as_array().map(Vec::len), Some(5), "{report:#}");
}

#[test]
fn permanent_errors_have_one_attempt_and_others_as_many_as_the_step_allows() {
    let functions = Functions::build(&Page::named("docs/functions.md"), &["product"]);
    for (input, kind, attempts) in [("many", "permanent", 1), ("4", "error", 3)] {
        let fields = json!({
            "functions": { "product": { "image": "images/product.so" } },
            "steps": [{ "name": "s", "function": "product", "retry": { "max_attempts": 3, "interval": "1ms" } }],
            "files": [{ "at": "/data", "memory": "1MiB" }],
            "inputs": ["number"],
            "outputs": ["product"]
        });
        let report = functions.run(fields, "number", input);
        let instance = &report["steps"][0]["instances"][0];
        assert_eq!(report["error"]["kind"], kind, "{report:#}");
        assert_eq!(instance["attempts"], attempts, "{report:#}");
    }
}

/// Version 0.2 calls the C library. Without one, the crate that the page shows takes its place.
#[test]
fn an_older_getrandom_is_replaced_as_the_page_says() {
    let page = Page::named("docs/std.md");
    let functions = Functions(TempDir::new().expect("a folder"));
    functions.monohull(&["new", "--small", "dice"]);
    let at = |file: &str| functions.0.path().join("dice").join(file);
    let source = "#[std::main]\nfn main() {\n    let mut bytes = [0; 32];\n    \
                  getrandom::getrandom(&mut bytes).expect(\"random bytes\");\n    \
                  println!(\"{}\", bytes != [0; 32]);\n}\n";
    fs::write(at("src/lib.rs"), source).expect("written");
    let manifest = fs::read_to_string(at("Cargo.toml")).expect("a manifest");
    let manifest = manifest.replace("[dependencies]\n", "[dependencies]\ngetrandom = \"0.2\"\n");
    fs::write(at("Cargo.toml"), &manifest).expect("written");
    let output = functions.start(&["build", "dice"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("needs the library \"libc.so.6\""), "{said}");
    fs::create_dir_all(at("getrandom/src")).expect("made");
    fs::write(at("getrandom/Cargo.toml"), page.block("getrandom-manifest").text).expect("written");
    fs::write(at("getrandom/src/lib.rs"), page.block("getrandom").text).expect("written");
    fs::write(at("Cargo.toml"), manifest + &page.block("getrandom-patch").text).expect("written");
    let mut update = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let updated = update.args(["update", "--quiet", "getrandom"]).current_dir(at("")).status().expect("cargo starts");
    assert!(updated.success());
    functions.monohull(&["build", "dice"]);
    let fields = json!({
        "functions": { "dice": { "image": "dice/target/images/dice.so" } },
        "steps": [{ "name": "s", "function": "dice" }],
        "inputs": ["none"],
        "unread": "ignore"
    });
    let report = functions.run(fields, "none", "");
    assert_eq!(report["steps"][0]["instances"][0]["lines"][0]["text"], "true", "{report:#}");
}
