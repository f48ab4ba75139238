//! Names, and resolvers that answer, that know nothing, and that keep silent.

use crate::ME;
use crate::peer::{World, config};
use core::net::{IpAddr, SocketAddr};
use monohull_abi::Errno;
use monohull_abi::module::{Call, Ending, Wake};
use monohull_abi::network::{HOST_NAME_MAX, LOOKUP_MAX, TapConfig};
use monohull_abi::number::HOST_LOOKUP;
use monohull_module_testing::Step;
use std::cell::RefCell;
use std::rc::Rc;

const OTHER: u32 = 2;
const SECOND: u64 = 1_000_000_000;
/// The peer's addresses.
const PEER: &str = "10.0.0.1";
const PEER6: &str = "fd00::1";
/// An unused address.
const SILENT: &str = "192.0.2.53";
const KNOWN4: &str = "192.0.2.7";
const KNOWN6: &str = "2001:db8::7";

/// The questions that have come: names, and which kind of address was wanted.
type Asked = Rc<RefCell<Vec<(String, u16)>>>;

/// A network with these resolvers. The peer is one: it knows names that begin with `known`, knows that there are no others,
/// and does not answer for names that begin with `silent`.
fn world(resolvers: &[&str]) -> (World, Asked) {
    let mut config = TapConfig { resolver_count: resolvers.len() as u32, ..config() };
    for (slot, resolver) in config.resolvers.iter_mut().zip(resolvers) {
        *slot = SocketAddr::new(resolver.parse().unwrap(), 53).into();
    }
    let mut world = World::with(config);
    let questions = Asked::default();
    let record = questions.clone();
    world.peer_serves(53, Box::new(move |question| answer(question, &record)));
    (world, questions)
}

/// A resolver's answer to a question.
fn answer(question: &[u8], questions: &Asked) -> Option<Vec<u8>> {
    const A: u16 = 1;
    let (mut name, mut at) = (String::new(), 12);
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        name.push_str(std::str::from_utf8(&question[at + 1..end]).unwrap());
        name.push('.');
        at = end;
    }
    let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
    questions.borrow_mut().push((name.clone(), kind));
    let known = name.starts_with("known");
    let mut answer = question.to_vec();
    answer[2..4].copy_from_slice(if known { &[0x81, 0x80] } else { &[0x81, 0x83] });
    if known {
        answer[7] = 1;
        let address: IpAddr = if kind == A { KNOWN4 } else { KNOWN6 }.parse().unwrap();
        let bytes = match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        // The name is that of the question; class 1, a minute to live.
        answer.extend([0xc0, 12, question[at + 1], question[at + 2], 0, 1, 0, 0, 0, 60, 0, bytes.len() as u8]);
        answer.extend(bytes);
    }
    (!name.starts_with("silent")).then_some(answer)
}

fn arguments(world: &World, instance: u32, name: &[u8]) -> [u64; 6] {
    let place = |bytes: &[u8]| world.domain.place(instance, bytes);
    [place(name), name.len() as u64, place(&[0; 32 * LOOKUP_MAX]), LOOKUP_MAX as u64, 0, 0]
}

/// Looks a name up, to the end.
fn lookup(world: &mut World, name: &str) -> Result<Vec<String>, Errno> {
    let args = arguments(world, ME, name.as_bytes());
    let count = Errno::from_value(world.call(HOST_LOOKUP, args))?;
    let mut found: Vec<String> = (0..count).map(|n| world.read_address(args[2] + 32 * n).ip().to_string()).collect();
    found.sort_unstable();
    Ok(found)
}

/// Begins to look a name up; it waits. Its thread is woken by the key.
fn begin(world: &World, instance: u32, name: &str) -> (Call, u64) {
    let mut call = world.domain.prepare(instance, HOST_LOOKUP, arguments(world, instance, name.as_bytes()));
    world.domain.take_woken();
    match world.domain.step(&mut call) {
        Step::Parked { key, .. } => (call, key),
        ready => panic!("{ready:?}"),
    }
}

