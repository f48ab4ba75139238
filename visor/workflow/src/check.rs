//! Checks a workflow file: what its names refer to, and that its steps can be put in an order.
//!
//! ```text
//!   text ── parse ──▶ JSON with places ── shape ──▶ fields ── names, order ──▶ Plan
//!                 │                          │                    │
//!                 └── one syntax error       └── mistakes ────────┴── mistakes, all of them at once
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::path::Path;

use super::bounds::INSTANCES_MAX;
use super::effects;
use super::flow;
use super::plan::{self, Instances, Plan};
use super::reader::{At, Reader};
use super::server::Server;
use super::shape::{Shape, Step};
use super::source::{Level, Mistake, Source};
use monohull_report::text::{quoted, suggestion};

/// What the check of a workflow file found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The plan, if the file holds no error.
    pub plan: Option<Plan>,
    /// Errors and warnings, in the order of the file.
    pub mistakes: Vec<Mistake>,
}

/// Checks the bytes of a workflow file. `file` is what it is called in messages; relative paths in it count from the
/// folder of that file.
pub fn check_bytes(file: &Path, bytes: &[u8]) -> Checked {
    check(file, bytes, None)
}

/// Checks the bytes of a workflow for a server, which reads no files for it: its images are registered functions, its inputs
/// come with each invocation, and what it uses of the host is granted.
pub fn check_registered(file: &Path, bytes: &[u8], server: &Server<'_>) -> Checked {
    check(file, bytes, Some(server))
}

fn check(file: &Path, bytes: &[u8], registered: Option<&Server<'_>>) -> Checked {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => return Checked { plan: None, mistakes: vec![not_text(file, bytes, error.valid_up_to())] },
    };
    let source = Source::new(file, text);
    let mut reader = Reader::new(&source, registered);
    // What names a registered function is no path.
    let folder = file.parent().filter(|_| registered.is_none()).unwrap_or(Path::new(""));
    let plan = check_text(&mut reader, folder);
    Checked { plan, mistakes: reader.into_mistakes() }
}

fn check_text(reader: &mut Reader<'_>, folder: &Path) -> Option<Plan> {
    let value = reader.parse()?;
    let shape = reader.document(&value)?;
    let steps = resolve(reader, &shape);
    let order = order(reader, &shape.steps, &steps);
    count_instances(reader, &shape.steps);
    effects::check(reader, &shape.steps);
    check_files(reader, &shape);
    check_http(reader, &shape);
    // What is wrong already would be told once more, as a slot that nothing fills.
    if !reader.has_errors() {
        let after: Vec<Vec<usize>> =
            steps.iter().map(|step| step.after.iter().map(|name| name.value.0).collect()).collect();
        flow::check(reader, &shape, &after, &order);
    }
    // Cycles left steps out of the order; they have been noted.
    (!reader.has_errors()).then(|| make_plan(shape, &steps, &order, folder))
}

fn not_text(file: &Path, bytes: &[u8], valid: usize) -> Mistake {
    let text = String::from_utf8_lossy(&bytes[..valid]);
    let source = Source::new(file, text.strip_prefix('\u{feff}').unwrap_or(&text));
    let at = jsonc_parser::common::Range::from_byte_index(source.text.len());
    let message = format!("the byte 0x{:02x} is not UTF-8", bytes[valid]);
    source.mistake(at, Level::Error, message, Some("UTF-8 text".to_owned()))
}

/// What the names in a step refer to: indices into the file's functions and steps.
struct Resolved<'a> {
    function: usize,
    after: Vec<At<(usize, &'a str)>>,
}

fn resolve<'a>(reader: &mut Reader<'_>, shape: &Shape<'a>) -> Vec<Resolved<'a>> {
    let mut steps: HashMap<&str, usize> = HashMap::new();
    for (index, step) in shape.steps.iter().enumerate() {
        let Some(name) = step.name else { continue };
        if let Some(&first) = steps.get(name.value) {
            let first = shape.steps[first].name.map_or((0, 0), |name| reader.source.position(name.at.start));
            let message = format!("two steps are called {}, the first at {}:{}", quoted(name.value), first.0, first.1);
            reader.error(name.at, message, "a name of its own for every step".to_owned());
        } else {
            steps.insert(name.value, index);
        }
    }
    let mut functions: HashMap<&str, usize> = HashMap::new();
    for (index, function) in shape.functions.iter().enumerate() {
        functions.entry(function.name.value).or_insert(index);
    }

    let mut used = HashSet::new();
    let mut resolved = Vec::new();
    for step in &shape.steps {
        let function = step.function.and_then(|name| {
            let found = functions.get(name.value).copied();
            if found.is_none() {
                let hint = suggestion(name.value, functions.keys().copied());
                let message = format!("there is no function {}{hint}", quoted(name.value));
                reader.error(name.at, message, "a name from `functions`".to_owned());
            }
            found
        });
        used.extend(function);
        let mut after = Vec::new();
        for name in &step.after {
            match steps.get(name.value) {
                Some(&index) => after.push(At { value: (index, name.value), at: name.at }),
                None => {
                    let hint = suggestion(name.value, steps.keys().copied());
                    let message = format!("there is no step {}{hint}", quoted(name.value));
                    reader.error(name.at, message, "the name of a step".to_owned());
                }
            }
        }
        resolved.push(Resolved { function: function.unwrap_or_default(), after });
    }
    for (index, function) in shape.functions.iter().enumerate() {
        // One that is given twice is an error already.
        if functions.get(function.name.value) == Some(&index) && !used.contains(&index) {
            reader.warning(function.name.at, format!("no step runs the function {}", quoted(function.name.value)));
        }
    }
    resolved
}

