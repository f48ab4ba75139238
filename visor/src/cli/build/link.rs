//! An image of a crate: cargo compiles and links it, the checker and the loader judge it.
//!
//! The crate is an ordinary program or library. Only here is it linked as a shared object, so that its manifest stays
//! plain, editors and clippy see it as usual, and it builds the same way inside and outside of a workspace: cargo gets
//! the profile and the linker's options on its command line.
//!
//! ```text
//!   monohull-std in its graph, or no_std   a library, linked without a libc
//!   else                                   any crate, over Rust's real std and Monohull's libc (`real_std.rs`)
//! ```
//!
//! Function crates share a folder for what cargo compiles on the way (`monohull/build` in the user's cache), because most of it is the
//! same crates in each: `monohull-std` and what it rests on.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::error::BuildError;
use super::image::{Built, check, install, is_accident};
use super::package::{self, Program, Selection};
use crate::cli::cache::cache;
use crate::cli::lines::debug_file;
use crate::cli::real_std::{self, TARGET};
use crate::cli::rust_flags::Theirs;
use crate::cli::std_users::{self, Clash};
use crate::cli::{cargo, host_libraries, imports, missing, output};
use monohull_checker::Report;
use monohull_domain::image::Image;

/// The profile `function` of a crate over the real std: that of the user, with symbols kept for reports, and lines, which go into a
/// file of their own.
const PLAIN_PROFILE: &[&str] = &["profile.function.debug='line-tables-only'", "profile.function.strip='none'"];
/// The profile `image` of a crate on monohull-std: no unwinder, one code unit, symbols kept for reports, and lines, which go into a file of their own.
const PROFILE: &[&str] = &[
    "profile.image.inherits='release'",
    "profile.image.panic='abort'",
    "profile.image.lto='fat'",
    "profile.image.codegen-units=1",
    "profile.image.opt-level=3",
    "profile.image.debug='line-tables-only'",
    "profile.image.strip='none'",
];
/// How an image is linked: without C's start files, everything bound at load, no page both writable and executable.
const CODEGEN: &[&str] = &[
    "link-arg=-nostartfiles",
    "link-arg=-Wl,--build-id,-z,now,-z,relro,-z,noexecstack,-z,separate-code,-Bsymbolic,--hash-style=gnu,--no-undefined",
    "force-frame-pointers=yes",
    "relocation-model=pic",
];
/// What else is tried when instructions hold forbidden bytes by accident: distances between functions and between
/// blocks are part of instructions, and so is the order of functions; at last other instructions. A large program
/// may have an accident in several of them.
const OTHER_LAYOUTS: [&str; 10] = [
    "llvm-args=-align-all-functions=5",
    "llvm-args=-align-all-functions=6",
    "link-arg=-Wl,--sort-section=name",
    "link-arg=-Wl,--sort-section=alignment",
    "llvm-args=-align-all-nofallthru-blocks=4",
    "llvm-args=-align-all-functions=7",
    "llvm-args=-align-all-functions=4",
    "llvm-args=-align-all-nofallthru-blocks=5",
    "llvm-args=-align-all-nofallthru-blocks=3",
    "opt-level=2",
];
/// How the crates a function depends on are compiled: reports follow frame pointers, through libraries as well, and the crate
/// getrandom takes its bytes from monohull-std.
const DEPENDENCIES: [&str; 2] = ["-Cforce-frame-pointers=yes", "--cfg=getrandom_backend=\"custom\""];

