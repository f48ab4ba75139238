//! Rooms that are given, refused and taken away, at times that the tests set.

use super::*;
use std::io::Read;
use std::os::unix::net::UnixStream;

const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// A connection, and its client.
fn connection() -> (Arc<Stream>, UnixStream) {
    let (server, client) = UnixStream::pair().expect("a pair");
    server.set_nonblocking(true).expect("set");
    client.set_nonblocking(true).expect("set");
    (Arc::new(Stream::Unix(tokio::net::UnixStream::from_std(server).expect("registered"))), client)
}

fn is_cut(client: &mut UnixStream) -> bool {
    matches!(client.read(&mut [0]), Ok(0))
}

/// An answer in one piece.
fn whole(bytes: u64) -> Wanted {
    Wanted { memory: None, bytes, in_parts: false, is_ready: true, peer: None }
}

/// An answer in parts, for a client with this address.
fn to(peer: u8, bytes: u64) -> Wanted {
    Wanted { memory: None, bytes, in_parts: true, is_ready: true, peer: Some(IpAddr::from([192, 0, 2, peer])) }
}

#[tokio::test]
async fn what_has_had_its_time_goes_for_another_one_and_nothing_else_does() {
    let transit = Transit::new(10 * MIB, 2 * SECOND);
    let begin = Instant::now();
    let at = |seconds: u32| begin + seconds * SECOND;
    let (one, mut first) = connection();
    let (other, mut second) = connection();
    // They have six and five seconds.
    let slow = transit.room(whole(4 * MIB), &one, at(0)).expect("room");
    let slower = transit.room(whole(3 * MIB), &other, at(0)).expect("room");
    let third = transit.room(whole(3 * MIB), &one, at(1)).expect("room");
    assert_eq!(transit.bytes(), 10 * MIB);
    assert_eq!(transit.room(whole(1), &one, at(4)).err(), Some(NoRoom));
    assert_eq!(transit.room(whole(4 * MIB), &one, at(5)).err(), Some(NoRoom), "what is late has less");
    assert!(!is_cut(&mut second), "it would not have been enough");
    let next = transit.room(whole(3 * MIB), &one, at(5)).expect("the late one goes");
    assert!(is_cut(&mut second) && !is_cut(&mut first));
    assert_eq!(transit.bytes(), 10 * MIB);
    drop(slower);
    assert_eq!(transit.bytes(), 10 * MIB, "its room is another's");
    drop(third);
    let again = transit.room(whole(3 * MIB), &one, at(100)).expect("room");
    assert!(!is_cut(&mut first), "none that is late goes without need");
    drop((slow, next, again));
    assert_eq!((transit.bytes(), transit.lock().holds.len()), (0, 0));
}

#[tokio::test]
async fn an_answer_in_parts_has_its_time_as_long_as_its_client_keeps_pace() {
    let transit = Transit::new(10 * MIB, 2 * SECOND);
    let begin = Instant::now();
    let at = |seconds: u32| begin + seconds * SECOND;
    let (stream, mut client) = connection();
    let room = transit.room(to(1, 10 * MIB), &stream, at(0)).expect("room");
    assert_eq!(transit.room(to(1, 1), &stream, at(1)).err(), Some(NoRoom));
    room.took(3 << 20);
    assert_eq!(transit.room(to(1, 1), &stream, at(4)).err(), Some(NoRoom), "it has until the fifth second");
    // It does not have the time of what it has not taken.
    transit.room(to(1, 1), &stream, at(5)).expect("room");
    assert!(is_cut(&mut client));
}

#[tokio::test]
async fn one_that_is_larger_than_all_may_be_is_sent_alone() {
    let transit = Transit::new(10 * MIB, SECOND);
    let begin = Instant::now();
    let (stream, _client) = connection();
    let small = transit.room(whole(1), &stream, begin).expect("room");
    assert_eq!(transit.room(whole(11 * MIB), &stream, begin).err(), Some(NoRoom));
    drop(small);
    let large = transit.room(whole(11 * MIB), &stream, begin).expect("it is alone");
    assert_eq!(transit.room(whole(1), &stream, begin).err(), Some(NoRoom));
    drop(large);
    transit.room(whole(1), &stream, begin).expect("room");
}

