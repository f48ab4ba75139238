//! What functions see of their files is the same with and without a capture in between.

use crate::{ME, domain, moved};
use monohull_abi::Errno;
use monohull_abi::file::{LOWEST_FREE, open};
use monohull_abi::module::Ending;
use monohull_abi::number;
use monohull_module_testing::{Domain, Files};
use proptest::prelude::*;

/// Something to do. Files are those of descriptors 3 to 10.
#[derive(Clone, Debug)]
enum Step {
    Open(usize, u64),
    Close(u64),
    Duplicate(u64),
    Write(u64, usize),
    WriteAt(u64, usize, u64),
    Read(u64, usize),
    Resize(u64, u64),
    Make(usize),
    RemoveDirectory(usize),
    Remove(usize),
    Rename(usize, usize),
    Enter(usize),
    SetTimes(usize, Option<i64>, Option<i64>),
    SetOpenTimes(u64, Option<i64>, Option<i64>),
    Stat(usize),
    StatOpen(u64),
    Entries(u64, u64),
    End,
}

const NAMES: [&str; 10] = ["/", "/a", "/b", "/d", "/d/a", "/d/e", "/more/a", "/more", "a", "../b"];

fn step() -> impl Strategy<Value = Step> {
    let (name, file) = (0..NAMES.len(), 3..11u64);
    let flags = prop_oneof![
        4 => Just(open::READ | open::WRITE | open::CREATE),
        1 => Just(open::READ),
        1 => Just(open::APPEND | open::READ),
        1 => Just(open::READ | open::WRITE | open::TRUNCATE),
        2 => Just(open::READ | open::DIRECTORY),
    ];
    let offset = prop_oneof![0..3000u64, 0..40_000u64, Just((2 << 20) - 7), Just(5 << 20)];
    let len = prop_oneof![0..20usize, 0..9000usize];
    let time = || prop_oneof![Just(None), (-5..9i64).prop_map(Some)];
    prop_oneof![
        6 => (name.clone(), flags).prop_map(|(name, flags)| Step::Open(name, flags)),
        2 => file.clone().prop_map(Step::Close),
        2 => file.clone().prop_map(Step::Duplicate),
        6 => (file.clone(), len.clone()).prop_map(|(file, len)| Step::Write(file, len)),
        3 => (file.clone(), len.clone(), offset.clone()).prop_map(|(file, len, offset)| Step::WriteAt(file, len, offset)),
        5 => (file.clone(), len).prop_map(|(file, len)| Step::Read(file, len)),
        2 => (file.clone(), offset).prop_map(|(file, size)| Step::Resize(file, size)),
        3 => name.clone().prop_map(Step::Make),
        1 => name.clone().prop_map(Step::RemoveDirectory),
        3 => name.clone().prop_map(Step::Remove),
        3 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => name.clone().prop_map(Step::Enter),
        2 => (name.clone(), time(), time()).prop_map(|(name, read, written)| Step::SetTimes(name, read, written)),
        2 => (file.clone(), time(), time()).prop_map(|(file, read, written)| Step::SetOpenTimes(file, read, written)),
        2 => name.prop_map(Step::Stat),
        2 => file.clone().prop_map(Step::StatOpen),
        3 => (file, 30..200u64).prop_map(|(file, room)| Step::Entries(file, room)),
        1 => Just(Step::End),
    ]
}

fn entries(domain: &Domain, files: Files<'_>, descriptor: u64, room: u64) -> Result<Vec<u8>, Errno> {
    let buffer = domain.place(ME, &vec![0; room as usize]);
    let bytes = files.call(number::FILE_GETDENTS, [descriptor, buffer, room])?;
    Ok(domain.peek(buffer, bytes as usize))
}

fn read(domain: &Domain, files: Files<'_>, descriptor: u64, len: usize) -> Result<Vec<u8>, Errno> {
    let buffer = domain.place(ME, &vec![0; len]);
    let bytes = files.call(number::FILE_READ, [descriptor, buffer, len as u64])?;
    Ok(domain.peek(buffer, bytes as usize))
}

