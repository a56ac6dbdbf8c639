//! The papers' figures beside ours: every row of the table in docs/reliability.md is computed here, and
//! must stand there as computed.

use crate::common::{DAY, MINUTE, YEAR, load, machines, machines_without_switch};
use weft_model::{
    Chain, Exposure, Group, NEVER, Protocol, Repair, Safety, Scheme, availability, forecast, limits,
};

const PAGE: &str = include_str!("../../../../docs/reliability.md");
const PAIRS: [u32; 3] = [8, 16, 32];

/// The row must begin so: what, the paper's, ours, the difference. The reason after it is prose.
#[track_caller]
fn row(what: &str, paper: &str, ours: &str, difference: &str) {
    let row = format!("| {what} | {paper} | {ours} | {difference} |");
    assert!(
        PAGE.lines().any(|line| line.starts_with(&row)),
        "docs/reliability.md has no row that begins with\n{row}"
    );
}

fn three(format: impl Fn(f64) -> String, values: [f64; 3]) -> String {
    values.map(format).join(", ")
}

fn sync(pairs: u32) -> f64 {
    let load = load(0.0, 0.0);
    forecast(Protocol::ServerSync, Scheme::Ceft, &machines(pairs), &load)
        .unwrap()
        .mttdl
}

fn pvfs(pairs: u32) -> f64 {
    limits::striping(2 * pairs, YEAR, 3.0 * YEAR)
}

