//! `monohull fork`, `checkpoints` and `rewind`: one invocation goes on more than once, and goes back.

use super::super::exit::Exit;
use super::super::setting::saved_plan;
use super::super::suspend::date;
use super::super::{checkpoint, concat_help, copies, output, table};
use super::leg;
use super::started_with::Start;
use super::words::others_made;
use super::{Place, Trouble, Where, due, now, remote, tables};
use clap::Args;
use monohull_abi::branch::is_label;
use monohull_durable::{
    Branched, Copied, Fork as Copies, Forks, History, Invocation, InvocationId, Kept, Lineage, Meta, MetaError,
    NoCheckpoint, Point, Store, free_numbers, has_branches,
};
use monohull_report::escape::Line;
use monohull_report::text::quoted;
use monohull_saved::{Keys, Saved};
use serde_json::{Value, json};
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// Make copies of a durable invocation that waits, is paused or has failed
///
/// A copy is an invocation of its own, and goes on from the same checkpoint. Its output files have its id before their extension. A copy of the
/// checkpoint that the invocation waits in goes on when that does; a copy of an older one, when the time that was left there has passed.
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull fork order-17 --count 3 --state sleepers", "monohull fork order-17 --at 2 --id what-if --paused --state sleepers"))]
pub(in super::super) struct Fork {
    /// The invocation
    id: InvocationId,
    #[command(flatten)]
    place: Where,
    /// Make this many copies, called ID-1, ID-2, …
    #[arg(long, value_name = "N", conflicts_with = "names", value_parser = clap::value_parser!(u32).range(1..=copies::COUNT_MAX))]
    count: Option<u32>,
    /// Copy this checkpoint, or the last one with this label; without it the newest. `monohull checkpoints` lists them
    #[arg(long, value_name = "GENERATION")]
    at: Option<Point>,
    /// The ids of the copies. The same copies again are not made twice
    #[arg(long = "id", value_name = "NEW", value_delimiter = ',')]
    names: Vec<InvocationId>,
    /// The copies go on only after `monohull resume --state`
    #[arg(long)]
    paused: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// List the checkpoints of a durable invocation, to which it can be rewound
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull checkpoints order-17 --state sleepers", "monohull checkpoints order-17 --label before-the-change --state sleepers"))]
pub(in super::super) struct Checkpoints {
    /// The invocation
    id: InvocationId,
    #[command(flatten)]
    place: Where,
    /// Make the newest one a save point with this label, which is kept besides the others
    #[arg(long, value_parser = label)]
    label: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Rewind a durable invocation to an earlier checkpoint; it waits, is paused or has failed
///
/// It goes on from there when the time that was left at that checkpoint has passed. Later checkpoints stay in its history.
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull rewind order-17 --to 2 --state sleepers"))]
pub(in super::super) struct Rewind {
    /// The invocation
    id: InvocationId,
    #[command(flatten)]
    place: Where,
    /// The checkpoint, or the label that a function has given it; `monohull checkpoints` lists them
    #[arg(long, value_name = "GENERATION")]
    to: Point,
    /// It goes on only after `monohull resume --state`
    #[arg(long)]
    paused: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A label of a save point.
fn label(text: &str) -> Result<String, &'static str> {
    let wrong = "a label has 1 to 64 bytes without control characters, and is not a number";
    is_label(text).then(|| text.to_owned()).ok_or(wrong)
}

/// A checkpoint, as a request names it.
fn point(point: &Point) -> Value {
    match point {
        Point::Generation(generation) => (*generation).into(),
        Point::Label(label) => label.as_str().into(),
    }
}

impl Fork {
    pub(in super::super) fn run(&self) -> Exit {
        let forked = self.place.open().and_then(|place| match place {
            Place::Folder(store) => self.fork(&store),
            Place::Server(client) => {
                let ids: Vec<_> = self.names.iter().map(InvocationId::as_str).collect();
                let order = json!({
                    "count": self.count,
                    // An empty list asks for no copy.
                    "ids": (!ids.is_empty()).then_some(ids),
                    "at": self.at.as_ref().map(point),
                    "paused": self.paused,
                });
                remote::fork(&client, &self.id, &order, self.json)
            }
        });
        forked.unwrap_or_else(|trouble| self.place.at(trouble).report(self.json))
    }

