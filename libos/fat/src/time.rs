//! FAT's dates and times, taken as UTC: two 16-bit words, in steps of two seconds, from 1980 to 2107.

const NS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Days from 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March: the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day)
}

/// Nanoseconds since 1970; impossible fields count as the nearest possible ones.
pub fn decode_time(date: u16, time: u16) -> i64 {
    let (date, time) = (i64::from(date), i64::from(time));
    let days = days(1980 + (date >> 9), (date >> 5 & 15).clamp(1, 12), (date & 31).max(1));
    let seconds = (time >> 11).min(23) * 3600 + (time >> 5 & 63).min(59) * 60 + (time & 31).min(29) * 2;
    (days * DAY + seconds) * NS
}

/// Date and time words; what lies outside of FAT's years becomes its first or last moment.
pub fn encode_time(ns: i64) -> (u16, u16) {
    let seconds = ns.div_euclid(NS).clamp(days(1980, 1, 1) * DAY, days(2107, 12, 31) * DAY + DAY - 1);
    let (year, month, day) = date(seconds.div_euclid(DAY));
    let second = seconds.rem_euclid(DAY);
    let date = (year - 1980) << 9 | month << 5 | day;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let time = hour << 11 | minute << 5 | (second % 60 / 2);
    (date as u16, time as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(decode_time(0x21, 0), 315_532_800 * NS, "1980-01-01");
        // 2026-11-20 14:35:16 UTC.
        assert_eq!(encode_time(1_795_185_317 * NS), (46 << 9 | 11 << 5 | 20, 14 << 11 | 35 << 5 | 8));
        assert_eq!(encode_time(-1), (0x21, 0));
        assert_eq!(encode_time(i64::MAX), (127 << 9 | 12 << 5 | 31, 23 << 11 | 59 << 5 | 29));
    }

    #[test]
    fn every_day_comes_back() {
        for day in days(1980, 1, 1)..=days(2107, 12, 31) {
            let (date, time) = encode_time((day * DAY + 12 * 3600) * NS);
            assert_eq!(decode_time(date, time), (day * DAY + 12 * 3600) * NS);
        }
    }
}
