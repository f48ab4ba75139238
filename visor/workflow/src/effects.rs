//! Checks which steps handle effects, and which effects steps may ask for.

use super::reader::Reader;
use super::shape::Step;
use monohull_report::text::{quoted, suggestion};
use std::collections::{HashMap, HashSet};

/// Notes what is wrong with the fields `handles` and `performs` of all steps, and with what cannot be beside them.
pub(super) fn check(reader: &mut Reader<'_>, steps: &[Step<'_>]) {
    let mut handlers: HashMap<&str, usize> = HashMap::new();
    for (index, step) in steps.iter().enumerate() {
        let Some(effect) = step.handles else { continue };
        if let Some(first) = handlers.insert(effect.value, index).and_then(|first| steps[first].handles) {
            let (line, column) = reader.source.position(first.at.start);
            let message = format!("two steps handle effect {}, the first at {line}:{column}", quoted(effect.value));
            reader.error(effect.at, message, "one step for each effect".to_owned());
        }
        if let Some(before) = step.after.first() {
            let message = "a step that handles an effect waits for no other: it runs when it is asked".to_owned();
            reader.error(before.at, message, "`handles` or `after`".to_owned());
        }
        if step.has_instances {
            let message = "a step that handles an effect has an instance for each request".to_owned();
            reader.error(step.instances.at, message, "`handles` or `instances`".to_owned());
        }
    }
    check_after(reader, steps);
    check_performs(reader, steps, &handlers);
    if let Some(effect) = steps.first().and_then(|step| step.handles)
        && steps.iter().all(|step| step.handles.is_some())
    {
        let message = "each step handles an effect, and none is left that could ask for one".to_owned();
        reader.error(effect.at, message, "a step without `handles`".to_owned());
    }
}

/// A step that handles an effect does not end.
fn check_after(reader: &mut Reader<'_>, steps: &[Step<'_>]) {
    let named = steps.iter().filter(|step| step.handles.is_some()).filter_map(|step| step.name);
    let handlers: HashSet<&str> = named.map(|name| name.value).collect();
    for name in steps.iter().flat_map(|step| &step.after).filter(|name| handlers.contains(name.value)) {
        let message = format!("step {} handles an effect, and has no end to wait for", quoted(name.value));
        reader.error(name.at, message, "a step without `handles`".to_owned());
    }
}

fn check_performs(reader: &mut Reader<'_>, steps: &[Step<'_>], handlers: &HashMap<&str, usize>) {
    for effect in steps.iter().flat_map(|step| step.performs.iter().flatten()) {
        if !handlers.contains_key(effect.value) {
            let hint = suggestion(effect.value, handlers.keys().copied());
            let message = format!("no step handles effect {}{hint}", quoted(effect.value));
            reader.error(effect.at, message, "an effect that a step `handles`".to_owned());
        }
    }
    if steps.iter().any(|step| step.performs.is_none()) {
        return;
    }
    let asked: HashSet<&str> =
        steps.iter().flat_map(|step| step.performs.iter().flatten()).map(|effect| effect.value).collect();
    for effect in steps.iter().filter_map(|step| step.handles).filter(|effect| !asked.contains(effect.value)) {
        let message = format!("no step may ask for effect {}: none has it in `performs`", quoted(effect.value));
        reader.warning(effect.at, message);
    }
}
