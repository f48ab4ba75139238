//! Checkpoints of an earlier build in states that `golden_checkpoints` has not: a thread that was interrupted in the midst of a computation, with
//! all its registers; a child that takes pages from its parent, of a workflow with files on a copied image; a function with a fault handler; requests
//! of effects that are not answered yet; sockets that listen and get datagrams, and a thread that waits in a queue; a file of a granted directory.
//!
//! `UPDATE_GOLDEN=1 cargo test -p monohull-visor --test golden_states` writes them anew, with the images of the functions; with the name of a test behind
//! it, those of that test alone. That is for changes before a release.

#[path = "support/anew.rs"]
mod anew;
mod support;

use anew::anew;
use monohull_abi::number::{NANOSLEEP, QUEUE_WAIT, SLOT_TAKE};
use monohull_checkpoint::{Key, Packing};
use monohull_saved::{Engine, Saved};
use monohull_visor::disk::Disk;
use monohull_visor::domain::checkpoint::record::{FaultHandler, ThreadRecord};
use monohull_visor::domain::checkpoint::{Answer, Base, CapturedPages, Continuation, Keeper, Lineage, Suspended};
use monohull_visor::engine::{Ready, RunEnd, RunOptions};
use monohull_visor::report::{RunReport, Silent, Status};
use monohull_visor::worker::read_continuation;
use monohull_visor::workflow;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{report, suspended, text};
use tempfile::TempDir;

/// The key that seals them.
const KEY: Key = Key::new([7; 32]);
/// Bytes of the image. What is kept is what lies before its last byte that is not zero.
const IMAGE: u64 = 1 << 20;
const REGISTERS: &str = "format-1-registers.checkpoint";
const PARENT: &str = "format-1-image-parent.checkpoint";
const CHILD: &str = "format-1-image-child.checkpoint";
const HANDLER: &str = "format-1-handler.checkpoint";
const REQUESTS: &str = "format-1-requests.checkpoint";
const SOCKETS: &str = "format-1-sockets.checkpoint";
const DIRECTORY: &str = "format-1-directory.checkpoint";
/// The file of the granted directory, as it was at the capture.
const KNOWN: &str = "known";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn is_updated() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// The image that this build has becomes the one that is kept.
fn keep_image(name: &str) {
    fs::copy(support::image(name), golden(&format!("{name}.so"))).expect("it is built");
}

fn ready_in(folder: &Path, document: &str) -> Ready {
    let plan = workflow::load_str(&folder.join("golden.json"), document).expect("a right workflow");
    Ready::new(plan).expect("right images")
}

fn run(ready: &Ready, rest: Option<Continuation<CapturedPages>>, halt: Option<Duration>) -> RunEnd {
    let options = RunOptions { halt, ..RunOptions::default() };
    ready.run_captured(rest, None, None, &options, Arc::new(Silent)).expect("the host can hold a domain")
}

/// Reads a file of the folder, with those that it needs.
fn read(folder: &Path, name: &str) -> (Ready, Continuation<CapturedPages>) {
    let in_folder = folder.join("golden.json");
    let plan = |document: &[u8], _: &Engine| {
        let document = std::str::from_utf8(document).map_err(|error| error.to_string())?;
        workflow::load_str(&in_folder, document).map_err(|error| error.to_string())
    };
    let saved = Saved::read(&folder.join(name), &KEY, plan).expect("it is read for ever");
    let ready = ready_in(folder, std::str::from_utf8(&saved.document).expect("JSON"));
    assert_eq!(
        saved.functions[0].1,
        ready.images()[0].hash().expect("it can be read"),
        "the image is the one beside it"
    );
    let mut continuation = read_continuation(saved.continuation, None).expect("it is as it was written");
    continuation.lineage = Lineage { generation: saved.generation + 1, ..Lineage::default() };
    (ready, continuation)
}

fn saved(ready: &Ready, document: &str, continuation: Continuation) -> Saved {
    let function = &ready.plan().functions[0].name;
    Saved {
        workflow: ready.plan().name.clone(),
        generation: 0,
        document: document.as_bytes().to_vec(),
        functions: vec![(
            function.clone(),
            ready.images()[0].hash().expect("it can be read"),
            fs::metadata(golden(&format!("{function}.so"))).expect("it is kept").len(),
        )],
        engine: Engine { file: "golden.json".into(), ..Engine::default() },
        continuation,
    }
}

