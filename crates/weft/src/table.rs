//! Columns for people.

/// Rows under a heading, columns as wide as their widest cell. The last column is not padded.
pub fn render(heading: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut widths: Vec<usize> = heading.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}", width = width))
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let heading: Vec<String> = heading.iter().map(|cell| (*cell).to_owned()).collect();
    let mut out = line(&heading);
    for row in &rows {
        out += &line(row);
    }
    out
}

/// Bytes with a unit: three significant digits are enough for people; JSON has the number.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{count} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// A duration for people.
pub fn seconds(value: f64) -> String {
    if value < 1.0 {
        format!("{:.0} ms", value * 1e3)
    } else if value < 120.0 {
        format!("{value:.1} s")
    } else {
        format!("{:.0} min", value / 60.0)
    }
}

/// A time in seconds since 1970, as a date and a time of day in UTC.
pub fn moment(seconds: i64) -> String {
    let (day, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years are counted from March on, so that the leap day is the last of one; 400 of them have 146 097 days.
    let from_march = day + 719_468;
    let (era, day_of_era) = (
        from_march.div_euclid(146_097),
        from_march.rem_euclid(146_097),
    );
    let leaps = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era + i64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates() {
        for (seconds, said) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_868_799, "2000-02-29 23:59:59"),
            (1_709_251_200, "2024-03-01 00:00:00"),
            (1_735_689_599, "2024-12-31 23:59:59"),
            (-1, "1969-12-31 23:59:59"),
        ] {
            assert_eq!(moment(seconds), said);
        }
    }

    #[test]
    fn columns_line_up() {
        let out = render(
            &["a", "bb"],
            vec![
                vec!["long".into(), "x".into()],
                vec!["s".into(), "y".into()],
            ],
        );
        assert_eq!(out, "a     bb\nlong  x\ns     y\n");
    }

    #[test]
    fn bytes_get_the_unit_that_fits() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(5 << 30), "5.0 GiB");
    }
}
