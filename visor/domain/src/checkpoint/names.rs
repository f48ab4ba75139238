//! The names of the slots and events that threads wait for.
//!
//! A waiting thread has the address of the name among its arguments, and its place in a queue by a key that only the module knows.
//! A checkpoint says by name what is waited for, so the names are read when the domain is captured. The handler reads them again
//! when the thread goes on. A function may overwrite a name meanwhile; then the names contradict the queues, or there is no name.

use super::record::{ThreadRecord, ThreadState};
use crate::sched::ThreadsOf;
use monohull_abi::event::{EVENT_LIST_MAX, event_queue_of, is_event_list};
use monohull_abi::layout::{USER_BASE, USER_END};
use monohull_abi::number::{EVENT_WAIT, SLOT_TAKE};
use monohull_abi::types::SLOT_NAME_MAX;
use monohull_trampoline::system::copy;
use std::collections::{HashMap, HashSet};

/// The queue in which is waited: the call, and the name of the slot or the event.
type Named = (u32, String);

/// The longest name, or list of names.
const NAME_MAX: usize = if SLOT_NAME_MAX > EVENT_LIST_MAX { SLOT_NAME_MAX } else { EVENT_LIST_MAX };

/// Adds the name of its slot or event to each thread that waits for one. Those in a queue wait for the same one, and those in two queues
/// for two. Otherwise the id of an instance whose name is not right.
pub(super) fn add(threads: &mut ThreadsOf, queues: &[Vec<u32>]) -> Result<(), u32> {
    let mut found = HashMap::new();
    for (id, threads) in threads {
        for thread in threads.iter_mut().filter(|thread| waits(thread)) {
            let name = read(thread.args[0], thread.args[1]).ok_or(*id)?;
            let queue = match thread.call {
                EVENT_WAIT if !is_event_list(&name) => return Err(*id),
                EVENT_WAIT => event_queue_of(&name),
                _ if name.len() > SLOT_NAME_MAX => return Err(*id),
                _ => &name,
            };
            found.insert(thread.number, (*id, (thread.call, queue.to_owned())));
            thread.name = Some(name);
        }
    }
    check(&found, queues)
}

fn waits(thread: &ThreadRecord) -> bool {
    matches!(thread.call, SLOT_TAKE | EVENT_WAIT) && matches!(thread.state, ThreadState::Waits { .. })
}

/// Compares what is waited for, by thread number with the instance's id, with the queues.
fn check(found: &HashMap<u32, (u32, Named)>, queues: &[Vec<u32>]) -> Result<(), u32> {
    let mut names = HashSet::new();
    for queue in queues {
        let mut queued = queue.iter().filter_map(|number| found.get(number));
        let Some((id, first)) = queued.next() else { continue };
        if !names.insert(first) {
            return Err(*id);
        }
        if let Some((id, _)) = queued.find(|(_, name)| name != first) {
            return Err(*id);
        }
    }
    Ok(())
}

/// Reads a name, or a list of names, from user memory, from which it may have gone.
fn read(address: u64, len: u64) -> Option<String> {
    let len = usize::try_from(len).ok().filter(|len| (1..=NAME_MAX).contains(len))?;
    let end = address.checked_add(len as u64)?;
    if address < USER_BASE || end > USER_END {
        return None;
    }
    let mut room = [0; NAME_MAX];
    // SAFETY: the room is as long as the longest name; the source is memory of functions, and faults are survived.
    unsafe { copy(room.as_mut_ptr(), address as *const u8, len) }.then_some(())?;
    std::str::from_utf8(&room[..len]).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agree_with_queues_or_the_instance_is_found() {
        let found = |names: &[(u32, &str)]| -> HashMap<u32, (u32, Named)> {
            names.iter().map(|(number, name)| (*number, (*number + 100, (SLOT_TAKE, (*name).to_owned())))).collect()
        };
        let queues = [vec![1, 2], vec![7], vec![3]];
        assert_eq!(check(&found(&[(1, "a"), (2, "a"), (3, "b")]), &queues), Ok(()));
        assert_eq!(check(&found(&[(1, "a"), (2, "other"), (3, "b")]), &queues), Err(102));
        assert_eq!(check(&found(&[(1, "a"), (2, "a"), (3, "a")]), &queues), Err(103));
        let mut event = found(&[(1, "a"), (2, "a"), (3, "a")]);
        event.entry(3).and_modify(|(_, named)| named.0 = EVENT_WAIT);
        assert_eq!(check(&event, &queues), Ok(()), "a slot and an event may have one name");
    }

    #[test]
    fn a_name_outside_of_user_memory_is_none() {
        let own = "name";
        assert_eq!(read(own.as_ptr() as u64, 4), None);
        assert_eq!(read(USER_END - 2, 4), None);
        assert_eq!(read(u64::MAX, 4), None);
        assert_eq!(read(USER_BASE, 0), None);
        assert_eq!(read(USER_BASE, NAME_MAX as u64 + 1), None);
    }
}