/// Does a step; what came of it.
fn run(domain: &Domain, step: &Step, round: usize) -> String {
    let files = domain.files(ME);
    let bytes = |len: usize| -> Vec<u8> { (0..len).map(|at| (at * 7 + round * 13) as u8).collect() };
    match *step {
        Step::Open(name, flags) => format!("{:?}", files.open(NAMES[name], flags)),
        Step::Close(file) => format!("{:?}", files.close(file)),
        Step::Duplicate(file) => format!("{:?}", files.call(number::FILE_DUP, [file, LOWEST_FREE])),
        Step::Write(file, len) => format!("{:?}", files.write(file, &bytes(len))),
        Step::WriteAt(file, len, offset) => format!("{:?}", files.write_at(file, &bytes(len), offset)),
        Step::Read(file, len) => format!("{:?}", read(domain, files, file, len)),
        Step::Resize(file, size) => format!("{:?}", files.resize(file, size)),
        Step::Make(name) => format!("{:?}", files.make_directory(NAMES[name])),
        Step::RemoveDirectory(name) => format!("{:?}", files.remove_directory(NAMES[name])),
        Step::Remove(name) => format!("{:?}", files.remove_file(NAMES[name])),
        Step::Rename(from, to) => format!("{:?}", files.rename(NAMES[from], NAMES[to])),
        Step::Enter(name) => {
            let path = domain.place(ME, NAMES[name].as_bytes());
            let args = [monohull_abi::file::WORKING_DIRECTORY, path, NAMES[name].len() as u64];
            format!("{:?}", files.call(number::FILE_CHDIR, args))
        }
        Step::SetTimes(name, read, written) => format!("{:?}", files.set_times(NAMES[name], [read, written])),
        Step::SetOpenTimes(file, read, written) => format!("{:?}", files.set_open_times(file, [read, written])),
        // With the number of the file, which functions may compare.
        Step::Stat(name) => format!("{:?}", files.stat(NAMES[name])),
        Step::StatOpen(file) => format!("{:?}", files.stat_open(file)),
        Step::Entries(file, room) => format!("{:?}", entries(domain, files, file, room)),
        Step::End => {
            domain.end(ME, Ending::Failed);
            domain.enter(ME);
            String::new()
        }
    }
}

/// Does all steps, and changes the domain after each of these; what came of them.
fn history(steps: &[Step], moves: &[bool]) -> Vec<String> {
    let mut domain = domain();
    let mut all = Vec::new();
    for (round, step) in steps.iter().enumerate() {
        domain.set_time(1, 1_795_132_800_000_000_000 + round as u64);
        all.push(format!("{step:?}: {}, charged {}", run(&domain, step, round), domain.charged(ME)));
        if moves[round % moves.len()] {
            domain = moved(domain);
        }
    }
    domain.end(ME, Ending::Done);
    all.push(format!("charged {}", domain.charged(ME)));
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn a_domain_that_moves_behaves_as_one_that_stays(
        steps in prop::collection::vec(step(), 1..100),
        moves in prop::collection::vec(any::<bool>(), 1..6),
    ) {
        prop_assert_eq!(history(&steps, &moves), history(&steps, &[false]));
    }
}

#[test]
fn a_file_without_a_name_and_a_shared_position_live_on() {
    let domain = domain();
    let files = domain.files(ME);
    let file = files.make("/gone");
    files.write(file, b"some words").unwrap();
    let twin = files.duplicate(file).unwrap();
    files.remove_file("/gone").unwrap();
    let domain = moved(domain);
    let files = domain.files(ME);
    files.write(twin, b", and more").unwrap();
    assert_eq!(files.read_at(file, 100, 0).unwrap(), b"some words, and more");
    assert_eq!((files.close(file), files.stat_open(twin).map(|stat| stat.links)), (Ok(()), Ok(0)));
    assert_eq!(files.close(twin), Ok(()));
    assert_eq!(files.open("/gone", open::READ), Err(Errno::NotFound));
}