/// Builds the image of the crate in the folder `path`, checks it and puts it into `out`, or into `images` in
/// cargo's target folder. The image is called after the package, or after the program that is asked for. One that the loader would
/// refuse is not put anywhere.
pub(super) fn build_image(path: &Path, out: Option<&Path>, selection: &Selection) -> Result<Built, BuildError> {
    let manifest = selection.manifest(path)?;
    let metadata = package::metadata(&manifest, selection)?;
    let package = metadata.package(&manifest, selection)?;
    let manifest = package.manifest_path.clone();
    let wanted = selection.program();
    let name = wanted.as_ref().map_or(package.name.as_str(), Program::name).to_owned();
    let links_ours = || {
        let graph = package::graph(&manifest, selection).map_err(|error| package.failed(error))?;
        // Of a crate that is alone the graph is right.
        let is_alone = metadata.packages.len() == 1;
        Ok::<_, BuildError>(
            graph.uses("monohull-std") && (is_alone || package::links(&manifest, selection, "monohull-std")?),
        )
    };
    let base = match package.is_bare() || links_ours()? {
        true => match wanted {
            Some(wanted @ Program::Example(_)) => Base::MonohullStd { example: package.program(Some(wanted))? },
            _ => Base::MonohullStd { example: None },
        },
        false => Base::RealStd { program: package.program(wanted)? },
    };
    let tools = cache().unwrap_or_else(|| metadata.target_directory.join("monohull"));
    let (package, shared) = (package.name.clone(), metadata.shared_build_folder());
    let flags = Theirs::find(selection.cargo.command(&manifest));
    let recipe = Recipe { manifest, package, base, selection, flags, shared, tools };
    let Linked { image, debug, report, layout } = link_clean(&recipe, &name)?;
    let refused = if matches!(recipe.base, Base::RealStd { .. }) { missing::warnings(&image) } else { Vec::new() };
    let folder = out.map_or_else(|| metadata.target_directory.join("images"), Path::to_path_buf);
    let path = folder.join(format!("{name}.so"));
    for (path, bytes) in [(debug_file(&path), debug), (path.clone(), image)] {
        install(&folder, &path, &bytes).map_err(|source| BuildError::File { path, source })?;
    }
    Ok(Built { path, report, layout, refused })
}

/// An image that the loader accepts.
struct Linked {
    image: Vec<u8>,
    /// Its debug information.
    debug: Vec<u8>,
    report: Report,
    layout: Option<&'static str>,
}

/// Links until the image holds no forbidden bytes. Only accidents are worth another try: an instruction that stands in the
/// source is in every layout.
fn link_clean(recipe: &Recipe<'_>, name: &str) -> Result<Linked, BuildError> {
    let mut first = None;
    for layout in std::iter::once(None).chain(OTHER_LAYOUTS.map(Some)) {
        let path = link(recipe, layout)?.ok_or_else(|| BuildError::NoLibrary(name.to_owned()))?;
        let debug = objcopy("--only-keep-debug", &path)?;
        let image = objcopy("--strip-debug", &path)?;
        let report = check(&path, &image)?;
        if !report.is_refused() {
            return match Image::parse(name, &image) {
                Ok(_) => Ok(Linked { image, debug, report, layout }),
                Err(source) => {
                    let explanation = imports::explain(&source, &image).unwrap_or_default();
                    Err(BuildError::Unloadable { path, source, explanation })
                }
            };
        }
        if !report.refusals().all(is_accident) {
            return Err(BuildError::Refused { path, report: Box::new(report) });
        }
        first.get_or_insert((path, Box::new(report)));
    }
    let (path, report) = first.unwrap_or_default();
    Err(BuildError::Accidents { path, report, layouts: OTHER_LAYOUTS.len() })
}

/// What an image is linked over.
enum Base {
    /// monohull-std, or nothing; the crate is a library, and so is an example of it.
    MonohullStd { example: Option<Program> },
    /// Rust's std over Monohull's libc: a program of the crate, or its library.
    RealStd { program: Option<Program> },
}

/// What cargo is to build.
struct Recipe<'a> {
    manifest: PathBuf,
    /// The crate's name.
    package: String,
    base: Base,
    selection: &'a Selection,
    /// rustc's flags that the user has set.
    flags: Theirs,
    /// The folder for what crates have in common.
    shared: Option<PathBuf>,
    /// The folder for the tools that cargo calls.
    tools: PathBuf,
}

