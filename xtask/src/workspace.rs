//! What is in the workspace, as cargo tells it.

use crate::{Result, shell};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root")
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
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn load() -> Result<Workspace> {
        let json = shell::output(&mut shell::cargo(["metadata", "--no-deps", "--format-version=1", "--quiet"]))?;
        serde_json::from_slice(&json).map_err(|error| format!("cargo metadata: {error}"))
    }

    /// Where cargo puts what it builds, and we what we make of it.
    pub(crate) fn target(&self) -> &Path {
        &self.target_directory
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
