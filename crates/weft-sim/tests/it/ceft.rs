//! CEFT's write benchmark in virtual time, small.

use weft_sim::Link;
use weft_sim::ceft::{Point, Setting, measure};
use weft_wire::proto::Protocol;

/// MB/s that a link of 100 Mbit/s carries of a connection's bytes.
const GOODPUT: f64 = 12.5 * 1448.0 / 1514.0;

/// 2+2 servers behind 100 Mbit/s, 1 MiB a client.
fn small(protocol: Protocol) -> Setting {
    Setting {
        pairs: 2,
        protocol,
        bytes: 1 << 20,
        record: 256 << 10,
        stripe_unit: 64 << 10,
        link: Link::of_rate(12_500_000),
        ..Setting::default()
    }
}

/// As many servers without mirroring.
fn unmirrored(servers: u32) -> Setting {
    Setting {
        pairs: servers,
        is_mirrored: false,
        ..small(Protocol::ServerSync)
    }
}

fn point(setting: &Setting, clients: usize) -> Point {
    let point = measure(setting, clients).unwrap();
    println!("{clients} clients, {setting:?}: {point:?}");
    assert!(point.grave.is_empty(), "{:?}", point.grave);
    assert!(point.overall < point.raw);
    point
}

#[test]
fn one_client_is_as_fast_as_its_link_or_half_of_it_where_it_sends_twice() {
    let alone = point(&unmirrored(2), 1).raw;
    assert!((0.9 * GOODPUT..GOODPUT).contains(&alone), "{alone}");
    // What a server has said nothing to yet sends little: files this small feel that.
    for (protocol, least, most) in [
        (Protocol::ServerAsync, 0.85, 1.0),
        (Protocol::ServerSync, 0.85, 1.0),
        (Protocol::ClientSync, 0.45, 0.5),
    ] {
        let raw = point(&small(protocol), 1).raw / GOODPUT;
        assert!((least..most).contains(&raw), "{protocol:?}: {raw}");
    }
}

#[test]
fn at_saturation_mirroring_costs_the_half_that_the_second_copy_takes() {
    let half = point(&unmirrored(2), 8).raw;
    assert!(
        (0.9 * 2.0 * GOODPUT..1.1 * 2.0 * GOODPUT).contains(&half),
        "{half}"
    );
    let all = point(&unmirrored(4), 8).raw;
    assert!(all > 1.7 * half, "{all} beside {half}");
    for protocol in [Protocol::ServerSync, Protocol::ClientSync] {
        let raw = point(&small(protocol), 8).raw;
        // Half the servers alone do not use all of their links either.
        assert!(
            (0.85..1.02).contains(&(raw / half)),
            "{protocol:?}: {raw} beside {half}"
        );
    }
}

#[test]
fn clients_of_a_cluster_that_has_just_come_up_know_where_all_its_servers_are() {
    // The coordinator's view has not recorded all of them yet. A client that does not know one asks
    // as if it had failed, and waits for a second.
    let setting = Setting {
        bytes: 512 << 10,
        ..unmirrored(8)
    };
    let [_, slowest] = point(&setting, 8).seconds;
    assert!(slowest < 0.5, "{slowest}");
}

#[test]
fn the_same_setting_is_the_same_run() {
    let setting = Setting {
        bytes: 200_000,
        ..small(Protocol::Hybrid)
    };
    let runs = [0, 1].map(|_| point(&setting, 3));
    assert_eq!(runs[0].digest, runs[1].digest);
    assert_eq!(runs[0].overall.to_bits(), runs[1].overall.to_bits());
    let other = Setting { seed: 2, ..setting };
    assert_ne!(point(&other, 3).digest, runs[0].digest);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    assert!(measure(&unmirrored(1), 0).is_err());
    assert!(
        measure(
            &Setting {
                pairs: 0,
                ..small(Protocol::Hybrid)
            },
            1
        )
        .is_err()
    );
}
