//! A workflow that only waits and stays in its process, until the supervisor lets it go on or ends it: for as long as it waits, or until
//! what it was captured as has been kept.
//!
//! ```text
//!   carrier ── stay ─▶ Suspended, which says that it stays ─▶ supervisor: write, commit ── … the wait is over ──▶ GoOn
//!                                                                └─▶ the process is killed                          │
//!   carrier ◀── order ── thread `events` ◀──────────────────────────────────────────────────────────────────────────┘
//!      └─ answer ─▶ WentOn: its events come from here on
//! ```

use super::arrivals;
use super::exit_status::status::{DONE, FAILED, SHORTAGE};
use super::notices::Notices;
use super::protocol::{FromWorker, SupervisorChannel};
use super::reply;
use monohull_domain::Inbox;
use monohull_domain::checkpoint::{Order, Residence, Suspended};
use monohull_ipc::channel::is_shortage;
use monohull_sys::fork::exit_now;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Where orders for a workflow that stays arrive.
pub(super) struct Resident {
    own: Weak<Resident>,
    channel: Arc<SupervisorChannel>,
    notices: Arc<Notices>,
    inbox: Arc<Inbox>,
    order: Mutex<Option<Order>>,
    /// There is one. Carriers look at this.
    has_order: AtomicBool,
    /// The thread that waits for orders has been started.
    listens: OnceLock<()>,
    has_stayed: AtomicBool,
    /// It goes on if its capture cannot be kept.
    may_be_unkept: bool,
    /// The supervisor has sent an order, which has no answer yet.
    was_ordered: AtomicBool,
}

impl Resident {
    /// Of a workflow whose events come to this inbox, after its first order at the earliest.
    pub(super) fn new(
        channel: Arc<SupervisorChannel>,
        notices: Arc<Notices>,
        inbox: Arc<Inbox>,
        may_be_unkept: bool,
    ) -> Arc<Resident> {
        Arc::new_cyclic(|own| Resident {
            own: own.clone(),
            channel,
            notices,
            inbox,
            order: Mutex::default(),
            has_order: AtomicBool::new(false),
            listens: OnceLock::new(),
            has_stayed: AtomicBool::new(false),
            may_be_unkept,
            was_ordered: AtomicBool::new(false),
        })
    }

    /// Starts the thread that waits for orders and events, unless it has been started. It ends with the process.
    pub(super) fn listen(&self) -> io::Result<()> {
        if self.listens.get().is_some() {
            return Ok(());
        }
        let own = self.own.clone();
        arrivals::listen(self.channel.clone(), self.inbox.clone(), move |order| {
            if let Some(own) = own.upgrade() {
                own.was_ordered.store(true, Ordering::Relaxed);
                own.take(order);
            }
        })?;
        let _ = self.listens.set(());
        Ok(())
    }

    /// Whether it has stayed: then its process is of no use for another job.
    pub(super) fn has_stayed(&self) -> bool {
        self.has_stayed.load(Ordering::Relaxed)
    }

    /// An order has come.
    fn take(&self, order: Result<Order, String>) {
        match order {
            Ok(order @ (Order::End | Order::Unkept(_))) => {
                *self.order.lock().expect("order") = Some(order);
                self.inbox.announce(|| self.has_order.store(true, Ordering::Release));
            }
            Ok(order) => {
                *self.order.lock().expect("order") = Some(order);
                // Events that came before it are among its own, so they are dropped before it is seen. Those that come after it are put behind
                // them.
                self.inbox.open(|| self.has_order.store(true, Ordering::Release));
            }
            Err(why) => {
                tracing::warn!("the workflow cannot go on here: {why}");
                self.answer(false);
            }
        }
    }
}

impl Residence for Resident {
    fn stay(&self, captured: Suspended) {
        self.has_stayed.store(true, Ordering::Relaxed);
        // As for one that ends here: lines that were not sent while it ran are in the continuation.
        let omitted = self.notices.finish();
        if self.may_be_unkept {
            // If it goes on after all they are left for its report.
            self.notices.omit(omitted);
        }
        let stays = match self.listen() {
            Ok(()) => true,
            Err(error) if self.may_be_unkept => {
                return self.take(Ok(Order::Unkept(format!("there is no thread for the answer: {error}"))));
            }
            Err(error) => {
                tracing::warn!("no thread for orders: {error}");
                false
            }
        };
        let sent = reply::suspended(captured, stays).and_then(|(answer, files)| {
            let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            reply::send(&self.channel, &answer, &files)
        });
        match sent {
            Ok(()) if stays => {}
            Ok(()) => exit_now(DONE),
            Err(error) if self.may_be_unkept => self.take(Ok(Order::Unkept(format!("it cannot be sent: {error}")))),
            Err(error) => {
                tracing::error!("the answer cannot be sent: {error}");
                exit_now(if is_shortage(&error) { SHORTAGE } else { FAILED })
            }
        }
    }

    fn has_order(&self) -> bool {
        self.has_order.load(Ordering::Acquire)
    }

    fn take_order(&self) -> Option<Order> {
        let order = self.order.lock().expect("order").take();
        self.has_order.store(false, Ordering::Relaxed);
        order
    }

    fn answer(&self, goes_on: bool) {
        if !self.was_ordered.swap(false, Ordering::Relaxed) {
            return;
        }
        // If it cannot be sent the supervisor has ended, and so does this process.
        let _ = reply::send(&self.channel, &FromWorker::WentOn { goes_on }, &[]);
    }
}