/// Runs a call that was woken.
fn again(world: &World, call: &mut Call) -> Step {
    call.wake = Wake::Woken;
    world.domain.step(call)
}

#[test]
fn a_resolver_is_asked_over_both_protocols() {
    for resolver in [PEER, PEER6] {
        let (mut world, questions) = world(&[resolver]);
        assert_eq!(lookup(&mut world, "known.test"), Ok(vec![KNOWN4.to_owned(), KNOWN6.to_owned()]), "{resolver}");
        assert_eq!(lookup(&mut world, "other.test"), Err(Errno::NotFound));
        assert_eq!(questions.borrow().len(), 4, "each kind of address once: {questions:?}");
        assert!(world.time() < SECOND, "no wait for an answer that has arrived");
    }
}

#[test]
fn a_resolver_that_keeps_silent_is_not_one_that_knows_nothing() {
    let (mut world, questions) = world(&[PEER]);
    assert_eq!(lookup(&mut world, "silent.test"), Err(Errno::TimedOut));
    assert!(world.domain.explained().contains("no resolver answers"), "{}", world.domain.explained());
    assert!(world.time() >= 10 * SECOND, "it has had its time");
    let asked = questions.borrow().len();
    assert!(asked >= 6, "both questions were asked more than once: {questions:?}");
    // It waits for nothing any more.
    world.run(60_000);
    assert_eq!(questions.borrow().len(), asked);
    world.cut = true;
    assert_eq!(lookup(&mut world, "known.test"), Err(Errno::TimedOut));
}

#[test]
fn the_next_resolver_is_asked_if_one_keeps_silent() {
    let (mut world, _) = world(&[SILENT, PEER]);
    assert_eq!(lookup(&mut world, "known.test"), Ok(vec![KNOWN4.to_owned(), KNOWN6.to_owned()]));
    assert_eq!(lookup(&mut world, "other.test"), Err(Errno::NotFound));
}

#[test]
fn questions_for_the_same_name_get_the_same_answer() {
    let (mut world, questions) = world(&[PEER]);
    let (mut first, key) = begin(&world, ME, "known.test");
    let (mut second, other_key) = begin(&world, OTHER, "known.test");
    assert_eq!(key, other_key);
    world.run(20);
    assert!(world.domain.take_woken().contains(&key));
    assert_eq!(again(&world, &mut first), Step::Ready(2));
    assert_eq!(again(&world, &mut second), Step::Ready(2));
    assert_eq!(questions.borrow().len(), 2, "{questions:?}");
    // An answer is given once: the next look-up asks again.
    assert!(lookup(&mut world, "known.test").is_ok());
    assert_eq!(questions.borrow().len(), 4, "{questions:?}");
}

#[test]
fn an_answer_for_an_ended_instance_wakes_no_thread() {
    let (mut world, _) = world(&[PEER]);
    let (_, key) = begin(&world, OTHER, "known.test");
    world.run(20);
    assert!(world.domain.take_woken().contains(&key), "the answer is here");
    world.domain.end(OTHER, Ending::Failed);
    // A waiting look-up does not poll.
    let (mut call, key) = begin(&world, ME, "silent.test");
    for _ in 0..3 {
        assert_eq!(world.domain.take_woken(), [], "there is no answer");
        assert_eq!(again(&world, &mut call), Step::Parked { key, deadline: u64::MAX });
    }
    // An answer that another thread has not taken yet makes no difference either.
    begin(&world, OTHER, "known.test");
    world.run(20);
    assert!(world.domain.take_woken().contains(&key));
    assert_eq!(again(&world, &mut call), Step::Parked { key, deadline: u64::MAX });
    assert_eq!(world.domain.take_woken(), []);
}

