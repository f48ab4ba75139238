//! Images whose directories and files lead to each other's clusters: to their own, to those of the directory they lie in, to one
//! that another has as well.

use crate::damage::{FILLED, use_all};
use crate::interrupted::Owned;
use crate::{ME, Slice, closed, domain, formatted};
use lamfat::FatType;
use monohull_abi::Errno;
use monohull_fat::check::{Finding, check, repair};
use monohull_fat::{Entry, Found, Geometry, Image, ImageMut, find};
use proptest::prelude::*;

/// An image to rewire.
struct Tangle {
    image: Owned,
    geometry: Geometry,
}

impl Tangle {
    fn of(image: Vec<u8>) -> Tangle {
        let image = Owned(image);
        let geometry = Geometry::read(&image).expect("an image");
        Tangle { image, geometry }
    }

    /// With directories `a`, `a/b`, `a/b/c` and `other`, and a file in each.
    fn new(kind: FatType) -> Tangle {
        let domain = domain(formatted(kind));
        let files = domain.files(ME);
        for directory in ["/fat/a", "/fat/a/b", "/fat/a/b/c", "/fat/other"] {
            files.make_directory(directory).expect("room");
            let file = files.make(&format!("{directory}/file"));
            files.write(file, directory.repeat(200).as_bytes()).expect("room");
            files.close(file).expect("open");
        }
        Tangle::of(closed(domain))
    }

    fn entry(&self, path: &str) -> Entry {
        match find(&self.geometry, &self.image, path) {
            Ok(Found::Entry(entry)) => entry,
            other => panic!("{path}: {other:?}"),
        }
    }

    /// Has a slot lead somewhere else.
    fn lead(&mut self, slot: u64, cluster: u32) {
        let bytes = cluster.to_le_bytes();
        self.image.write(slot + 26, &bytes[..2]).expect("inside");
        if self.geometry.root_bytes == 0 {
            self.image.write(slot + 20, &bytes[2..]).expect("inside");
        }
    }

    /// Sets a cluster's entry in all copies of the FAT.
    fn chain(&mut self, cluster: u32, value: u32) {
        for copy in 0..self.geometry.fats {
            let at = self.geometry.entry_offset(cluster) + copy * self.geometry.fat_bytes;
            let (mut bytes, len) = ([0; 4], self.geometry.entry_len());
            self.image.read(at, &mut bytes[..len]).expect("inside");
            let bytes = self.geometry.with_value(bytes, cluster, value);
            self.image.write(at, &bytes[..len]).expect("inside");
        }
    }

    fn findings(&self) -> Vec<Finding> {
        check(&self.image).expect("it can be checked").findings
    }

    /// Puts it right; what was wrong.
    #[track_caller]
    fn repaired(&mut self) -> Vec<Finding> {
        let findings = repair(&mut self.image).expect("it can be put right").findings;
        assert_eq!(self.findings(), [], "after {findings:?}");
        findings
    }

    /// What functions read in it.
    fn read(&self, path: &str) -> Result<Vec<u8>, Errno> {
        let domain = domain(self.image.0.clone());
        domain.files(ME).read(&format!("/fat/{path}"))
    }

    /// The files of the directories that nothing is wrong with are what they were.
    #[track_caller]
    fn keeps(&self, directories: &[&str]) {
        for directory in directories {
            let expected = format!("/fat/{directory}").repeat(200).into_bytes();
            assert_eq!(self.read(&format!("{directory}/file")), Ok(expected), "{directory}");
        }
    }
}

const KINDS: [FatType; 3] = [FatType::Fat12, FatType::Fat16, FatType::Fat32];

#[test]
fn a_directory_that_lies_in_itself_is_an_error_and_is_cut_out() {
    for kind in KINDS {
        for (path, to, back) in [("a/b/c", "a/b/c", "/a/b/c"), ("a/b/c", "a/b", "/a/b"), ("a/b/c", "a", "/a")] {
            let mut tangle = Tangle::new(kind);
            // Its own: as an entry in itself. Another's: its entry leads back there.
            let (slot, name) = match path == to {
                true => (tangle.entry("a/b/c/file").slot, "a/b/c/file"),
                false => (tangle.entry(path).slot, path),
            };
            let cluster = tangle.entry(to).cluster;
            tangle.image.write(slot + 11, &[0x10]).expect("inside");
            tangle.lead(slot, cluster);
            let used = domain(tangle.image.0.clone());
            let files = used.files(ME);
            assert_eq!(files.list(&format!("/fat/{name}")), Err(Errno::Io), "{kind:?} {name}");
            assert_eq!(files.stat(&format!("/fat/{name}/file")).map(drop), Err(Errno::Io), "{kind:?} {name}");
            use_all(files);
            drop(used);
            let findings = tangle.repaired();
            let circle = Finding::Circle { path: format!("/{name}"), to: back.into() };
            assert!(findings.contains(&circle), "{kind:?} {name}: {findings:?}");
            tangle.keeps(&["a", "a/b", "other"]);
            assert_eq!(tangle.read(name), Err(Errno::NotFound));
        }
    }
}