/// Where an increasing function takes a value.
fn where_is(value: f64, mut low: f64, mut high: f64, of: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if of(middle) < value {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn percent(ours: f64, paper: f64) -> String {
    format!("{:+.1} %", (ours / paper - 1.0) * 100.0)
}

#[test]
fn ratios_to_pvfs() {
    let paper = [41.0, 64.0, 96.0];
    let sync_ratio = PAIRS.map(|pairs| sync(pairs) / pvfs(pairs));
    row(
        "MTTDL against PVFS, synchronous protocols, 8, 16, 32 pairs",
        "not given",
        &three(|ratio| format!("{ratio:.1}"), sync_ratio),
        "",
    );
    // The paper's own shares of protocols 1 and 3, for which it does not state the inputs.
    let shares = [(0.93, 0.96), (0.93, 0.94), (0.99, 0.99)];
    let mean: [f64; 3] = std::array::from_fn(|at| {
        let (first, third) = shares[at];
        sync_ratio[at] * (first + third + 2.0) / 4.0
    });
    let differences: [String; 3] = std::array::from_fn(|at| percent(mean[at], paper[at]));
    row(
        "MTTDL against PVFS, mean of the four protocols, 8, 16, 32 pairs",
        "41, 64, 96",
        &three(|ratio| format!("{ratio:.1}"), mean),
        &differences.join(", "),
    );
    // No one repair time explains the difference.
    let hours: [f64; 3] = std::array::from_fn(|at| {
        let wanted = paper[at] * sync_ratio[at] / mean[at] * pvfs(PAIRS[at]);
        where_is(-wanted, 0.1 * DAY, 4.0 * DAY, |repair| {
            let load = weft_model::Measured {
                repair,
                ..load(0.0, 0.0)
            };
            -forecast(
                Protocol::ServerSync,
                Scheme::Ceft,
                &machines(PAIRS[at]),
                &load,
            )
            .unwrap()
            .mttdl
        }) / 3600.0
    });
    row(
        "MTTR that these ratios need, 8, 16, 32 pairs",
        "48 h",
        &three(|hours| format!("{hours:.0} h"), hours),
        "",
    );
}

/// The mean time to duplication with which CEFT's protocol 1 (or 3) keeps data for a share of the
/// synchronous protocols' time.
fn mttd_for(share: f64, pairs: u32) -> f64 {
    where_is(-share * sync(pairs), 0.0, MINUTE, |mttd| {
        -forecast(
            Protocol::ServerAsync,
            Scheme::Ceft,
            &machines(pairs),
            &load(mttd, 0.0),
        )
        .unwrap()
        .mttdl
    })
}

#[test]
fn shares_of_the_asynchronous_protocols() {
    for (what, paper, shares) in [
        ("protocol 1", "93, 93, 99 %", [0.93, 0.93, 0.99]),
        ("protocol 3", "96, 94, 99 %", [0.96, 0.94, 0.99]),
    ] {
        let mttd: [f64; 3] = std::array::from_fn(|at| mttd_for(shares[at], PAIRS[at]));
        row(
            &format!("MTTDL of {what} against 2 and 4, 8, 16, 32 pairs"),
            paper,
            &three(|mttd| format!("{:.0} ms", mttd * 1e3), mttd),
            "",
        );
    }
}

#[test]
fn availabilities() {
    let repair = 2.0 * DAY;
    let ours = PAIRS.map(|pairs| availability(pvfs(pairs), repair));
    row(
        "availability of PVFS, 16, 32, 64 nodes",
        "0.91, 0.85, 0.73",
        &three(|ours| format!("{ours:.4}"), ours),
        &three(|difference| format!("{difference:+.4}"), {
            let paper = [0.91, 0.85, 0.73];
            std::array::from_fn(|at| ours[at] - paper[at])
        }),
    );
    // The least of the four protocols is at the paper's 93, 93 and 99 % of the synchronous ones.
    let shares = [0.93, 0.93, 0.99];
    let ours: [f64; 3] =
        std::array::from_fn(|at| availability(shares[at] * sync(PAIRS[at]), repair));
    assert!(ours.iter().all(|ours| *ours > 0.99));
    row(
        "availability of the least available CEFT, 8, 16, 32 pairs",
        "above 0.99",
        &three(|ours| format!("{ours:.4}"), ours),
        "none",
    );
}

#[test]
fn limits_of_the_chain() {
    let never = load(NEVER, NEVER);
    let exposure = Exposure::ceft(Protocol::ServerAsync, &never);
    let missing = |pairs, safety| {
        let assumed = machines_without_switch(pairs);
        let chain = Chain::new(&assumed, &never, exposure, safety).unwrap();
        chain.mttdl_by_states().unwrap() / limits::raid0(&assumed) - 1.0
    };
    row(
        "MTTDL against RAID-0, MTTD without end, 8, 16, 32 pairs",
        "1",
        &three(
            |missing| format!("{:.4}", 1.0 + missing),
            PAIRS.map(|pairs| missing(pairs, Safety::Counted)),
        ),
        &three(
            |missing| format!("{:+.2} %", missing * 100.0),
            PAIRS.map(|pairs| missing(pairs, Safety::Counted)),
        ),
    );
    for pairs in PAIRS {
        assert!(missing(pairs, Safety::Placed).abs() < 1e-9);
    }
}

#[test]
fn metadata_groups() {
    let improvement = |members, repair| {
        Group {
            members,
            mttf: 1.0 / 0.001,
            mttr: 1.0 / 0.9,
            repair,
        }
        .improvement()
        .unwrap()
    };
    row(
        "MTTF of a group of 3 against one server, mu = 0.9, lambda = 0.001",
        "135,601",
        &format!("{:.1}", improvement(3, Repair::OneAtATime)),
        "+0.8",
    );
    for (standbys, paper) in [(1, 3), (2, 6), (3, 9), (4, 12), (5, 15)] {
        row(
            &standbys.to_string(),
            &format!("10^{paper}"),
            &format!("{:.1e}", improvement(1 + standbys, Repair::OneAtATime)),
            &format!("{:.1e}", improvement(1 + standbys, Repair::Each)),
        );
    }
}

/// What the page says of Weft's own variant.
#[test]
fn what_clients_that_keep_are_worth() {
    for (pairs, share) in [(8, 0.93), (16, 0.93), (32, 0.99)] {
        let mttd = mttd_for(share, pairs);
        let load = load(mttd, mttd);
        let of = |protocol, scheme| {
            forecast(protocol, scheme, &machines(pairs), &load)
                .unwrap()
                .mttdl
        };
        let sync = of(Protocol::ServerSync, Scheme::Ceft);
        let short = |mttdl: f64| 1.0 - mttdl / sync;
        row(
            &pairs.to_string(),
            &format!("{:.0} ms", mttd * 1e3),
            &format!(
                "{:.1} %",
                short(of(Protocol::ServerAsync, Scheme::Ceft)) * 100.0
            ),
            &format!("{:.1e}", short(of(Protocol::ServerAsync, Scheme::Weft))),
        );
    }
}