    fn fork(&self, store: &Store) -> Result<Exit, Trouble> {
        for (index, name) in self.names.iter().enumerate() {
            if self.names[..index].contains(name) {
                return Err(Trouble::Twice(name.clone()));
            }
        }
        let mut meta = store.meta()?;
        store.expire_the_dead(&mut meta)?;
        // Held until the copies name the files too.
        let _adding = store.adding()?;
        let (_, kept) = find(store, &meta, &self.id, self.at.as_ref(), "forked")?;
        let names = match self.names.is_empty() {
            true => new_names(&meta, &self.id, self.count.unwrap_or(1))?,
            false => self.names.clone(),
        };
        let fork = Copies { id: &self.id, at: Some(kept.generation), copies: &names, paused: self.paused };
        let made = done(meta.fork(fork, now())?, &self.id, kept.generation, "forked")?;
        let mut rows = Vec::new();
        for (id, came) in names.iter().zip(&made) {
            rows.push((id, *came, meta.get(id)?));
        }
        if self.json {
            let copies = rows.iter().map(|(id, came, row)| {
                let status = row.as_ref().filter(|_| *came != Copied::Taken).map(|row| row.status.name());
                json!({ "id": id.as_str(), "came": word(*came), "status": status })
            });
            let copies = copies.collect::<Vec<_>>();
            output::json(&json!({ "id": self.id.as_str(), "generation": kept.generation, "copies": copies }));
        }
        for (id, came, row) in &rows {
            match (came, row) {
                (Copied::Taken, _) => {
                    let others = others_made(made.iter().any(|came| *came != Copied::Taken));
                    output::note(format_args!(
                        "monohull: copy `{id}` is not made: that is another invocation's id{others}"
                    ));
                }
                (_, Some(row)) if !self.json => {
                    output::text(format_args!("{id}: {}, goes on {}\n", row.status.name(), goes_on(row)));
                }
                _ => {}
            }
        }
        Ok(if made.contains(&Copied::Taken) { Exit::Usage } else { Exit::Done })
    }
}

impl Checkpoints {
    pub(in super::super) fn run(&self) -> Exit {
        let listed = self.place.open().and_then(|place| match (place, &self.label) {
            (Place::Folder(store), None) => self.list(&store),
            (Place::Folder(store), Some(label)) => self.label(&store, label),
            (Place::Server(client), None) => remote::checkpoints(&client, &self.id, self.json),
            (Place::Server(client), Some(label)) => remote::label(&client, &self.id, label, self.json),
        });
        listed.map_or_else(|trouble| self.place.at(trouble).report(self.json), |()| Exit::Done)
    }

    fn label(&self, store: &Store, label: &str) -> Result<(), Trouble> {
        let mut meta = store.meta()?;
        store.expire_the_dead(&mut meta)?;
        let generation = find(store, &meta, &self.id, None, GIVEN_A_LABEL)?.1.generation;
        let has = done(meta.label(&self.id, generation, Some(label))?, &self.id, generation, GIVEN_A_LABEL)?;
        if let Some(other) = has.filter(|has| has != label) {
            let why = format!("checkpoint {generation} of `{}` has the label {} already", self.id, quoted(&other));
            return Err(Trouble::Usage(why));
        }
        if self.json {
            output::json(&json!({ "id": self.id.as_str(), "generation": generation, "label": label }));
        } else {
            output::text(format_args!("{}: checkpoint {generation} is {}\n", self.id, quoted(label)));
        }
        Ok(())
    }

