//! Rights of descriptors: a program that gives some away can no longer do what they are for.

use super::support::{Function, kept, program, words_of};
use serde_json::json;
use std::fs;

const BADF: u32 = 8;
const NOENT: u32 = 44;
const NOTCAPABLE: u32 = 76;

/// Rights by their numbers.
const READ: u64 = 1 << 1;
const SEEK: u64 = 1 << 2;
const WRITE: u64 = 1 << 6;
const OPEN: u64 = 1 << 13;
const READDIR: u64 = 1 << 14;
const ACCEPT: u64 = 1 << 29;
const ALL: u64 = (1 << 30) - 1;

const CREATE: u32 = 1;
const DIRECTORY: u32 = 2;
const TRUNCATE: u32 = 8;

/// The names that programs here use: where each is in their memory, and its length.
const NAMES: &str = "work/f/new";
const WORK: (u32, u32) = (0, 4);
const WORK_F: (u32, u32) = (0, 6);
const F: (u32, u32) = (5, 1);
const NEW: (u32, u32) = (7, 3);

/// Calls of a program, and what each must return.
#[derive(Default)]
struct Calls(Vec<(String, u32)>);

impl Calls {
    /// Calls a function with numbers of 32 bits, and of 64 bits where there is an `I` in `types`.
    fn call(&mut self, name: &str, types: &str, arguments: &[u64], result: u32) {
        assert_eq!(types.len(), arguments.len(), "{name}");
        let argument = |(kind, number): (char, &u64)| match kind {
            'i' => format!(" (i32.const {})", *number as u32 as i32),
            _ => format!(" (i64.const {number})"),
        };
        let arguments: String = types.chars().zip(arguments).map(argument).collect();
        self.0.push((format!("(call ${name}{arguments})"), result));
    }

    fn set_rights(&mut self, fd: u64, base: u64, inheriting: u64, result: u32) {
        self.call("fd_fdstat_set_rights", "iII", &[fd, base, inheriting], result);
    }

    /// Opens a path. The descriptor is the lowest number that is free.
    fn open(&mut self, fd: u64, (name, len): (u32, u32), how: u32, base: u64, inheriting: u64, result: u32) {
        let arguments = [fd, 0, name.into(), len.into(), how.into(), base, inheriting, 0, 512];
        self.call("path_open", "iiiiiIIii", &arguments, result);
    }

    /// A function on one buffer of 16 bytes.
    fn transfer(&mut self, name: &str, fd: u64, result: u32) {
        match name {
            "fd_pread" | "fd_pwrite" => self.call(name, "iiiIi", &[fd, 256, 1, 0, 560], result),
            _ => self.call(name, "iiii", &[fd, 256, 1, 560], result),
        }
    }

    /// All functions on a file but reading and writing.
    fn on_file(&mut self, fd: u64, result: u32) {
        self.call("fd_seek", "iIii", &[fd, 0, 0, 560], result);
        self.call("fd_tell", "ii", &[fd, 560], result);
        self.call("fd_sync", "i", &[fd], result);
        self.call("fd_datasync", "i", &[fd], result);
        self.call("fd_advise", "iIIi", &[fd, 0, 0, 0], result);
        self.call("fd_fdstat_set_flags", "ii", &[fd, 0], result);
        self.call("fd_filestat_get", "ii", &[fd, 640], result);
        self.call("fd_filestat_set_times", "iIIi", &[fd, 0, 0, 5], result);
    }

    fn results(&self, function: &Function, step: serde_json::Value, workflow: serde_json::Value) {
        let results = words_of(&function.run(step, workflow));
        assert_eq!(results.len(), self.0.len());
        for ((call, expected), result) in self.0.iter().zip(results) {
            assert_eq!(result, *expected, "{call}");
        }
    }

    /// Makes them in a program that has a directory of the host at `/work`, with the file `f`.
    #[track_caller]
    fn check(&self) {
        let body: String = self.0.iter().enumerate().map(|(index, (call, _))| kept(index, call)).collect();
        let buffer = "(i32.store (i32.const 256) (i32.const 600)) (i32.store (i32.const 260) (i32.const 16))";
        let function = Function::new(&program(NAMES, &format!("{buffer}\n{body}"), self.0.len()));
        let folder = function.folder.path().join("work");
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("f"), "as it was").expect("written");
        let files = json!([{ "at": "/work", "directory": "work", "access": "write" }]);
        self.results(&function, json!({}), json!({ "outputs": ["out"], "files": files }));
        let left: Vec<_> =
            fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("one").file_name()).collect();
        assert_eq!(left, ["f"]);
        assert_eq!(fs::read_to_string(folder.join("f")).expect("a file"), "as it was");
    }
}

