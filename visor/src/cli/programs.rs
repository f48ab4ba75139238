//! Workflow files that name programs in place of images: WebAssembly (`app.wasm`), JavaScript (`app.js`) and Python (`app.py`, or a folder with `main.py` or
//! `__main__.py`). Each is compiled once and then taken from a cache (`image_cache`).
//!
//! Only the command line does this. What the engine and a server get is an ordinary image.
//!
//! Neither compiler runs code of the program. A crate's build scripts would run on this host with all rights of the user, so a
//! workflow file names the image of a crate, and `monohull build` is a command of its own. The same holds for sources in C.
//!
//! A program in Python is built for the processor, or with `"target": "wasi"` for WebAssembly.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::build::BuildError;
use super::wasm::Wanted;
use super::{python, wasm};
use monohull_ipc::sealed::seal;
use monohull_workflow::{Checks, Making, Plan, Target};

/// Sealed memory files with images. They are there as long as this is.
#[derive(Debug, Default)]
pub(super) struct Images {
    _files: Vec<OwnedFd>,
    /// Of each function, a hash that is another one whenever its image is, if one is known without reading the image.
    pub(super) known: Vec<Option<[u8; 32]>>,
}

/// Replaces each program in a plan by its image. What was compiled, or verified, is passed on as a sealed memory file, so these bytes are
/// those that run.
pub(super) fn replace_programs(plan: &mut Plan) -> Result<Images, BuildError> {
    replace_programs_of(plan, &[])
}

/// The same for a run that goes on, whose functions had images with these hashes. It may have begun on a host with another processor.
pub(super) fn replace_programs_of(plan: &mut Plan, known: &[[u8; 32]]) -> Result<Images, BuildError> {
    let (mut files, mut hashes) = (Vec::new(), Vec::new());
    for (index, function) in plan.functions.iter_mut().enumerate() {
        let wanted = Wanted { known: known.get(index), ..Wanted::here() };
        let (file, hash) = image_of(&function.image, function.making, wanted)?.unzip();
        hashes.push(hash.flatten());
        if let Some(file) = file {
            // The engine opens it in this process, and takes it as it is.
            let image = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            function.made_of = Some(std::mem::replace(&mut function.image, image));
            files.push(file);
        }
    }
    Ok(Images { _files: files, known: hashes })
}

/// An image in sealed memory, and a hash that is another one whenever the image is, if one is known.
type Made = (OwnedFd, Option<[u8; 32]>);

/// The image of what a workflow file names, if that is a program.
pub(super) fn image_of(path: &Path, making: Making, wanted: Wanted<'_>) -> Result<Option<Made>, BuildError> {
    let Making { target, checks } = making;
    let is_python = path.exists() && python::is_program(path);
    if target == Target::Wasi && !is_python {
        return Err(BuildError::NoPythonProgram(path.to_path_buf()));
    }
    let is_wasm = wasm::is_program(path);
    if checks == Checks::Explicit && !is_wasm {
        return Err(BuildError::NoWasm { path: path.to_path_buf(), option: "\"checks\": \"explicit\"" });
    }
    if is_wasm {
        let image = wasm::cached_image(path, checks, wanted)?;
        let file = seal(&image, 0).map_err(|source| BuildError::File { path: path.to_owned(), source })?;
        Ok(Some((file, None)))
    } else if is_python {
        python::cached_image(path, target).map(Some)
    } else {
        match path {
            _ if path.join("Cargo.toml").is_file() => Err(BuildError::Crate(path.to_path_buf())),
            _ if path.is_dir() => Err(BuildError::NoProgramInFolder(path.to_path_buf())),
            _ => BuildError::of_source(path).map_or(Ok(None), Err),
        }
    }
}

/// The files that an image is made of: those of a program in a folder, otherwise the file itself.
pub(super) fn files_of(image: &Path) -> Vec<PathBuf> {
    match image.is_dir() && python::is_program(image) {
        true => python::files_of(image),
        false => vec![image.to_path_buf()],
    }
}
