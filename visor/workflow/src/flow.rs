//! Checks that slots can be filled and taken, as far as the file alone tells.
//!
//! A list says what a step *may* do, and a step without one may do everything. So it is certain what does not happen, where each step has a list, and
//! nothing else is: two steps that fill for each other are no mistake, as each may begin with its half.
//!
//! ```text
//!   outputs ───────────────▶ `fills` of all steps, inputs        an output that nothing fills fails each run: an error
//!   `takes`, `stdin`, `each` ▶ the same, without steps after it   such an entry is of no use: a warning
//!   inputs ────────────────▶ `takes` and `stdin` of all steps     and so is such an input
//! ```

use super::bounds::INDEX;
use super::plan::{Instances, OnUnread, SlotRule};
use super::reader::{At, Reader};
use super::shape::{Shape, Step};
use monohull_report::text::{quoted, suggestion};
use std::collections::BTreeSet;
use std::ops::Bound;

/// The most pairs of a step with a step, or with an entry of `fills`, up to which it is checked what comes after what. A larger file may be hostile.
const PAIRS_MAX: usize = 1 << 20;
/// The slots of a handler that mean its own request and reply.
const OWN: [&str; 2] = ["request", "reply"];

/// Notes slots that cannot be filled or taken. The steps are in an order in which each comes after those that it waits for: `after` has them by index.
pub(super) fn check(reader: &mut Reader<'_>, shape: &Shape<'_>, after: &[Vec<usize>], order: &[usize]) {
    let steps = &shape.steps;
    let mut filled = Names::default();
    shape.inputs.iter().for_each(|input| filled.add(&Pattern::name(&input.value.slot)));
    let fills: Option<Vec<&[At<SlotRule>]>> = steps.iter().map(|step| step.fills.as_deref()).collect();
    if let Some(fills) = fills {
        let rules = || fills.iter().copied().flatten().map(|rule| &rule.value);
        rules().for_each(|rule| filled.add(&Pattern::of(rule)));
        let known: Vec<String> = rules().map(SlotRule::text).collect();
        let names = || shape.inputs.iter().map(|input| &*input.value.slot).chain(known.iter().map(String::as_str));
        for output in shape.outputs.iter().filter(|output| !filled.may_have(&Pattern::name(&output.value.slot))) {
            let (slot, hint) = (quoted(&output.value.slot), suggestion(&output.value.slot, names()));
            let message = format!("no step may fill output {slot}: none has it in `fills`{hint}");
            reader.error(output.at, message, "a slot that a step fills".to_owned());
        }
        for step in steps {
            for wanted in wants(step).into_iter().filter(|wanted| !filled.may_have(&wanted.value.pattern)) {
                let (slot, hint) = (quoted(&wanted.value.text), suggestion(&wanted.value.text, names()));
                let message = format!("nothing fills slot {slot}: it is no input, and no step has it in `fills`{hint}");
                reader.warning(wanted.at, message);
            }
        }
        if steps.len().saturating_mul(steps.len() + known.len()) <= PAIRS_MAX {
            check_order(reader, shape, &filled, after, order);
        }
    }
    check_inputs(reader, shape);
}

/// Notes what a step waits for that only steps after it fill.
fn check_order(reader: &mut Reader<'_>, shape: &Shape<'_>, filled: &Names, after: &[Vec<usize>], order: &[usize]) {
    let steps = &shape.steps;
    let mut before: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); steps.len()];
    for &index in order {
        let all = after[index].iter().flat_map(|&first| before[first].iter().copied().chain([first]));
        before[index] = all.collect();
    }
    for (index, step) in steps.iter().enumerate() {
        // What is there when it starts, or may come while it runs.
        let mut others = Names::default();
        shape.inputs.iter().for_each(|input| others.add(&Pattern::name(&input.value.slot)));
        let in_time = steps.iter().enumerate().filter(|(other, _)| !before[*other].contains(&index));
        let rules = in_time.flat_map(|(_, other)| other.fills.iter().flatten());
        rules.for_each(|rule| others.add(&Pattern::of(&rule.value)));
        let late =
            |wanted: &At<Wanted>| filled.may_have(&wanted.value.pattern) && !others.may_have(&wanted.value.pattern);
        for wanted in wants(step).into_iter().filter(late) {
            let name = step.name.map_or_else(|| "`?`".to_owned(), |name| quoted(name.value));
            let message = format!("only steps after step {name} fill slot {}", quoted(&wanted.value.text));
            reader.warning(wanted.at, message);
        }
    }
}

