//! What a crate is, as cargo describes it: its targets, its folders, and all that it depends on.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command};

use clap::Args;
use serde::Deserialize;

use super::error::BuildError;
use super::options::Options;
use crate::cli::cache::cache;
use crate::cli::cargo;
use crate::cli::real_std::TARGET;
use crate::cli::std_users::Graph;
use monohull_report::escape::shown;

/// What of a crate is built, with cargo's names of options.
#[derive(Debug, Default, Args)]
pub(in super::super) struct Selection {
    /// The crate's Cargo.toml, in place of its folder
    #[arg(long, value_name = "PATH", conflicts_with_all = ["path", "wasi", "explicit_checks", "cpu"])]
    pub(in super::super) manifest_path: Option<PathBuf>,
    /// Which crate of the folder's workspace
    #[arg(long, short, value_name = "NAME")]
    package: Option<String>,
    /// The program to build, if the crate has several; the image is called after it
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,
    /// An example of the crate to build; the image is called after it
    #[arg(long, value_name = "NAME", conflicts_with = "bin")]
    example: Option<String>,
    /// Features to activate, separated by commas
    #[arg(long, short = 'F', value_name = "FEATURES")]
    features: Vec<String>,
    /// Activate all features
    #[arg(long)]
    all_features: bool,
    /// Do not activate the default features
    #[arg(long)]
    no_default_features: bool,
    /// The profile, of a crate that is not on monohull-std [default: release]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The profile `release`, as without it
    #[arg(long, short, conflicts_with = "profile")]
    release: bool,
    #[command(flatten)]
    pub(super) cargo: Options,
}

/// A program of a crate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Program {
    Bin(String),
    Example(String),
}

impl Program {
    pub(super) fn name(&self) -> &str {
        let (Program::Bin(name) | Program::Example(name)) = self;
        name
    }

    /// Cargo's option for it.
    pub(super) fn option(&self) -> [&str; 2] {
        match self {
            Program::Bin(name) => ["--bin", name],
            Program::Example(name) => ["--example", name],
        }
    }
}

impl Selection {
    /// The program that is asked for.
    pub(super) fn program(&self) -> Option<Program> {
        let example = self.example.clone().map(Program::Example);
        example.or_else(|| self.bin.clone().map(Program::Bin))
    }

    pub(super) fn profile(&self) -> &str {
        self.profile.as_deref().unwrap_or("release")
    }

    /// The manifest in a folder, or the one that is named instead.
    pub(super) fn manifest(&self, folder: &Path) -> Result<PathBuf, BuildError> {
        let manifest = self.manifest_path.clone().unwrap_or_else(|| folder.join("Cargo.toml"));
        let folder = self.manifest_path.as_deref().unwrap_or(folder);
        manifest.canonicalize().map_err(|_| BuildError::no_crate(folder))
    }

    /// Cargo's arguments for the features.
    pub(super) fn features(&self) -> impl Iterator<Item = &str> {
        let switches = [(self.all_features, "--all-features"), (self.no_default_features, "--no-default-features")];
        let switches = switches.into_iter().filter_map(|(on, switch)| on.then_some(switch));
        switches.chain(self.features.iter().flat_map(|features| ["--features", features]))
    }
}

/// What `cargo metadata` says about a workspace.
#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
    pub(super) target_directory: PathBuf,
    workspace_root: PathBuf,
    /// Where intermediate files go; cargo before 1.91 does not say.
    build_directory: Option<PathBuf>,
}

impl Metadata {
    /// The crate to build: the one that is asked for, or that of this manifest.
    pub(super) fn package(&self, manifest: &Path, selection: &Selection) -> Result<&Package, BuildError> {
        let Some(wanted) = &selection.package else {
            let package = self.packages.iter().find(|package| package.manifest_path == manifest);
            return package.ok_or_else(|| self.no_crate_of_its_own(manifest.parent().unwrap_or(manifest)));
        };
        // Cargo takes a version behind the name.
        let name = wanted.split_once('@').map_or(wanted.as_str(), |(name, _)| name);
        self.packages.iter().find(|package| package.name == name).ok_or_else(|| BuildError::UnknownPackage {
            wanted: wanted.clone(),
            packages: self.packages.iter().map(|package| package.name.clone()).collect(),
        })
    }

    /// Why the folder of this workspace is no crate: its manifest has members alone.
    fn no_crate_of_its_own(&self, path: &Path) -> BuildError {
        let folders = self.packages.iter().filter_map(|package| package.manifest_path.parent());
        let members = folders.map(|folder| folder.strip_prefix(&self.workspace_root).unwrap_or(folder));
        BuildError::Workspace {
            path: path.to_path_buf(),
            members: members.map(|member| shown(member).to_string()).collect(),
        }
    }

    /// The folder for intermediate files that all function crates of this user share, so that each dependency is compiled once. None
    /// if the user has chosen folders, and for a workspace of several crates: cargo knows those by their place in the workspace,
    /// and would take one of another workspace for it.
    pub(super) fn shared_build_folder(&self) -> Option<PathBuf> {
        let usual = self.workspace_root.join("target");
        let chosen = self.target_directory != usual || self.build_directory.as_ref() != Some(&usual);
        if chosen || self.packages.len() != 1 {
            return None;
        }
        Some(cache()?.join("build"))
    }
}

#[derive(Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) manifest_path: PathBuf,
    targets: Vec<Target>,
    default_run: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// None for a path.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