/// Notes mount points in steps at which the workflow has no file system.
fn check_files(reader: &mut Reader<'_>, shape: &Shape<'_>) {
    for point in shape.steps.iter().flat_map(|step| step.files.iter().flatten()) {
        if !shape.files.iter().any(|mount| mount.point == point.value) {
            let hint = suggestion(point.value, shape.files.iter().map(|mount| mount.point.as_str()));
            let message = format!("the workflow has no file system at {}{hint}", quoted(point.value));
            reader.error(point.at, message, "a mount point from `files` of the workflow".to_owned());
        }
    }
}

/// Notes slots of `http` that are not filled from outside, or do not leave the workflow.
fn check_http(reader: &mut Reader<'_>, shape: &Shape<'_>) {
    let Some(http) = &shape.http else { return };
    let inputs = || shape.inputs.iter().map(|input| input.value.slot.as_str());
    if !inputs().any(|slot| slot == http.request.value) {
        let hint = suggestion(http.request.value, inputs());
        let message = format!("the workflow has no input slot {}{hint}", quoted(http.request.value));
        reader.error(http.request.at, message, "a slot from `inputs`".to_owned());
    } else if shape.inputs.len() > 1 {
        let message = format!("the workflow has {} inputs, and a request fills one slot", shape.inputs.len());
        reader.error(http.request.at, message, "the only slot of `inputs`".to_owned());
    }
    let outputs = || shape.outputs.iter().map(|output| output.value.slot.as_str());
    if !outputs().any(|slot| slot == http.response.value) {
        let hint = suggestion(http.response.value, outputs());
        let message = format!("the workflow has no output slot {}{hint}", quoted(http.response.value));
        reader.error(http.response.at, message, "a slot from `outputs`".to_owned());
    }
}

/// Notes the first step with which there are too many instances.
fn count_instances(reader: &mut Reader<'_>, steps: &[Step<'_>]) {
    let mut sum = 0;
    for step in steps {
        if matches!(step.instances.value, Instances::Each { .. }) && step.after.is_empty() {
            let message = "the slots of `each` are counted when the step starts, and it waits for no step".to_owned();
            reader.error(step.instances.at, message, "`after` with the step that fills them".to_owned());
        }
        sum += u64::from(step.instances.value.most());
        if sum > INSTANCES_MAX {
            let message = format!("with this step there are {sum} instances");
            return reader.error(step.instances.at, message, too_many(INSTANCES_MAX));
        }
    }
}

/// What is expected of the number of instances.
pub(super) fn too_many(most: u64) -> String {
    format!("at most {most} of all steps together")
}

/// The steps in an order in which each comes after those it waits for, otherwise as in the file. Notes cycles.
fn order(reader: &mut Reader<'_>, steps: &[Step<'_>], resolved: &[Resolved<'_>]) -> Vec<usize> {
    let mut waits_for: Vec<usize> = resolved.iter().map(|step| step.after.len()).collect();
    let mut followers = vec![Vec::new(); resolved.len()];
    for (index, step) in resolved.iter().enumerate() {
        step.after.iter().for_each(|name| followers[name.value.0].push(index));
    }
    let mut placed = vec![false; resolved.len()];
    let mut ready: BinaryHeap<_> =
        waits_for.iter().enumerate().filter(|&(_, &count)| count == 0).map(|(index, _)| Reverse(index)).collect();
    let mut order = Vec::new();
    let mut start = 0;
    loop {
        while let Some(Reverse(index)) = ready.pop() {
            if std::mem::replace(&mut placed[index], true) {
                continue;
            }
            order.push(index);
            for &follower in &followers[index] {
                waits_for[follower] = waits_for[follower].saturating_sub(1);
                if waits_for[follower] == 0 {
                    ready.push(Reverse(follower));
                }
            }
        }
        // What is left waits for a cycle. Report one, go on as if its steps had run, and so find the next.
        while placed.get(start) == Some(&true) {
            start += 1;
        }
        if start == resolved.len() {
            return order;
        }
        let cycle = find_cycle(resolved, &placed, start);
        note_cycle(reader, steps, resolved, &cycle);
        ready.extend(cycle.into_iter().map(Reverse));
    }
}

