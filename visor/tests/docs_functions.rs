//! Every block of Rust in `docs/functions.md` is a function crate that compiles.
//!
//! The blocks become examples of one crate, made by `monohull new`, so that one run of cargo checks all of them. Blocks of TOML are its
//! dependencies.

mod docs_support;

use docs_support::Page;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A crate with each source as an example; what cargo says about it.
fn check(sources: &[String], dependencies: &str) -> Result<(), String> {
    let folder = TempDir::new().expect("a folder");
    let made = Command::new(env!("CARGO_BIN_EXE_monohull")).args(["new", "page"]).current_dir(&folder).output();
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
    assert!(of("rust").all(|block| block.attributes.is_empty()), "a block with attributes is not a whole function");
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
