//! `std::path` and `OsStr`.

use super::check;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub(super) fn all() {
    let path = Path::new("/srv/hull/plan.tar.gz");
    check!("parts", (path.file_name(), path.file_stem(), path.extension(), path.parent()));
    check!(
        "parts_of_few",
        (
            Path::new("/").file_name(),
            Path::new("..").file_name(),
            Path::new(".rc").extension(),
            Path::new("a/").file_name(),
            Path::new("").parent(),
            Path::new("a.").extension()
        )
    );
    check!("components", Path::new("/a/./b//../c/").components().collect::<Vec<_>>());
    check!(
        "components_of_relative",
        Path::new("./a/./b").components().map(|c| c.as_os_str().to_owned()).collect::<Vec<_>>()
    );
    check!("join", ["b", "/b", "../b", ""].map(|tail| Path::new("a").join(tail)));
    check!("push_and_pop", {
        let mut path = PathBuf::from("/a");
        path.push("b");
        path.push("c.txt");
        (path.clone(), path.pop(), path.pop(), path.pop(), path.pop(), path)
    });
    check!(
        "with",
        (
            path.with_extension("zip"),
            path.with_extension(""),
            path.with_file_name("x"),
            Path::new("/").with_file_name("x")
        )
    );
    check!("set_extension", {
        let mut path = PathBuf::from("a.b");
        (path.set_extension("c"), path.clone(), PathBuf::from("/").set_extension("c"))
    });
    check!(
        "prefix",
        (
            path.strip_prefix("/srv"),
            path.strip_prefix("/sr").map_err(|e| e.to_string()),
            path.starts_with("/srv/hull"),
            path.ends_with("plan.tar.gz"),
            path.ends_with("gz")
        )
    );
    check!("kinds", (path.is_absolute(), Path::new("a").is_relative(), path.has_root(), Path::new("./a").has_root()));
    check!("ancestors", path.ancestors().collect::<Vec<_>>());
    check!(
        "compare",
        (
            Path::new("a//b/") == Path::new("a/b"),
            Path::new("a") < Path::new("b"),
            Path::new("a/.") == Path::new("a"),
            Path::new("A") == Path::new("a")
        )
    );
    check!("display_and_debug", format!("{} {:?}", path.display(), Path::new("a\"b")));
    check!("collect", ["a", "b", "c"].iter().collect::<PathBuf>());
    check!("iter", path.iter().rev().map(|part| part.len()).collect::<Vec<_>>());
    check!("text", (path.to_str().map(str::len), path.to_string_lossy(), path.to_path_buf().into_os_string()));
    check!("os_strings", {
        let mut text = OsString::from("hull");
        text.push("-7");
        (text.len(), text.to_str().map(str::to_owned), text.into_string())
    });
    check!(
        "os_strs",
        (
            OsStr::new("a") == "a",
            OsStr::new("Ab").to_ascii_lowercase(),
            OsStr::new("x").is_empty(),
            OsStr::new("b") > OsStr::new("a")
        )
    );
    check!(
        "boxes_and_cows",
        (
            Box::<Path>::from(Path::new("a")).into_path_buf(),
            std::borrow::Cow::from(Path::new("c")),
            std::rc::Rc::<Path>::from(Path::new("r"))
        )
    );
}