#[test]
fn a_name_without_waiters_is_not_asked_again() {
    let (mut world, questions) = world(&[PEER]);
    begin(&world, OTHER, "silent.test");
    world.run(20);
    world.domain.end(OTHER, Ending::Done);
    assert_eq!(questions.borrow().len(), 2, "{questions:?}");
    world.run(60_000);
    assert_eq!(questions.borrow().len(), 2, "{questions:?}");
}

#[test]
fn a_name_that_changes_in_its_askers_memory_is_one_at_a_time() {
    let (mut world, questions) = world(&[PEER]);
    let (mut call, key) = begin(&world, ME, "silent-0000.test");
    // More names than are asked for at once, were they all kept.
    for number in 1..1000 {
        world.domain.poke(call.args[0], format!("silent-{number:04}.test").as_bytes());
        assert_eq!(again(&world, &mut call), Step::Parked { key, deadline: u64::MAX });
    }
    world.run(20);
    assert!(questions.borrow().iter().all(|(name, _)| name == "silent-0999.test."), "{questions:?}");
    world.domain.poke(call.args[0], b"known-by-now.net");
    assert_eq!(again(&world, &mut call), Step::Parked { key, deadline: u64::MAX });
    world.run(20);
    assert_eq!(again(&world, &mut call), Step::Ready(2));
}

#[test]
fn so_many_names_at_once_and_no_more() {
    let (world, _) = world(&[PEER]);
    for instance in 0..256 {
        begin(&world, 10 + instance, &format!("silent-{instance}.test"));
    }
    let mut more = world.domain.prepare(ME, HOST_LOOKUP, arguments(&world, ME, b"known.test"));
    assert_eq!(world.domain.step(&mut more), Step::Ready(Errno::TooMany.to_value()));
    world.domain.end(10, Ending::Done);
    begin(&world, ME, "known.test");
}

#[test]
fn an_invalid_name_is_sent_to_no_resolver() {
    let (mut world, questions) = world(&[PEER]);
    let long = "a".repeat(64);
    let none: [&[u8]; 14] = [
        b".",
        b"..",
        b"a..b",
        b".known",
        b"known\0.test",
        b"../known",
        b"known/test",
        b"known test",
        b"known:53",
        b"[::1]",
        b"caf\xc3\xa9.test",
        b"known\xff.test",
        b"\x05known\x04test",
        long.as_bytes(),
    ];
    for name in none {
        let args = arguments(&world, ME, name);
        assert_eq!(world.call(HOST_LOOKUP, args), Errno::Invalid.to_value(), "{}", name.escape_ascii());
        assert!(world.domain.explained().contains("a name of a host"), "{}", world.domain.explained());
    }
    for len in [0, HOST_NAME_MAX as u64 + 1, 4096, u64::MAX] {
        let [name, _, out, most, ..] = arguments(&world, ME, &[b'a'; 4096]);
        assert_eq!(world.call(HOST_LOOKUP, [name, len, out, most]), Errno::Invalid.to_value(), "{len}");
    }
    world.run(20);
    assert_eq!(questions.borrow().len(), 0, "{questions:?}");
    // The longest label, and the longest name: what may be asked for is.
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
    assert_eq!(longest.len(), HOST_NAME_MAX);
    for name in ["Known-host_1.test.", &longest] {
        let unknown = lookup(&mut world, name);
        assert_eq!(unknown, Err(Errno::NotFound), "{name}");
    }
    assert_eq!(questions.borrow().len(), 4, "{questions:?}");
}

#[test]
fn a_lookup_fails_when_the_device_is_removed() {
    let (mut world, _) = world(&[PEER]);
    let (mut call, key) = begin(&world, ME, "silent.test");
    world.domain.take_device_away();
    world.run(1);
    assert!(world.domain.take_woken().contains(&key));
    assert_eq!(again(&world, &mut call), Step::Ready(Errno::NetworkDown.to_value()));
    assert_eq!(lookup(&mut world, "known.test"), Err(Errno::NetworkDown));
}