/// Has cargo compile and link the crate, with one more option if there is one; gives the shared object.
fn link(recipe: &Recipe<'_>, layout: Option<&str>) -> Result<Option<PathBuf>, BuildError> {
    let manifest = &recipe.manifest;
    let mut command = recipe.selection.cargo.command(manifest);
    command.arg("rustc").args(recipe.selection.features());
    recipe.selection.cargo.to_compile(&mut command);
    let (Base::MonohullStd { example: program } | Base::RealStd { program }) = &recipe.base;
    match program {
        Some(program) => command.args(program.option()),
        None => command.arg("--lib"),
    };
    let profile = match &recipe.base {
        Base::MonohullStd { .. } => PROFILE,
        Base::RealStd { .. } => PLAIN_PROFILE,
    };
    command.args(matches!(&recipe.base, Base::MonohullStd { .. }).then_some("--profile=image"));
    if !matches!(&recipe.base, Base::RealStd { program: Some(_) }) {
        command.arg("--crate-type=cdylib");
    }
    // The compiler's messages are shown as they come. They are also parsed: one error gets a further explanation.
    let colours = cargo::has_colours();
    command.arg(if colours { "--message-format=json-diagnostic-rendered-ansi" } else { "--message-format=json" });
    for setting in profile {
        command.args(["--config", setting]);
    }
    let codegen = match &recipe.base {
        Base::MonohullStd { .. } => CODEGEN,
        Base::RealStd { .. } => {
            let profile = recipe.selection.profile();
            command.args(["--profile=function", "--target", TARGET]);
            command.args(["--config", &format!("profile.function.inherits='{profile}'")]);
            &[]
        }
    };
    let flags = match &recipe.base {
        Base::MonohullStd { .. } => Vec::from(DEPENDENCIES.map(OsString::from)),
        Base::RealStd { .. } => real_std::prepare(&mut command, &recipe.tools)?,
    };
    recipe.flags.set(&mut command, flags);
    command.arg("--manifest-path").arg(manifest).arg("--");
    for option in codegen.iter().copied().chain(layout) {
        command.args(["-C", option]);
    }
    if let Some(folder) = &recipe.shared {
        command.env("CARGO_BUILD_BUILD_DIR", folder);
        // Crates of the same name in different folders are different.
        let place = Sha256::digest(manifest.as_os_str().as_encoded_bytes());
        command.args(["-C", &format!("metadata={place:x}")]);
    }
    let (mut object, mut clash, mut hosts, mut lacks_main) = (None, None, None, false);
    let read = |documents| -> Result<(), BuildError> {
        for line in BufReader::new(documents).split(b'\n') {
            match serde_json::from_slice(&line.map_err(BuildError::no_cargo)?)? {
                Event::CompilerArtifact { manifest_path, filenames, executable } if manifest_path == *manifest => {
                    let library = filenames.into_iter().find(|file| file.extension().is_some_and(|end| end == "so"));
                    object = executable.or(library).or(object.take());
                }
                Event::CompilerMessage { message, package_id, target } => {
                    lacks_main |= message.lacks_main();
                    if let Some(found) = message.clash() {
                        clash.get_or_insert((found, package_id, target.name.replace('-', "_")));
                    } else if clash.is_none() || !message.message.contains(DUPLICATE_LANG_ITEM) {
                        let text = message.rendered.as_deref().unwrap_or_default();
                        output::note_bytes(cargo::shown_text(text.as_bytes(), colours).as_bytes());
                    }
                }
                // What runs on the host may link what is the host's.
                Event::BuildScriptExecuted { package_id, linked_libs, linked_paths, out_dir }
                    if out_dir.components().any(|part| part.as_os_str() == TARGET) =>
                {
                    let by = name_of(&package_id);
                    let found = || host_libraries::asked_for_by(by, &linked_libs, &linked_paths, &out_dir);
                    hosts = hosts.take().or_else(found);
                }
                _ => {}
            }
        }
        Ok(())
    };
    let (read, status) = cargo::run(&mut command, read).map_err(BuildError::no_cargo)?;
    read?;
    match (status.success(), clash) {
        (true, _) => hosts.map_or(Ok(object), |library| Err(library.into())),
        (false, Some((clash, package, name))) => {
            let graph = package::graph(manifest, recipe.selection)?;
            Err(BuildError::RealStd(std_users::explain(&graph, &clash, (&package, &name))))
        }
        (false, None) if lacks_main && matches!(recipe.base, Base::RealStd { program: None }) => {
            Err(BuildError::NoProgram(recipe.package.clone()))
        }
        (false, None) => Err(hosts.map_or_else(|| BuildError::Cargo(manifest.to_path_buf()), BuildError::HostLibrary)),
    }
}

