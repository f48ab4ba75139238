//! What FAT does its own way.

use crate::{ME, Slice, checked, closed, domain, formatted};
use lamfat::FatType;
use monohull_abi::file::open;
use monohull_abi::{Errno, number};
use monohull_fat::check::check;
use monohull_fat::{Found, Geometry, find, runs};

const KINDS: [FatType; 3] = [FatType::Fat12, FatType::Fat16, FatType::Fat32];

#[test]
fn capital_and_small_letters_are_one_name() {
    for kind in KINDS {
        let domain = domain(formatted(kind));
        let files = domain.files(ME);
        let descriptor = files.make("/fat/Report of the Day.txt");
        files.write(descriptor, b"text").unwrap();
        assert_eq!(files.read("/fat/REPORT of the day.TXT").unwrap(), b"text");
        assert_eq!(
            files.open("/fat/report of the day.txt", open::READ | open::WRITE | open::CREATE | open::EXCLUSIVE),
            Err(Errno::Exists)
        );
        files.rename("/fat/report of the day.txt", "/fat/REPORT OF THE DAY.TXT").unwrap();
        assert_eq!(files.list("/fat").unwrap(), ["REPORT OF THE DAY.TXT"]);
        files.write(descriptor, b" and more").unwrap();
        assert_eq!(files.read("/fat/report of the day.txt").unwrap(), b"text and more");
        files.close(descriptor).unwrap();
        assert_eq!(checked(domain).findings, []);
    }
}

#[test]
fn one_letter_is_one_letter_in_capitals() {
    for kind in KINDS {
        let domain = domain(formatted(kind));
        let files = domain.files(ME);
        for (name, content) in [("Stra\u{df}e", b"sharp"), ("Strasse", b"plain")] {
            let descriptor = files.make(&format!("/fat/{name}"));
            files.write(descriptor, content).unwrap();
            files.close(descriptor).unwrap();
        }
        assert_eq!(files.read("/fat/STRA\u{df}E").unwrap(), b"sharp");
        assert_eq!(files.read("/fat/STRASSE").unwrap(), b"plain");
        files.rename("/fat/strasse", "/fat/\u{fb01}ne").unwrap();
        assert_eq!(files.read("/fat/fine"), Err(Errno::NotFound));
        assert_eq!(files.list("/fat").unwrap(), ["Stra\u{df}e", "\u{fb01}ne"]);
        assert_eq!(checked(domain).findings, []);
    }
}

#[test]
fn names_that_fat_cannot_hold_are_refused() {
    let domain = domain(formatted(FatType::Fat16));
    let files = domain.files(ME);
    let forbidden = ["a:b", "a*b", "a?b", "a\"b", "a<b", "a>b", "a|b", "a\\b", "\u{1}", ".monohull-removed-0"];
    for name in forbidden.into_iter().chain(["end.", "end ", "...", " ", "a.b. ."]) {
        let path = format!("/fat/{name}");
        assert_eq!(files.open(&path, open::WRITE | open::CREATE), Err(Errno::InvalidName), "{name:?}");
        assert_eq!(files.make_directory(&path), Err(Errno::InvalidName), "{name:?}");
    }
    for name in [
        "ä ö ü",
        "名前",
        "🦀 and 🦀",
        "a.b.c.d",
        " .begin",
        "x".repeat(255).as_str(),
        "with+plus,comma;semi=equals[brackets]",
    ] {
        let path = format!("/fat/{name}");
        let descriptor = files.make(&path);
        files.close(descriptor).unwrap();
        assert_eq!(files.list("/fat").unwrap(), [name]);
        files.remove_file(&path).unwrap();
    }
    assert_eq!(checked(domain).findings, []);
}

#[test]
fn a_full_image_says_so_and_loses_nothing() {
    for kind in KINDS {
        let domain = domain(formatted(kind));
        let files = domain.files(ME);
        let kept = files.make("/fat/kept");
        files.write(kept, b"kept").unwrap();
        let large = files.make("/fat/large");
        let piece = vec![7; 900_000];
        let mut written = 0;
        let refusal = loop {
            match files.write(large, &piece) {
                Ok(bytes) => written += bytes,
                Err(errno) => break errno,
            }
        };
        assert_eq!(refusal, Errno::NoSpace);
        assert_eq!(files.stat("/fat/large").unwrap().size, written);
        assert_eq!(files.read("/fat/large").unwrap(), vec![7; written as usize]);
        // What is left is not enough for another directory's cluster once it is used up.
        while files.write(large, &[1; 512]).is_ok() {}
        assert_eq!(files.make_directory("/fat/d"), Err(Errno::NoSpace));
        assert_eq!(files.read("/fat/kept").unwrap(), b"kept");
        files.resize(large, 0).unwrap();
        files.make_directory("/fat/d").unwrap();
        files.close(large).unwrap();
        files.close(kept).unwrap();
        assert_eq!(checked(domain).findings, [], "{kind:?}");
    }
}

