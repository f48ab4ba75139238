//! The mathematics of floating-point numbers that core leaves to a C library, through `libm`.
//!
//! In std these are methods of the types themselves, so the prelude brings the traits along unnamed. Elementary functions
//! may differ from those of a C library in the last digit.

macro_rules! maths {
    ($trait:ident for $type:ident {
        $($(#[$meta:meta])* $name:ident($($arg:ident),*) = $function:ident;)*
    } sin_cos = $sincos:ident) => {
        /// The methods std gives to the type.
        pub trait $trait: Sized {
            $($(#[$meta])* #[must_use] fn $name(self, $($arg: $type),*) -> $type;)*
            /// The integral power.
            #[must_use]
            fn powi(self, n: i32) -> $type;
            /// The integer nearest to it; halves go to the even one.
            #[must_use]
            fn round_ties_even(self) -> $type;
            /// The fractional part.
            #[must_use]
            fn fract(self) -> $type;
            /// Sine and cosine.
            #[must_use]
            fn sin_cos(self) -> ($type, $type);
            /// The logarithm to any base.
            #[must_use]
            fn log(self, base: $type) -> $type;
            /// Euclidean division, rounded so that the remainder is not negative.
            #[must_use]
            fn div_euclid(self, divisor: $type) -> $type;
            /// The remainder that is not negative.
            #[must_use]
            fn rem_euclid(self, divisor: $type) -> $type;
        }

        impl $trait for $type {
            $(#[inline] fn $name(self, $($arg: $type),*) -> $type { libm::$function(self, $($arg),*) })*

            fn powi(self, n: i32) -> $type {
                // Squares, one for each binary digit of the exponent.
                let (mut result, mut square, mut left) = (1.0, self, n.unsigned_abs());
                loop {
                    if left & 1 == 1 {
                        result *= square;
                    }
                    left >>= 1;
                    if left == 0 {
                        break;
                    }
                    square *= square;
                }
                if n < 0 { 1.0 / result } else { result }
            }

            fn round_ties_even(self) -> $type {
                $trait::rint(self)
            }

            fn fract(self) -> $type {
                self - $trait::trunc(self)
            }

            fn sin_cos(self) -> ($type, $type) {
                libm::$sincos(self)
            }

            fn log(self, base: $type) -> $type {
                $trait::ln(self) / $trait::ln(base)
            }

            fn div_euclid(self, divisor: $type) -> $type {
                let quotient = $trait::trunc(self / divisor);
                if self % divisor >= 0.0 {
                    return quotient;
                }
                if divisor > 0.0 { quotient - 1.0 } else { quotient + 1.0 }
            }

            fn rem_euclid(self, divisor: $type) -> $type {
                let rest = self % divisor;
                if rest < 0.0 { rest + divisor.abs() } else { rest }
            }
        }
    };
}

macro_rules! both {
    ($($(#[$meta:meta])* $name:ident($($arg:ident),*) = $wide:ident, $narrow:ident;)*) => {
        maths! { F64Maths for f64 { $($(#[$meta])* $name($($arg),*) = $wide;)* } sin_cos = sincos }
        maths! { F32Maths for f32 { $($(#[$meta])* $name($($arg),*) = $narrow;)* } sin_cos = sincosf }
    };
}

both! {
    /// The largest integer not above it.
    floor() = floor, floorf;
    /// The smallest integer not below it.
    ceil() = ceil, ceilf;
    /// The integer nearest to it; halves go away from zero.
    round() = round, roundf;
    /// The integral part.
    trunc() = trunc, truncf;
    #[doc(hidden)]
    rint() = rint, rintf;
    /// The square root.
    sqrt() = sqrt, sqrtf;
    /// The cube root.
    cbrt() = cbrt, cbrtf;
    /// `self * a + b`, rounded once.
    mul_add(a, b) = fma, fmaf;
    /// Any power.
    powf(n) = pow, powf;
    /// e to its power.
    exp() = exp, expf;
    /// 2 to its power.
    exp2() = exp2, exp2f;
    /// `exp() - 1`, exact near zero.
    exp_m1() = expm1, expm1f;
    /// The natural logarithm.
    ln() = log, logf;
    /// The logarithm to base 2.
    log2() = log2, log2f;
    /// The logarithm to base 10.
    log10() = log10, log10f;
    /// `ln(1 + self)`, exact near zero.
    ln_1p() = log1p, log1pf;
    /// The length of the hypotenuse.
    hypot(other) = hypot, hypotf;
    /// The sine.
    sin() = sin, sinf;
    /// The cosine.
    cos() = cos, cosf;
    /// The tangent.
    tan() = tan, tanf;
    /// The inverse of the sine.
    asin() = asin, asinf;
    /// The inverse of the cosine.
    acos() = acos, acosf;
    /// The inverse of the tangent.
    atan() = atan, atanf;
    /// The angle of the point (`other`, `self`).
    atan2(other) = atan2, atan2f;
    /// The hyperbolic sine.
    sinh() = sinh, sinhf;
    /// The hyperbolic cosine.
    cosh() = cosh, coshf;
    /// The hyperbolic tangent.
    tanh() = tanh, tanhf;
    /// The inverse of the hyperbolic sine.
    asinh() = asinh, asinhf;
    /// The inverse of the hyperbolic cosine.
    acosh() = acosh, acoshf;
    /// The inverse of the hyperbolic tangent.
    atanh() = atanh, atanhf;
}

#[cfg(test)]
mod tests {
    use super::F64Maths;

    // The host's std has methods of the same names, which win; so ours are called by the trait.
    #[test]
    fn agrees_with_the_host() {
        for x in [-7.5, -2.5, -1.0, -0.3, 0.0, 0.5, 1.5, 2.0, 3.25, 10.0] {
            assert_eq!(F64Maths::floor(x), x.floor());
            assert_eq!(F64Maths::round(x), x.round());
            assert_eq!(F64Maths::round_ties_even(x), x.round_ties_even());
            assert_eq!(F64Maths::fract(x), x.fract());
            for y in [-3.0, -0.5, 0.5, 2.0] {
                assert_eq!(F64Maths::rem_euclid(x, y), x.rem_euclid(y), "{x} {y}");
                assert_eq!(F64Maths::div_euclid(x, y), x.div_euclid(y), "{x} {y}");
            }
            for n in [-3, -1, 0, 1, 2, 13] {
                let (ours, theirs) = (F64Maths::powi(x, n), x.powi(n));
                assert!(ours == theirs || (ours / theirs - 1.0).abs() < 1e-14, "{x}^{n}: {ours} {theirs}");
            }
            let (sin, cos) = F64Maths::sin_cos(x);
            assert!((sin - x.sin()).abs() < 1e-15 && (cos - x.cos()).abs() < 1e-15);
        }
    }
}
