//! Gadgets: instructions that trusted code brings along and functions must not find.
//!
//! Protection keys govern what an instruction reads and writes, not what is fetched and run. A function can therefore
//! jump to any byte of any executable page of the process, and wherever the bytes there are a WRPKRU or an XRSTOR, it has
//! all keys afterwards. glibc has some (`pkey_set`, the resolver of lazy binding), and in every few megabytes of code
//! such bytes come up by accident, inside other instructions. The only ones that may stay are the gates' own, for what
//! follows them.
//!
//! ```text
//!  /proc/self/maps          every executable page              unwind tables            the page itself
//!  ───────────────▶ code ─────────────────────▶ scan ──────────────────────▶ rewrite ────────────────▶ patch
//!                                       at every byte offset    what lies there:            UD2, or a jump to an island
//!                                       for refused kinds       instruction or accident?    where the code is moved
//! ```
//!
//! [`remove`] is called before keys are in force, and again after each `dlopen`, when only new objects are looked at. It
//! changes all or nothing: if something cannot be removed, the error names it and why, and keys are not put in force. A
//! forked child inherits both the changed code and the knowledge of it.
//!
//! **Other threads.** What is overwritten with UD2 is never executed by trusted code, so it does not matter which threads run
//! meanwhile. Code that is moved to an island must not be executed by another thread at that moment. The first call comes
//! before the domain's carriers exist; later calls change only objects that have just been loaded and not been called. A
//! module that is loaded on demand and brings a gadget along has it for as long as the loading takes, while functions may
//! run on other carriers; Monohull's own modules bring none, which a test checks. A worker whose sandbox is active
//! ([`close`]) can change nothing: there such a module is refused.
//!
//! What trusted code itself still needs of what is removed is seen to first: [`bind`] binds everything that is
//! bound lazily. If an instruction that was removed is needed all the same, the process ends with a message.

mod bind;
mod code;
mod functions;
mod patch;
mod rewrite;

pub use rewrite::{Obstacle, Way};

use crate::fault_injection::{self, Mitigation};
use code::{Objects, Run};
use monohull_abi::layout::{CARRIER_BASE, PAGE, USER_END};
use monohull_checker::Kind;
use monohull_checker::instruction::{Found, scan_refused};
use monohull_checker::symbols::SymbolTable;
use monohull_trampoline::system::gates_own_wrpkru;
use rewrite::{Edit, Island, Text};
use std::cell::LazyCell;
use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Room that an island may take: some thousand pieces of code.
const ISLAND: u64 = 64 << 10;
/// How far an island may be from its object, so that jumps reach it from the object's other end and back.
const REACH: u64 = 1 << 30;

/// A sequence of bytes that would change key rights or segment bases, in the code of this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gadget {
    /// The file it comes from.
    pub object: PathBuf,
    /// Where in the object, relative to its load base.
    pub offset: u64,
    /// Where in this process.
    pub address: u64,
    /// What the processor would take it for.
    pub kind: Kind,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How it is removed, or why it cannot be.
    pub fate: Result<Way, Obstacle>,
}

impl Gadget {
    /// Which instruction, and where, as text that is formatted without allocating.
    pub fn place(&self) -> impl std::fmt::Display {
        Place(self)
    }

    /// The symbol it lies in, as far as the object's file has symbols.
    pub fn symbol(&self) -> Option<String> {
        let file = std::fs::read(&self.object).ok()?;
        SymbolTable::read(&file).find(self.offset).map(|symbol| symbol.to_string())
    }
}

struct Place<'g>(&'g Gadget);

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Gadget { kind, object, offset, .. } = self.0;
        write!(f, "the {kind} in {} at {offset:#x}", object.display())
    }
}

impl std::fmt::Display for Gadget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.place())?;
        if let Some(symbol) = self.symbol() {
            write!(f, " ({symbol})")?;
        }
        f.write_str(", bytes")?;
        self.bytes.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

