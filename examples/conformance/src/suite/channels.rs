//! `std::sync::mpsc`.

use super::check;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

const MOMENT: Duration = Duration::from_millis(3);

pub(super) fn all() {
    unbounded();
    bounded();
    errors();
}

fn unbounded() {
    let (sender, receiver) = mpsc::channel();
    check!("empty", (receiver.try_recv(), receiver.recv_timeout(MOMENT)));
    check!("send", (sender.send(1), sender.clone().send(2), receiver.recv(), receiver.try_recv(), receiver.try_recv()));
    check!("timeout_is_kept", {
        let start = Instant::now();
        (receiver.recv_timeout(MOMENT), start.elapsed() >= MOMENT)
    });
    (0..3).for_each(|n| sender.send(n).unwrap());
    check!("try_iter", (receiver.try_iter().collect::<Vec<_>>(), receiver.try_iter().count()));
    sender.send(9).unwrap();
    drop(sender);
    check!("what_is_left", (receiver.recv(), receiver.recv(), receiver.try_recv(), receiver.recv_timeout(MOMENT)));
    check!("iter_and_into_iter", {
        let (s, r) = mpsc::channel();
        (0..4).for_each(|n| s.send(n).unwrap());
        let first: Vec<_> = r.iter().take(2).collect();
        drop(s);
        (first, (&r).into_iter().next(), r.into_iter().collect::<Vec<_>>())
    });
    check!("receiver_is_gone", {
        let (s, r) = mpsc::channel();
        drop(r);
        (s.send(5), s.send(6).map_err(|e| e.0))
    });
    check!("messages_are_dropped", {
        let value = Arc::new(());
        let (s, r) = mpsc::channel();
        s.send(value.clone()).unwrap();
        drop(r);
        let after_receiver = Arc::strong_count(&value);
        drop(s);
        (after_receiver, Arc::strong_count(&value))
    });
    check!("many_senders", {
        let (s, r) = mpsc::channel::<u64>();
        thread::scope(|scope| {
            for part in 0..4 {
                let s = s.clone();
                scope.spawn(move || (0..250).for_each(|n| s.send(part * 250 + n).unwrap()));
            }
            drop(s);
            r.iter().map(|n| n * n).sum::<u64>()
        })
    });
    check!("order_of_one_sender", {
        let (s, r) = mpsc::channel();
        let sends = thread::spawn(move || (0..500).for_each(|n| s.send(n).unwrap()));
        let sorted = r.iter().is_sorted();
        (sorted, sends.join().is_ok())
    });
    check!("waits_for_a_message", {
        let (s, r) = mpsc::channel();
        let waits = thread::spawn(move || r.recv());
        thread::sleep(MOMENT);
        s.send("late").unwrap();
        waits.join().ok()
    });
    check!("waits_for_the_last_sender", {
        let (s, r) = mpsc::channel::<u8>();
        let waits = thread::spawn(move || r.recv());
        thread::sleep(MOMENT);
        drop(s);
        waits.join().ok()
    });
    check!("debug", {
        let (s, r) = mpsc::channel::<u8>();
        format!("{s:?} {r:?} {:?}", mpsc::sync_channel::<u8>(1).0)
    });
    check!("send_is_sync", {
        let (s, r) = mpsc::channel();
        thread::scope(|scope| {
            for n in 0..3 {
                let s = &s;
                scope.spawn(move || s.send(n).unwrap());
            }
        });
        drop(s);
        r.iter().sum::<i32>()
    });
}

fn bounded() {
    let (sender, receiver) = mpsc::sync_channel(2);
    check!("bounded", (sender.send(1), sender.try_send(2), sender.try_send(3), receiver.recv(), sender.try_send(4)));
    check!("bounded_rest", {
        drop(sender);
        receiver.iter().collect::<Vec<_>>()
    });
    check!("bounded_waits_for_room", {
        let (s, r) = mpsc::sync_channel(1);
        let sent = Arc::new(AtomicUsize::new(0));
        let counts = sent.clone();
        let sends = thread::spawn(move || {
            for n in 0..4 {
                s.send(n).unwrap();
                counts.fetch_add(1, SeqCst);
            }
        });
        while sent.load(SeqCst) == 0 {
            thread::yield_now();
        }
        // Were there room for a second, it would have been sent by now.
        thread::sleep(MOMENT);
        let before = sent.load(SeqCst);
        let all: Vec<_> = r.iter().collect();
        sends.join().unwrap();
        (before, all)
    });
    check!("rendezvous", {
        let (s, r) = mpsc::sync_channel(0);
        let full = s.try_send(0);
        let takes = thread::spawn(move || r.iter().sum::<i32>());
        for n in 1..=50 {
            s.send(n).unwrap();
        }
        drop(s);
        (full, takes.join().ok())
    });
    check!("rendezvous_sender_waits", {
        let (s, r) = mpsc::sync_channel(0);
        let sends = thread::spawn(move || s.send(7));
        thread::sleep(MOMENT);
        let early = sends.is_finished();
        (early, r.recv(), sends.join().ok())
    });
    check!("rendezvous_receiver_is_gone", {
        let (s, r) = mpsc::sync_channel(0);
        let sends = thread::spawn(move || s.send(7));
        thread::sleep(MOMENT);
        drop(r);
        sends.join().ok()
    });
    check!("bounded_receiver_is_gone", {
        let (s, r) = mpsc::sync_channel(1);
        drop(r);
        (s.send(1), s.try_send(2))
    });
    check!("bounded_clones", {
        let (s, r): (_, Receiver<u8>) = mpsc::sync_channel(4);
        let t = s.clone();
        s.send(1).unwrap();
        t.send(2).unwrap();
        drop((s, t));
        r.into_iter().sum::<u8>()
    });
}

fn errors() {
    check!(
        "texts",
        (
            SendError(1).to_string(),
            TrySendError::Full(1).to_string(),
            TrySendError::Disconnected(1).to_string(),
            RecvError.to_string()
        )
    );
    check!(
        "texts_of_tries",
        (
            TryRecvError::Empty.to_string(),
            TryRecvError::Disconnected.to_string(),
            RecvTimeoutError::Timeout.to_string(),
            RecvTimeoutError::Disconnected.to_string()
        )
    );
    check!(
        "debugs",
        format!("{:?} {:?} {:?} {:?}", SendError(1), TrySendError::Full(1), RecvError, TryRecvError::Empty)
    );
    check!(
        "conversions",
        (
            TryRecvError::from(RecvError),
            RecvTimeoutError::from(RecvError),
            TrySendError::from(SendError(3)) == TrySendError::Disconnected(3)
        )
    );
    check!(
        "as_errors",
        [&RecvError as &dyn std::error::Error, &SendError(()), &TryRecvError::Empty].map(|e| e.source().is_none())
    );
}
