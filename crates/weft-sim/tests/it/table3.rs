//! The paper's test scenarios and state transitions (MAMS, Zhou et al., IEEE TPDS 2020, section 5.5.2, table 3): one
//! active and three standbys; the active loses its right to lead (A), the network is cut and comes back (B), processes
//! are killed and started again (C). Each state that a server goes through must be one that it may go to, service
//! returns every time, and what was acknowledged is there. `cargo test -p weft-sim --test it table3:: -- --nocapture`
//! prints the paper's table with ours beside it.

use crate::group::{Group, MS, Maker, SECOND, in_world};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use weft_coordinator::Coordinator;
use weft_sim::World;
use weft_wire::proto::View;
use weft_wire::proto::group_member::Role;

/// What a server is: by the view, but while it is in a fault's way nobody can tell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum State {
    Active,
    Standby,
    Junior,
    /// Killed, cut off, or between two lives: "still in a fault state".
    Away,
}
use State::{Active, Away, Junior, Standby};

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Active => "A",
            Standby => "S",
            Junior => "J",
            Away => "-",
        })
    }
}

/// From what to what a server may go, and why (docs/protocols/election.md). Nothing else is legal here: a junior
/// leads only where too few of those that count are left, which is not so in these tests.
const LEGAL: [(State, State, &str); 9] = [
    (Standby, Active, "it has the next epoch"),
    (
        Active,
        Standby,
        "another has a later epoch, or nobody has this one",
    ),
    (Standby, Junior, "it did not answer: it counts no more"),
    (Junior, Standby, "renewed: it counts again"),
    (Active, Away, "a fault"),
    (Standby, Away, "a fault"),
    (Junior, Away, "a fault"),
    (Away, Standby, "back, and it counts"),
    (Away, Junior, "back, and it lacks something"),
];

/// The states of all servers at a time.
type Row = Vec<State>;

/// One test of the paper: its columns are MDS (the first active), BN, BN, BN.
struct Paper {
    name: &'static str,
    states: [&'static str; 10],
    /// Numbers of states that ours does not go through, and why.
    without: &'static [usize],
    why: &'static str,
}

const PAPER_A: Paper = Paper {
    name: "Test A: the active loses its right to lead",
    states: [
        "ASSS", "-SSS", "-ASS", "SASS", "S-SS", "S-AS", "SSAS", "SS-S", "SS-A", "SSSA",
    ],
    without: &[3, 6, 9],
    why: "who has lost the lead is a standby again before another is elected",
};
const PAPER_B: Paper = Paper {
    name: "Test B: the network is cut and comes back",
    states: [
        "ASSS", "AS--", "ASJJ", "ASSS", "--SS", "--AS", "J-AS", "S-AS", "SJAS", "SSAS",
    ],
    without: &[],
    why: "",
};
const PAPER_C: Paper = Paper {
    name: "Test C: processes are killed and started again",
    states: [
        "ASSS", "-SSS", "-ASS", "JASS", "SASS", "S--S", "S--A", "SJ-A", "SSJA", "SSSA",
    ],
    without: &[],
    why: "",
};

fn row_of(text: &str) -> Row {
    let state = |letter| match letter {
        'A' => Active,
        'S' => Standby,
        'J' => Junior,
        _ => Away,
    };
    text.chars().map(state).collect()
}

/// A group of four under test, and a client that works on it all the time.
struct Scene {
    world: World,
    group: Rc<Group>,
    maker: Rc<Maker>,
    /// Whom the test has cut off.
    cut: RefCell<BTreeSet<usize>>,
    /// Since when who is away, as looked at often.
    away: RefCell<Vec<(Duration, BTreeSet<usize>)>>,
    is_done: Cell<bool>,
    /// Longest times without an answer after each fault.
    pauses: RefCell<Vec<Duration>>,
}

impl Scene {
    async fn new(world: &World) -> Rc<Scene> {
        let group = Group::started(world, 4).await;
        let maker = Maker::new(&group, "maker").await;
        maker.make(world, 20).await;
        // Who was just started has forgotten what it promised.
        world.sleep(SECOND).await;
        group.service.keep_history();
        Rc::new(Scene {
            world: world.clone(),
            group,
            maker,
            cut: RefCell::default(),
            away: RefCell::default(),
            is_done: Cell::new(false),
            pauses: RefCell::default(),
        })
    }

