//! `std::time`.

use super::check;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(super) fn all() {
    durations();
    instants();
    system_times();
}

fn durations() {
    let time = Duration::new(3, 500_000_000);
    check!(
        "duration_parts",
        (
            time.as_secs(),
            time.subsec_millis(),
            time.as_millis(),
            time.as_nanos(),
            time.as_secs_f64(),
            time.as_secs_f32()
        )
    );
    check!(
        "duration_units",
        (
            Duration::from_millis(1500),
            Duration::from_micros(1_500_250),
            Duration::from_nanos(999),
            Duration::from_secs_f64(0.1),
            Duration::from_secs(90)
        )
    );
    check!(
        "duration_arithmetic",
        (
            time + Duration::from_secs(1),
            time - Duration::from_millis(1),
            time * 3,
            time / 7,
            time.mul_f64(0.3),
            time.div_f32(2.0)
        )
    );
    check!(
        "duration_limits",
        (
            Duration::MAX.checked_add(Duration::from_nanos(1)),
            Duration::ZERO.checked_sub(time),
            time.saturating_sub(Duration::MAX),
            Duration::MAX.saturating_mul(2),
            time.checked_div(0)
        )
    );
    check!(
        "duration_ratio",
        (time.div_duration_f64(Duration::from_secs(7)), time.abs_diff(Duration::from_secs(5)), time.is_zero())
    );
    check!(
        "duration_debug",
        format!(
            "{:?} {:.1?} {:>10?} {:?} {:?}",
            time,
            Duration::from_micros(1234),
            Duration::from_millis(2),
            Duration::ZERO,
            Duration::MAX
        )
    );
    check!(
        "duration_from_floats",
        (
            Duration::try_from_secs_f64(-0.1).map_err(|e| e.to_string()),
            Duration::try_from_secs_f32(1e20).map_err(|e| e.to_string()),
            Duration::try_from_secs_f64(f64::NAN).is_err(),
            Duration::from_secs_f64(2.7e-9)
        )
    );
    check!(
        "duration_order_and_sum",
        (
            Duration::from_secs(1) < Duration::from_millis(1001),
            [time, time].iter().sum::<Duration>(),
            Duration::default()
        )
    );
}

fn instants() {
    check!("instant_before_the_clock_began", {
        let (now, years) = (Instant::now(), Duration::from_secs(365 * 86_400 * 1000));
        let before = now - years;
        (before < now, now - before, now.checked_sub(years).is_some(), now.checked_sub(Duration::MAX).is_some())
    });
    let start = Instant::now();
    let later = start + Duration::from_millis(1500);
    check!(
        "instant_arithmetic",
        (later - start, start - later, later.duration_since(start), start.duration_since(later))
    );
    check!(
        "instant_checked",
        (
            start.checked_duration_since(later),
            later.checked_duration_since(start),
            start.checked_add(Duration::MAX),
            start.saturating_duration_since(later)
        )
    );
    check!("instant_order", (start < later, start == later - Duration::from_millis(1500), start.max(later) == later));
    check!("instant_assign", {
        let mut moved = start;
        moved += Duration::from_secs(2);
        moved -= Duration::from_secs(1);
        moved - start
    });
    check!("instant_never_goes_back", {
        let readings: Vec<_> = (0..1000).map(|_| Instant::now()).collect();
        readings.is_sorted()
    });
    check!("instant_and_sleep", {
        let start = Instant::now();
        thread::sleep(Duration::from_millis(3));
        start.elapsed() >= Duration::from_millis(3)
    });
    check!("sleep_of_nothing", { thread::sleep(Duration::ZERO) });
    check!("instants_of_threads", {
        let here = Instant::now();
        let there = thread::spawn(Instant::now).join();
        there.is_ok_and(|there| there >= here)
    });
    check!("instant_debug", {
        let text = format!("{start:?}");
        (text.starts_with("Instant { tv_sec: "), text.contains(", tv_nsec: "))
    });
}

fn system_times() {
    let before = UNIX_EPOCH - Duration::new(1, 1);
    check!(
        "system_time_arithmetic",
        (
            UNIX_EPOCH.duration_since(before).ok(),
            before + Duration::new(1, 1) == UNIX_EPOCH,
            SystemTime::UNIX_EPOCH == UNIX_EPOCH
        )
    );
    check!(
        "system_time_error",
        before.duration_since(UNIX_EPOCH).map_err(|e| (e.duration(), e.to_string(), format!("{e:?}")))
    );
    check!(
        "system_time_checked",
        (UNIX_EPOCH.checked_add(Duration::MAX), UNIX_EPOCH.checked_sub(Duration::from_secs(5)).map(|t| t < UNIX_EPOCH))
    );
    check!("system_time_debug", format!("{before:?} {UNIX_EPOCH:?}"));
    check!("system_time_is_of_this_age", {
        let now = SystemTime::now();
        (
            now > UNIX_EPOCH + Duration::from_secs(1_577_836_800),
            now.elapsed().is_ok(),
            now < UNIX_EPOCH + Duration::from_secs(10_000_000_000),
        )
    });
    check!("system_time_assign", {
        let mut t = UNIX_EPOCH;
        t += Duration::from_secs(5);
        t -= Duration::from_secs(2);
        t.duration_since(UNIX_EPOCH).ok()
    });
}
