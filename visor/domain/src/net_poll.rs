//! Polling of the network stack of a workflow that has a device of its own; the stack is a libos module.

use super::host_time::monotonic_ns;
use super::shared::Shared;
use monohull_abi::number::NETWORK_BUSY;
use monohull_network::Network;

/// How long a run that is over waits for its network, at most.
const DRAIN_TIMEOUT_NS: u64 = 5_000_000_000;

impl Shared {
    /// Polls the stack: frames have arrived, or its time has come.
    pub(super) fn poll_network(&self) {
        let was_unarmed = self.lock().device_is_unarmed();
        self.hostcalls.modules.poll("socket");
        if let (Some(poller), Network::Tap(_)) = (self.sched.poller(), &self.options.network) {
            let taken = poller.frames_taken();
            let mut scheduler = self.lock();
            let (arm, armed) = scheduler.net_polled(was_unarmed, taken, || self.clock.host_now());
            self.sched.announce(&mut scheduler, armed);
            drop(scheduler);
            if arm {
                // Frames that came meanwhile raise an event at once.
                let _ = poller.arm_device();
            }
        }
    }

    /// The run is over: sends what functions have written to their sockets, for a limited time. The kernel does that for its
    /// own sockets; those of the stack end with the process.
    pub(super) fn drain_network(&self) {
        let Some(poller) = self.sched.poller().filter(|_| matches!(self.options.network, Network::Tap(_))) else {
            return;
        };
        let latest = monotonic_ns() + DRAIN_TIMEOUT_NS;
        while monotonic_ns() < latest && self.call(NETWORK_BUSY, [0; 6]) == Ok(1) {
            let until = {
                let scheduler = self.lock();
                self.clock.on_kernel(scheduler.next_net_poll()).min(latest)
            };
            drop(self.sched.poll(poller, Some(until), self.lock()));
            self.poll_network();
        }
    }
}