#[tokio::test]
async fn a_slow_client_cannot_have_the_answers_of_another_one_refused() {
    // By its pace alone it would have an hour.
    let transit = Transit::new(10 * MIB, 3600 * SECOND);
    let begin = Instant::now();
    let at = |seconds: u32| begin + seconds * SECOND;
    let connections: Vec<_> = (0..5).map(|_| connection()).collect();
    let (streams, mut clients): (Vec<_>, Vec<_>) = connections.into_iter().unzip();
    let slow: Vec<_> =
        streams.iter().map(|stream| transit.room(to(1, 2 * MIB), stream, begin).expect("room")).collect();
    let (other, mut client) = connection();
    assert_eq!(transit.room(to(1, MIB), &other, at(2)).err(), Some(NoRoom), "it has more than its share");
    assert_eq!(transit.room(to(2, 6 * MIB), &other, at(2)).err(), Some(NoRoom), "this is more than a share");
    assert!(clients.iter_mut().all(|client| !is_cut(client)));
    let next = transit.room(to(2, 3 * MIB), &other, at(2)).expect("the other one has more than its share");
    assert_eq!(clients.iter_mut().filter_map(|client| is_cut(client).then_some(())).count(), 2, "as few as it takes");
    assert_eq!(transit.bytes(), 9 * MIB);
    // A third has a share too, and what is within a share stays.
    let third = transit.room(to(3, 3 * MIB), &other, at(4)).expect("room");
    assert_eq!(clients.iter_mut().filter_map(|client| is_cut(client).then_some(())).count(), 3);
    assert_eq!(transit.room(to(4, 3 * MIB), &other, at(5)).err(), Some(NoRoom), "more than a fourth");
    assert!(!is_cut(&mut client));
    drop((slow, next, third));
    assert_eq!((transit.bytes(), transit.lock().memory.len()), (0, 0));
}

#[tokio::test]
async fn a_quick_client_keeps_what_is_more_than_its_share() {
    let transit = Transit::new(100 * MIB, 3600 * SECOND);
    let begin = Instant::now();
    let (stream, mut client) = connection();
    let room = transit.room(to(1, 100 * MIB), &stream, begin).expect("room");
    let (other, _other) = connection();
    let asked = |seconds| transit.room(to(2, MIB), &other, begin + seconds * SECOND).err();
    room.took(32 << 20);
    assert_eq!(asked(2), Some(NoRoom));
    assert!(!is_cut(&mut client));
    assert_eq!(asked(3), None);
    assert!(is_cut(&mut client));
}

#[tokio::test]
async fn what_several_answers_are_of_counts_once_and_is_free_with_the_last() {
    let transit = Transit::new(2 * MIB, SECOND);
    let begin = Instant::now();
    let (stream, mut client) = connection();
    let (other, mut second) = connection();
    let (third, mut last) = connection();
    let shared = |peer| Wanted { memory: Some(Memory::File(1, 7)), ..to(peer, 2 * MIB) };
    let one = transit.room(shared(1), &stream, begin).expect("room");
    let two = transit.room(shared(2), &other, begin).expect("no more memory than there is");
    assert_eq!(transit.bytes(), 2 * MIB);
    two.took(20 << 20);
    // Only one of the two is late, and the other one is quick.
    assert_eq!(transit.room(to(3, MIB), &third, begin + 2 * SECOND).err(), Some(NoRoom));
    assert!(!is_cut(&mut client) && !is_cut(&mut second), "it would not have been enough");
    drop(one);
    assert_eq!(transit.bytes(), 2 * MIB);
    let one = transit.room(shared(1), &stream, begin).expect("room");
    let next = transit.room(to(3, MIB), &third, begin + 22 * SECOND).expect("both are late");
    assert!(is_cut(&mut client) && is_cut(&mut second) && !is_cut(&mut last));
    drop((one, two, next));
    assert_eq!((transit.bytes(), transit.lock().memory.len()), (0, 0));
}