#[test]
fn what_was_taken_away_from_a_file_is_refused() {
    let mut calls = Calls::default();
    calls.open(3, WORK_F, 0, ALL, 0, 0);
    // The control: with all rights nothing is refused.
    calls.on_file(4, 0);
    calls.transfer("fd_read", 4, 0);
    calls.set_rights(4, READ, 0, 0);
    calls.on_file(4, NOTCAPABLE);
    calls.transfer("fd_write", 4, NOTCAPABLE);
    calls.transfer("fd_pwrite", 4, NOTCAPABLE);
    // To read at an offset takes the right to seek as well.
    calls.transfer("fd_pread", 4, NOTCAPABLE);
    calls.transfer("fd_read", 4, 0);
    calls.call("fd_allocate", "iII", &[4, 0, 4096], NOTCAPABLE);
    calls.call("fd_filestat_set_size", "iI", &[4, 0], NOTCAPABLE);
    // Under another number it is the same descriptor.
    calls.open(3, WORK_F, 0, READ, 0, 0);
    calls.call("fd_renumber", "ii", &[4, 5], 0);
    calls.transfer("fd_write", 5, NOTCAPABLE);
    // Nothing is given back.
    calls.set_rights(5, READ | WRITE, 0, NOTCAPABLE);
    calls.set_rights(5, READ, ALL, NOTCAPABLE);
    calls.set_rights(5, 0, 0, 0);
    calls.transfer("fd_read", 5, NOTCAPABLE);
    // A wait for it ends at once, with the error in the event: its number is 8 bytes behind the event's start.
    let subscription = [(704 + 8, 1), (704 + 16, 5)];
    for (at, value) in subscription {
        calls.0.push((format!("(i32.store (i32.const {at}) (i32.const {value})) (i32.const 0)"), 0));
    }
    calls.call("poll_oneoff", "iiii", &[704, 768, 1, 560], 0);
    calls.0.push(("(i32.load16_u (i32.const 776))".to_owned(), NOTCAPABLE));
    // Streams are descriptors too.
    calls.transfer("fd_write", 2, 0);
    calls.set_rights(2, 0, 0, 0);
    calls.transfer("fd_write", 2, NOTCAPABLE);
    calls.set_rights(0, 0, 0, 0);
    calls.transfer("fd_read", 0, NOTCAPABLE);
    calls.check();
}

#[test]
fn what_was_taken_away_from_a_directory_is_refused_beneath_it() {
    let mut calls = Calls::default();
    // Directories are not opened to be written to.
    calls.open(3, WORK, DIRECTORY, ALL & !WRITE, ALL, 0);
    calls.set_rights(4, READDIR | OPEN, READ, 0);
    calls.call("path_unlink_file", "iii", &[4, F.0.into(), F.1.into()], NOTCAPABLE);
    calls.call("path_create_directory", "iii", &[4, NEW.0.into(), NEW.1.into()], NOTCAPABLE);
    calls.call("path_remove_directory", "iii", &[4, NEW.0.into(), NEW.1.into()], NOTCAPABLE);
    calls.call("path_filestat_get", "iiiii", &[4, 0, F.0.into(), F.1.into(), 640], NOTCAPABLE);
    calls.call("path_filestat_set_times", "iiiiIIi", &[4, 0, F.0.into(), F.1.into(), 0, 0, 5], NOTCAPABLE);
    calls.call("path_symlink", "iiiii", &[F.0.into(), F.1.into(), 4, NEW.0.into(), NEW.1.into()], NOTCAPABLE);
    calls.call("path_readlink", "iiiiii", &[4, F.0.into(), F.1.into(), 640, 8, 560], NOTCAPABLE);
    // Of the two directories of a call each must have its right.
    for (from, to) in [(4, 3), (3, 4)] {
        let (from_path, to_path) = if from == 4 { (F, NEW) } else { (WORK_F, NEW) };
        let [from_at, from_len, to_at, to_len] = [from_path.0, from_path.1, to_path.0, to_path.1].map(u64::from);
        calls.call("path_rename", "iiiiii", &[from, from_at, from_len, to, to_at, to_len], NOTCAPABLE);
        calls.call("path_link", "iiiiiii", &[from, 0, from_at, from_len, to, to_at, to_len], NOTCAPABLE);
    }
    calls.open(4, NEW, CREATE, READ | WRITE, 0, NOTCAPABLE);
    calls.open(4, F, TRUNCATE, READ | WRITE, 0, NOTCAPABLE);
    calls.call("fd_readdir", "iiiIi", &[4, 1024 + 4096, 4096, 0, 560], 0);
    // What is opened beneath it can be read, and nothing else.
    calls.open(4, F, 0, ALL, ALL, 0);
    calls.transfer("fd_read", 5, 0);
    calls.transfer("fd_write", 5, NOTCAPABLE);
    calls.call("fd_filestat_set_size", "iI", &[5, 0], NOTCAPABLE);
    calls.on_file(5, NOTCAPABLE);
    // So can what is opened beneath a directory that is opened beneath it.
    calls.0.push(("(i32.store8 (i32.const 300) (i32.const 46)) (i32.const 0)".to_owned(), 0));
    calls.open(4, (300, 1), DIRECTORY, ALL, ALL, 0);
    calls.call("path_unlink_file", "iii", &[6, F.0.into(), F.1.into()], NOTCAPABLE);
    calls.call("fd_readdir", "iiiIi", &[6, 1024 + 4096, 4096, 0, 560], NOTCAPABLE);
    // Other descriptors are as they were.
    calls.call("path_unlink_file", "iii", &[3, NEW.0.into(), NEW.1.into()], NOENT);
    calls.set_rights(3, 0, 0, 0);
    calls.open(3, WORK_F, 0, READ, 0, NOTCAPABLE);
    calls.check();
}