#[test]
fn a_root_directory_with_a_place_of_its_own_can_be_full() {
    let domain = domain(formatted(FatType::Fat16));
    let files = domain.files(ME);
    let mut made = 0;
    while let Ok(descriptor) = files.open(&format!("/fat/{made}"), open::WRITE | open::CREATE) {
        files.close(descriptor).unwrap();
        made += 1;
    }
    assert!(made > 200, "{made}");
    assert_eq!(files.open("/fat/one more", open::WRITE | open::CREATE), Err(Errno::NoSpace));
    assert_eq!(files.list("/fat").unwrap().len(), made);
    files.remove_file("/fat/7").unwrap();
    let descriptor = files.make("/fat/8a");
    files.close(descriptor).unwrap();
    assert_eq!(checked(domain).findings, []);
}

#[test]
fn a_file_gives_back_what_it_got_ahead() {
    for kind in KINDS {
        let domain = domain(formatted(kind));
        let files = domain.files(ME);
        let descriptor = files.make("/fat/grows");
        let expected: Vec<u8> = (0..40_000u32).flat_map(|n| (n as u16).to_le_bytes()).collect();
        for piece in expected.chunks(777) {
            files.write(descriptor, piece).unwrap();
        }
        assert_eq!(files.read("/fat/grows").unwrap(), expected);
        files.close(descriptor).unwrap();
        let report = checked(domain);
        assert_eq!(report.findings, []);
        // Its own clusters, and that of the root directory if it is a chain.
        let root = u32::from(kind == FatType::Fat32);
        assert_eq!(report.geometry.clusters - report.free, expected.len().div_ceil(512) as u32 + root);
    }
}

#[test]
fn a_file_that_grows_lies_in_one_piece_and_what_was_given_back_is_used_again() {
    for kind in KINDS {
        let domain = domain(formatted(kind));
        let files = domain.files(ME);
        // More than half of the smallest image, again and again.
        for round in 0..5u8 {
            let descriptor = files.make("/fat/grows");
            for _ in 0..600 {
                files.write(descriptor, &[round; 1000]).unwrap();
            }
            assert_eq!(files.read("/fat/grows").unwrap(), vec![round; 600_000]);
            files.close(descriptor).unwrap();
            if round < 4 {
                files.remove_file("/fat/grows").unwrap();
            }
        }
        let image = closed(domain);
        let image = Slice(&image);
        let geometry = Geometry::read(&image).unwrap();
        let Found::Entry(entry) = find(&geometry, &image, "grows").unwrap() else { panic!("a file") };
        // The search for free clusters may have come round once.
        assert!(runs(&geometry, &image, entry.cluster).unwrap().list().len() <= 2, "{kind:?}");
        assert_eq!(check(&image).unwrap().findings, []);
    }
}

#[test]
fn a_hole_reads_as_zeros_whatever_lay_there() {
    let domain = domain(formatted(FatType::Fat16));
    let files = domain.files(ME);
    let old = files.make("/fat/old");
    files.write(old, &vec![0xaa; 200_000]).unwrap();
    files.close(old).unwrap();
    files.remove_file("/fat/old").unwrap();
    let new = files.make("/fat/new");
    files.write_at(new, b"end", 100_000).unwrap();
    let bytes = files.read("/fat/new").unwrap();
    assert!(bytes[..100_000].iter().all(|byte| *byte == 0) && &bytes[100_000..] == b"end");
    files.resize(new, 10).unwrap();
    files.resize(new, 150_000).unwrap();
    assert!(files.read("/fat/new").unwrap().iter().all(|byte| *byte == 0));
    files.close(new).unwrap();
    assert_eq!(checked(domain).findings, []);
}

