//! What programs expect to find in `/dev`.

use super::support::{Function, kept, program};

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