    fn list(&self, store: &Store) -> Result<(), Trouble> {
        let meta = store.meta()?;
        let row = meta.get(&self.id)?.ok_or_else(|| Trouble::Unknown(self.id.clone()))?;
        let history = meta.history(&self.id)?;
        if self.json {
            let checkpoints = history.iter().map(describe).collect::<Vec<_>>();
            let parent = Tree::of(&meta, &self.id)?.parent();
            output::json(
                &json!({ "id": self.id.as_str(), "generation": row.generation, "parent": parent, "checkpoints": checkpoints }),
            );
            return Ok(());
        }
        let mut table = tables::checkpoints();
        for kept in &history {
            let waits: Vec<_> =
                kept.waits.iter().map(|wait| format!("{}[{}] {}", wait.step, wait.instance, wait.what)).collect();
            let back = kept.rewound_to.map(|to| format!(" (= {to})")).unwrap_or_default();
            let label = kept.label.as_ref().map(|label| format!(" {label}")).unwrap_or_default();
            let cells = [
                format!("{}{back}{label}", kept.generation),
                date(kept.at),
                format!("{} B", kept.checkpoint.bytes),
                waits.join(", "),
                due(kept.due, &kept.waits),
            ];
            table.add_row(cells.map(|cell| Line(cell).to_string()));
        }
        output::text(format_args!("{}\n", table::text(&table)));
        Ok(())
    }
}

impl Rewind {
    pub(in super::super) fn run(&self) -> Exit {
        let rewound = self.place.open().and_then(|place| match place {
            Place::Folder(store) => self.rewind(&store).map(Some),
            Place::Server(client) => {
                let order = json!({ "to": point(&self.to), "paused": self.paused });
                remote::rewind(&client, &self.id, &order, self.json).map(|()| None)
            }
        });
        match rewound {
            Ok(None) => Exit::Done,
            Ok(Some((row, generation))) => {
                if self.json {
                    let status = row.status.name();
                    output::json(
                        &json!({ "id": row.id.as_str(), "status": status, "generation": generation, "due": row.due.map(date) }),
                    );
                } else {
                    let (id, to, status) = (&row.id, &self.to, row.status.name());
                    output::text(format_args!(
                        "{id}: {status}, generation {generation} (= {to}), goes on {}\n",
                        goes_on(&row)
                    ));
                }
                Exit::Done
            }
            Err(trouble) => self.place.at(trouble).report(self.json),
        }
    }