/// The code of this process cannot be made safe for protection keys.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum GadgetsError {
    #[error("{gadget} cannot be removed: {obstacle}")]
    Stays {
        /// The first such sequence.
        gadget: Box<Gadget>,
        /// Why.
        obstacle: Obstacle,
    },
    #[error("code of {what} at {address:#x} is writable, so functions could execute what is written there")]
    Writable {
        /// Whose.
        what: String,
        /// Where.
        address: u64,
    },
    #[error("code of {what} at {address:#x} cannot be read, so it cannot be searched")]
    Unreadable {
        /// Whose.
        what: String,
        /// Where.
        address: u64,
    },
    #[error("{} makes the stacks of this process executable, so functions could execute what lies on them", object.display())]
    Stacks {
        /// The object.
        object: PathBuf,
    },
    #[error("{} binds `{symbol}` when it is first called, and that cannot be done in advance", object.display())]
    Lazy {
        /// Whose slot.
        object: PathBuf,
        /// For which function.
        symbol: String,
    },
    #[error("the mappings of this process cannot be read: {0}")]
    Maps(std::io::Error),
    #[error("the code of this process cannot be changed: {0}")]
    Write(std::io::Error),
}

/// What has been looked at.
struct State {
    /// Objects that were loaded and unloaded until then.
    counts: (u64, u64),
    /// Code that holds no gadgets any more.
    clean: Vec<Range<u64>>,
    /// Islands made so far.
    islands: Vec<Range<u64>>,
}

/// Nothing can be changed any more.
static CLOSED: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<Option<State>> = Mutex::new(None);
/// What has been removed; lists that were replaced are never freed, because signal handlers read them.
static REMOVED: AtomicPtr<Vec<Gadget>> = AtomicPtr::new(std::ptr::null_mut());

/// Removes every gadget from the code of this process: all of it at the first call, what is new since the last one
/// otherwise. After an error nothing is known to be clean that was not before.
pub fn remove() -> Result<(), GadgetsError> {
    if fault_injection::disabled(Mitigation::Gadgets) {
        return Ok(());
    }
    let mut state = STATE.lock().expect("removal does not panic");
    if state.as_ref().is_some_and(|state| state.counts == Objects::counts()) {
        return Ok(());
    }
    let objects = Objects::now();
    bind::bind(&objects)?;
    let mut clean = Vec::new();
    let mut islands = Vec::new();
    let runs = match &*state {
        None => code::everything()?,
        Some(state) => {
            islands.clone_from(&state.islands);
            // Where something was unloaded, something else may lie now.
            if state.counts.1 == objects.counts.1 {
                clean.clone_from(&state.clean);
            }
            objects.runs(&islands)?
        }
    };
    let is_clean = |run: &Run| clean.iter().any(|clean| clean.start <= run.range.start && run.range.end <= clean.end);
    let new: Vec<Run> = runs.into_iter().filter(|run| !is_clean(run)).collect();
    let plan = Plan::make(&new, &objects)?;
    if let Some(error) = obstacle(&plan.gadgets) {
        return Err(error);
    }
    // SAFETY: see "Other threads" above.
    unsafe { plan.apply()? };
    clean.extend(new.into_iter().map(|run| run.range));
    islands.extend(plan.islands().map(Island::range));
    clean.extend(islands.iter().cloned());
    *state = Some(State { counts: objects.counts, clean, islands });
    if !plan.gadgets.is_empty() {
        let all = Box::new([removed(), &plan.gadgets].concat());
        REMOVED.store(Box::into_raw(all), Ordering::Release);
    }
    Ok(())
}

/// From here on nothing can be changed any more, because the process is about to be forbidden what that takes. New code
/// that brings gadgets along is then refused.
pub fn close() {
    CLOSED.store(true, Ordering::Relaxed);
}

/// What [`remove`] would find now, and what it would do. Nothing is changed.
pub fn survey() -> Result<Vec<Gadget>, GadgetsError> {
    let _state = STATE.lock().expect("removal does not panic");
    Ok(Plan::make(&code::everything()?, &Objects::now())?.gadgets)
}

/// The error that comes of the first of these that cannot be removed.
pub fn obstacle(gadgets: &[Gadget]) -> Option<GadgetsError> {
    let (gadget, obstacle) = gadgets.iter().find_map(|gadget| Some((gadget, gadget.fate.err()?)))?;
    Some(GadgetsError::Stays { gadget: Box::new(gadget.clone()), obstacle })
}

/// What has been removed so far. May be called in signal handlers.
pub fn removed() -> &'static [Gadget] {
    // SAFETY: null, or a list that is never changed or freed.
    unsafe { REMOVED.load(Ordering::Acquire).as_ref() }.map_or(&[], Vec::as_slice)
}