    fn who_is_away(&self) -> BTreeSet<usize> {
        let is_away = |member: &usize| {
            let server = self.group.servers[*member].borrow();
            let lives = server.as_ref().is_some_and(weft_meta::Server::has_life);
            !lives || self.cut.borrow().contains(member)
        };
        self.group.members().into_iter().filter(is_away).collect()
    }

    /// Notes who is away, and that never two lead.
    async fn watch(&self) {
        while !self.is_done.get() {
            let now = self.who_is_away();
            let is_new = self
                .away
                .borrow()
                .last()
                .is_none_or(|(_, last)| *last != now);
            if is_new {
                self.away.borrow_mut().push((self.world.now(), now));
            }
            self.group.active();
            self.world.sleep(MS / 10).await;
        }
    }

    async fn work(&self) {
        while !self.is_done.get() {
            self.maker.make(&self.world, 5).await;
            self.world.sleep(5 * MS).await;
        }
    }

    fn begin_fault(&self) {
        self.maker.longest.set(Duration::ZERO);
    }

    /// Returns when all is as it was, with who leads. The client has gone on.
    async fn settled(&self) -> usize {
        let made = self.maker.made.get();
        while self.maker.made.get() < made + 10 {
            self.world.sleep(MS).await;
        }
        self.world.sleep(SECOND).await;
        self.group.all_count().await;
        self.group.led_by(|_| true).await
    }

    fn end_fault(&self) {
        self.pauses.borrow_mut().push(self.maker.longest.get());
    }

    fn cut_off(&self, member: usize) {
        let name = self.group.nodes[member].name();
        self.world.net().isolate(&name);
        self.group.service.cut_off(&name);
        self.cut.borrow_mut().insert(member);
    }

    fn reconnect(&self, member: usize) {
        let name = self.group.nodes[member].name();
        self.cut.borrow_mut().remove(&member);
        let others = self.group.nodes.iter().map(weft_sim::Node::name);
        let is_cut = |other: &String| {
            let cut = self.cut.borrow();
            cut.iter().any(|it| self.group.nodes[*it].name() == *other)
        };
        let others = others.chain(["maker".to_owned(), "operator".to_owned()]);
        for other in others.filter(|other| *other != name && !is_cut(other)) {
            self.world.net().heal_between(&name, &other);
        }
        self.group.service.heal(&name);
    }

    /// Nobody has the right to lead from now on: the view says so.
    async fn take_the_lead_away(&self) {
        let env = self.world.node("operator").env();
        let coordinator = self.group.service.open(&env);
        loop {
            let mut view = coordinator.view().await.unwrap();
            view.version += 1;
            let group = &mut view.groups[0];
            group.epoch += 1;
            group.active = 0;
            for member in &mut group.members {
                if member.role() == Role::Active {
                    member.role = Role::Standby as i32;
                }
            }
            if coordinator.compare_and_set(view).await.is_ok() {
                return;
            }
        }
    }

    /// Has the history begin with the view as it is.
    async fn touch_view(&self) {
        let env = self.world.node("operator").env();
        let coordinator = self.group.service.open(&env);
        loop {
            let mut view = coordinator.view().await.unwrap();
            view.version += 1;
            if coordinator.compare_and_set(view).await.is_ok() {
                return;
            }
        }
    }

