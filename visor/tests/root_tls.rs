//! Where the private key of a server is, and where it is not.
//!
//! Memory of processes that run workflows can be read by root alone. Part of a lane of its own, `cargo xtask test --network`;
//! elsewhere this is ignored.

#[path = "support/certificates.rs"]
mod certificates;
mod serve_support;

use certificates::{Authority, Identity, agree};
use nix::sys::signal::Signal;
use rustls::version::TLS13;
use serde_json::json;
use serve_support::{Answer, Server, eventually, image_bytes, request, single};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

/// How much is read at a time.
const PIECE: usize = 1 << 20;
/// How much of it is read again with the next piece: more than any mark.
const OVERLAP: usize = 128;
const PAGE: usize = 4096;

/// Whether a process's memory has any of these bytes, and how much of it was read.
fn search(pid: i32, wanted: &[Vec<u8>]) -> (bool, usize) {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).expect("the kernel's list");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("root reads any memory");
    let (mut found, mut length) = (false, 0);
    let (mut range, mut bytes) = (0..0, vec![0; PIECE]);
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            // What cannot be written to has what a file has.
            (Some(addresses), Some(rights)) if rights.len() == 4 && rights.starts_with(['r', '-']) => {
                let (start, end) = addresses.split_once('-').expect("a range");
                let [start, end] = [start, end].map(|at| usize::from_str_radix(at, 16).expect("an address"));
                range = if rights.starts_with("rw") { start..end } else { 0..0 };
            }
            // Where no page is in place there is nothing, and there may be much of that.
            (Some("Rss:"), Some(present)) if present != "0" => {
                for at in range.clone().step_by(PIECE - OVERLAP) {
                    let piece = &mut bytes[..(range.end - at).min(PIECE)];
                    let read = memory.read_at(piece, at as u64).unwrap_or(0);
                    found |= contains(&piece[..read], wanted);
                    length += read;
                }
            }
            _ => {}
        }
    }
    (found, length)
}

/// Whether bytes have any of these in them.
fn contains(bytes: &[u8], wanted: &[Vec<u8>]) -> bool {
    // Most pages are empty.
    let pages = (0..bytes.len()).step_by(PAGE).map(|at| at..(at + PAGE).min(bytes.len()));
    let filled = pages.filter(|page| bytes[page.clone()] != [0; PAGE][..page.len()]);
    filled.into_iter().any(|page| {
        let page = &bytes[page.start.saturating_sub(OVERLAP)..page.end];
        (0..page.len()).any(|at| wanted.iter().any(|wanted| wanted[0] == page[at] && page[at..].starts_with(wanted)))
    })
}

/// The forms in which the key may lie in memory: a line of its file, the number with its highest byte first or last, and the
/// number as `ring` computes with it, which is it times 2^256 modulo the order of the curve.
fn marks(identity: &Identity) -> Vec<Vec<u8>> {
    const ORDER: [u64; 4] =
        [0xf3b9_cac2_fc63_2551, 0xbce6_faad_a717_9e84, 0xffff_ffff_ffff_ffff, 0xffff_ffff_0000_0000];
    let line = identity.key.lines().nth(1).expect("a line").as_bytes().to_vec();
    let reversed: Vec<u8> = identity.secret.iter().rev().copied().collect();
    let mut number = [0; 4];
    for (limb, bytes) in number.iter_mut().zip(reversed.chunks(8)) {
        *limb = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    for _ in 0..256 {
        number = doubled(number, ORDER);
    }
    let computed = number.iter().flat_map(|limb| limb.to_le_bytes()).collect();
    vec![line, identity.secret.clone(), reversed, computed]
}

/// Twice a number modulo another, both with their lowest limb first.
fn doubled(number: [u64; 4], modulus: [u64; 4]) -> [u64; 4] {
    let mut twice = [0; 4];
    let mut carry = 0;
    for (limb, twice) in number.iter().zip(&mut twice) {
        *twice = limb << 1 | carry;
        carry = limb >> 63;
    }
    let (mut less, mut borrow) = ([0; 4], false);
    for at in 0..4 {
        (less[at], borrow) = twice[at].borrowing_sub(modulus[at], borrow);
    }
    if carry == 1 || !borrow { less } else { twice }
}

#[test]
#[ignore = "needs root: cargo xtask test --network"]
fn no_process_of_a_workflow_has_the_private_key() {
    let authority = Authority::new();
    let mut identity = authority.local();
    let options = authority.install(&identity);
    let options: Vec<&str> = options.iter().map(String::as_str).chain(["--prefork", "4"]).collect();
    let server = Server::start_with(&options);
    let ask = |method: &str, path: &str, body: &[u8]| {
        let mut client = agree(server.connect(), &authority.trusted(&[&TLS13], &[b"http/1.1"])).expect("keys");
        client.write_all(&request(method, path, &[], body)).expect("sent");
        Answer::read(&mut client).expect("an answer")
    };
    ask("PUT", "/functions/misbehave", &image_bytes("misbehave")).expect(201);
    let mut stuck = single("stuck", "misbehave", &json!({}));
    stuck["steps"][0]["args"] = json!({ "how": "sleep" });
    ask("PUT", "/workflows/stuck", stuck.to_string().as_bytes()).expect(201);
    // With the first key, and with one that came later: processes are made all the time.
    for renewed in [false, true] {
        if renewed {
            identity = authority.local();
            authority.install(&identity);
            server.signal(Signal::SIGHUP);
            let shown = || {
                let client = agree(server.connect(), &authority.trusted(&[&TLS13], &[b"http/1.1"])).expect("keys");
                client.conn.peer_certificates().expect("a certificate")[0].clone()
            };
            eventually("it is used", || shown() == certificates::parsed(&identity.certificate));
        }
        let before = server.descendants();
        for _ in 0..before.len() {
            ask("POST", "/async-invoke/stuck", &[]).expect(202);
        }
        eventually("processes are made", || server.descendants().iter().any(|pid| !before.contains(pid)));
        assert!(search(server.pid(), &marks(&identity)).0, "the search finds what is there");
        let below = server.descendants();
        assert!(below.len() > 4, "a spawner, workflows that run, and idle workers: {below:?}");
        for pid in below {
            let (found, length) = search(pid, &marks(&identity));
            assert!(length > 256 << 10, "of process {pid} there was {length} to read");
            assert!(!found, "process {pid} has the key");
        }
    }
}