impl Package {
    /// The error of a crate that cargo has failed for: it may ask a registry for a crate of ours.
    pub(super) fn failed(&self, error: BuildError) -> BuildError {
        let is_patched = self.manifest_path.with_file_name(".cargo").join("config.toml").is_file();
        let is_ours =
            |wanted: &&Dependency| wanted.source.is_some() && matches!(&*wanted.name, "monohull" | "monohull-std");
        match self.dependencies.iter().find(is_ours) {
            Some(wanted) if !is_patched && matches!(error, BuildError::Cargo(_)) => {
                BuildError::Unpublished(wanted.name.clone())
            }
            _ => error,
        }
    }

    /// Whether it is a library that uses no std at all: it has everything of an image itself. A program has the libc, with std or without.
    pub(super) fn is_bare(&self) -> bool {
        let bare = |target: &Target| {
            let text = fs::read_to_string(&target.src_path).unwrap_or_default();
            text.lines().any(|line| line.trim_start().starts_with("#![no_std]"))
        };
        let is_library = |target: &&Target| target.kind.iter().any(|kind| kind.ends_with("lib"));
        let has_program = self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "bin"));
        let mut libraries = self.targets.iter().filter(is_library);
        !has_program && libraries.next().is_some_and(bare)
    }

    /// The program to build: the one that is asked for, the only one, or that of `default-run`. None if the crate has none: then its
    /// library is built.
    pub(super) fn program(&self, wanted: Option<Program>) -> Result<Option<Program>, BuildError> {
        let has = |target: &Target, kind: &str| target.kind.iter().any(|other| other == kind);
        let named = |kind: &str| -> Vec<String> {
            self.targets.iter().filter(|target| has(target, kind)).map(|target| target.name.clone()).collect()
        };
        let (programs, package) = (named("bin"), self.name.clone());
        match (wanted.or_else(|| self.default_run.clone().map(Program::Bin)), &programs[..]) {
            (Some(Program::Example(wanted)), _) => match named("example") {
                examples if examples.contains(&wanted) => Ok(Some(Program::Example(wanted))),
                examples => Err(BuildError::UnknownExample { package, wanted, examples }),
            },
            (Some(Program::Bin(wanted)), _) if programs.contains(&wanted) => Ok(Some(Program::Bin(wanted))),
            (Some(Program::Bin(wanted)), _) => Err(BuildError::UnknownProgram { package, wanted, programs }),
            (None, [program]) => Ok(Some(Program::Bin(program.clone()))),
            (None, []) if self.targets.iter().any(|target| has(target, "lib") || has(target, "cdylib")) => Ok(None),
            (None, []) => Err(BuildError::NoProgram(package)),
            (None, _) => Err(BuildError::ManyPrograms { package, programs }),
        }
    }
}

/// What cargo says about the workspace of the crate with this manifest.
pub(super) fn metadata(manifest: &Path, selection: &Selection) -> Result<Metadata, BuildError> {
    let mut ask = selection.cargo.command(manifest);
    ask.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(manifest);
    Ok(serde_json::from_slice(&run(manifest, &mut ask)?)?)
}

/// The crate with all it depends on, as resolved for this machine.
pub(super) fn graph(manifest: &Path, selection: &Selection) -> Result<Graph, BuildError> {
    let mut ask = selection.cargo.command(manifest);
    ask.args([
        "metadata",
        "--format-version=1",
        "--filter-platform=x86_64-unknown-linux-gnu",
        "--quiet",
        "--manifest-path",
    ]);
    Ok(serde_json::from_slice(&run(manifest, ask.arg(manifest).args(selection.features()))?)?)
}

/// Whether the crate links one of this name. In a workspace the graph has the features that any of its crates asks for; cargo builds
/// a crate with those that this one does.
pub(super) fn links(manifest: &Path, selection: &Selection, name: &str) -> Result<bool, BuildError> {
    let mut ask = selection.cargo.command(manifest);
    ask.args(["tree", "--edges=normal,no-proc-macro", "--prefix=none", "--format={p}", "--quiet"]);
    ask.args(["--target", TARGET, "--manifest-path"]).arg(manifest).args(selection.features());
    let tree = run(manifest, &mut ask)?;
    let is_named = |line: &[u8]| line.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b" "));
    Ok(tree.split(|byte| *byte == b'\n').any(is_named))
}

/// Runs cargo; what it prints is an answer.
fn run(manifest: &Path, command: &mut Command) -> Result<Vec<u8>, BuildError> {
    let read = |mut answer: ChildStdout| {
        let mut bytes = Vec::new();
        answer.read_to_end(&mut bytes).map(|_| bytes)
    };
    let (answer, status) = cargo::run(command, read).map_err(BuildError::no_cargo)?;
    let answer = answer.map_err(BuildError::no_cargo)?;
    if status.success() { Ok(answer) } else { Err(BuildError::Cargo(manifest.to_path_buf())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_std_is_bare_if_it_has_no_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = |name: &str, kind: &str, text: &str| {
            let src_path = folder.path().join(name);
            fs::write(&src_path, text).expect("written");
            Target { name: name.to_owned(), kind: vec![kind.to_owned()], src_path }
        };
        let library = || target("lib.rs", "lib", "#![no_std]\n");
        let program = || target("main.rs", "bin", "#![no_std]\n#![no_main]\n");
        for (targets, is_bare) in [
            (vec![library()], true),
            (vec![program()], false),
            (vec![library(), program()], false),
            (vec![target("std.rs", "lib", "")], false),
        ] {
            let package = Package {
                name: "a".to_owned(),
                manifest_path: PathBuf::new(),
                targets,
                default_run: None,
                dependencies: Vec::new(),
            };
            assert_eq!(package.is_bare(), is_bare);
        }
    }
}
