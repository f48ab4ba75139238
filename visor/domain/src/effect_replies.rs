//! What a driver does for the requests of functions: it has a handler run for each, and passes on what that comes to.

use super::effects::{Performed, slot};
use super::event::{Ended, Event};
use super::instance::Usage;
use super::shared::{Shared, cancelled};
use monohull_abi::effect::{EFFECT_FAILURE_MAX, EffectPart, FAILURE_FINGERPRINT, FAILURE_NAME, PerformId};
use monohull_abi::types::BYTES_FINGERPRINT;
use monohull_abi::{Errno, number};

/// Why what a handler has filled does not become a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoReply {
    /// It has filled nothing.
    Missing,
    /// The slot buffers do not allow it.
    Refused(Errno),
}

impl Shared {
    /// The reply to a request is what its handler, which has ended, has filled. Nothing happens if its asker has ended.
    pub fn answer_performed(&self, id: PerformId) -> Result<(), NoReply> {
        let from = slot(EffectPart::Answer, id);
        let taken = self.take_slot(&from).map_err(|errno| match errno {
            Errno::NotFound => NoReply::Missing,
            errno => NoReply::Refused(errno),
        })?;
        let (address, bytes) = taken;
        let reply = slot(EffectPart::Reply, id);
        if let Err(errno) = self.publish_as(&reply, address, bytes, "[u8]", BYTES_FINGERPRINT) {
            self.free_slot(address);
            return Err(NoReply::Refused(errno));
        }
        self.settle_performed(id);
        Ok(())
    }

    /// The reply to a request is the report of a failure.
    pub fn fail_performed(&self, id: PerformId, report: &str) {
        let end = report.floor_char_boundary(EFFECT_FAILURE_MAX);
        let reply = slot(EffectPart::Reply, id);
        if let Err(errno) = self.fill_slot_as(&reply, &report.as_bytes()[..end], FAILURE_NAME, FAILURE_FINGERPRINT) {
            // The asker learns that nothing is left that could reply, when that is so.
            tracing::warn!("the failure of a handler cannot be told: {errno}: {report}");
        }
        self.settle_performed(id);
    }

    /// There is a reply: what is left of the request is of no use, and nor is the reply if it is never taken.
    fn settle_performed(&self, id: PerformId) {
        if let Ok((address, _)) = self.take_slot(&slot(EffectPart::Request, id)) {
            self.free_slot(address);
        }
        if !self.effects.answer(id) {
            self.drop_performed(id.asker);
        }
    }

    /// An instance has ended that may have asked for effects: empties the slots of its requests.
    pub fn drop_performed(&self, asker: u32) {
        self.effects.forget_all_of(asker);
        if !self.options.effects.is_empty() {
            let _ = self.call(number::EFFECTS_DROP, [asker.into(), 0, 0, 0, 0, 0]);
        }
    }

    /// A request of a captured run, before that goes on.
    pub fn reopen_performed(&self, id: PerformId) {
        self.effects.reopen(id);
    }

    /// Ends the instance with this token, or does not start it: [`Event::Ended`] comes as for one that the end of the run ends.
    pub fn cancel(&self, token: u64) {
        let mut scheduler = self.lock();
        if scheduler.remove_pending(token) {
            scheduler.push_event(Event::Ended(Box::new(Ended {
                token,
                id: 0,
                result: Err(Box::new(cancelled())),
                refusal: None,
                inputs_intact: true,
                usage: Usage::default(),
                lines: Vec::new(),
                lines_dropped: false,
                ended: super::host_time::ticks(),
            })));
            self.sched.wake_carrier(&mut scheduler);
            return;
        }
        drop(scheduler);
        let live = self.instances.live();
        if let Some(instance) = live.iter().find(|instance| instance.config.token == token) {
            self.end(instance, Err(Box::new(cancelled())));
        }
    }

    /// Takes back those instances that have not been started, and whose tokens are `chosen`. No event comes of them.
    pub fn take_back(&self, chosen: impl Fn(u64) -> bool) -> Vec<u64> {
        self.lock().remove_pending_that(chosen)
    }

    /// Tells the driver of a request.
    pub(crate) fn push_performed(&self, performed: Performed) {
        let mut scheduler = self.lock();
        scheduler.push_event(Event::Performed(performed));
        self.sched.wake_carrier(&mut scheduler);
    }
}
