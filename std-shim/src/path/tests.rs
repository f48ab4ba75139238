//! Paths behave as in the host's std.

use super::{Component, Path, PathBuf};
use crate::format;
use crate::string::{String, ToString};
use crate::vec::Vec;
use host_std::path as real;

/// Texts made of the pieces that matter, in every order.
fn texts() -> Vec<String> {
    let pieces = ["/", "//", ".", "..", "a", "b.c", ".d", "e.", "..f", "g.h.i", "/./", "ä"];
    let mut texts = Vec::from([String::new()]);
    for _ in 0..3 {
        let longer = texts.iter().flat_map(|text| pieces.iter().map(move |piece| format!("{text}{piece}")));
        let longer: Vec<String> = longer.collect();
        texts.extend(longer);
    }
    texts.sort();
    texts.dedup();
    texts
}

/// The text of what may be there.
fn ours<'a>(part: Option<impl AsRef<crate::ffi::OsStr> + 'a>) -> Option<String> {
    part.map(|part| part.as_ref().to_str().unwrap().to_string())
}

fn theirs<'a>(part: Option<impl AsRef<host_std::ffi::OsStr> + 'a>) -> Option<String> {
    part.map(|part| part.as_ref().to_str().unwrap().to_string())
}

#[test]
fn every_question_has_the_same_answer() {
    for text in texts() {
        let (our, real) = (Path::new(&text), real::Path::new(&text));
        let list = format!("{:?}", our.components());
        assert_eq!(list, format!("{:?}", real.components()), "{text}");
        assert_eq!(format!("{:?}", our.iter()), format!("{:?}", real.iter()), "{text}");
        let back: Vec<String> = our.components().rev().map(|part| format!("{part:?}")).collect();
        let real_back: Vec<String> = real.components().rev().map(|part| format!("{part:?}")).collect();
        assert_eq!(back, real_back, "{text}");
        assert_eq!(ours(our.parent()), theirs(real.parent()), "{text}");
        assert_eq!(ours(our.file_name()), theirs(real.file_name()), "{text}");
        assert_eq!(ours(our.file_stem()), theirs(real.file_stem()), "{text}");
        assert_eq!(ours(our.extension()), theirs(real.extension()), "{text}");
        assert_eq!(our.is_absolute(), real.is_absolute(), "{text}");
        let ancestors: Vec<_> = our.ancestors().map(|path| ours(Some(path))).collect();
        let real_ancestors: Vec<_> = real.ancestors().map(|path| theirs(Some(path))).collect();
        assert_eq!(ancestors, real_ancestors, "{text}");
    }
}

#[test]
fn what_is_left_is_the_same_from_both_ends() {
    for text in texts() {
        let (mut our, mut real) = (Path::new(&text).components(), real::Path::new(&text).components());
        for step in 0..6 {
            assert_eq!(ours(Some(our.as_path())), theirs(Some(real.as_path())), "{text} after {step}");
            let same = match step % 3 {
                1 => (our.next_back().is_some(), real.next_back().is_some()),
                _ => (our.next().is_some(), real.next().is_some()),
            };
            assert_eq!(same.0, same.1, "{text} after {step}");
        }
    }
}

#[test]
fn two_paths_relate_as_the_hosts_do() {
    let texts = ["", "/", ".", "a", "./a", "a/", "a/b", "a/./b", "/a", "/a/b", "//a//b/", "b", "..", "a/..", "a.b/c.d"];
    for left in texts {
        for right in texts {
            let (a, b) = (Path::new(left), Path::new(right));
            let (x, y) = (real::Path::new(left), real::Path::new(right));
            let what = format!("{left:?} and {right:?}");
            assert_eq!(a == b, x == y, "{what}");
            assert_eq!(a.cmp(b), x.cmp(y), "{what}");
            assert_eq!(a.starts_with(b), x.starts_with(y), "{what}");
            assert_eq!(a.ends_with(b), x.ends_with(y), "{what}");
            assert_eq!(ours(a.strip_prefix(b).ok()), theirs(x.strip_prefix(y).ok()), "{what}");
            assert_eq!(ours(Some(a.join(b))), theirs(Some(x.join(y))), "{what}");
            assert_eq!(ours(Some(a.with_file_name(right))), theirs(Some(x.with_file_name(right))), "{what}");
            if !right.contains('/') {
                assert_eq!(ours(Some(a.with_extension(right))), theirs(Some(x.with_extension(right))), "{what}");
            }
        }
        let (mut ours_, mut theirs_) = (PathBuf::from(left), real::PathBuf::from(left));
        while ours_.pop() {
            assert!(theirs_.pop());
            assert_eq!(ours(Some(&ours_)), theirs(Some(&theirs_)));
        }
        assert!(!theirs_.pop());
    }
}

#[test]
fn owned_and_borrowed_are_one() {
    let path: PathBuf = ["/a", "b", "c.txt"].iter().collect();
    assert_eq!(path, Path::new("/a/b/c.txt"));
    assert_eq!(path.display().to_string(), "/a/b/c.txt");
    assert_eq!(path.components().next_back(), Some(Component::Normal("c.txt".as_ref())));
    assert_eq!(path.clone().into_boxed_path().into_path_buf(), path);
    assert_eq!(path.into_os_string(), "/a/b/c.txt");
}
