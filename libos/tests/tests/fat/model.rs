//! Whatever is done to an image, it behaves as files in memory do, and is whole afterwards.

use crate::{ME, checked, domain, formatted};
use lamfat::FatType;
use monohull_abi::Errno;
use monohull_abi::file::open;
use monohull_module_testing::Files;
use proptest::prelude::*;

/// Something to do.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Open(usize, u64),
    Close(usize),
    Write(usize, usize, u64),
    Append(usize, usize),
    Read(usize, usize, u64),
    Resize(usize, u64),
    Make(usize),
    RemoveDirectory(usize),
    Remove(usize),
    Rename(usize, usize),
    Stat(usize),
    List(usize),
}

/// Names that collide in every way there is.
const NAMES: [&str; 12] =
    ["", "/a", "/b", "/a name that is long", "/d", "/d/a", "/d/b c.txt", "/d/e", "/d/e/f", "/a/b", "/e", "/e/a"];

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let name = 0..NAMES.len();
    let file = 0..6usize;
    let flags = prop_oneof![
        3 => Just(open::READ | open::WRITE | open::CREATE),
        1 => Just(open::READ),
        1 => Just(open::READ | open::WRITE | open::CREATE | open::EXCLUSIVE),
        1 => Just(open::READ | open::WRITE | open::TRUNCATE),
        1 => Just(open::READ | open::DIRECTORY),
    ];
    let offset = prop_oneof![0..3000u64, 0..40_000u64];
    let len = prop_oneof![0..20usize, 0..5000usize];
    prop_oneof![
        6 => (name.clone(), flags).prop_map(|(name, flags)| Step::Open(name, flags)),
        3 => file.clone().prop_map(Step::Close),
        6 => (file.clone(), len.clone(), offset.clone()).prop_map(|(file, len, offset)| Step::Write(file, len, offset)),
        3 => (file.clone(), len.clone()).prop_map(|(file, len)| Step::Append(file, len)),
        4 => (file.clone(), len, offset.clone()).prop_map(|(file, len, offset)| Step::Read(file, len, offset)),
        2 => (file, offset).prop_map(|(file, size)| Step::Resize(file, size)),
        3 => name.clone().prop_map(Step::Make),
        1 => name.clone().prop_map(Step::RemoveDirectory),
        3 => name.clone().prop_map(Step::Remove),
        4 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => name.clone().prop_map(Step::Stat),
        2 => name.prop_map(Step::List),
    ]
}

/// Does a step below `root`; `open` are the descriptors. What came of it, in words that both sides must share.
pub(crate) fn run(files: Files<'_>, root: &str, open: &mut Vec<u64>, step: &Step, round: usize) -> String {
    let path = |name: usize| format!("{root}{}", NAMES[name]);
    let at = |open: &Vec<u64>, file: usize| open.get(file).copied().unwrap_or(999);
    let bytes = |len: usize| -> Vec<u8> { (0..len).map(|at| (at * 7 + round * 13) as u8).collect() };
    match *step {
        Step::Open(name, flags) => match files.open(&path(name), flags) {
            Ok(_) if open.len() > 5 => "opened one too many".into(),
            Ok(descriptor) => {
                open.push(descriptor);
                "opened".into()
            }
            Err(errno) => format!("{errno:?}"),
        },
        Step::Close(file) if file < open.len() => format!("{:?}", files.close(open.remove(file))),
        Step::Close(_) => "nothing to close".into(),
        Step::Write(file, len, offset) => format!("{:?}", files.write_at(at(open, file), &bytes(len), offset)),
        Step::Append(file, len) => format!("{:?}", files.write(at(open, file), &bytes(len))),
        Step::Read(file, len, offset) => format!("{:?}", files.read_at(at(open, file), len, offset)),
        Step::Resize(file, size) => format!("{:?}", files.resize(at(open, file), size)),
        Step::Make(name) => format!("{:?}", files.make_directory(&path(name))),
        Step::RemoveDirectory(name) => format!("{:?}", files.remove_directory(&path(name))),
        Step::Remove(name) => format!("{:?}", files.remove_file(&path(name))),
        Step::Rename(from, to) => format!("{:?}", files.rename(&path(from), &path(to))),
        Step::Stat(name) => format!("{:?}", files.stat(&path(name)).map(|stat| (stat.kind, stat.size, stat.links))),
        Step::List(name) => format!("{:?}", files.list(&path(name))),
    }
}

/// Everything below a directory.
pub(crate) fn tree(files: Files<'_>, path: &str) -> Result<Vec<(String, Vec<u8>)>, Errno> {
    let mut all = Vec::new();
    for name in files.list(path)? {
        let below = format!("{path}/{}", name.trim_end_matches('/'));
        match name.ends_with('/') {
            true => all.extend(tree(files, &below)?.into_iter().map(|(path, bytes)| (format!("{name}{path}"), bytes))),
            false => all.push((name.clone(), files.read(&below)?)),
        }
        all.push((name, Vec::new()));
    }
    Ok(all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn an_image_behaves_as_memory_does(kind in 0..3usize, steps in proptest::collection::vec(step(), 1..120)) {
        let kind = [FatType::Fat12, FatType::Fat16, FatType::Fat32][kind];
        let domain = domain(formatted(kind));
        let files = domain.files(ME);
        let (mut in_memory, mut in_image) = (vec![], vec![]);
        for (round, step) in steps.iter().enumerate() {
            let expected = run(files, "/ram", &mut in_memory, step, round);
            let found = run(files, "/fat", &mut in_image, step, round);
            prop_assert_eq!(expected, found, "step {}: {:?}", round, step);
        }
        prop_assert_eq!(tree(files, "/ram"), tree(files, "/fat"));
        for descriptor in in_memory.into_iter().chain(in_image) {
            files.close(descriptor).expect("it is open");
        }
        domain.end(ME, monohull_abi::module::Ending::Done);
        let report = checked(domain);
        prop_assert_eq!(report.findings, []);
    }
}