/// The name of a package by what cargo calls it: `registry+…#NAME@VERSION`, `path+file:///…/NAME#VERSION` or
/// `git+https://…/NAME?rev=…#VERSION`.
fn name_of(id: &str) -> &str {
    let (place, version) = id.rsplit_once('#').unwrap_or((id, ""));
    let place = place.split_once('?').map_or(place, |(place, _)| place);
    version.split_once('@').map_or_else(|| place.rsplit('/').next().unwrap_or(place), |(name, _)| name)
}

/// What binutils' objcopy makes of an image with this option.
fn objcopy(option: &str, image: &Path) -> Result<Vec<u8>, BuildError> {
    let part = image.with_extension(format!("{}.part", std::process::id()));
    let failed = |why: String| BuildError::Objcopy { path: image.to_path_buf(), why };
    let output = Command::new("objcopy").arg(option).args([image, &part]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let bytes = fs::read(&part).map_err(|source| BuildError::File { path: part.clone(), source });
    let _ = fs::remove_file(&part);
    bytes
}

/// A line of cargo's output.
#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Event {
    CompilerArtifact {
        manifest_path: PathBuf,
        filenames: Vec<PathBuf>,
        executable: Option<PathBuf>,
    },
    CompilerMessage {
        package_id: String,
        target: Compiled,
        message: Diagnostic,
    },
    BuildScriptExecuted {
        package_id: String,
        linked_libs: Vec<String>,
        linked_paths: Vec<String>,
        out_dir: PathBuf,
    },
    #[serde(other)]
    Other,
}

/// What the compiler is called for.
#[derive(Deserialize)]
struct Compiled {
    name: String,
}

/// The code of the compiler's error about a lang item that is defined twice. It is said in other words, and so is the remark by which the
/// compiler would explain its code.
const DUPLICATE_LANG_ITEM: &str = "E0152";

/// What the compiler has to say.
#[derive(Deserialize)]
struct Diagnostic {
    message: String,
    code: Option<Code>,
    rendered: Option<String>,
    children: Vec<Diagnostic>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

impl Diagnostic {
    /// The two crates that cannot be in one image, if that is what this is about.
    fn clash(&self) -> Option<Clash> {
        self.code.as_ref().filter(|code| code.code == DUPLICATE_LANG_ITEM)?;
        Clash::of(&self.message, self.children.iter().map(|note| &*note.message))
    }

    /// Whether the linker has found no `main`: a library without one is no program.
    fn lacks_main(&self) -> bool {
        let mut texts = self.rendered.iter().chain(self.children.iter().map(|note| &note.message));
        texts.any(|text| text.contains("undefined reference to `main'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_its_name_in_each_form_of_its_id() {
        for id in [
            "registry+https://github.com/rust-lang/crates.io-index#links@1.0.0",
            "path+file:///t/links#0.1.0",
            "git+https://example.com/a/links?branch=a/b#0.1.0",
            "git+https://example.com/a/links.git?rev=1f#links@0.1.0",
        ] {
            assert_eq!(name_of(id), "links", "{id}");
        }
    }
}
