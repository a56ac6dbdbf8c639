//! The models against simulations with a fixed seed: one of the chain itself, and one of nodes, queues and
//! clients that knows neither states nor rates between them.
//!
//! An answer must lie within 3.3 standard errors of the simulated mean (99.9 %), and the standard error
//! must be so small that it would not with another model.

use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};
use weft_model::{
    Assumed, Chain, Exposure, Group, Measured, Mttd, NEVER, Protocol, Repair, Safety, Scheme,
    forecast,
};

/// Nodes that fail often against their repair, so that a life has few events; a slow disk, so that much
/// waits.
const ASSUMED: Assumed = Assumed {
    pairs: 3,
    mttf_node: 1000.0,
    mttf_switch: 4000.0,
    mttf_client: 100.0,
};
const LOAD: Measured = Measured {
    mttw: 1.0,
    mttd: Mttd {
        server_async: 0.6,
        client_async: 0.3,
    },
    repair: 100.0,
    async_share: 0.5,
    window: 2.0,
};

struct Dice(TestRng);

impl Dice {
    fn new(seed: u8) -> Dice {
        Dice(TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]))
    }

    fn below_one(&mut self) -> f64 {
        self.0.random::<f64>()
    }

    /// The time until something that comes with this mean.
    fn wait(&mut self, mean: f64) -> f64 {
        -(1.0 - self.below_one()).ln() * mean
    }
}

/// Mean and standard error.
struct Mean {
    value: f64,
    error: f64,
}

impl Mean {
    fn of(runs: u32, mut one: impl FnMut() -> f64) -> Mean {
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..runs {
            let life = one();
            sum += life;
            squares += life * life;
        }
        let runs = f64::from(runs);
        let value = sum / runs;
        Mean {
            value,
            error: ((squares / runs - value * value) / (runs - 1.0)).sqrt(),
        }
    }

    #[track_caller]
    fn assert_is(&self, model: f64) {
        let off = (self.value - model).abs() / self.error;
        assert!(
            off < 3.3,
            "simulated {} +- {}, model {model}: {off:.1} standard errors",
            self.value,
            self.error
        );
    }

    #[track_caller]
    fn assert_is_not(&self, other: f64) {
        let off = (self.value - other).abs() / self.error;
        assert!(
            off > 6.0,
            "{} +- {} does not tell {other} apart",
            self.value,
            self.error
        );
    }
}

/// One life of a chain, from its rates.
fn chain_life(chain: &Chain, dice: &mut Dice) -> f64 {
    let (mut m, mut n, mut time) = (0, 0, 0.0);
    loop {
        let rates = chain.rates(m, n);
        let out = rates.primary_fails + rates.backup_fails + rates.repairs() + rates.lost;
        time += dice.wait(1.0 / out);
        let mut at = dice.below_one() * out;
        let mut picked = |rate: f64| {
            at -= rate;
            at < 0.0
        };
        if picked(rates.primary_fails) {
            m += 1;
        } else if picked(rates.backup_fails) {
            n += 1;
        } else if picked(rates.primary_repaired) {
            m -= 1;
        } else if picked(rates.backup_repaired) {
            n -= 1;
        } else {
            return time;
        }
    }
}

#[test]
fn the_chain_lives_as_long_as_its_simulation() {
    for safety in [Safety::Counted, Safety::Placed] {
        let exposure = Exposure::ceft(Protocol::ServerAsync, &LOAD);
        let chain = Chain::new(&ASSUMED, &LOAD, exposure, safety).unwrap();
        let mut dice = Dice::new(1);
        let lives = Mean::of(40_000, || chain_life(&chain, &mut dice));
        lives.assert_is(chain.mttdl().unwrap());
        lives.assert_is(chain.mttdl_by_states().unwrap());
        let sync = Chain::new(&ASSUMED, &LOAD, Exposure::NONE, safety).unwrap();
        lives.assert_is_not(sync.mttdl().unwrap());
    }
}

/// Writes before a server's death at time 0, in a queue that has run since long: when each was made, and when
/// it is duplicated if nobody dies.
fn writes(mttw: f64, mttd: f64, dice: &mut Dice) -> Vec<(f64, f64)> {
    let long = 200.0 * mttw.max(mttd);
    let (mut now, mut free) = (-long, -long);
    let mut writes = Vec::new();
    loop {
        now += dice.wait(mttw);
        if now > 0.0 {
            return writes;
        }
        free = now.max(free) + dice.wait(mttd);
        writes.push((now, free));
    }
}