#[test]
fn the_largest_file_ends_where_fat_does() {
    let domain = domain(formatted(FatType::Fat32));
    let files = domain.files(ME);
    let descriptor = files.make("/fat/f");
    assert_eq!(files.write_at(descriptor, b"x", u64::from(u32::MAX)), Err(Errno::FileTooLarge));
    assert_eq!(files.resize(descriptor, 1 << 32), Err(Errno::FileTooLarge));
    assert_eq!(files.resize(descriptor, u64::from(u32::MAX)), Err(Errno::NoSpace));
    assert_eq!(files.stat("/fat/f").unwrap().size, 0);
}

#[test]
fn a_directory_that_moves_leads_up_to_its_new_place() {
    for kind in KINDS {
        let domain = domain(formatted(kind));
        let files = domain.files(ME);
        for path in ["/fat/a", "/fat/a/inner", "/fat/b"] {
            files.make_directory(path).unwrap();
        }
        let open = files.make("/fat/a/inner/file");
        files.rename("/fat/a/inner", "/fat/b/inner").unwrap();
        files.write(open, b"still open").unwrap();
        assert_eq!(files.read("/fat/b/inner/file").unwrap(), b"still open");
        files.rename("/fat/b/inner", "/fat/inner").unwrap();
        let grown = vec![3; 5000];
        files.write(open, &grown).unwrap();
        assert_eq!(files.stat("/fat/inner/file").unwrap().size, 5010);
        files.close(open).unwrap();
        assert_eq!(checked(domain).findings, []);
    }
}

#[test]
fn what_is_removed_while_it_is_open_is_gone_with_the_last_descriptor() {
    let domain = domain(formatted(FatType::Fat16));
    let files = domain.files(ME);
    let first = files.make("/fat/f");
    files.write(first, &[1; 10_000]).unwrap();
    let second = files.duplicate(first).unwrap();
    files.remove_file("/fat/f").unwrap();
    assert!(files.list("/fat").unwrap().is_empty());
    let other = files.make("/fat/f");
    files.write(other, b"another").unwrap();
    files.write_at(first, &[2; 10_000], 10_000).unwrap();
    files.close(first).unwrap();
    assert_eq!(files.read_at(second, 3, 9_999).unwrap(), [1, 2, 2]);
    assert_eq!(files.stat_open(second).unwrap().links, 0);
    files.close(second).unwrap();
    files.rename("/fat/f", "/fat/g").unwrap();
    let over = files.make("/fat/h");
    files.write(over, b"replaced").unwrap();
    files.rename("/fat/g", "/fat/h").unwrap();
    assert_eq!(
        (files.read("/fat/h").unwrap(), files.read_at(over, 8, 0).unwrap()),
        (b"another".to_vec(), b"replaced".to_vec())
    );
    files.close(over).unwrap();
    files.close(other).unwrap();
    let report = checked(domain);
    assert_eq!((report.findings, report.files), (vec![], 1));
}

#[test]
fn a_directory_is_the_same_however_it_is_spelt() {
    for kind in KINDS {
        let domain = domain(formatted(kind));
        let files = domain.files(ME);
        files.make_directory("/fat/A long name").unwrap();
        files.make_directory("/fat/A long name/inner").unwrap();
        // By its short name, and in other letters.
        for (from, to) in [
            ("/fat/A long name", "/fat/a LONG name/b"),
            ("/fat/A long name", "/fat/ALONGN~1/b"),
            ("/fat/ALONGN~1", "/fat/A long name/inner/b"),
            ("/fat/a long name/INNER", "/fat/A long name/inner/b"),
        ] {
            assert_eq!(files.rename(from, to), Err(Errno::Invalid), "{from} {to}");
        }
        let open = files.make("/fat/alongn~1/INNER/file");
        files.rename("/fat/A LONG NAME", "/fat/B").unwrap();
        // It grows and shrinks, which takes its path.
        files.write(open, &vec![5; 10_000]).unwrap();
        files.resize(open, 3).unwrap();
        files.close(open).unwrap();
        assert_eq!(files.read("/fat/b/inner/file").unwrap(), [5; 3]);
        assert_eq!(checked(domain).findings, [], "{kind:?}");
    }
}

#[test]
fn what_is_removed_while_it_is_open_has_no_name_to_be_found_by() {
    let domain = domain(formatted(FatType::Fat16));
    let files = domain.files(ME);
    let open = files.make("/fat/f");
    files.remove_file("/fat/f").unwrap();
    for name in ["/fat/.monohull-removed-0", "/fat/.MONOHULL-REMOVED-0", "/fat/MONOHU~1"] {
        assert_eq!(files.stat(name).map(drop), Err(Errno::NotFound), "{name}");
        assert_eq!(files.rename(name, "/fat/g"), Err(Errno::NotFound), "{name}");
    }
    assert_eq!(files.open("/fat/.Monohull-Removed-7", open::WRITE | open::CREATE), Err(Errno::InvalidName));
    files.close(open).unwrap();
    assert_eq!(checked(domain).files, 0);
}

