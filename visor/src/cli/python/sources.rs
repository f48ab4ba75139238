//! The files of a Python program: one file, or what is in a folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::requirements;
use crate::cli::build::BuildError;

/// What is run in a folder, in this order.
const MAIN: [&str; 2] = ["__main__.py", "main.py"];
/// What is never a part of a program, besides what begins with a point: compiled files, environments, and what this tool writes.
const LEFT_OUT: [&str; 6] = ["__pycache__", "venv", "env", "node_modules", "target", "images"];
/// The same, by the ends of names.
const LEFT_OUT_ENDS: [&str; 3] = ["pyc", "pyo", "egg-info"];
/// The most bytes of all files. What is larger does not belong into an image.
const BYTES_MAX: u64 = 256 << 20;

/// The files of a program.
pub(super) struct Sources {
    /// The path of the file to run, as in `files`.
    pub(super) main: String,
    /// Paths and contents, in the order of the paths.
    files: Vec<(String, Vec<u8>)>,
    /// Whether wheels are among them that lie in the program's folder.
    pub(super) has_wheels: bool,
}

/// The file that is run in a folder.
pub(super) fn main_of(folder: &Path) -> Option<&'static str> {
    MAIN.into_iter().find(|name| folder.join(name).is_file())
}

/// Reads a program.
pub(super) fn read(program: &Path) -> Result<Sources, BuildError> {
    let main = match main_of(program) {
        Some(main) => main.to_owned(),
        None => program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let mut left = BYTES_MAX;
    let read = |(name, path): (String, PathBuf)| {
        let unreadable = |source| BuildError::File { path: path.clone(), source };
        let length = fs::metadata(&path).map_err(unreadable)?.len();
        left = left.checked_sub(length).ok_or_else(|| BuildError::PythonProgram {
            path: program.to_path_buf(),
            why: format!("its files have more than {} MiB; data is for mounts of the workflow", BYTES_MAX >> 20),
        })?;
        fs::read(&path).map(|contents| (name, contents)).map_err(unreadable)
    };
    let mut files = list(program)?.into_iter().map(read).collect::<Result<Vec<_>, BuildError>>()?;
    let has_wheels = files.iter().any(|(name, _)| name.ends_with(".whl"));
    if main_of(program).is_some() && !has_wheels {
        files.extend(requirements::wheels(program)?);
    }
    Ok(Sources { main, files, has_wheels })
}

/// The files of a program, in the order of their names in it.
pub(super) fn list(program: &Path) -> Result<Vec<(String, PathBuf)>, BuildError> {
    let mut files = Vec::new();
    match main_of(program) {
        Some(_) => list_folder(program, "", &mut files)?,
        None => {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name, program.to_path_buf()));
        }
    }
    files.sort();
    Ok(files)
}

fn list_folder(folder: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) -> Result<(), BuildError> {
    let unreadable = |source| BuildError::File { path: folder.to_path_buf(), source };
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if is_left_out(&name) {
            continue;
        }
        // A link is followed to a file and not to a folder, which may lead back here.
        if entry.file_type().map_err(unreadable)?.is_dir() {
            list_folder(&path, &format!("{prefix}{name}/"), files)?;
        } else if path.is_file() && !is_image(&path) {
            files.push((format!("{prefix}{name}"), path));
        }
    }
    Ok(())
}

impl Sources {
    /// As `python/pack.py` reads them.
    pub(super) fn framed(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (path, contents) in &self.files {
            bytes.extend((path.len() as u32).to_le_bytes());
            bytes.extend((contents.len() as u64).to_le_bytes());
            bytes.extend(path.as_bytes());
            bytes.extend(contents);
        }
        bytes
    }
}

fn is_left_out(name: &str) -> bool {
    let end = Path::new(name).extension().unwrap_or_default();
    name.starts_with('.') || LEFT_OUT.contains(&name) || LEFT_OUT_ENDS.iter().any(|left_out| end == *left_out)
}

/// Whether it is an image that this tool has put beside a program, which is no part of the next one.
fn is_image(path: &Path) -> bool {
    let exports_start = |bytes: Vec<u8>| monohull_domain::image::Image::parse("", &bytes).is_ok();
    path.extension().is_some_and(|end| end == "so") && fs::read(path).is_ok_and(exports_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_without_what_belongs_to_tools() {
        let folder = tempfile::TempDir::new().expect("a folder");
        for path in ["main.py", "a/b.py", "a/__pycache__/b.pyc", ".git/config", "venv/x.py", "data.txt", "__main__.py"]
        {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, "pass").expect("written");
        }
        let sources = read(folder.path()).expect("read");
        assert_eq!(sources.main, "__main__.py");
        let names: Vec<&str> = sources.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["__main__.py", "a/b.py", "data.txt", "main.py"]);
        let framed = sources.framed();
        assert_eq!(&framed[..12], [11, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&framed[12..27], b"__main__.pypass");
    }
}
