//! From a continuation to a domain that goes on with it.

use super::adopt::adopt_memory;
use super::captured_pages::CapturedPages;
use super::check::{Rejected, check, check_runs};
use super::putting_back::{Mappable, put_back};
use super::record::{Continuation, InstanceRecord};
use super::restore_error::RestoreError;
use super::{file_pages, pages};
use crate::explanation::Explanations;
use crate::hostcall;
use crate::instance::{Counters, Instance, InstanceConfig, Line, Output, cell_of};
use crate::ranges::joined;
use crate::shared::Shared;
use monohull_abi::module::NEVER;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// What the plan says of the instances of a continuation.
pub struct Planned {
    /// Those that live.
    instances: Vec<InstanceConfig>,
    /// Those that wait to be started.
    pending: Vec<InstanceConfig>,
}

/// Everything that is checked before there is a domain. `config` is what the plan says of the instance with this token, at this attempt.
pub fn check_before_restore<P>(
    continuation: &Continuation<P>,
    config: impl Fn(u64, u32) -> Option<InstanceConfig>,
) -> Result<Planned, RestoreError> {
    if !continuation.unchanged.is_empty() {
        return Err(Rejected::Incomplete.into());
    }
    let config = |token, attempt| config(token, attempt).ok_or(RestoreError::UnknownInstance);
    let instances = continuation.instances.iter().map(|record| config(record.token, record.attempt));
    let instances = instances.collect::<Result<Vec<_>, _>>()?;
    let pending = continuation.pending.iter().map(|(token, attempt)| config(*token, *attempt));
    let pending = pending.collect::<Result<Vec<_>, _>>()?;
    check(continuation, &continuation.instances.iter().zip(&instances).collect::<Vec<_>>())?;
    Ok(Planned { instances, pending })
}

impl Shared {
    /// Rebuilds a captured domain in this one, which has not run yet. `config` is what the plan says of the instance with this token,
    /// at this attempt. After an error this domain must not run.
    pub fn restore(
        &self,
        continuation: Continuation<CapturedPages>,
        config: impl Fn(u64, u32) -> Option<InstanceConfig>,
    ) -> Result<(), RestoreError> {
        let Planned { instances: configs, pending } = check_before_restore(&continuation, config)?;
        if self.options.skip_time {
            self.clock.catch_up(continuation.wall);
        }
        self.clock.go_on_from(time_to_go_on_from(&continuation, self.clock.wall()));
        self.instances.go_on_from(continuation.started);
        self.effects.restore(continuation.requests);
        let mut writable = Vec::new();
        let mut threads = Vec::new();
        for (record, config) in continuation.instances.into_iter().zip(configs) {
            threads.push((record.id, record.threads.clone()));
            self.restore_instance(record, config, &mut writable)?;
        }
        let mut recorded = Vec::new();
        let modules = continuation.modules.into_iter();
        let modules: Vec<_> = modules
            .map(|module| {
                recorded.extend(module.pages);
                let (pages, file_pages) = (Vec::new(), Vec::new());
                hostcall::ModuleRecord { name: module.name, bytes: module.bytes, pages, file_pages }
            })
            .collect();
        let runs = continuation.pages.runs();
        let buffers = joined(self.restore_modules(&modules, |pages| match pages {
            [] => Ok(()),
            pages => file_pages::put_back(pages, &runs),
        })?);
        recorded.sort_unstable();
        if !recorded.iter().copied().eq(buffers.iter().map(|range| (range.start, range.end - range.start))) {
            return Err(Rejected::ModulePages.into());
        }
        writable.extend(buffers);
        if !self.files.pager.all_are_made() {
            return Err(Rejected::ModuleFiles.into());
        }
        check_runs(runs.iter().map(|run| (run.address, run.len)), &mut writable)?;
        let live = self.instances.live();
        {
            let mut locked: Vec<_> = live.iter().map(|instance| instance.cell.lock().expect("cell")).collect();
            let mut cells: Vec<_> = locked.iter_mut().filter_map(|cell| cell.as_deref_mut()).collect();
            let later = continuation.pages.source().map(|source| (&self.files.pager, source));
            // SAFETY: checked above; the pages have been tagged, and no function runs.
            unsafe { put_back(&self.space, &mut cells, file_pages::of_functions(&runs), Mappable::Fixed, later)? };
        }
        for instance in live {
            instance.with_cell(|cell| cell.mapped().settle(&self.space, cell.key())).transpose()?;
        }
        self.files.pager.settle()?;
        let may_leave = continuation.pages.may_leave();
        self.files.pager.touched_before(continuation.touched, may_leave);
        if let Some(at) = continuation.run_deadline {
            self.sched.set_run_deadline(self.clock.on_host(at));
        }
        let mut scheduler = self.lock();
        scheduler.adopt(&threads, &continuation.scheduler, |at| self.clock.on_host(at));
        pending.into_iter().for_each(|config| scheduler.push_pending(config));
        scheduler.goes_on();
        Ok(())
    }

