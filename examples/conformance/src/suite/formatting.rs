//! `std::fmt`: what format strings make of values.

use super::check;
use std::fmt::{self, Alignment, Binary, Debug, Display, Formatter, Write};

struct Angle(f64);

impl Display for Angle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return write!(f, "{:.1} turns", self.0 / 360.0);
        }
        match f.precision() {
            Some(digits) => write!(f, "{:.*}°", digits, self.0),
            None => f.pad(&format!("{}°", self.0)),
        }
    }
}

impl Binary for Angle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad_integral(self.0 >= 0.0, "0b", &format!("{:b}", self.0.abs() as u64))
    }
}

/// Shows the options it was formatted with.
struct Options;

impl Display for Options {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let align = match f.align() {
            Some(Alignment::Left) => "left",
            Some(Alignment::Right) => "right",
            Some(Alignment::Center) => "centre",
            None => "none",
        };
        let (plus, minus, zero) = (f.sign_plus(), f.sign_minus(), f.sign_aware_zero_pad());
        write!(f, "{:?} {:?} {:?} {align} {plus} {minus} {zero}", f.fill(), f.width(), f.precision())
    }
}

/// Looked at through `Debug` alone.
#[derive(Debug, Clone, Default)]
#[expect(dead_code, reason = "the compiler does not count `Debug` as reading")]
struct Hull {
    name: &'static str,
    bulkheads: Vec<u8>,
    keel: Option<(i32, f32)>,
}

#[derive(Debug)]
struct Unit;

#[derive(Debug)]
#[expect(dead_code, reason = "the compiler does not count `Debug` as reading")]
enum Seat {
    Empty,
    Taken(Hull, char),
    Reserved { by: String },
}

/// A type that writes its `Debug` with the builders.
struct Built;

impl Debug for Built {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Built")
            .field("list", &fmt::from_fn(|f| f.debug_list().entries([1, 2]).entry(&"three").finish()))
            .field("map", &fmt::from_fn(|f| f.debug_map().key(&"k").value(&1).entry(&"l", &[2]).finish()))
            .field("set", &fmt::from_fn(|f| f.debug_set().entries(0..2).finish_non_exhaustive()))
            .field("tuple", &fmt::from_fn(|f| f.debug_tuple("").field(&1).finish()))
            .finish_non_exhaustive()
    }
}

pub(super) fn all() {
    placement();
    numbers();
    types();
    writing();
}

fn placement() {
    check!("width", format!("[{:6}][{:<6}][{:>6}][{:^6}]", "ab", "ab", "ab", "ab"));
    check!("fill", format!("[{:*^7}][{:→<4}][{:0>5}]", "mid", 'x', "7"));
    check!("precision_of_text", format!("[{:.2}][{:5.1}]", "truncated", "ßx"));
    check!("width_by_argument", format!("[{:1$}][{:>width$}][{:.*}]", 7, 5, 2, 1.23456, width = 4));
    check!("positions", format!("{1} {0} {1} {name}", 'a', 'b', name = "c"));
    let inline = 3.75;
    check!("inline", format!("{inline:>8.1} {inline:?} {{}}"));
    check!("options_of_formatter", format!("{Options:_^+09.3} / {Options} / {Options:<-4}"));
    check!(
        "pad_of_own_type",
        format!("[{:>6}] [{:.2}] [{:#}] [{:#08b}]", Angle(90.0), Angle(1.0 / 3.0), Angle(90.0), Angle(5.0))
    );
    check!("wide_characters_count_as_one", format!("[{:4}][{:4}]", "日本", "é"));
}