    /// All rows since the beginning, and when each began.
    fn rows(&self) -> Vec<(Duration, Row)> {
        let mut views: BTreeMap<Duration, View> = BTreeMap::new();
        for (at, view) in self.group.service.history() {
            views.insert(Duration::from_nanos(at), view);
        }
        let away = self.away.borrow();
        let mut times: BTreeSet<Duration> = views.keys().copied().collect();
        times.extend(away.iter().map(|(at, _)| *at));
        let mut rows: Vec<(Duration, Row)> = Vec::new();
        for at in times {
            let view = views.range(..=at).next_back().map(|(_, view)| view);
            let now = away.iter().rev().find(|(since, _)| *since <= at);
            let (Some(view), Some((_, away))) = (view, now) else {
                continue;
            };
            let row: Row = (0..4)
                .map(|member| match away.contains(&member) {
                    true => Away,
                    false => state_in(view, member),
                })
                .collect();
            if rows.last().is_none_or(|(_, last)| *last != row) {
                rows.push((at, row));
            }
        }
        rows
    }
}

fn state_in(view: &View, member: usize) -> State {
    match view.groups[0].members[member].role() {
        Role::Active => Active,
        Role::Standby => Standby,
        Role::Junior | Role::Unspecified => Junior,
    }
}

/// Each server goes from a state to one that it may go to, of two none is active at the same time, epochs rise.
fn check_legal(rows: &[(Duration, Row)], history: &[(u64, View)]) {
    for (_, row) in rows {
        let actives = row.iter().filter(|state| **state == Active).count();
        assert!(actives <= 1, "{rows:?}");
    }
    for two in rows.windows(2) {
        for (from, to) in two[0].1.iter().zip(&two[1].1) {
            let is_legal = LEGAL.iter().any(|(a, b, _)| (a, b) == (from, to));
            assert!(
                from == to || is_legal,
                "{from} -> {to} is not legal: {two:?}"
            );
        }
    }
    for two in history.windows(2) {
        let (before, after) = (&two[0].1.groups[0], &two[1].1.groups[0]);
        let is_next = after.epoch == before.epoch + 1;
        let is_same = after.epoch == before.epoch && after.active == before.active;
        assert!(is_next || is_same, "{before:?} {after:?}");
    }
}

/// The servers in the paper's order: `first`, then whoever else became active, in this order, then the rest.
fn in_the_papers_order(rows: &[(Duration, Row)], first: &[usize]) -> Vec<usize> {
    let mut order = first.to_vec();
    let became_active = rows
        .iter()
        .filter_map(|(_, row)| row.iter().position(|it| *it == Active));
    for member in became_active.chain(0..4) {
        if !order.contains(&member) {
            order.push(member);
        }
    }
    order
}

/// For each of our rows which of the paper's it is; None: not all of the paper's are there, in order.
fn matched(paper: &Paper, rows: &[(Duration, Row)]) -> Option<Vec<Option<usize>>> {
    let numbers = (1..=paper.states.len()).filter(|number| !paper.without.contains(number));
    let mut left = numbers.peekable();
    let marks = rows
        .iter()
        .map(|(_, row)| left.next_if(|number| row_of(paper.states[number - 1]) == *row))
        .collect();
    left.peek().is_none().then_some(marks)
}

fn print_table(paper: &Paper, seed: u64, rows: &[(Duration, Row)], marks: &[Option<usize>]) {
    let cells = |row: &Row| {
        let states: Vec<String> = row.iter().map(ToString::to_string).collect();
        states.join("   ")
    };
    let left =
        |number: usize| format!("{number:>5}   {}", cells(&row_of(paper.states[number - 1])));
    println!(
        "\n{} (seed {seed})\n        the paper                 ours",
        paper.name
    );
    println!("state   MDS BN  BN  BN            MDS BN  BN  BN    since");
    let began = rows[0].0;
    for ((at, row), mark) in rows.iter().zip(marks) {
        if let Some(number) = *mark
            && paper.without.contains(&(number.saturating_sub(1)))
        {
            println!("{:<34}({})", left(number - 1), paper.why);
        }
        let since = (*at - began).as_secs_f64();
        let left = mark.map_or(String::new(), left);
        println!("{left:<34}{}    {since:.3} s", cells(row));
    }
}

/// What came of a test: the rows in the paper's order, and how long the client waited for an answer after each
/// fault.
struct Told {
    rows: Vec<(Duration, Row)>,
    pauses: Vec<Duration>,
}

/// Runs a test with some seeds. In each every sequence is legal and service returns; who of several standbys is
/// elected differs, and at least one goes through all states of the paper's table, which is printed.
fn run<F>(paper: &Paper, pause_max: Duration, scenario: F)
where
    F: AsyncFn(&Scene) -> Vec<usize> + Copy + 'static,
{
    let mut shown = None;
    let mut longest = Duration::ZERO;
    for seed in 0..SEEDS {
        let told = Rc::new(RefCell::new(None));
        let put = told.clone();
        in_world(seed, async move |world| {
            let scene = Scene::new(&world).await;
            let (working, watching) = (scene.work(), scene.watch());
            let testing = async {
                // The first row: the view as it is.
                scene.touch_view().await;
                world.sleep(10 * MS).await;
                let order = scenario(&scene).await;
                scene.is_done.set(true);
                order
            };
            let ((), (), order) = futures_util::join!(working, watching, testing);
            scene.maker.check(&scene.group).await;
            scene.group.all_the_same().await;
            let rows = scene.rows();
            check_legal(&rows, &scene.group.service.history());
            let order = in_the_papers_order(&rows, &order);
            let sorted = |row: &Row| order.iter().map(|member| row[*member]).collect();
            put.replace(Some(Told {
                rows: rows.iter().map(|(at, row)| (*at, sorted(row))).collect(),
                pauses: scene.pauses.borrow().clone(),
            }));
        });
        let told = told.take().unwrap();
        longest = longest.max(told.pauses.iter().copied().max().unwrap_or_default());
        if shown.is_none()
            && let Some(marks) = matched(paper, &told.rows)
        {
            shown = Some((seed, told, marks));
        }
    }
    let (seed, told, marks) = shown.expect("no seed goes through the paper's states");
    print_table(paper, seed, &told.rows, &marks);
    println!(
        "longest wait after each fault: {:?}; over {SEEDS} seeds: {longest:?}",
        told.pauses
    );
    assert!(longest < pause_max, "service was away for {longest:?}");
}

/// Of the orders in which standbys are elected the paper's is one of five or so in test A.
const SEEDS: u64 = 16;

#[test]
fn test_a_the_active_loses_its_right_to_lead() {
    let scenario = async |scene: &Scene| {
        let first = scene.group.active().unwrap();
        for _ in 0..3 {
            scene.begin_fault();
            scene.take_the_lead_away().await;
            scene.settled().await;
            scene.end_fault();
        }
        vec![first]
    };
    run(&PAPER_A, 2 * SECOND, scenario);
}

#[test]
fn test_b_the_network_is_cut_and_comes_back() {
    let scenario = async |scene: &Scene| {
        let first = scene.group.active().unwrap();
        let others: Vec<usize> = (0..4).filter(|member| *member != first).collect();
        // Two standbys, and both come back.
        scene.begin_fault();
        others[1..].iter().for_each(|member| scene.cut_off(*member));
        scene.world.sleep(3 * SECOND).await;
        others[1..]
            .iter()
            .for_each(|member| scene.reconnect(*member));
        assert_eq!(scene.settled().await, first);
        scene.end_fault();
        // The active and a standby, which come back one after the other.
        scene.begin_fault();
        scene.cut_off(first);
        scene.cut_off(others[0]);
        scene
            .group
            .led_by(|member| member != first && member != others[0])
            .await;
        scene.world.sleep(8 * SECOND).await;
        scene.reconnect(first);
        scene.world.sleep(3 * SECOND).await;
        scene.reconnect(others[0]);
        scene.settled().await;
        scene.end_fault();
        vec![first, others[0]]
    };
    run(&PAPER_B, 10 * SECOND, scenario);
}

#[test]
fn test_c_processes_are_killed_and_started_again() {
    let scenario = async |scene: &Scene| {
        let group = &scene.group;
        let first = group.active().unwrap();
        scene.begin_fault();
        group.kill(first);
        let second = group.led_by(|member| member != first).await;
        scene.world.sleep(3 * SECOND).await;
        group.start(first);
        scene.settled().await;
        scene.end_fault();
        // The new active, and a standby with it.
        let third = (0..4)
            .find(|member| *member != first && *member != second)
            .unwrap();
        scene.begin_fault();
        group.kill(second);
        group.kill(third);
        group
            .led_by(|member| member != second && member != third)
            .await;
        scene.world.sleep(3 * SECOND).await;
        for member in [second, third] {
            group.start(member);
            scene.world.sleep(3 * SECOND).await;
        }
        scene.settled().await;
        scene.end_fault();
        vec![first, second, third]
    };
    run(&PAPER_C, 2 * SECOND, scenario);
}
