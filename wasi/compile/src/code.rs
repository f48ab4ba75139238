//! Code of a program: what Cranelift is set to, and which constants are moved out of it first.

use monohull_wasi_settings::{Checks, Level};
use wasmtime::{Config, Engine, OptLevel};

use crate::program::{no_program, with_remedy};
use crate::rewrite::{Constants, is_whole, rewrite};

/// A way of generating code: Cranelift's settings, by name, and the constants that are moved out of the code first.
pub(crate) type Variant = (&'static [(&'static str, &'static str)], Option<Constants>);
/// Distances, registers and instructions differ from one to the next. The last ones are slower, and for programs whose own constants are
/// what is forbidden.
pub(crate) const VARIANTS: [Variant; 6] = [
    (&[], None),
    (&[("log2_min_function_alignment", "6")], None),
    (&[("bb_padding_log2_minus_one", "4")], None),
    (&[("regalloc_algorithm", "single_pass")], None),
    (&[], Some(Constants::Spelling)),
    (&[], Some(Constants::All)),
];

/// What a component begins with: magic number, version, and the number of the layer, which is 0 in a module.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// Compiles a module or a component, in this way.
pub(crate) fn compile(
    program: &[u8],
    variant: &Variant,
    level: Level,
    checks: Checks,
) -> Result<Vec<u8>, wasmtime::Error> {
    let (settings, constants) = variant;
    let rewritten = constants.map(|constants| rewrite(program, constants)).transpose()?;
    let program = rewritten.as_deref().unwrap_or(program);
    let mut config = Config::new();
    monohull_wasi_settings::configure(&mut config, checks);
    config.cranelift_opt_level(OptLevel::Speed).target("x86_64-unknown-linux-gnu")?;
    for (name, value) in *settings {
        set(&mut config, name, value);
    }
    for feature in level.features() {
        set(&mut config, feature, "true");
    }
    let engine = Engine::new(&config)?;
    let is_component = program.starts_with(COMPONENT);
    let compiled = match is_component {
        true => engine.precompile_component(program),
        false => engine.precompile_module(program),
    };
    let compiled = compiled.map_err(with_remedy)?;
    // Of what is not valid either, Wasmtime has said more.
    if !is_whole(program) {
        return Err(wasmtime::Error::msg(
            "the file ends before a section of it does: it is damaged, or a part of it is missing",
        ));
    }
    match no_program(program, is_component)? {
        None => Ok(compiled),
        Some(why) => Err(why.into()),
    }
}

/// Sets one of Cranelift's settings.
#[allow(unsafe_code, reason = "Wasmtime cannot know what each setting does")]
fn set(config: &mut Config, name: &str, value: &str) {
    // SAFETY: those of a variant change how code is laid out and not what it does; those of a level allow instructions whose
    // presence the runtime asks the processor for before it loads the code.
    unsafe { config.cranelift_flag_set(name, value) };
}