fn numbers() {
    check!("radix", format!("{:b} {:o} {:x} {:X} {:#b} {:#o} {:#x} {:#X}", 10, 64, 255, 255, 10, 64, 255, 255));
    check!("radix_of_negative", format!("{:x} {:b} {:o}", -1i8, -2i8, i16::MIN));
    check!("signs_and_zeros", format!("{:+} {:+} {:05} {:+05} {:#06x} {:<05}", 1, -1, -42, 42, 255, 7));
    check!("extremes", format!("{} {} {} {}", i128::MIN, u128::MAX, i64::MIN, u64::MAX));
    check!("scientific", format!("{:e} {:E} {:e} {:.2e} {:e}", 1234.5, 0.00012, 0.0, 123456, 1u64 << 40));
    check!("float_shortest", format!("{} {} {} {}", 0.1 + 0.2, 1e21, 1e-7, f32::MAX));
    check!("float_debug", format!("{:?} {:?} {:?} {:?} {:?}", 1.0, 1e16, 1e-5, 0.1f32, f64::MIN_POSITIVE));
    check!("float_precision", format!("{:.0} {:.0} {:.0} {:.3} {:8.2} {:+.1}", 0.5, 1.5, 2.5, 2.0 / 3.0, -1.005, 9.95));
    check!(
        "float_special",
        format!(
            "{} {:?} {} {:5} {:+} {:05}",
            f64::NAN,
            f64::INFINITY,
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY
        )
    );
    check!("float_large_exact", format!("{:.1} {:.20}", 1e15 / 3.0, 0.1));
    check!("debug_hex", format!("{:x?} {:X?} {:#x?}", vec![10, 255], vec![10, 255], Some(16)));
    check!("pointer_width", format!("{:p} {:#018p} {:?}", 16 as *const u8, 16 as *const u8, std::ptr::null::<u8>()));
    check!(
        "atomics_and_wrapping",
        format!("{:?} {} {:?}", std::sync::atomic::AtomicI8::new(-3), std::num::Wrapping(7), std::num::NonZero::new(5))
    );
}

fn types() {
    let hull = Hull { name: "mono", bulkheads: vec![1, 2], keel: Some((-1, 0.5)) };
    check!("derive_struct", format!("{hull:?}"));
    check!("derive_pretty", format!("{hull:#?}"));
    check!("derive_default_and_unit", format!("{:?} {:?} {:#?}", Hull::default(), Unit, Unit));
    check!("derive_enum", format!("{:?} {:?}", Seat::Empty, Seat::Taken(Hull::default(), '\'')));
    check!("derive_enum_pretty", format!("{:#?}", Seat::Reserved { by: "me\n".into() }));
    check!("builders", format!("{Built:?}"));
    check!("builders_pretty", format!("{Built:#?}"));
    check!("text_escapes", "tab\t quote\" back\\ nul\0 bell\x07 ß \u{200b} \u{1F6A2} é");
    check!("char_escapes", ('\'', '"', '\u{301}', '\r', '\u{7f}'));
    check!("nested", [Some(Ok::<_, ()>("a")), None]);
    check!("tuples", ((), (1,), (1, 'b', "c", [0.5; 2])));
    check!("options_apply_inside", format!("{:05.1?} {:#04x?}", [1.0, 22.25], (1, 2)));
    check!("ranges", (0..3, ..=4, 5.., .., "a"..="b"));
    check!("cells", format!("{:?} {:?}", std::cell::Cell::new(1), std::cell::RefCell::new("x")));
    let busy = std::cell::RefCell::new(1);
    let _held = busy.borrow_mut();
    check!("borrowed_cell", format!("{busy:?}"));
    check!(
        "smart_pointers",
        format!("{:?} {} {:?}", Box::new(1), std::rc::Rc::new("r"), std::borrow::Cow::Borrowed("c"))
    );
    check!("bool_and_unit_width", format!("[{:>6}] [{:<6?}]", true, false));
}

/// Takes so many bytes and refuses more.
struct Narrow(String, usize);

impl Write for Narrow {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > self.1 {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn writing() {
    let mut text = String::new();
    check!("write_macro", (write!(text, "{}-{:02}", 'a', 5), writeln!(text), writeln!(text, "!"), text));
    let mut narrow = Narrow(String::new(), 5);
    check!("write_error", (write!(narrow, "{}{}", "abc", "def"), narrow.0, fmt::Error.to_string()));
    let mut one = String::new();
    check!("write_char", (one.write_char('ß'), one.write_fmt(format_args!("{:>3}", 1)), one));
    check!("format_args_as_str", (format_args!("plain").as_str(), format_args!("{}", text_of(1)).as_str().is_none()));
    check!("format_of_arguments", std::fmt::format(format_args!("{:?}", [1])));
    check!("to_string", (1.5f32.to_string(), 'x'.to_string(), true.to_string(), Angle(2.0).to_string()));
    check!("concat_and_stringify", (concat!("a", 1, 2.5, true), stringify!(a + b)));
}

fn text_of(n: i32) -> String {
    n.to_string()
}