/// What its instance has printed.
fn lines(report: &RunReport) -> Vec<&str> {
    report.steps[0].instances[0].lines.iter().map(|line| line.text.as_str()).collect()
}

/// A step that computes for a while without a hostcall.
fn computes() -> String {
    json!({
        "name": "computes",
        "functions": { "preempted": { "image": "preempted.so" } },
        "steps": [{ "name": "computes", "function": "preempted", "args": { "how": "compute", "rounds": 20_000_000 } }],
        "outputs": ["result"],
    })
    .to_string()
}

#[test]
fn a_computation_that_an_earlier_build_has_interrupted_goes_on() {
    let _one = support::one_at_a_time();
    let folder = golden("");
    if is_updated() {
        keep_image("preempted");
        let ready = ready_in(&folder, &computes());
        let halted = |rest: Option<Continuation>| match run(
            &ready,
            rest.map(|rest| rest.map_pages(CapturedPages::from)),
            Some(Duration::from_millis(10)),
        ) {
            RunEnd::Suspended(suspended) => suspended.continuation,
            _ => panic!("it has ended"),
        };
        let mut continuation = halted(None);
        while continuation.instances[0].threads[0].registers.is_none() {
            continuation = halted(Some(continuation));
        }
        let aside = TempDir::new().expect("a folder");
        let written = saved(&ready, &computes(), continuation).write(aside.path(), "raw", &KEY, None);
        let bytes = anew(&written.expect("written").path, &KEY, Packing::Lz4, None);
        fs::write(golden(REGISTERS), bytes).expect("written");
    }
    let (ready, continuation) = read(&folder, REGISTERS);
    let registers = continuation.instances[0].threads[0].registers.as_ref().expect("it was interrupted");
    assert!(registers.general.iter().filter(|register| **register != 0).count() > 4, "{registers:x?}");
    let (vectors, masks) = registers.extended[512..].split_at(32 * 64);
    let wide = vectors.chunks(64).enumerate().flat_map(|(index, vector)| &vector[if index < 16 { 16 } else { 0 }..]);
    assert!(wide.chain(masks).all(|byte| *byte == 0), "it has what not every processor has");
    let resumed = report(run(&ready, Some(continuation), None));
    assert_eq!(resumed.status, Status::Done, "{:#?}", resumed.error);
    let uninterrupted = report(run(&ready, None, None));
    assert_eq!(text(&resumed, "result"), text(&uninterrupted, "result"));
}

/// An open file on a copied image, which changes between naps.
fn naps_on_an_image() -> String {
    json!({
        "name": "naps",
        "functions": { "preempted": { "image": "preempted.so" } },
        "steps": [{ "name": "naps", "function": "preempted", "args": { "how": "naps", "rounds": 4 } }],
        "outputs": ["result"],
        "files": [{ "at": "/work", "image": "work.img" }],
        "limits": { "carriers": 1 },
    })
    .to_string()
}

/// A folder with what the workflow names. The image has been changed by no one since it was formatted.
fn folder_with_image() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for name in ["preempted.so", PARENT, CHILD] {
        // Files that are made anew may not be there.
        let _ = fs::copy(golden(name), path(name));
    }
    fs::copy(golden("work.img"), path("work.img")).expect("it is kept");
    File::options().write(true).open(path("work.img")).and_then(|file| file.set_len(IMAGE)).expect("there is room");
    folder
}

/// All captures of a run that goes on after each.
#[derive(Default)]
struct Kept(Mutex<(Vec<Suspended>, bool)>);

impl Keeper for Kept {
    fn keep(&self, captured: Suspended) {
        let mut kept = self.0.lock().expect("captures");
        kept.0.push(captured);
        kept.1 = true;
    }

    fn has_answer(&self) -> bool {
        self.0.lock().expect("captures").1
    }

    fn take_answer(&self) -> Option<Answer> {
        let asked = std::mem::take(&mut self.0.lock().expect("captures").1);
        asked.then(|| Answer { next: Base::This, taken: Vec::new(), sent: 0, events: Vec::new() })
    }

    fn wait_for_answer(&self) -> Option<Answer> {
        self.take_answer()
    }
}