#[test]
fn what_grows_beyond_the_image_gives_back_what_it_got() {
    let domain = domain(formatted(FatType::Fat12));
    let files = domain.files(ME);
    let (file, other) = (files.make("/fat/file"), files.make("/fat/other"));
    files.write(file, &[7; 1000]).unwrap();
    assert_eq!(files.resize(file, 3 << 20), Err(Errno::NoSpace));
    assert_eq!(files.write_at(file, b"x", 3 << 20), Err(Errno::NoSpace));
    files.write(other, &vec![8; 700_000]).unwrap();
    files.close(other).unwrap();
    files.remove_file("/fat/other").unwrap();
    // What the other left there does not show.
    files.resize(file, 600_000).unwrap();
    let mut expected = vec![7; 1000];
    expected.resize(600_000, 0);
    assert_eq!(files.read("/fat/file").unwrap(), expected);
    files.close(file).unwrap();
    assert_eq!(checked(domain).findings, []);
}

#[test]
fn a_directory_is_synced_as_a_file_is() {
    let domain = domain(formatted(FatType::Fat16));
    let files = domain.files(ME);
    files.make_directory("/fat/names").unwrap();
    for (path, syncs) in [("/fat/names", 1), ("/fat", 2), ("/", 2), ("/ram", 2)] {
        let directory = files.open(path, open::READ | open::DIRECTORY).unwrap();
        files.call(number::FILE_FSYNC, [directory]).unwrap();
        assert_eq!(domain.image_syncs(), syncs, "{path}");
    }
    let file = files.make("/fat/file");
    files.call(number::FILE_FSYNC, [file]).unwrap();
    assert_eq!(domain.image_syncs(), 3);
}

/// In steps of two seconds, and when it was read not at all. What is known of a file is the same while it is open and afterwards.
#[test]
fn times_are_kept_as_exactly_as_fat_can() {
    const SECOND: i64 = 1_000_000_000;
    for kind in KINDS {
        let domain = domain(formatted(kind));
        let files = domain.files(ME);
        let written = |path: &str| files.stat(path).map(|stat| (stat.accessed, stat.modified)).unwrap();
        let descriptor = files.make("/fat/a file with a long name");
        files.make_directory("/fat/d").unwrap();
        let kept = |seconds: i64| (seconds * SECOND, seconds * SECOND);
        files.set_open_times(descriptor, [Some(5), Some(1_000_000_001 * SECOND + 7)]).unwrap();
        assert_eq!(written("/fat/a file with a long name"), kept(1_000_000_000));
        files.set_times("/fat/A FILE with a long name", [None, Some(1_100_000_003 * SECOND)]).unwrap();
        assert_eq!(written("/fat/a file with a long name"), kept(1_100_000_002), "it is open");
        files.close(descriptor).unwrap();
        assert_eq!(written("/fat/a file with a long name"), kept(1_100_000_002));
        files.set_times("/fat/a file with a long name", [Some(1), Some(1_200_000_000 * SECOND)]).unwrap();
        files.set_times("/fat/d", [None, Some(1_300_000_000 * SECOND)]).unwrap();
        assert_eq!(
            (written("/fat/a file with a long name"), written("/fat/d")),
            (kept(1_200_000_000), kept(1_300_000_000))
        );
        files.set_times("/fat/d", [Some(1), None]).unwrap();
        assert_eq!(written("/fat/d"), kept(1_300_000_000));
        for (set, found) in [(0, 315_532_800), (i64::MAX, 4_354_819_198)] {
            files.set_times("/fat/d", [None, Some(set)]).unwrap();
            assert_eq!(written("/fat/d"), kept(found));
        }
        assert_eq!(files.set_times("/fat", [None, Some(1)]), Ok(()), "the root has no times, and nothing changes");
        assert_eq!(files.set_times("/fat/none", [None, Some(1)]), Err(Errno::NotFound));
        assert_eq!(files.set_open_times(descriptor, [None, Some(1)]), Err(Errno::BadDescriptor));
        assert_eq!(checked(domain).findings, []);
    }
}
