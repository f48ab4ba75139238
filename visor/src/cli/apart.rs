//! The files of outputs of workflows that were forked: copies have the same outputs, and none may replace another's.

use monohull_engine::output_file;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The output files of a copy: each with the copy's name before its extension, `result.txt` as `result.NAME.txt`.
pub(super) fn outputs(of: &[(String, PathBuf)], name: &str) -> Vec<(String, PathBuf)> {
    of.iter().map(|(slot, path)| (slot.clone(), file(path, name))).collect()
}

fn file(path: &Path, name: &str) -> PathBuf {
    let Some(stem) = path.file_stem() else { return path.to_owned() };
    if output_file::is_direct(path) {
        // A device, a pipe or an open file: nothing in it is replaced.
        return path.to_owned();
    }
    let mut file = OsString::from(stem);
    file.push(".");
    file.push(name);
    if let Some(extension) = path.extension() {
        file.push(".");
        file.push(extension);
    }
    path.with_file_name(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_files_of_its_own_beside_the_others() {
        let of = |path: &str| file(Path::new(path), "2").to_string_lossy().into_owned();
        assert_eq!(of("out/result.txt"), "out/result.2.txt");
        assert_eq!(of("result"), "result.2");
        assert_eq!(of("a.tar.gz"), "a.tar.2.gz");
        assert_eq!(of(".hidden"), ".hidden.2");
        assert_eq!(of("/dev/null"), "/dev/null");
        // Whatever that is, a regular file too.
        assert_eq!(of("/proc/self/fd/1"), "/proc/self/fd/1");
    }
}