/// Writes the image, and two checkpoints of a run, of which the second takes pages from the first.
fn make_chain() {
    let image = golden("work.img");
    Disk::create(&image, IMAGE, true).expect("an image");
    let mut bytes = fs::read(&image).expect("an image");
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    fs::write(&image, bytes).expect("written");
    let folder = folder_with_image();
    let ready = ready_in(folder.path(), &naps_on_an_image());
    let kept = Arc::new(Kept::default());
    let options = RunOptions { halt: Some(Duration::from_millis(30)), ..RunOptions::default() };
    let end = ready.run_kept(None, None, Some(kept.clone()), &options, Arc::new(Silent));
    report(end.expect("the host can hold a domain"));
    let captures = std::mem::take(&mut kept.0.lock().expect("captures").0);
    let mut captures =
        captures.into_iter().map(|captured| captured.continuation).skip_while(|captured| !uses(captured, "fatfs"));
    let (first, second) = (captures.next().expect("one"), captures.next().expect("another"));
    assert!(!second.unchanged.is_empty(), "it takes nothing from the first");
    // Without what the first one would take from one before it.
    let mut first = first;
    assert!(first.unchanged.is_empty(), "the first is a whole one");
    first.touched.clear();
    let aside = TempDir::new().expect("a folder");
    let saved = |continuation| saved(&ready, &naps_on_an_image(), continuation);
    let name = |file: &str| file.trim_end_matches(".checkpoint").to_owned();
    let parent = saved(first).write(aside.path(), &name(PARENT), &KEY, None).expect("written");
    let child = saved(second).write(aside.path(), &name(CHILD), &KEY, Some(&parent.base)).expect("written");
    let parent = anew(&parent.path, &KEY, Packing::Lz4, None);
    let child = anew(&child.path, &KEY, Packing::Lz4, Some((PARENT, &parent)));
    fs::write(golden(PARENT), parent).expect("written");
    fs::write(golden(CHILD), child).expect("written");
}

fn uses<P>(continuation: &Continuation<P>, module: &str) -> bool {
    continuation.modules.iter().any(|record| record.name == module)
}

/// A number as records have it, seven bits in each byte: how many bytes it takes.
fn number_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte < 0x80).expect("a number") + 1
}

fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// The image is another file on each host: its device, its inode, its size and when it last changed are those of this one.
fn adopt(continuation: &mut Continuation<CapturedPages>, image: &Path) {
    let record = continuation.modules.iter_mut().find(|record| record.name == "fatfs").expect("an image");
    let known = fs::metadata(image).expect("it is there");
    let modified = known.mtime() * 1_000_000_000 + known.mtime_nsec();
    // Behind the version there is how many images there are, one, and which mount it is.
    let mut start = 4;
    for _ in 0..2 {
        start += number_len(&record.bytes[start..]);
    }
    let mut end = start;
    for _ in 0..4 {
        end += number_len(&record.bytes[end..]);
    }
    let zigzag = (modified << 1 ^ modified >> 63) as u64;
    let identity = [known.dev(), known.ino(), known.len(), zigzag].map(number).concat();
    record.bytes.splice(start..end, identity);
}

#[test]
fn a_child_of_an_earlier_build_goes_on_with_pages_of_its_parent_and_a_copied_image() {
    let _one = support::one_at_a_time();
    if is_updated() {
        keep_image("preempted");
        make_chain();
    }
    let folder = folder_with_image();
    let (ready, mut continuation) = read(folder.path(), CHILD);
    for name in ["mm", "stdio", "time", "fdtab", "fatfs"] {
        assert!(uses(&continuation, name), "{name} is in use");
    }
    adopt(&mut continuation, &folder.path().join("work.img"));
    let resumed = report(run(&ready, Some(continuation), None));
    assert_eq!(resumed.status, Status::Done, "{:#?}", resumed.error);
    let uninterrupted = report(run(&ready, None, None));
    assert_eq!(text(&resumed, "result"), text(&uninterrupted, "result"));
    assert_eq!(lines(&resumed), ["after nap 0", "after nap 1", "after nap 2", "after nap 3"]);
    // Without its parent, or with another file in its place, it is none.
    let without = |change: &dyn Fn(&Path)| {
        let folder = folder_with_image();
        change(&folder.path().join(PARENT));
        let plan = |_: &[u8], _: &Engine| Ok(ready.plan().as_ref().clone());
        Saved::read(&folder.path().join(CHILD), &KEY, plan).expect_err("it needs its parent").to_string()
    };
    let gone = without(&|parent| fs::remove_file(parent).expect("removed"));
    assert!(gone.contains(PARENT), "{gone}");
    let other = without(&|parent| _ = fs::copy(golden("format-1-files-3.checkpoint"), parent).expect("copied"));
    assert!(other.contains("parent"), "{other}");
}

