//! The functions of floating-point numbers that std takes from a C library.
//!
//! One line per function: its values at a list of places. What IEEE 754 defines to the last bit is compared exactly,
//! elementary functions within a few units of the last place.

use super::{check, line};
use std::f64::consts::{E, PI};

/// Where functions are looked at: ordinary places, and the edges.
const PLACES: [f64; 28] = [
    0.0,
    -0.0,
    0.1,
    0.5,
    -0.5,
    0.75,
    1.0,
    -1.0,
    1.5,
    -1.5,
    2.0,
    2.5,
    -2.5,
    E,
    PI,
    3.7,
    10.0,
    -20.25,
    88.5,
    100.7,
    1e-9,
    -1e-20,
    12345.678,
    1e15,
    3e38,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// Pairs for functions of two numbers: all places with a few of them.
const OTHERS: [f64; 5] = [2.0, -3.0, 0.5, 0.0, f64::INFINITY];

/// Values as texts that read back to the same bits; which of the many NaNs it is says nothing.
fn over_places<T>(f: impl Fn(f64) -> T) -> Vec<T> {
    PLACES.into_iter().map(f).collect()
}

fn over_pairs<T>(f: impl Fn(f64, f64) -> T) -> Vec<T> {
    PLACES.into_iter().flat_map(|x| OTHERS.map(|y| f(x, y))).collect()
}

/// Lines of functions of one number, for both types.
macro_rules! one {
    ($sign:literal $($name:ident)*) => { $(
        line(module_path!(), concat!(stringify!($name), ".f64"), $sign, &over_places(f64::$name));
        line(module_path!(), concat!(stringify!($name), ".f32"), $sign, &over_places(|x| (x as f32).$name()));
    )* };
}

/// Lines of functions of two numbers, for both types.
macro_rules! two {
    ($sign:literal $($name:ident)*) => { $(
        line(module_path!(), concat!(stringify!($name), ".f64"), $sign, &over_pairs(f64::$name));
        line(module_path!(), concat!(stringify!($name), ".f32"), $sign, &over_pairs(|x, y| (x as f32).$name(y as f32)));
    )* };
}

pub(super) fn all() {
    one!("=" floor ceil round round_ties_even trunc fract sqrt abs);
    two!("=" div_euclid rem_euclid copysign);
    one!("~" cbrt exp exp2 exp_m1 ln log2 log10 ln_1p);
    one!("~" sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh);
    two!("~" powf atan2 hypot log);
    for n in [-3, -1, 0, 1, 2, 3, 10, 31] {
        line(module_path!(), &format!("powi_{n}.f64"), "=", &over_places(|x| x.powi(n)));
        line(module_path!(), &format!("powi_{n}.f32"), "=", &over_places(|x| (x as f32).powi(n)));
    }
    line(module_path!(), "sin_cos.f64", "~", &over_places(f64::sin_cos));
    line(module_path!(), "sin_cos.f32", "~", &over_places(|x| (x as f32).sin_cos()));
    check!(
        "mul_add_rounds_once",
        (0.1f64.mul_add(10.0, -1.0), 0.1f32.mul_add(10.0, -1.0), 1e300f64.mul_add(1e10, f64::NEG_INFINITY))
    );
    check!("halves", [0.5f64, 1.5, 2.5, -0.5, -1.5].map(|x| (x.round(), x.round_ties_even())));
    check!(
        "almost_a_half",
        (0.499_999_999_999_999_94f64.round(), 4_503_599_627_370_497.5f64.round(), 0.499_999_97f32.round())
    );
    check!("by_path", (f64::sqrt(2.0), f32::floor(-0.5), f64::powi(2.0, -2), f64::hypot(3.0, 4.0)));
    check!(
        "pythagoras",
        (0..9).all(|n| {
            let (s, c) = (f64::from(n) * 0.7).sin_cos();
            (s * s + c * c - 1.0).abs() < 1e-15
        })
    );
    check!("exact_powers_and_logs", (2f64.powf(10.0), 1e3f64.log10(), 8f64.log2(), 0f64.powf(0.0), (-8f64).cbrt()));
}