#[test]
fn a_file_is_opened_for_what_was_asked_for() {
    let mut calls = Calls::default();
    // Neither to be read nor to be written.
    calls.open(3, WORK_F, 0, 0, 0, 0);
    calls.transfer("fd_read", 4, NOTCAPABLE);
    calls.transfer("fd_write", 4, NOTCAPABLE);
    // To be read, or to be written: the other is what it is in Wasmtime, and what was never asked for besides works, as there.
    calls.open(3, WORK_F, 0, READ, 0, 0);
    calls.transfer("fd_read", 5, 0);
    calls.transfer("fd_write", 5, BADF);
    calls.on_file(5, 0);
    calls.open(3, WORK_F, 0, WRITE, 0, 0);
    calls.transfer("fd_read", 6, BADF);
    calls.on_file(6, 0);
    // No more than the directory hands on.
    calls.open(3, WORK, DIRECTORY, 0, READ, 0);
    calls.open(7, F, 0, READ | WRITE, 0, 0);
    calls.transfer("fd_write", 8, BADF);
    calls.call("fd_fdstat_get", "ii", &[8, 704], 0);
    calls.0.push(("(i32.load (i32.const 712))".to_owned(), READ as u32));
    calls.check();
}

#[test]
fn what_was_taken_away_from_a_socket_is_refused() {
    let mut calls = Calls::default();
    // The address of the first listener; a connection to it, and one that it has accepted.
    calls.call("socket_address", "iii", &[4, 0, 800], 0);
    calls.call("socket_connect", "ii", &[800, 516], 0);
    calls.call("sock_accept", "iii", &[4, 0, 520], 0);
    let on_connection = |calls: &mut Calls, result| {
        calls.call("sock_send", "iiiii", &[7, 256, 1, 0, 560], result);
        calls.transfer("fd_write", 7, result);
        calls.call("sock_shutdown", "ii", &[7, 2], result);
    };
    calls.set_rights(7, READ | SEEK, 0, NOTCAPABLE);
    calls.set_rights(7, READ, 0, 0);
    on_connection(&mut calls, NOTCAPABLE);
    calls.set_rights(7, 0, 0, 0);
    calls.call("sock_recv", "iiiiii", &[7, 256, 1, 0, 560, 564], NOTCAPABLE);
    calls.transfer("fd_read", 7, NOTCAPABLE);
    // A listener hands on what it may; one without the right accepts nothing.
    calls.set_rights(4, ACCEPT, WRITE, 0);
    calls.call("fd_close", "i", &[7], 0);
    calls.call("socket_connect", "ii", &[800, 524], 0);
    calls.call("sock_accept", "iii", &[4, 0, 528], 0);
    calls.call("sock_recv", "iiiiii", &[8, 256, 1, 0, 560, 564], NOTCAPABLE);
    calls.call("sock_send", "iiiii", &[8, 256, 1, 0, 560], 0);
    calls.set_rights(5, READ, 0, 0);
    calls.call("sock_accept", "iii", &[5, 0, 532], NOTCAPABLE);
    let body: String = calls.0.iter().enumerate().map(|(index, (call, _))| kept(index, call)).collect();
    let buffer = "(i32.store (i32.const 256) (i32.const 600)) (i32.store (i32.const 260) (i32.const 16))";
    let function = Function::new(&program(NAMES, &format!("{buffer}\n{body}"), calls.0.len()));
    let network = json!({ "mode": "host", "connect": ["127.0.0.1:1024-65535"], "listen": ["127.0.0.1:0"] });
    let step = json!({ "env": { "MONOHULL_LISTEN": "127.0.0.1:0,127.0.0.1:0" } });
    // What is not refused waits for what nothing sends.
    let limits = json!({ "timeout": "60s" });
    calls.results(&function, step, json!({ "outputs": ["out"], "network": network, "limits": limits }));
}