/// Writes a checkpoint of a workflow while it only waits, in the first wait of which this is so.
fn make_waiting(name: &str, ready: &Ready, document: &str, is_wanted: impl Fn(&Continuation) -> bool) {
    let waits = |rest| {
        let end = ready.run_from(rest, Some(Duration::from_millis(5)), &RunOptions::default(), Arc::new(Silent));
        suspended(end.expect("the host can hold a domain")).continuation
    };
    let mut continuation = waits(None);
    while !is_wanted(&continuation) {
        continuation = waits(Some(continuation));
    }
    let aside = TempDir::new().expect("a folder");
    let written = saved(ready, document, continuation).write(aside.path(), "raw", &KEY, None).expect("written");
    fs::write(golden(name), anew(&written.path, &KEY, Packing::Lz4, None)).expect("written");
}

/// Goes on from one to the end: as a run from the beginning does in its outputs and lines. `before` is between the two.
#[track_caller]
fn goes_on(ready: &Ready, continuation: Continuation<CapturedPages>, before: impl FnOnce()) -> RunReport {
    let resumed = report(run(ready, Some(continuation), None));
    assert_eq!(resumed.status, Status::Done, "{:#?}", resumed.error);
    before();
    let uninterrupted = report(run(ready, None, None));
    assert_eq!(resumed.output, uninterrupted.output);
    let all = |report: &RunReport| -> Vec<String> {
        let instances = report.steps.iter().flat_map(|step| &step.instances);
        instances.flat_map(|instance| instance.lines.iter().map(|line| line.text.clone())).collect()
    };
    assert_eq!(all(&resumed), all(&uninterrupted));
    resumed
}

/// A function that handles its faults, in its nap.
fn handles_faults() -> String {
    json!({
        "name": "handles-faults",
        "functions": { "fault-probe": { "image": "fault-probe.so" } },
        "steps": [{ "name": "handles", "function": "fault-probe", "args": { "how": "sleep" } }],
        "limits": { "carriers": 1 },
    })
    .to_string()
}

#[test]
fn a_function_of_an_earlier_build_goes_on_handling_its_faults() {
    let _one = support::one_at_a_time();
    let (folder, has_handler) = (golden(""), |handler: Option<&FaultHandler>| handler.is_some());
    if is_updated() {
        keep_image("fault-probe");
        let ready = ready_in(&folder, &handles_faults());
        make_waiting(HANDLER, &ready, &handles_faults(), |c| has_handler(c.instances[0].fault_handler.as_ref()));
    }
    let (ready, continuation) = read(&folder, HANDLER);
    assert!(
        has_handler(continuation.instances[0].fault_handler.as_ref()) && !continuation.instances[0].mapped.is_empty()
    );
    let resumed = goes_on(&ready, continuation, || ());
    assert_eq!(lines(&resumed), ["before", "after"]);
}

/// A request whose handler asks for another effect, whose handler sleeps.
fn asks_for_effects() -> String {
    let step = |name: &str, args: Value| json!({ "name": name, "function": "effects", "args": args });
    let mut outer = step("for-outer", json!({ "how": "forward", "effect": "inner" }));
    let mut inner = step("for-inner", json!({ "how": "sleep", "milliseconds": 60 }));
    (outer["handles"], inner["handles"]) = (json!("outer"), json!("inner"));
    json!({
        "name": "asks",
        "functions": { "effects": { "image": "effects.so" } },
        "steps": [step("asks", json!({ "how": "ask", "effect": "outer", "request": "what" })), outer, inner],
        "outputs": ["result"],
        "limits": { "carriers": 1 },
    })
    .to_string()
}

