//! What programs expect to find in `/dev`.

use super::support::{CHECKS, Function, kept, program, words_of};
use serde_json::json;

const BADF: u64 = 8;
const EXIST: u64 = 20;
const NOENT: u64 = 44;
const NOTDIR: u64 = 54;

#[test]
fn devices_are_there_without_a_mount() {
    let names = ["dev/null", "dev/zero", "dev/random", "dev/stdin", "dev/none", "tmp/.././dev//null", "dev/../null"];
    let start = |name: usize| names[..name].concat().len();
    let open = |name: usize, how: u32| {
        format!(
            "(call $path_open (i32.const 3) (i32.const 0) (i32.const {}) (i32.const {}) (i32.const {how}) \
             (i64.const 0x3fffffff) (i64.const 0) (i32.const 0) (i32.const {}))",
            start(name),
            names[name].len(),
            512 + 4 * name,
        )
    };
    let fd = |name: usize| format!("(i32.load (i32.const {}))", 512 + 4 * name);
    // A list of one buffer at 256: 16 bytes at 600. How many were moved comes to 560.
    let moves =
        |call: &str, name: usize| format!("(call ${call} {} (i32.const 256) (i32.const 1) (i32.const 560))", fd(name));
    let moved = || "(i32.load (i32.const 560))".to_owned();
    let rights = "(i32.and (i32.load (i32.const 712)) (i32.const 36))".to_owned();
    let (create_new, directory) = (5, 2);
    let calls = [
        (open(0, 0), 0),
        (open(1, 0), 0),
        (open(2, 0), 0),
        (open(3, 0), 0),
        (open(4, 0), NOENT),
        (open(5, 0), 0),
        (open(6, 0), NOENT),
        (open(0, directory), NOTDIR),
        (open(0, create_new), EXIST),
        (moves("fd_read", 0), 0),
        (moved(), 0),
        ("(i32.load (i32.const 600))".to_owned(), 0xffff_ffff),
        (moves("fd_read", 1), 0),
        (moved(), 16),
        ("(i32.load (i32.const 612))".to_owned(), 0),
        (moves("fd_read", 2), 0),
        (moved(), 16),
        ("(i64.eqz (i64.load (i32.const 600)))".to_owned(), 0),
        (moves("fd_write", 0), 0),
        (moved(), 16),
        (format!("(call $fd_seek {} (i64.const 5) (i32.const 0) (i32.const 536))", fd(0)), 0),
        (moves("fd_write", 3), BADF),
        (
            "(call $path_filestat_get (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 8) (i32.const 640))"
                .to_owned(),
            0,
        ),
        // A character device.
        ("(i32.load8_u (i32.const 656))".to_owned(), 2),
        // A stream can neither seek nor report its position.
        (format!("(call $fd_fdstat_get {} (i32.const 704))", fd(3)), 0),
        (rights.clone(), 0),
        (format!("(call $fd_fdstat_get {} (i32.const 704))", fd(0)), 0),
        (rights, 36),
        (format!("(call $fd_close {})", fd(0)), 0),
        (moves("fd_read", 0), BADF),
    ];
    let body: String = calls.iter().enumerate().map(|(index, (call, _))| kept(index, call)).collect();
    let before = "(i32.store (i32.const 256) (i32.const 600)) (i32.store (i32.const 260) (i32.const 16)) \
                  (i64.store (i32.const 600) (i64.const -1)) (i64.store (i32.const 608) (i64.const -1))";
    let results = Function::new(&program(&names.concat(), &format!("{before}\n{body}"), calls.len())).numbers();
    assert_eq!(results, calls.map(|(_, result)| result));
}

/// Buffers may overlap, and so have more bytes together than there is memory: a call uses 2 GiB of them, and says so.
#[test]
fn buffers_of_more_than_four_gib_are_used_in_part() {
    let open = |name: u32, out: u32| {
        kept(
            2,
            &format!(
                "(call $path_open (i32.const 3) (i32.const 0) (i32.const {name}) (i32.const 8) (i32.const 0) \
                 (i64.const 0x3fffffff) (i64.const 0) (i32.const 0) (i32.const {out}))"
            ),
        )
    };
    // 256 buffers at 4096, each of them the same 16 MiB.
    let body = format!(
        "(local $at i32)
         (loop $more
            (i32.store offset=4096 (local.get $at) (i32.const 65536))
            (i32.store offset=4100 (local.get $at) (i32.const 0x1000000))
            (local.set $at (i32.add (local.get $at) (i32.const 8)))
            (br_if $more (i32.lt_u (local.get $at) (i32.const 2048))))
         {} {}
         (drop (call $fd_write (i32.load (i32.const 512)) (i32.const 4096) (i32.const 256) (i32.const 1024)))
         (drop (call $fd_read (i32.load (i32.const 516)) (i32.const 4096) (i32.const 256) (i32.const 1028)))",
        open(0, 512),
        open(8, 516),
    );
    let text = program("dev/nulldev/zero", &body, 3).replace("(export \"memory\") 1", "(export \"memory\") 300");
    for options in CHECKS {
        let report = Function::built(&text, options).run(json!({ "memory": "64MiB" }), json!({ "outputs": ["out"] }));
        assert_eq!(words_of(&report), [i32::MAX as u32, i32::MAX as u32, 0], "{options:?}");
    }
}