/// Ages of those that wait for duplication when their server dies.
fn waiting(mttw: f64, mttd: f64, dice: &mut Dice) -> Vec<f64> {
    writes(mttw, mttd, dice)
        .into_iter()
        .filter(|(_, duplicated)| *duplicated > 0.0)
        .map(|(made, _)| -made)
        .collect()
}

/// Loses a member's death anything?
type Loses<'a> = &'a dyn Fn(usize, &mut Dice) -> bool;

/// One life of a cluster: nodes of their own, each with the time of its next change.
fn cluster_life(loses: Loses<'_>, dice: &mut Dice) -> f64 {
    struct Node {
        up: bool,
        changes: f64,
    }
    let switch = dice.wait(ASSUMED.mttf_switch);
    let mut nodes: Vec<Node> = (0..2 * ASSUMED.pairs)
        .map(|_| Node {
            up: true,
            changes: dice.wait(ASSUMED.mttf_node),
        })
        .collect();
    loop {
        let (at, now) = nodes
            .iter()
            .map(|node| node.changes)
            .enumerate()
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap();
        if switch < now {
            return switch;
        }
        let partner_up = nodes[at ^ 1].up;
        let node = &mut nodes[at];
        node.up = !node.up;
        if node.up {
            node.changes = now + dice.wait(ASSUMED.mttf_node);
        } else {
            node.changes = now + dice.wait(LOAD.repair);
            if !partner_up || loses(at & 1, dice) {
                return now;
            }
        }
    }
}

#[test]
fn primaries_with_queues_live_as_long_as_the_chain_says() {
    for (protocol, mttd, share) in [
        (Protocol::ServerAsync, LOAD.mttd.server_async, 1.0),
        (Protocol::ClientAsync, LOAD.mttd.client_async, 1.0),
        (Protocol::Hybrid, LOAD.mttd.client_async, LOAD.async_share),
    ] {
        let loses = |member: usize, dice: &mut Dice| {
            member == 0 && dice.below_one() < share && !waiting(LOAD.mttw, mttd, dice).is_empty()
        };
        let mut dice = Dice::new(2);
        let lives = Mean::of(20_000, || cluster_life(&loses, &mut dice));
        let exposure = Exposure::ceft(protocol, &LOAD);
        let placed = Chain::new(&ASSUMED, &LOAD, exposure, Safety::Placed).unwrap();
        lives.assert_is(placed.mttdl().unwrap());
        let sync = Chain::new(&ASSUMED, &LOAD, Exposure::NONE, Safety::Placed).unwrap();
        lives.assert_is_not(sync.mttdl().unwrap());
    }
}

#[test]
fn without_anything_waiting_only_pairs_and_the_switch_end_it() {
    let mut dice = Dice::new(3);
    let lives = Mean::of(20_000, || cluster_life(&|_, _| false, &mut dice));
    for protocol in [Protocol::ServerSync, Protocol::ClientSync] {
        for scheme in [Scheme::Ceft, Scheme::Weft] {
            lives.assert_is(forecast(protocol, scheme, &ASSUMED, &LOAD).unwrap().mttdl);
        }
    }
}

/// Half of the writes wait at each member; each was written by a client of its own, which lived then, and
/// saves it unless it dies before the window after the member's death is over.
#[test]
fn clients_that_keep_what_one_member_holds_save_what_the_model_says() {
    let mttd = LOAD.mttd.server_async;
    let loses = |_: usize, dice: &mut Dice| {
        waiting(2.0 * LOAD.mttw, mttd, dice)
            .into_iter()
            .any(|age| dice.wait(ASSUMED.mttf_client) < age + LOAD.window)
    };
    let mut dice = Dice::new(4);
    // How often a death loses something is rare here: it is counted by itself.
    let deaths = 400_000;
    let lost = Mean::of(deaths, || f64::from(u8::from(loses(0, &mut dice))));
    let exposure = Exposure::weft(Protocol::ServerAsync, &ASSUMED, &LOAD);
    lost.assert_is(exposure.primary);
    let no_window = Measured {
        window: 0.0,
        ..LOAD
    };
    let unprotected = Exposure::ceft(Protocol::ServerAsync, &LOAD);
    lost.assert_is_not(Exposure::weft(Protocol::ServerAsync, &ASSUMED, &no_window).primary);
    lost.assert_is_not(unprotected.primary / 2.0);
    let lives = Mean::of(20_000, || cluster_life(&loses, &mut dice));
    let weft = forecast(Protocol::ServerAsync, Scheme::Weft, &ASSUMED, &LOAD).unwrap();
    let ceft = forecast(Protocol::ServerAsync, Scheme::Ceft, &ASSUMED, &LOAD).unwrap();
    lives.assert_is(weft.mttdl);
    lives.assert_is_not(ceft.mttdl);
}

