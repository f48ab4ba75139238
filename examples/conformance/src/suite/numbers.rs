//! Integers, and numbers as text.

use super::check;
use std::num::{IntErrorKind, NonZeroU8, ParseFloatError, Saturating, Wrapping};

pub(super) fn all() {
    integers();
    parsing();
    floats();
}

fn integers() {
    check!(
        "checked",
        (200u8.checked_add(100), 5u8.checked_sub(6), i32::MIN.checked_abs(), 7i32.checked_div(0), 2u32.checked_pow(40))
    );
    check!(
        "wrapping",
        (250u8.wrapping_add(10), i32::MIN.wrapping_neg(), i64::MAX.wrapping_mul(3), 1u8.wrapping_shl(9))
    );
    check!("saturating", (250u8.saturating_add(10), i8::MIN.saturating_sub(1), 10i8.saturating_mul(100)));
    check!("overflowing", (255u8.overflowing_add(1), i8::MIN.overflowing_neg()));
    check!(
        "division",
        (-7 / 2, -7 % 2, (-7i32).div_euclid(2), (-7i32).rem_euclid(2), 7u32.div_ceil(2), 7u32.next_multiple_of(4))
    );
    check!(
        "bits",
        (
            40u8.leading_zeros(),
            40u8.trailing_zeros(),
            0xf0u8.count_ones(),
            0x12u8.rotate_left(4),
            1u16.swap_bytes(),
            6u8.reverse_bits()
        )
    );
    check!(
        "powers",
        (3u64.pow(20), 10u32.ilog10(), 1000u32.ilog2(), 17u32.isqrt(), 5u32.next_power_of_two(), 0u8.checked_ilog2())
    );
    check!("differences", (5u8.abs_diff(250), (-3i8).abs_diff(100), (-5i32).signum(), (-5i32).unsigned_abs()));
    check!("wide", (u128::MAX / 7, (1i128 << 100) - 1, u64::MAX as u128 * u64::MAX as u128, i128::MIN % 1_000_007));
    check!("casts", (300i32 as u8, -1i32 as u64, 3.99 as i32, -1.0 as u8, f32::MIN as i32, 1e20 as i64, 'a' as u8));
    check!(
        "conversions",
        (
            u8::try_from(256i32).map_err(|e| e.to_string()),
            i8::try_from(-128i32),
            u64::from(7u32),
            usize::try_from(-1).is_err()
        )
    );
    check!(
        "endian",
        (0x1234u16.to_be_bytes(), u32::from_le_bytes([1, 2, 3, 4]), i16::from_ne_bytes(5i16.to_ne_bytes()))
    );
    check!(
        "wrappers",
        (Wrapping(250u8) + Wrapping(10), Saturating(250u8) + Saturating(10), NonZeroU8::new(0), NonZeroU8::MAX)
    );
    check!("limits", (i8::MIN, u16::MAX, i32::BITS, isize::MAX as u64 + 1));
    check!("legacy_constants", (std::u8::MAX, std::i64::MIN, std::f64::EPSILON, std::f32::consts::PI));
    check!(
        "carrying",
        (
            u8::MAX.checked_next_multiple_of(16),
            200u8.checked_add_signed(-100),
            5i8.checked_sub_unsigned(10),
            3u8.midpoint(8)
        )
    );
}

fn parsing() {
    check!(
        "parse_integers",
        (
            "+7".parse::<i8>(),
            "-128".parse::<i8>(),
            "00012".parse::<u16>(),
            u8::from_str_radix("ff", 16),
            i64::from_str_radix("-zz", 36)
        )
    );
    let errors = ["", "-", "1x", "256", "-1", "1_0", " 1"]
        .map(|text| text.parse::<u8>().map_err(|e| (e.kind().clone(), e.to_string())));
    check!("parse_integer_errors", errors);
    check!(
        "parse_integer_kinds",
        (
            "-129".parse::<i8>().map_err(|e| *e.kind() == IntErrorKind::NegOverflow),
            "0".parse::<NonZeroU8>().map_err(|e| e.to_string())
        )
    );
    check!(
        "parse_floats",
        ["1", "-0", "1.", ".5", "1e3", "1E-3", "inf", "-Infinity", "nan", "1e400", "1e-400"].map(str::parse::<f64>)
    );
    check!(
        "parse_floats_exactly",
        (
            ["0.1", "2.2250738585072011e-308", "9007199254740993", "1.7976931348623158e308"]
                .map(|t| t.parse::<f64>().map(f64::to_bits)),
            "16777217".parse::<f32>().map(f32::to_bits)
        )
    );
    check!(
        "parse_float_errors",
        ["", "1e", "1x", "e5", "--1", "1 ", "0x1p3"]
            .map(|t| t.parse::<f64>().map_err(|e: ParseFloatError| e.to_string()))
    );
    check!(
        "parse_others",
        (
            "x".parse::<bool>().map_err(|e| e.to_string()),
            "ab".parse::<char>().map_err(|e| e.to_string()),
            "".parse::<char>().map_err(|e| e.to_string())
        )
    );
}

fn floats() {
    check!(
        "float_bits",
        (1.5f32.to_bits(), f64::from_bits(0x4009_21fb_5444_2d18), (-0.0f64).to_bits(), f64::NAN.is_nan())
    );
    check!(
        "float_classes",
        (
            f64::MIN_POSITIVE.classify(),
            1e-310f64.classify(),
            0f32.classify(),
            f64::INFINITY.is_finite(),
            (-0.0f64).is_sign_negative()
        )
    );
    check!(
        "float_order",
        (
            1.0f64.total_cmp(&f64::NAN),
            f64::NAN.partial_cmp(&1.0),
            (-0.0f64).total_cmp(&0.0),
            1.0f64.max(f64::NAN),
            f64::NAN.min(2.0)
        )
    );
    check!(
        "float_clamp",
        (
            5.5f64.clamp(0.0, 5.0),
            (-0.5f32).clamp(0.0, 1.0),
            7.0f64.copysign(-0.0),
            (-3.5f64).signum(),
            f64::NAN.signum().is_nan()
        )
    );
    check!("float_degrees", (180f64.to_radians(), std::f64::consts::PI.to_degrees(), 90f32.to_radians()));
    check!("float_neighbours", (1.0f64.next_up(), 1.0f32.next_down(), 0.5f64.recip(), 3.0f64.midpoint(4.0)));
    check!("float_limits", (f64::MAX, f32::EPSILON, f64::DIGITS, f32::MANTISSA_DIGITS, f64::MAX_EXP));
}