#[test]
fn a_directory_that_leads_back_to_the_root_is_an_error_and_is_cut_out() {
    for kind in KINDS {
        let mut tangle = Tangle::new(kind);
        let (slot, root) = (tangle.entry("other").slot, tangle.geometry.root_cluster);
        tangle.lead(slot, root);
        let used = domain(tangle.image.0.clone());
        assert_eq!(used.files(ME).list("/fat/other"), Err(Errno::Io), "{kind:?}");
        assert_eq!(used.files(ME).rename("/fat/a", "/fat/other/a"), Err(Errno::Io), "{kind:?}");
        drop(used);
        let findings = tangle.repaired();
        assert!(findings.contains(&Finding::Circle { path: "/other".into(), to: "/".into() }), "{findings:?}");
        tangle.keeps(&["a", "a/b", "a/b/c"]);
    }
}

#[test]
fn two_directories_that_share_a_chain_become_one() {
    for kind in KINDS {
        let mut tangle = Tangle::new(kind);
        let (slot, cluster) = (tangle.entry("other").slot, tangle.entry("a/b").cluster);
        tangle.lead(slot, cluster);
        // Moving one into itself by its other name would take it out of the tree.
        let used = domain(tangle.image.0.clone());
        assert_eq!(used.files(ME).rename("/fat/a/b", "/fat/other/b"), Err(Errno::Invalid), "{kind:?}");
        drop(used);
        let findings = tangle.repaired();
        assert!(findings.iter().any(|finding| matches!(finding, Finding::Moved { .. })), "{findings:?}");
        tangle.keeps(&["a"]);
        assert_ne!(tangle.read("other/c/file").is_ok(), tangle.read("a/b/c/file").is_ok(), "{kind:?}");
    }
}

#[test]
fn a_directory_that_says_wrongly_where_it_lies_is_put_right() {
    for kind in KINDS {
        let mut tangle = Tangle::new(kind);
        let start = tangle.geometry.offset(tangle.entry("a/b").cluster).expect("there");
        let elsewhere = tangle.entry("other").cluster;
        tangle.lead(start + 32, elsewhere);
        tangle.keeps(&["a", "a/b", "a/b/c", "other"]);
        assert_eq!(tangle.repaired(), [Finding::WrongLinks { path: "/a/b".into() }]);
        // Where it is may be wrong as well, or not be there.
        tangle.lead(start, elsewhere);
        tangle.image.write(start + 32, &[0; 32]).expect("inside");
        assert_eq!(tangle.repaired(), [Finding::WrongLinks { path: "/a/b".into() }]);
        tangle.keeps(&["a", "a/b", "a/b/c", "other"]);
    }
}

#[test]
fn what_is_no_directory_takes_nothing_from_a_file() {
    for kind in KINDS {
        let mut tangle = Tangle::new(kind);
        // Whatever comes first.
        for (directory, file) in [("a/b/c", "a/file"), ("a", "other/file")] {
            let (slot, cluster) = (tangle.entry(directory).slot, tangle.entry(file).cluster);
            tangle.lead(slot, cluster);
            let findings = tangle.repaired();
            let gone = |finding: &Finding| matches!(finding, Finding::CutDirectory { path, .. } if *path == format!("/{directory}"));
            assert!(findings.iter().any(gone), "{findings:?}");
            let directory = file.split('/').next().expect("a name");
            tangle.keeps(&[directory]);
        }
    }
}

#[test]
fn of_a_directory_whose_chain_breaks_what_can_be_read_is_kept() {
    for kind in KINDS {
        let domain = domain(formatted(kind));
        let files = domain.files(ME);
        files.make_directory("/fat/d").expect("room");
        for n in 0..40 {
            let file = files.make(&format!("/fat/d/file {n:02}"));
            files.write(file, &[n; 700]).expect("room");
            files.close(file).expect("open");
        }
        let mut tangle = Tangle::of(closed(domain));
        // The third of its clusters is marked as free.
        let mut cluster = tangle.entry("d").cluster;
        for _ in 0..2 {
            let Ok(monohull_fat::FatEntry::Next(next)) = tangle.geometry.entry(&tangle.image, cluster) else {
                panic!("{kind:?}: it has more clusters")
            };
            cluster = next;
        }
        tangle.chain(cluster, 0);
        let findings = tangle.repaired();
        assert!(findings.iter().any(|finding| matches!(finding, Finding::CutDirectory { .. })), "{findings:?}");
        let kept: Vec<u8> = (0..40).filter(|n| tangle.read(&format!("d/file {n:02}")).is_ok()).collect();
        assert!(kept.len() > 8 && kept.len() < 40, "{kind:?}: {kept:?}");
        for n in kept {
            assert_eq!(tangle.read(&format!("d/file {n:02}")), Ok(vec![n; 700]), "{kind:?}");
        }
    }
}

