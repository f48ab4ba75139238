//! Trusted code that panics on a carrier ends the process: the carrier is gone, and what it ran would be waited for for ever.
//!
//! The domain of this test is in a process of its own: this program, started anew.

use libtest_mimic::{Arguments, Trial};
use monohull_visor::domain::image::map::LoadedImage;
use monohull_visor::domain::instance::{InstanceConfig, Labels};
use monohull_visor::domain::{Domain, Driver, Event, Options, PANICKED, Shared};
use monohull_visor::engine::modules_folder;
use monohull_visor::network::Network;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Says that this process is the one with the domain.
const CHILD: &str = "--with-a-domain";
/// What the driver says when it panics.
const WORDS: &str = "this driver was made to panic";
/// How long the process may go on. A carrier that is gone would keep it for ever.
const PATIENCE: Duration = Duration::from_secs(120);

const TESTS: [(&str, fn()); 1] = [
    // The one that starts this program anew.
    ("a_panic_on_a_carrier_ends_the_process", a_panic_on_a_carrier_ends_the_process),
];

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == CHILD) {
        with_a_domain();
        return ExitCode::SUCCESS;
    }
    let trial = |(name, test): &(&str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&Arguments::from_args(), TESTS.iter().map(trial).collect()).exit_code()
}

fn a_panic_on_a_carrier_ends_the_process() {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program).arg(CHILD).stderr(Stdio::piped()).spawn().expect("a process");
    let begin = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill().expect("it runs");
            panic!("the process goes on without one of its carriers");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("its output");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(PANICKED), "{words}");
    assert!(words.contains(WORDS), "{words}");
}

/// Two instances, one for each carrier, end by their timeouts and are started anew: sooner or later the second carrier reports
/// an end. The first one goes on for ever then, unless the process ends.
fn with_a_domain() {
    let options = Options {
        carriers: 2,
        modules: modules_folder().expect("modules are built first: run `cargo xtask test`"),
        keys: false,
        separate: false,
        time_slice: None,
        time_stamp_counter: true,
        load_all: false,
        network: Network::default(),
        epoll_set: None,
        sink: None,
        mounts: Arc::new([]),
        suspend: None,
        halt: None,
        skip_time: false,
        invocation: "".into(),
        public_url: "".into(),
        handed_over: "".into(),
        keeper: None,
        residence: None,
        inbox: None,
        may_wait_for_events: false,
        no_sending: None,
        no_branches: None,
        starts: Ok(Vec::new()),
        effects: Default::default(),
        published: Default::default(),
        lineage: Default::default(),
        template: Default::default(),
        template_instances: Arc::new([]),
        first_begins_alone: false,
        template_finds_no_files: false,
        template_at_first_wait: false,
    };
    let mut domain = Domain::new(options).expect("the host can hold a domain");
    domain.run(Box::new(Panics)).expect("it never ends");
}

struct Panics;

impl Driver for Panics {
    fn on_event(&mut self, event: Event, domain: &Shared) {
        match event {
            Event::Begin => {
                domain.start(endless(0));
                domain.start(endless(1));
            }
            Event::Ended(_) if std::thread::current().name() == Some("carrier-1") => panic!("{WORDS}"),
            Event::Ended(ended) => domain.start(endless(ended.token)),
            Event::Timer { .. } | Event::Performed(_) | Event::Deadline => {}
        }
    }
}

fn endless(token: u64) -> InstanceConfig {
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/misbehave.so");
    let image = LoadedImage::open("misbehave", &image).expect("images are built first: run `cargo xtask test`");
    InstanceConfig {
        token,
        image: Arc::new(image),
        labels: Arc::new(Labels::default()),
        index: 0,
        count: 1,
        attempt: 1,
        args: r#"{"how":"endless-loop"}"#.into(),
        env: "{}".into(),
        stdin: "".into(),
        slots: None,
        files: None,
        performs: None,
        handles: None,
        stack_size: 64 << 10,
        memory_limit: 16 << 20,
        max_threads: 1,
        output_limit: 1 << 10,
        timeout: Some(Duration::from_millis(300)),
    }
}
