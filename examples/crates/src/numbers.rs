//! num-bigint; glam; chrono.

use chrono::{DateTime, Days, NaiveDate, Weekday};
use glam::{DMat3, DVec3, Quat, Vec3};
use num_bigint::{BigInt, BigUint};

pub(crate) fn show() {
    let factorial: BigUint = (1..=30u32).map(BigUint::from).product();
    println!("num-bigint {factorial}");
    println!("num-bigint.power {}", BigInt::from(-2).pow(100));
    println!("num-bigint.modular {}", BigUint::from(3u8).modpow(&BigUint::from(200u8), &BigUint::from(13u8)));
    println!("num-bigint.parsed {:?}", "123456789012345678901234567890".parse::<BigUint>().map(|n| n.bits()));

    let matrix = DMat3::from_cols_array(&[2.0, 0.0, 1.0, 1.0, 3.0, 0.0, 0.0, 1.0, 4.0]);
    println!("glam.determinant {}", matrix.determinant());
    println!("glam.inverse {}", (matrix * matrix.inverse()).abs_diff_eq(DMat3::IDENTITY, 1e-15));
    println!("glam.cross {}", DVec3::X.cross(DVec3::Y));
    let turned = Quat::from_rotation_z(std::f32::consts::FRAC_PI_2) * Vec3::X;
    println!("glam.turned {}", turned.abs_diff_eq(Vec3::Y, 1e-6));

    let day = NaiveDate::from_ymd_opt(2024, 2, 28).and_then(|day| day.checked_add_days(Days::new(2)));
    println!("chrono.leap_year {day:?}");
    println!("chrono.epoch {:?}", DateTime::from_timestamp(1_000_000_000, 0).map(|time| time.to_rfc3339()));
    println!("chrono.week {:?}", NaiveDate::from_isoywd_opt(2026, 1, Weekday::Mon));
    println!("chrono.refused {}", NaiveDate::from_ymd_opt(2023, 2, 29).is_none());
}