    fn rewind(&self, store: &Store) -> Result<(Invocation, u64), Trouble> {
        let mut meta = store.meta()?;
        store.expire_the_dead(&mut meta)?;
        let to = find(store, &meta, &self.id, Some(&self.to), "rewound")?.1.generation;
        let generation = done(meta.rewind(&self.id, to, self.paused, now())?, &self.id, to, "rewound")?;
        store.sweep(&meta, Start::files)?;
        let row = meta.get(&self.id)?.ok_or_else(|| Trouble::Unknown(self.id.clone()))?;
        Ok((row, generation))
    }
}

/// The invocation and its checkpoint, whose file is as it should be: a damaged one would pause what goes on from it.
pub(super) fn find(
    store: &Store,
    meta: &impl Meta,
    id: &InvocationId,
    at: Option<&Point>,
    what: &'static str,
) -> Result<(Invocation, Kept), Trouble> {
    let row = meta.get(id)?.ok_or_else(|| Trouble::Unknown(id.clone()))?;
    if !has_branches(row.status) {
        return Err(Trouble::NoBranches { id: id.clone(), status: row.status.name(), what });
    }
    let history = meta.history(id)?;
    let newest = Point::Generation(row.generation);
    let at = at.unwrap_or(&newest);
    let kept = at.find(history).map_err(|missing| no_checkpoint(id, missing))?;
    let keys = Keys { seal: &checkpoint::own_key()?, state: store.key().map(|key| &**key) };
    Saved::read(&store.checkpoints().join(&kept.checkpoint.file), keys, saved_plan).map_err(Box::new)?;
    Ok((row, kept))
}

fn no_checkpoint(id: &InvocationId, missing: NoCheckpoint) -> Trouble {
    Trouble::NoCheckpoint { id: id.clone(), missing }
}

/// What a transaction has done, which was refused if the invocation has changed meanwhile.
pub(super) fn done<T>(came: Branched<T>, id: &InvocationId, generation: u64, what: &'static str) -> Result<T, Trouble> {
    match came {
        Branched::Done(done) => Ok(done),
        Branched::Unknown => Err(Trouble::Unknown(id.clone())),
        Branched::Refused(status) => Err(Trouble::NoBranches { id: id.clone(), status: status.name(), what }),
        Branched::NoCheckpoint(has) => {
            Err(no_checkpoint(id, NoCheckpoint { point: Point::Generation(generation), has }))
        }
    }
}

/// Names for copies that no invocation has: the invocation's own with a number, as long as that is a name.
fn new_names(meta: &impl Meta, id: &InvocationId, count: u32) -> Result<Vec<InvocationId>, Trouble> {
    let others = RandomState::new();
    let other = |number| format!("{:016x}", others.hash_one(number)).parse().expect("letters and digits");
    let name = |number: u64| format!("{id}-{number}").parse().unwrap_or_else(|_| other(number));
    let free = free_numbers(count, |number| Ok::<_, MetaError>(meta.get(&name(number))?.is_none()))?;
    Ok(free.into_iter().map(name).collect())
}

fn word(came: Copied) -> &'static str {
    match came {
        Copied::New => "new",
        Copied::Same => "same",
        Copied::Taken => "taken",
    }
}

/// When an invocation goes on: a paused one by hand, whatever its timers are.
fn goes_on(row: &Invocation) -> String {
    if row.status == monohull_durable::Status::Paused { due(None, &[]) } else { due(row.due, &row.waits) }
}

/// A checkpoint as a document.
fn describe(kept: &Kept) -> Value {
    json!({
        "generation": kept.generation,
        "rewound_to": kept.rewound_to,
        "label": kept.label,
        "at": date(kept.at),
        "file": kept.checkpoint.file,
        "bytes": kept.checkpoint.bytes,
        "due": kept.due.map(date),
        "waiting_for": leg::waiting_for(&kept.waits),
    })
}

const GIVEN_A_LABEL: &str = "given a save point";

/// As many copies of an invocation are named.
const FORKS_SHOWN: usize = 100;

/// An invocation's place in the tree of copies.
pub(super) struct Tree {
    lineage: Lineage,
    /// Those that were made of it.
    pub(super) forks: Forks,
}

impl Tree {
    pub(super) fn of(meta: &impl Meta, id: &InvocationId) -> Result<Tree, Trouble> {
        Ok(Tree { lineage: meta.lineage(id)?, forks: meta.forks(id, FORKS_SHOWN)? })
    }

    /// The invocation that it is a copy of, as a document.
    pub(super) fn parent(&self) -> Value {
        let Lineage { copy, copies, .. } = self.lineage;
        let parent = self.lineage.parent.as_ref();
        let parent = parent.map(
            |(id, generation)| json!({ "id": id.as_str(), "generation": generation, "copy": copy, "copies": copies }),
        );
        parent.unwrap_or(Value::Null)
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lineage { parent, copy, copies, .. } = &self.lineage;
        if let Some((id, generation)) = parent {
            writeln!(to, "parent      {id} at generation {generation}, copy {copy} of {copies}")?;
        }
        if self.forks.count > 0 {
            let first: Vec<_> = self.forks.first.iter().map(InvocationId::as_str).collect();
            let more = self.forks.count - first.len() as u64;
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            writeln!(to, "forks       {}{more}", first.join(", "))?;
        }
        Ok(())
    }
}
