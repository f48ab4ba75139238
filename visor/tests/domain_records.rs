//! The state of libos modules goes from one domain to another as records, through the modules as they are shipped.

use monohull_abi::Errno;
use monohull_abi::layout::{ARENA_BASE, PAGE};
use monohull_visor::domain::hostcall::{ModuleRecord, NAMES};
use monohull_visor::domain::{Domain, Options};
use monohull_visor::network::Network;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// There is one domain per process at a time.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn domain(load_all: bool) -> Domain {
    let options = Options {
        carriers: 1,
        modules: Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/modules"),
        keys: false,
        separate: false,
        time_slice: None,
        time_stamp_counter: true,
        load_all,
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
    Domain::new(options).expect("the host can hold a domain")
}

/// The records of a domain with one filled slot.
fn saved() -> Vec<ModuleRecord> {
    let domain = domain(false);
    domain.fill_slot("text", b"some words").expect("there is room");
    domain.save_modules().expect("nothing in it is in use")
}

#[test]
fn slots_are_where_they_were() {
    let _one = one_at_a_time();
    let records = saved();
    let names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["mm"], "modules that are not loaded have no record");
    assert_eq!(records[0].pages, vec![ARENA_BASE..ARENA_BASE + PAGE; 1]);

    let domain = domain(false);
    assert_eq!(domain.restore_modules(&records, |_| Ok(())).expect("a record of our own"), records[0].pages);
    let (name, filled) = domain.next_filled_slot("").expect("mm works").expect("there is one");
    assert_eq!((name.as_str(), filled.bytes), ("text", 10));
    assert_eq!(domain.slot_bytes("text").expect("it is filled"), [0; 10], "its pages are brought by who captured them");
    assert_eq!(domain.fill_slot("text", b"other"), Err(Errno::Exists));
    domain.fill_slot("more", b"other words").expect("there is room beside it");
    assert_eq!(domain.slot_bytes("more").expect("it is filled"), b"other words");
}

#[test]
fn every_module_has_a_record_and_takes_it_back() {
    let _one = one_at_a_time();
    let records = domain(true).save_modules().expect("nothing is in use");
    let mut names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
    names.sort_unstable();
    let mut all = NAMES;
    all.sort_unstable();
    assert_eq!(names, all);

    let domain = domain(false);
    assert_eq!(domain.restore_modules(&records, |_| Ok(())).expect("records of our own"), []);
    assert_eq!(domain.modules().len(), NAMES.len(), "they have been loaded for it");
}

#[test]
fn records_that_do_not_fit_are_refused_by_name() {
    let _one = one_at_a_time();
    let good = saved();
    let refusal = |change: &dyn Fn(&mut Vec<ModuleRecord>)| {
        let mut records = good.clone();
        change(&mut records);
        domain(false).restore_modules(&records, |_| Ok(())).expect_err("it is refused").to_string()
    };
    assert_eq!(
        refusal(&|records| records[0].bytes[0] = 9),
        "its record has version 9; this Monohull knows versions up to 2 (libos module `mm`)"
    );
    assert_eq!(
        refusal(&|records| records[0].name = "tape".into()),
        "this Monohull has no such module (libos module `tape`)"
    );
    assert_eq!(refusal(&|records| records.push(records[0].clone())), "it has two records (libos module `mm`)");
    let damaged = refusal(&|records| records[0].bytes.truncate(9));
    assert!(damaged.starts_with("its record is damaged: "), "{damaged}");
    assert!(refusal(&|records| records[0].name = "stdio".into()).ends_with("(libos module `stdio`)"));
}
