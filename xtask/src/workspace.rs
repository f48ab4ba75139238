//! What is in the workspace, from cargo's metadata.

use crate::{Result, shell};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Workspaces of their own with what is fuzzed.
pub(crate) const FUZZ_WORKSPACES: [&str; 2] = ["visor/fuzz", "checker/fuzz"];

/// The root of the repository that this was started in. It need not be the one in which it was compiled: cargo takes the
/// programs in a copied `target` folder for its own.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        // `cargo run` sets it. Without cargo, the current folder is inside the repository.
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let current = std::env::current_dir().unwrap_or_default();
        let started = package
            .as_deref()
            .and_then(Path::parent)
            .or_else(|| current.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file()));
        started.map_or_else(|| compiled_in().to_owned(), Path::to_path_buf)
    });
    &ROOT
}

/// The root of the repository that this was compiled in.
fn compiled_in() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root")
}

/// If this was compiled in another folder, removes what cargo has built of the workspace there and takes for this one's:
/// tests and benchmarks have the path of their sources compiled in, and would use the other folder's files.
pub(crate) fn leave_other_root() -> Result {
    if root() == compiled_in() {
        return Ok(());
    }
    shell::heading(&format!(
        "the target folder was copied from {}: the workspace is built again in {}",
        compiled_in().display(),
        root().display()
    ));
    let workspace = Workspace::load()?;
    let mut clean = shell::cargo(["clean", "--quiet"]);
    for package in &workspace.packages {
        clean.args(["--package", &package.name]);
    }
    shell::run(&mut clean)
}

/// Cargo's view of the workspace.
#[derive(Deserialize)]
pub(crate) struct Workspace {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

/// One crate.
#[derive(Deserialize)]
pub(crate) struct Package {
    /// Its name, as `cargo -p` takes it.
    pub name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    /// With underscores.
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn load() -> Result<Workspace> {
        Workspace::load_of(root())
    }

    /// The same of the workspace in a folder.
    pub(crate) fn load_of(folder: &Path) -> Result<Workspace> {
        let mut metadata = shell::cargo(["metadata", "--no-deps", "--format-version=1", "--quiet"]);
        let json = shell::output(metadata.current_dir(folder))?;
        serde_json::from_slice(&json).map_err(|error| format!("cargo metadata: {error}"))
    }

    /// Where cargo puts what it builds, and we what we make of it.
    pub(crate) fn target(&self) -> &Path {
        &self.target_directory
    }

    /// The first file of each library, program and test.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let targets = self.packages.iter().flat_map(|package| &package.targets);
        targets.map(|target| target.src_path.clone()).collect()
    }

    /// The crates that become function images: those that link the shim, example by example.
    pub(crate) fn images(&self) -> impl Iterator<Item = &Package> {
        let examples = root().join("examples");
        self.packages.iter().filter(move |package| {
            package.manifest_path.starts_with(&examples) && package.library().is_some() && package.uses("monohull-std")
        })
    }

    /// The crates that become libos modules.
    pub(crate) fn modules(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.uses("monohull-module"))
    }

    /// The crates that bring a panic handler of their own. They cannot share a build with crates that switch on `std`
    /// in a dependency they have in common.
    pub(crate) fn without_std(&self) -> Vec<&str> {
        let alone = |package: &&Package| {
            ["monohull-std", "monohull-module"].iter().any(|base| package.name == *base || package.uses(base))
        };
        self.packages.iter().filter(alone).map(|package| package.name.as_str()).collect()
    }
}

impl Package {
    /// File name of the library's shared object, without `lib` and `.so`.
    pub(crate) fn library(&self) -> Option<&str> {
        let library = self.targets.iter().find(|target| target.kind.iter().any(|kind| kind.ends_with("lib")))?;
        Some(&library.name)
    }

    fn uses(&self, dependency: &str) -> bool {
        self.dependencies.iter().any(|d| d.name == dependency && d.kind.is_none())
    }
}