#[test]
fn without_a_root_nothing_is_put_right() {
    for (place, value) in [(44, 9u32), (44, 0x00ff_fff0)] {
        let mut tangle = Tangle::new(FatType::Fat32);
        let first = tangle.entry("other").cluster;
        // Another directory, or nothing that exists.
        let value = if value == 9 { first } else { value };
        tangle.image.write(place, &value.to_le_bytes()).expect("inside");
        let before = tangle.image.0.clone();
        assert!(repair(&mut tangle.image).is_err());
        assert!(tangle.image.0 == before, "nothing is written");
    }
}

#[test]
fn files_that_share_clusters_are_distinguished() {
    for kind in KINDS {
        let mut tangle = Tangle::new(kind);
        let (one, other) = (tangle.entry("a/file"), tangle.entry("other/file"));
        // The one's second cluster is the other's.
        tangle.chain(one.cluster, other.cluster + 1);
        let used = domain(tangle.image.0.clone());
        use_all(used.files(ME));
        drop(used);
        let findings = tangle.repaired();
        let cut = findings.iter().filter(|finding| matches!(finding, Finding::Cut { .. })).count();
        assert_eq!(cut, 1, "{kind:?}: {findings:?}");
        tangle.keeps(&["a/b", "a/b/c"]);
    }
}

/// A reference in an image.
#[derive(Clone, Copy, Debug)]
enum Link {
    /// A name: which, by its place in the list of all slots.
    Slot(usize),
    /// A cluster's entry.
    Chain(u32),
}

fn link() -> impl Strategy<Value = Link> {
    prop_oneof![(0..60usize).prop_map(Link::Slot), (2..120u32).prop_map(Link::Chain)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn however_things_are_tangled_a_repair_leaves_a_whole_image(
        kind in 0..3usize,
        links in proptest::collection::vec((link(), 0..120u32, any::<bool>()), 1..8),
    ) {
        let mut tangle = Tangle::of(FILLED[kind].to_vec());
        let (start, geometry) = (tangle.geometry.data_start, tangle.geometry);
        // Slots that are in use, `.` and `..` among them: of the root, where it has a place, and of the directories made first.
        let in_root = (0..8).map(|n| geometry.root_start + n * 32).filter(|_| geometry.root_bytes > 0);
        let in_chains = (0..64).map(|n| start + n * 32);
        let slots: Vec<u64> = in_root.chain(in_chains).collect();
        for (link, cluster, directory) in links {
            match link {
                Link::Chain(from) => tangle.chain(from, cluster),
                Link::Slot(index) => {
                    let slot = slots[index % slots.len()];
                    tangle.lead(slot, cluster);
                    let mut attributes = [0];
                    tangle.image.read(slot + 11, &mut attributes).expect("inside");
                    if directory && attributes[0] != 0x0f {
                        tangle.image.write(slot + 11, &[attributes[0] ^ 0x10]).expect("inside");
                    }
                }
            }
        }
        let used = domain(tangle.image.0.clone());
        use_all(used.files(ME));
        let after = closed(used);
        let _ = check(&Slice(&after));
        let before = tangle.image.0.clone();
        match repair(&mut tangle.image) {
            Ok(_) => prop_assert_eq!(tangle.findings(), []),
            Err(_) => prop_assert!(tangle.image.0 == before, "nothing is written"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn what_nothing_leads_into_is_kept_whatever_is_tangled_elsewhere(
        kind in 0..3usize,
        links in proptest::collection::vec((any::<bool>(), 0..1000usize, 0..1000usize, any::<u8>()), 1..10),
    ) {
        let mut tangle = Tangle::new(KINDS[kind]);
        let geometry = tangle.geometry;
        let kept: Vec<u32> = ["other", "other/file"].iter().flat_map(|path| {
            let runs = monohull_fat::runs(&geometry, &tangle.image, tangle.entry(path).cluster).expect("whole");
            let first = |offset: u64| ((offset - geometry.data_start) / geometry.cluster_size) as u32 + 2;
            runs.list().iter().flat_map(|run| first(run.offset)..first(run.offset + run.len)).collect::<Vec<_>>()
        }).collect();
        // Clusters of everything else, free ones, none, and such as are not there.
        let root = geometry.root_cluster;
        let elsewhere: Vec<u32> = (0..60).chain([geometry.clusters + 2, u32::MAX >> 4]).filter(|to| !kept.contains(to) && *to != root).collect();
        let directories = ["a", "a/b", "a/b/c"].map(|path| geometry.offset(tangle.entry(path).cluster).expect("there"));
        for (chain, from, to, attributes) in links {
            let to = elsewhere[to % elsewhere.len()];
            match elsewhere[from % elsewhere.len()] {
                cluster if chain && geometry.has(cluster) => tangle.chain(cluster, to),
                _ => {
                    let slot = directories[from % 3] + (from as u64 / 3 % 6) * 32;
                    tangle.lead(slot, to);
                    tangle.image.write(slot + 11, &[attributes & 0x3f]).expect("inside");
                }
            }
        }
        repair(&mut tangle.image).expect("the root is whole");
        prop_assert_eq!(tangle.findings(), []);
        tangle.keeps(&["other"]);
    }
}