/// Under client-async nobody goes on for a dead client: what it owes is open until the pair has settled it.
/// Half of the window is that time, half is for noticing a server's death and sending again.
#[test]
fn what_a_dead_client_owes_is_in_the_window() {
    let mttd = LOAD.mttd.client_async;
    let (settles, resends) = (LOAD.window / 2.0, LOAD.window / 2.0);
    let mut dice = Dice::new(7);
    let lost = Mean::of(400_000, || {
        let lost =
            writes(2.0 * LOAD.mttw, mttd, &mut dice)
                .into_iter()
                .any(|(made, duplicated)| {
                    let client_dies = made + dice.wait(ASSUMED.mttf_client);
                    if client_dies < 0.0 {
                        client_dies < duplicated && client_dies + settles > 0.0
                    } else {
                        duplicated > 0.0 && client_dies < resends
                    }
                });
        f64::from(u8::from(lost))
    });
    // To the first order: as many as wait, times the probability of a death in the window.
    let waiting = 1.0 / (2.0 * LOAD.mttw / mttd - 1.0);
    lost.assert_is(waiting * LOAD.window / ASSUMED.mttf_client);
    lost.assert_is_not(waiting * resends / ASSUMED.mttf_client);
    // The model adds the age, which is in the time to settle here: it promises less, not more.
    let model = Exposure::weft(Protocol::ClientAsync, &ASSUMED, &LOAD).primary;
    assert!(model > lost.value && model < 1.3 * lost.value, "{model}");
}

/// The bound on what is lost stays one where clients die so often that several writes are lost at once.
#[test]
fn the_model_never_promises_more_than_happens() {
    let assumed = Assumed {
        mttf_client: 1.0,
        ..ASSUMED
    };
    let load = Measured {
        mttd: Mttd {
            server_async: 1.6,
            client_async: 0.0,
        },
        ..LOAD
    };
    let mut dice = Dice::new(5);
    let lost = Mean::of(20_000, || {
        let ages = waiting(2.0 * load.mttw, load.mttd.server_async, &mut dice);
        let lost = ages
            .into_iter()
            .any(|age| dice.wait(assumed.mttf_client) < age + load.window);
        f64::from(u8::from(lost))
    });
    let model = Exposure::weft(Protocol::ServerAsync, &assumed, &load).primary;
    assert!(
        model > lost.value - 3.3 * lost.error,
        "{model} promises more than {}",
        lost.value
    );
    assert!(model <= 0.8);
}

#[test]
fn groups_live_as_long_as_their_simulation() {
    for repair in [Repair::OneAtATime, Repair::Each] {
        let group = Group {
            members: 4,
            mttf: 10.0,
            mttr: 2.0,
            repair,
        };
        let mut dice = Dice::new(6);
        let lives = Mean::of(40_000, || {
            let (mut time, mut failed) = (0.0, 0);
            while failed < group.members {
                let fails = dice.wait(group.mttf / f64::from(group.members - failed));
                let repaired = match (failed, repair) {
                    (0, _) => NEVER,
                    (_, Repair::OneAtATime) => dice.wait(group.mttr),
                    (failed, Repair::Each) => dice.wait(group.mttr / f64::from(failed)),
                };
                time += fails.min(repaired);
                if fails < repaired {
                    failed += 1;
                } else {
                    failed -= 1;
                }
            }
            time
        });
        lives.assert_is(group.mttf().unwrap());
    }
}