#[test]
fn requests_of_an_earlier_build_are_answered() {
    let _one = support::one_at_a_time();
    let folder = golden("");
    if is_updated() {
        keep_image("effects");
        let ready = ready_in(&folder, &asks_for_effects());
        make_waiting(REQUESTS, &ready, &asks_for_effects(), |continuation| continuation.instances.len() == 3);
    }
    let (ready, continuation) = read(&folder, REQUESTS);
    let waits = continuation.instances.iter().map(|instance| instance.threads[0].call);
    assert_eq!(waits.collect::<Vec<_>>(), [SLOT_TAKE, SLOT_TAKE, NANOSLEEP]);
    assert_eq!((continuation.requests.last, continuation.requests.answered.len()), (2, 0), "two requests wait");
    let resumed = goes_on(&ready, continuation, || ());
    assert!(text(&resumed, "result").contains("what"), "{}", text(&resumed, "result"));
}

/// A socket that listens and one for datagrams, and a thread that waits in a queue.
fn owns_sockets() -> String {
    json!({
        "name": "owns-sockets",
        "functions": { "libc-waits": { "image": "libc-waits.so" } },
        "steps": [{ "name": "owns", "function": "libc-waits", "args": { "argv": ["owns", "60"] } }],
        "network": { "mode": "host", "listen": ["127.83.61.47:*"], "connect": ["127.83.61.47:*"] },
        "limits": { "carriers": 1 },
    })
    .to_string()
}

#[test]
fn sockets_of_an_earlier_build_are_where_they_were_and_what_waits_in_a_queue_is_woken() {
    let _one = support::one_at_a_time();
    let folder = golden("");
    let in_queue = |threads: &[ThreadRecord]| threads.iter().any(|thread| thread.call == QUEUE_WAIT);
    if is_updated() {
        keep_image("libc-waits");
        let ready = ready_in(&folder, &owns_sockets());
        make_waiting(SOCKETS, &ready, &owns_sockets(), |continuation| in_queue(&continuation.instances[0].threads));
    }
    let (ready, continuation) = read(&folder, SOCKETS);
    assert!(in_queue(&continuation.instances[0].threads) && uses(&continuation, "socket"));
    let resumed = goes_on(&ready, continuation, || ());
    assert!(lines(&resumed)[0].ends_with(" 0 failures"), "{:?}", lines(&resumed));
}

/// An open file of a granted directory, which changes between naps.
fn naps_on_a_directory() -> String {
    naps_on_an_image().replace(r#""image":"work.img""#, r#""access":"write","directory":"granted""#)
}

/// A folder with the image of the function, the checkpoint, and a granted directory.
fn folder_with_directory() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for name in ["preempted.so", DIRECTORY] {
        // What is made anew may not be there.
        let _ = fs::copy(golden(name), folder.path().join(name));
    }
    fs::create_dir(folder.path().join("granted")).expect("a folder");
    folder
}

#[test]
fn a_file_of_a_granted_directory_of_an_earlier_build_is_opened_again() {
    let _one = support::one_at_a_time();
    if is_updated() {
        let folder = folder_with_directory();
        let document = naps_on_a_directory();
        make_waiting(DIRECTORY, &ready_in(folder.path(), &document), &document, |c| uses(c, "fdtab"));
        fs::copy(folder.path().join("granted/known"), golden(KNOWN)).expect("written");
    }
    let folder = folder_with_directory();
    let known = folder.path().join("granted/known");
    fs::copy(golden(KNOWN), &known).expect("it is kept");
    let (ready, mut continuation) = read(folder.path(), DIRECTORY);
    // It is another file on each host: behind its path, its flags, its position and its kind there is its inode.
    let record = continuation.modules.iter_mut().find(|record| record.name == "fdtab").expect("an open file");
    let path = b"work/known";
    let mut start = record.bytes.windows(path.len()).position(|bytes| bytes == path).expect("its path") + path.len();
    for _ in 0..3 {
        start += number_len(&record.bytes[start..]);
    }
    let end = start + number_len(&record.bytes[start..]);
    record.bytes.splice(start..end, number(fs::metadata(&known).expect("it is there").ino()));
    let resumed = goes_on(&ready, continuation, || fs::remove_file(&known).expect("it is there"));
    assert_eq!(lines(&resumed), ["after nap 0", "after nap 1", "after nap 2", "after nap 3"]);
}