/// The gadget that was removed from this very place. May be called in signal handlers.
pub fn patched_gadget_at(address: u64) -> Option<&'static Gadget> {
    removed().iter().find(|gadget| gadget.address == address)
}

/// What is going to be done.
#[derive(Default)]
struct Plan {
    gadgets: Vec<Gadget>,
    edits: Vec<Edit>,
    /// With the address of the object each is for.
    islands: Vec<(u64, Island)>,
}

impl Plan {
    fn make(runs: &[Run], objects: &Objects) -> Result<Plan, GadgetsError> {
        // Seldom asked for: objects that are loaded later have no gates.
        let own = LazyCell::new(|| gates_own_wrpkru().collect::<HashSet<u64>>());
        let mut plan = Plan::default();
        for run in runs {
            // SAFETY: readable pages; no object is unloaded now.
            let text = Text { bytes: unsafe { run.bytes() }, address: run.range.start };
            for found in scan_refused(text.bytes) {
                let address = text.address + found.start as u64;
                if found.kind == Kind::Wrpkru && own.contains(&address) {
                    continue;
                }
                let object = objects.of(address);
                let base = object.map_or(0, |object| object.base);
                let bytes = text.bytes[found.start..found.start + found.length].to_vec();
                let fate = plan.remove(text, found, object)?;
                let object = object.map_or_else(|| "memory of no object".into(), |object| object.path());
                plan.gadgets.push(Gadget { object, offset: address - base, address, kind: found.kind, bytes, fate });
            }
        }
        Ok(plan)
    }

    fn remove(
        &mut self,
        text: Text<'_>,
        found: Found,
        object: Option<&code::Object>,
    ) -> Result<Result<Way, Obstacle>, GadgetsError> {
        let address = text.address + found.start as u64;
        let end = address + found.length as u64;
        if self.edits.iter().any(|edit| address < edit.range().end && edit.range().start < end) {
            // Its bytes have been moved with another's.
            return Ok(Ok(Way::Displaced));
        }
        if CLOSED.load(Ordering::Relaxed) {
            return Ok(Err(Obstacle::Closed));
        }
        let Some(object) = object else { return Ok(Err(Obstacle::NoFunction)) };
        let index = |address: u64| address.checked_sub(text.address).map(|index| index as usize);
        let function = functions::around(object, address).and_then(|f| Some(index(f.start)?..index(f.end)?));
        let known = self.islands.iter().position(|(base, _)| *base == object.base);
        let island = match known {
            Some(known) => Some(known),
            None => island_near(object)?.map(|island| {
                self.islands.push((object.base, island));
                self.islands.len() - 1
            }),
        };
        let island = island.map(|index| &mut self.islands[index].1);
        Ok(rewrite::remove(text, found, function, island, &self.edits).map(|(way, edit)| {
            self.edits.push(edit);
            way
        }))
    }

    /// Islands that hold something.
    fn islands(&self) -> impl Iterator<Item = &Island> {
        self.islands.iter().map(|(_, island)| island).filter(|island| !island.code.is_empty())
    }

    /// # Safety
    /// No thread executes code that is to be moved.
    unsafe fn apply(&self) -> Result<(), GadgetsError> {
        for island in self.islands() {
            patch::map(island).map_err(GadgetsError::Write)?;
        }
        for edit in &self.edits {
            // SAFETY: the islands are there; the caller's promise.
            unsafe { patch::write(edit) }.map_err(GadgetsError::Write)?;
        }
        Ok(())
    }
}

/// A place for an island below the object, where nothing is mapped; above there may be a stack or a heap that grows.
fn island_near(object: &code::Object) -> Result<Option<Island>, GadgetsError> {
    let reserved = CARRIER_BASE..USER_END;
    let below = code::gaps()?.into_iter().rev().filter_map(|gap| {
        let end = gap.end.min(object.span.start).checked_sub(PAGE)?;
        Some(end.checked_sub(ISLAND)?..end).filter(|island| gap.start <= island.start)
    });
    let mut near = below.filter(|island| {
        let within_reach = object.span.start - island.start <= REACH && object.span.end - object.span.start <= REACH;
        within_reach && (island.end <= reserved.start || reserved.end <= island.start)
    });
    Ok(near.next().map(|island| Island { address: island.start, code: Vec::new(), room: ISLAND as usize }))
}
