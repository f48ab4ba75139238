//! Formatting, circles of files, dependencies, clippy, rustdoc; warnings are errors.

use crate::workspace::Workspace;
use crate::{Result, audit, circles, programs, shell, wasi};

/// All of it.
pub(crate) fn run() -> Result {
    shell::heading("rustfmt");
    shell::run(&mut shell::cargo(["fmt", "--all", "--check"]))?;
    circles::lint()?;
    audit::lint()?;
    let workspace = Workspace::load()?;
    wasi::lint(&workspace)?;
    programs::lint()?;
    for packages in groups(&workspace) {
        shell::heading(&format!("clippy {}", packages.join(" ")));
        let clippy = ["clippy", "--quiet", "--all-targets"];
        shell::run(shell::cargo(clippy).args(&packages).args(["--", "-D", "warnings"]))?;
        shell::heading(&format!("rustdoc {}", packages.join(" ")));
        let doc = ["doc", "--quiet", "--no-deps", "--document-private-items"];
        // Private items are documented too, so public pages may link to them.
        let flags = "-D warnings -A rustdoc::private_intra_doc_links";
        shell::run(shell::cargo(doc).args(&packages).env("RUSTDOCFLAGS", flags))?;
    }
    unhardened(&workspace)
}

/// Clippy of the unhardened visor, and of a test: with what tests depend on, other dependencies have the features that they have in the
/// lint of all targets, and are not compiled a second time.
fn unhardened(workspace: &Workspace) -> Result {
    shell::heading("clippy of the unhardened visor");
    let mut clippy = shell::cargo(["clippy", "--quiet", "--features", "monohull-visor/unharden"]);
    clippy.args(with_std(workspace)).args(["--bin", "monohull-unhardened", "--test", "keys_negative"]);
    shell::run(clippy.args(["--", "-D", "warnings"]))
}

/// The workspace in two builds: crates that must live without std, and the others.
pub(crate) fn groups(workspace: &Workspace) -> [Vec<String>; 2] {
    let alone = workspace.without_std().into_iter();
    let without = alone.flat_map(|name| ["--package".to_owned(), name.to_owned()]).collect();
    [with_std(workspace), without]
}

/// The others. Whatever is built of them is built with all of them selected: with fewer, dependencies would have fewer features, and
/// be compiled a second time.
pub(crate) fn with_std(workspace: &Workspace) -> Vec<String> {
    let alone = workspace.without_std().into_iter();
    let excluded = alone.flat_map(|name| ["--exclude".to_owned(), name.to_owned()]);
    std::iter::once("--workspace".to_owned()).chain(excluded).collect()
}