#[tokio::test]
async fn a_client_that_asks_for_the_same_again_has_no_more_time_for_it() {
    let transit = Transit::new(24 * MIB, 3600 * SECOND);
    let begin = Instant::now();
    let at = |seconds: u32| begin + seconds * SECOND;
    let shared = Wanted { memory: Some(Memory::File(1, 7)), ..to(1, 16 * MIB) };
    let (stream, mut client) = connection();
    let (again, mut same) = connection();
    let (other, _other) = connection();
    // Two at the same time, and each renewed before its time is over.
    let mut both = [&stream, &again].map(|stream| transit.room(shared, stream, at(0)).expect("room"));
    for second in 1..4 {
        both[second as usize % 2] = transit.room(shared, &stream, at(second)).expect("it is there");
        both[second as usize % 2].took(1 << 20);
    }
    assert_eq!((transit.bytes(), transit.lock().holds.len()), (16 * MIB, 1));
    let next = transit.room(to(2, 12 * MIB), &other, at(4)).expect("what the first has is more than its share");
    assert!(is_cut(&mut client));
    let _ = is_cut(&mut same);
    assert_eq!(transit.bytes(), 12 * MIB);
    drop(both);
    assert_eq!(transit.bytes(), 12 * MIB);
    drop(next);
    assert_eq!((transit.bytes(), transit.lock().memory.len()), (0, 0));
}

#[tokio::test]
async fn shares_are_of_those_that_stay() {
    let transit = Transit::new(10 * MIB, 10 * SECOND);
    let begin = Instant::now();
    let at = |seconds: u32| begin + seconds * SECOND;
    let (stream, _clients) = connection();
    let late: Vec<_> = (10..19).map(|peer| transit.room(to(peer, MIB / 9), &stream, at(0)).expect("room")).collect();
    let (slow, mut client) = connection();
    let large = transit.room(to(1, 9 * MIB), &slow, at(9)).expect("room");
    let (other, _other) = connection();
    // The nine are behind. Of two clients that are left each has a half.
    let next = transit.room(to(2, 3 * MIB), &other, at(11)).expect("less than its share");
    assert!(is_cut(&mut client));
    assert_eq!(transit.bytes(), 3 * MIB);
    drop((late, large, next));
}

#[tokio::test]
async fn what_is_still_being_made_is_not_late() {
    let transit = Transit::new(10 * MIB, SECOND);
    let (stream, mut client) = connection();
    let wanted = Wanted { is_ready: false, ..to(1, 10 * MIB) };
    let room = transit.room(wanted, &stream, Instant::now()).expect("room");
    let asked = || transit.room(to(2, MIB), &stream, Instant::now() + 3600 * SECOND).err();
    assert_eq!(asked(), Some(NoRoom));
    room.begins();
    assert_eq!(asked(), None);
    assert!(is_cut(&mut client));
}

#[tokio::test]
async fn bytes_in_memory_have_their_room_as_long_as_something_has_a_part_of_them() {
    let transit = Transit::new(MIB, SECOND);
    let (stream, _client) = connection();
    let whole = |len: usize| Response::new(Answer::from(vec![b'x'; len]));
    let mut small = whole(SMALL as usize);
    transit.begin(&mut small, &stream).expect("it needs none");
    assert_eq!(transit.bytes(), 0);
    let mut large = whole(MIB as usize);
    transit.begin(&mut large, &stream).expect("room");
    assert_eq!(transit.begin(&mut whole(MIB as usize), &stream), Err(NoRoom));
    let Answer::Whole(bytes) = large.into_body() else { panic!("in memory") };
    let part = bytes.slice(5..6);
    drop(bytes);
    assert_eq!(transit.bytes(), MIB);
    drop(part);
    assert_eq!(transit.bytes(), 0);
}

#[tokio::test]
async fn a_file_counts_once_and_an_answer_that_has_room_asks_for_no_more() {
    let transit = Transit::new(MIB, SECOND);
    let (stream, _client) = connection();
    let file = Arc::new(crate::http::content::memory_file().expect("a file"));
    let answer = || Response::new(Answer::File { file: file.clone(), at: 0, end: MIB });
    let (mut one, mut two) = (answer(), answer());
    transit.begin(&mut one, &stream).expect("room");
    transit.begin(&mut two, &stream).expect("it is the same");
    transit.begin(&mut one, &stream).expect("it has room");
    assert_eq!((transit.bytes(), transit.lock().holds.len()), (MIB, 1));
    drop((one, two));
    assert_eq!(transit.bytes(), 0);
}