/// Notes inputs that no step may take, where a run fails for that.
fn check_inputs(reader: &mut Reader<'_>, shape: &Shape<'_>) {
    let mut taken = Names::default();
    for step in &shape.steps {
        let Some(takes) = &step.takes else { return };
        takes.iter().for_each(|rule| taken.add(&Pattern::of(&rule.value)));
        standard_input(step).into_iter().for_each(|wanted| taken.add(&wanted.value.pattern));
    }
    let takes = shape.steps.iter().flat_map(|step| step.takes.iter().flatten());
    let known: Vec<String> = takes.map(|rule| rule.value.text()).collect();
    for input in &shape.inputs {
        let slot = &*input.value.slot;
        let is_output = shape.outputs.iter().any(|output| output.value.slot == *slot);
        if is_output || shape.unread.outcome(slot) == OnUnread::Ignore || taken.may_have(&Pattern::name(slot)) {
            continue;
        }
        let hint = suggestion(slot, known.iter().map(String::as_str));
        reader.warning(input.at, format!("no step may take input {}: none has it in `takes`{hint}", quoted(slot)));
    }
}

/// Slots that a step waits for or counts.
struct Wanted {
    pattern: Pattern,
    /// As the file has it.
    text: String,
}

/// What the lists of a step name that it takes. A handler's request comes from the system.
fn wants(step: &Step<'_>) -> Vec<At<Wanted>> {
    let rules = step.takes.iter().flatten();
    let listed = rules
        .map(|rule| At { value: Wanted { pattern: Pattern::of(&rule.value), text: rule.value.text() }, at: rule.at });
    let counted = match &step.instances.value {
        Instances::Fixed(_) => None,
        Instances::Each { prefix, .. } => Some(At {
            value: Wanted { pattern: Pattern::begin(prefix), text: format!("{prefix}*") },
            at: step.instances.at,
        }),
    };
    let all = listed.chain(standard_input(step)).chain(counted);
    all.filter(|wanted| step.handles.is_none() || !OWN.contains(&&*wanted.value.text)).collect()
}

/// The slot that a step reads as its standard input; with several instances each has one of its own.
fn standard_input(step: &Step<'_>) -> Option<At<Wanted>> {
    let slot = step.stdin?;
    let pattern = match step.instances.value {
        Instances::Fixed(1) => Pattern::name(slot.value),
        _ => Pattern::begin(&format!("{}.", slot.value)),
    };
    Some(At { value: Wanted { pattern, text: slot.value.to_owned() }, at: slot.at })
}

/// A slot, or all slots whose names begin so. Of a name with an instance's number in it, that is what comes before.
struct Pattern {
    text: String,
    is_begin: bool,
}

impl Pattern {
    fn name(name: &str) -> Pattern {
        Pattern { text: name.to_owned(), is_begin: false }
    }

    fn begin(begin: &str) -> Pattern {
        Pattern { text: begin.to_owned(), is_begin: true }
    }

    fn of(rule: &SlotRule) -> Pattern {
        match rule.name.split_once(INDEX) {
            Some((begin, _)) => Pattern::begin(begin),
            None => Pattern { text: rule.name.clone(), is_begin: rule.prefix },
        }
    }
}

/// The slots of many patterns.
#[derive(Default)]
struct Names {
    whole: BTreeSet<String>,
    begins: BTreeSet<String>,
}

impl Names {
    fn add(&mut self, pattern: &Pattern) {
        let to = if pattern.is_begin { &mut self.begins } else { &mut self.whole };
        to.insert(pattern.text.clone());
    }

    /// Whether one of the slots can be one of the pattern's.
    fn may_have(&self, pattern: &Pattern) -> bool {
        let text = &*pattern.text;
        let mut ends = (0..=text.len()).filter(|&end| text.is_char_boundary(end));
        let longer = |names: &BTreeSet<String>| {
            let mut from = names.range::<str, _>((Bound::Included(text), Bound::Unbounded));
            from.next().is_some_and(|name| name.starts_with(text))
        };
        ends.any(|end| self.begins.contains(&text[..end]))
            || match pattern.is_begin {
                true => longer(&self.whole) || longer(&self.begins),
                false => self.whole.contains(text),
            }
    }
}
