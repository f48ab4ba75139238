//! The hostcall with which a function asks for an effect. It waits for the reply with another one, as for any slot.

use super::copies::{caller, read_bytes, write_bytes};
use crate::effects::{Beyond, Performed, slot};
use crate::instance::Instance;
use crate::shared::Shared;
use monohull_abi::Errno;
use monohull_abi::effect::{
    EFFECT_DEPTH_MAX, EFFECT_NAME_MAX, EFFECT_SLOT_LEN, EffectPart, PERFORMS_MAX, PERFORMS_TOGETHER, is_effect_name,
};
use monohull_abi::module::Call;
use monohull_abi::number::SLOT_GIVE;
use monohull_report::text::quoted;

pub(super) fn perform(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    let instance = caller(domain, call)?;
    let [name, name_len, address, count, out, _] = call.args;
    let name = read_name(domain, call, name, name_len)?;
    let effect = permitted(domain, call, instance, &name)?;
    let depth = instance.config.handles.map_or(0, |handled| handled.depth) + 1;
    if depth > EFFECT_DEPTH_MAX {
        let why = format!(
            "{} asks for effect {} as the handler of a handler's request, {EFFECT_DEPTH_MAX} above one another, which is as many as there may be",
            instance.name(),
            quoted(&name)
        );
        domain.explain(call, why);
        return Err(Errno::TooMany);
    }
    // Checked before the buffer is given away: can the answer be written?
    write_bytes(domain, call, out, EFFECT_SLOT_LEN as u64, &[0; EFFECT_SLOT_LEN])?;
    let untaken = |id| domain.is_filled(&slot(EffectPart::Reply, id));
    let id = domain.effects.open(instance.id, untaken).map_err(|beyond| {
        let why = match beyond {
            Beyond::OfInstance => format!("an instance waits for at most {PERFORMS_MAX} replies at a time"),
            Beyond::OfWorkflow => {
                format!("the instances of a workflow wait for at most {PERFORMS_TOGETHER} replies at a time")
            }
        };
        domain.explain(call, why);
        Errno::TooMany
    })?;
    let to = slot(EffectPart::Request, id);
    let args = [instance.id.into(), address, count, to.as_ptr() as u64, to.len() as u64, 0];
    if let Err(errno) = domain.call(SLOT_GIVE, args) {
        domain.effects.forget(id);
        let why = match errno {
            Errno::NotPermitted => "a continuation is handed on in a slot, and is no request".to_owned(),
            Errno::Fault => format!("{address:#x} is not the start of a slot buffer that the caller owns"),
            Errno::Busy => "a call of another thread is reading or writing the request".to_owned(),
            Errno::Invalid => format!("{count} bytes do not fit in the buffer of the request"),
            errno => format!("the request cannot be given away: {errno}"),
        };
        domain.explain(call, why);
        return Err(errno);
    }
    let reply = slot(EffectPart::Reply, id);
    let written = write_bytes(domain, call, out, EFFECT_SLOT_LEN as u64, reply.as_bytes());
    // Its memory was the caller's a moment ago. If another thread has given it back, the reply cannot be taken, and it goes with its asker.
    domain.push_performed(Performed { id, effect, depth });
    written.map(|_| 0)
}

fn read_name(domain: &Shared, call: &Call, name: u64, len: u64) -> Result<String, Errno> {
    let wrong = || {
        domain.explain(call, format!("the name of an effect has 1 to {EFFECT_NAME_MAX} letters, digits, `-` and `_`"));
        Errno::Invalid
    };
    if len > EFFECT_NAME_MAX as u64 {
        return Err(wrong());
    }
    let name = String::from_utf8(read_bytes(domain, call, name, len)?).map_err(|_| wrong())?;
    if is_effect_name(&name) { Ok(name) } else { Err(wrong()) }
}

/// The place of an effect among those that are handled, if the caller's step may ask for it.
fn permitted(domain: &Shared, call: &Call, instance: &Instance, name: &str) -> Result<usize, Errno> {
    let refuse = |errno, why: String| {
        domain.explain(call, why);
        Err(errno)
    };
    if let Some(list) = &instance.config.performs
        && !list.iter().any(|effect| effect == name)
    {
        return refuse(Errno::NotPermitted, format!("effect {} is not in the step's list `performs`", quoted(name)));
    }
    match domain.options.effects.iter().position(|effect| effect == name) {
        Some(effect) => Ok(effect),
        None => refuse(Errno::NotFound, format!("no step of the workflow handles effect {}", quoted(name))),
    }
}
