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

#[cfg(test)]
mod tests {
    use super::*;

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