    fn restore_instance(
        &self,
        mut record: InstanceRecord,
        config: InstanceConfig,
        writable: &mut Vec<Range<u64>>,
    ) -> Result<(), RestoreError> {
        let lease = self.cells.lease_at(cell_of(record.id)).ok_or(RestoreError::NoPlace)?;
        let mut cell = self.cells.prepare(lease, &config.image, config.stack_size)?;
        self.milestones.mapped();
        adopt_memory(&self.space, &mut cell, &record, &config)?;
        writable.extend(pages::writable(&cell));
        // Accounts are computed, not read: this is what an instance is charged for what it has. Modules charge for the rest.
        let stacks = u64::from(cell.used_stacks().0) * config.stack_size;
        let charged = cell.data_bytes() + record.heap + stacks + cell.mapped().charged();
        let files = record.files.iter().map(|file| file.range().end - file.range().start).sum::<u64>();
        // Stacks without a thread were not charged by older versions, so what they have captured may be above the limit with them. Then it
        // gets no more memory.
        let spare = cell.used_stacks().1.len() as u64 * config.stack_size;
        if charged.saturating_add(files) > config.memory_limit.saturating_add(spare) {
            return Err(Rejected::MemoryLimit.into());
        }
        writable.extend(record.files.iter().flat_map(|file| file.there()));
        self.files.pager.expect(record.id, std::mem::take(&mut record.files));
        let deadline = record.deadline.map_or(NEVER, |at| self.clock.on_host(at));
        let lines = record.lines.into_iter().map(|(stream, text)| Line { stream, text }).collect();
        let instance = Arc::new(Instance {
            id: record.id,
            key: cell.key(),
            image_base: cell.image_base(),
            cell: Mutex::new(Some(cell)),
            stop: AtomicBool::new(false),
            deadline,
            counters: Counters::default(),
            lines: Mutex::new(Output::restored(lines, record.lines_cost, record.lines_full)),
            explanations: Explanations::restored(record.refusal),
            fault_handler: Mutex::new(record.fault_handler),
            watched: AtomicBool::new(false),
            config,
        });
        self.instances.insert(instance.clone(), charged);
        if let Some(account) = self.account(record.id) {
            account.restore_passed(record.passed);
        }
        let _ = self.lock().insert(record.id, instance, deadline);
        Ok(())
    }
}

/// The domain time at which a continuation goes on: it was away, but no longer than until its first timer.
fn time_to_go_on_from<P>(continuation: &Continuation<P>, wall: u64) -> u64 {
    let first = continuation.first_timer().unwrap_or(NEVER - 1);
    // A clock that was set back does not take the domain back.
    let away = wall.saturating_sub(continuation.wall);
    continuation.clock.saturating_add(away).min(first.max(continuation.clock))
}

#[cfg(test)]
mod tests {
    use super::super::record::SchedulerRecord;
    use super::*;

    /// Captured at domain time 1000 and wall time 5000, with a timer of the driver at this domain time.
    fn captured(timer: Option<u64>) -> Continuation<()> {
        Continuation {
            lineage: Default::default(),
            clock: 1000,
            wall: 5000,
            run_deadline: None,
            started: 1,
            instances: Vec::new(),
            pending: Vec::new(),
            scheduler: SchedulerRecord { timers: timer.map(|at| (at, 1)).into_iter().collect(), ..Default::default() },
            modules: Vec::new(),
            requests: Default::default(),
            driver: Vec::new(),
            pages: (),
            unchanged: Vec::new(),
            touched: Vec::new(),
        }
    }

    #[test]
    fn a_domain_goes_on_at_the_time_that_has_passed_as_far_as_its_first_timer_and_never_earlier() {
        for (timer, wall, expected) in [
            (Some(1300), 5000, 1000),
            (Some(1300), 5200, 1200),
            (Some(1300), 5300, 1300),
            (Some(1300), u64::MAX, 1300),
            // The clock was set back, a little or to its beginning.
            (Some(1300), 4999, 1000),
            (Some(1300), 0, 1000),
            (None, 0, 1000),
            (None, 9000, 5000),
            (None, u64::MAX, u64::MAX - 4000),
            // A timer that is due, which a capture does not have.
            (Some(900), 5200, 1000),
        ] {
            assert_eq!(time_to_go_on_from(&captured(timer), wall), expected, "{timer:?} {wall}");
        }
    }
}