/// Walks from a step that could not be placed to one it waits for, and so on, until the way bites its tail.
fn find_cycle(resolved: &[Resolved<'_>], placed: &[bool], start: usize) -> Vec<usize> {
    let mut seen: HashMap<usize, usize> = HashMap::new();
    let mut way = Vec::new();
    let mut at = start;
    loop {
        if let Some(&first) = seen.get(&at) {
            return way.split_off(first);
        }
        seen.insert(at, way.len());
        way.push(at);
        match resolved[at].after.iter().find(|name| !placed[name.value.0]) {
            Some(next) => at = next.value.0,
            None => return way,
        }
    }
}

/// Notes a cycle at the first of its steps in the file, with all their names in the order in which they wait.
fn note_cycle(reader: &mut Reader<'_>, steps: &[Step<'_>], resolved: &[Resolved<'_>], cycle: &[usize]) {
    const SHOWN: usize = 12;
    let first = cycle.iter().enumerate().min_by_key(|&(_, &step)| step).map_or(0, |(position, _)| position);
    let around: Vec<usize> = cycle[first..].iter().chain(&cycle[..=first]).copied().collect();
    let name = |step: usize| steps[step].name.map_or_else(|| "`?`".to_owned(), |name| quoted(name.value));
    let Some(at) = resolved[around[0]].after.iter().find(|name| name.value.0 == around[1]) else { return };
    let message = if cycle.len() == 1 {
        format!("step {} waits for itself", name(around[0]))
    } else {
        let mut names: Vec<String> = around.iter().take(SHOWN).map(|&step| name(step)).collect();
        if around.len() > SHOWN {
            names.push(format!("… ({} steps in all)", cycle.len()));
        }
        format!("steps wait for each other in a cycle: {}", names.join(" after "))
    };
    reader.error(at.at, message, "an order in which the steps can run".to_owned());
}

/// Without their places.
fn values<T>(all: Vec<At<T>>) -> Vec<T> {
    all.into_iter().map(|one| one.value).collect()
}

fn make_plan(shape: Shape<'_>, resolved: &[Resolved<'_>], order: &[usize], folder: &Path) -> Plan {
    // Only functions that steps run are kept, so that nothing else need be there to run the workflow.
    let used: HashSet<usize> = resolved.iter().map(|step| step.function).collect();
    let mut functions = Vec::new();
    let mut function_index = HashMap::new();
    for (index, function) in shape.functions.into_iter().enumerate().filter(|(index, _)| used.contains(index)) {
        function_index.insert(index, functions.len());
        let (name, image) = (function.name.value.to_owned(), folder.join(function.image));
        functions.push(plan::Function { name, image, made_of: None, making: function.making });
    }
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(position, &step)| place[step] = position);

    let mut steps: Vec<Option<Step<'_>>> = shape.steps.into_iter().map(Some).collect();
    let steps = order.iter().filter_map(|&index| Some((index, steps[index].take()?)));
    let steps = steps.map(|(index, step)| {
        let mut after: Vec<usize> = resolved[index].after.iter().map(|name| place[name.value.0]).collect();
        after.sort_unstable();
        plan::Step {
            name: step.name.map(|name| name.value.to_owned()).unwrap_or_default(),
            function: function_index[&resolved[index].function],
            after,
            instances: step.instances.value,
            args: step.args,
            env: step.env,
            secrets: step.secrets,
            timeout: step.timeout,
            retry: step.retry,
            memory: step.memory,
            stdin: step.stdin.map(|slot| slot.value.to_owned()),
            takes: step.takes.map(values),
            fills: step.fills.map(values),
            files: step.files.map(|points| points.iter().map(|point| point.value.to_owned()).collect()),
            handles: step.handles.map(|effect| effect.value.to_owned()),
            performs: step.performs.map(|effects| effects.iter().map(|effect| effect.value.to_owned()).collect()),
            stack: step.stack,
        }
    });
    let steps = steps.collect();
    let at_folder = |input: plan::Input| plan::Input { path: input.path.map(|path| folder.join(path)), ..input };
    Plan {
        name: shape.name,
        functions,
        steps,
        inputs: values(shape.inputs).into_iter().map(at_folder).collect(),
        outputs: values(shape.outputs),
        http: shape.http.map(|http| plan::Http {
            request: http.request.value.to_owned(),
            response: http.response.value.to_owned(),
        }),
        unread: shape.unread,
        files: shape.files.into_iter().map(|mount| mount.in_folder(folder)).collect(),
        limits: shape.limits,
        separation: shape.separation,
        time_stamp_counter: shape.time_stamp_counter,
        process: shape.process,
        template: shape.template,
        sends_to: shape.sends_to,
        starts: shape.starts,
        network: shape.network.in_folder(folder),
    }
}
