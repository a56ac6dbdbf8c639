//! What people get: tables.

use super::{Report, Shared, Together};
use crate::table::render;
use weft_probe::limit::{Shape, rate};
use weft_probe::model::Parameters;

/// A time with three digits and the unit that fits.
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        _ if seconds >= 1.0 => (seconds, "s"),
        _ if seconds >= 1e-3 => (seconds * 1e3, "ms"),
        _ => (seconds * 1e6, "us"),
    };
    match value {
        _ if value >= 100.0 => format!("{value:.0} {unit}"),
        _ if value >= 10.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.2} {unit}"),
    }
}

/// Bytes of a message.
fn size(bytes: u32) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// Which node has which number.
pub fn nodes(report: &Report) -> String {
    let nodes = report.nodes.iter().enumerate();
    let rows = nodes.map(|(at, address)| vec![at.to_string(), address.clone()]);
    render(&["node", "peer"], rows.collect())
}

/// Parametrised LogP from node 0 to node 1.
pub fn parameters(found: &Parameters) -> String {
    let rows = found.sizes.iter().map(|at| {
        vec![
            size(at.bytes),
            time(at.send.median),
            time(at.receive.median),
            time(at.gap.median),
            rate(at.bandwidth()),
            time(at.round_trip.median),
            time(at.delivery),
            time(at.delivery_by_model),
            rate(at.bandwidth_alone()),
        ]
    });
    let table = render(
        &[
            "message", "os(m)", "or(m)", "g(m)", "m/g(m)", "RTT(m)", "T(m)", "by LogGP", "m/T(m)",
        ],
        rows.collect(),
    );
    format!(
        "from 0 to 1:  L {}, g {}, G {:.3} ns a byte ({}), g(m) within {:.0} % of g + (m-1)G\n{table}",
        time(found.latency),
        time(found.gap),
        found.gap_per_byte * 1e9,
        rate(found.bandwidth()),
        found.error * 100.0
    )
}

/// Each node to each other alone.
pub fn matrix(report: &Report) -> String {
    let count = report.nodes.len();
    let numbers: Vec<String> = (0..count).map(|to| to.to_string()).collect();
    let mut heading = vec!["from \\ to"];
    heading.extend(numbers.iter().map(String::as_str));
    let cell = |from: usize, to: usize| {
        let flow = report
            .matrix
            .iter()
            .find(|flow| (flow.route.from, flow.route.to) == (from, to));
        flow.map_or_else(
            || "-".into(),
            |flow| {
                let trip = flow.round_trip.map_or_else(|| "-".into(), time);
                format!("{}, {trip}", rate(flow.bandwidth))
            },
        )
    };
    let rows = (0..count).map(|from| {
        let mut row = vec![from.to_string()];
        row.extend((0..count).map(|to| cell(from, to)));
        row
    });
    format!(
        "one route at a time, messages of {}: bandwidth, round trip of the smallest\n{}",
        size(report.message_bytes),
        render(&heading, rows.collect())
    )
}

/// Least, mean and greatest.
fn spread(values: impl Iterator<Item = f64> + Clone, shown: fn(f64) -> String) -> [String; 3] {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.clone().fold(f64::NEG_INFINITY, f64::max);
    let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
    [least, sum / f64::from(count.max(1)), most].map(shown)
}

/// Ever more pairs at the same time.
pub fn pairs(report: &Report) -> String {
    let rows = report.pairs.iter().map(|together| {
        let gaps = together.flows.iter().map(|flow| flow.gap.median);
        let rates = together.flows.iter().map(|flow| flow.bandwidth);
        let mut row = vec![together.flows.len().to_string()];
        row.extend(spread(gaps, time));
        row.extend(spread(rates, rate));
        row.push(rate(together.bandwidth));
        row
    });
    let table = render(
        &[
            "pairs",
            "gap: least",
            "mean",
            "most",
            "each: least",
            "mean",
            "most",
            "in all",
        ],
        rows.collect(),
    );
    format!(
        "pairs of nodes (0 to 1, 2 to 3, ...) at the same time, messages of {}\n{table}",
        size(report.message_bytes)
    )
}

/// What links carry as files use them.
pub fn links(nodes: &[String], shared: &Shared) -> String {
    let others = nodes.len() - 1;
    let row = |what: String, together: &Together| {
        let rates = together.flows.iter().map(|flow| flow.bandwidth);
        let mut row = vec![what];
        row.extend(spread(rates, rate));
        row.push(rate(together.bandwidth));
        row
    };
    let mut rows = vec![
        row(format!("from 0 to {others} others"), &shared.out),
        row(format!("from {others} others to 0"), &shared.into),
    ];
    if let Some(around) = &shared.around {
        let what = format!("each of the {others} others to the next");
        rows.push(row(what, around));
    }
    let heading = ["at the same time", "each: least", "mean", "most", "in all"];
    render(&heading, rows)
}

/// Who is the limit, in sentences, and what to bear in mind.
pub fn judgements(report: &Report, shape: Shape) -> String {
    let said = report.judgements.iter();
    let mut text: String = said.map(|judged| format!("{judged}\n")).collect();
    let (servers, measured) = (2 * u64::from(shape.pairs), report.nodes.len() as u64 - 1);
    if measured < servers {
        text += &format!(
            "(Nodes 1 to {measured} stand for the cluster's {servers} servers. Name a peer on each: one client may get more \
             from all of them.)\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_the_unit_that_fits() {
        assert_eq!(time(1.234e-6), "1.23 us");
        assert_eq!(time(98.76e-6), "98.8 us");
        assert_eq!(time(0.5), "500 ms");
        assert_eq!(time(4.2), "4.20 s");
        assert_eq!(size(1), "1 B");
        assert_eq!(size(1500), "1500 B");
        assert_eq!(size(65536), "64 KiB");
        assert_eq!(size(3 << 20), "3 MiB");
    }

    #[test]
    fn the_least_the_mean_and_the_most() {
        let shown = spread([3.0, 1.0, 2.0].into_iter(), |value| value.to_string());
        assert_eq!(shown, ["1", "2", "3"]);
    }
}
