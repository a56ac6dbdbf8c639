//! Members of a replica group come and go while clients work: what was acknowledged is there, once, whoever is let
//! in or removed, and whoever has to lead because no others are left.

use crate::group::operator::Operator;
use crate::group::{DIR, Group, MS, Maker, SECOND, in_world};
use std::cell::Cell;
use std::rc::Rc;
use weft_rpc::CallError;
use weft_sim::World;
use weft_wire::Failed;
use weft_wire::proto::{
    AdmitMemberRequest, DismissMemberRequest, ForceMemberReply, ForceMemberRequest,
    GroupStatusReply, GroupStatusRequest,
};

impl Operator {
    /// Starts the server of a node, with an empty directory, and lets it in.
    async fn add(&self, member: usize) {
        self.group.start(member);
        let address = self.group.address(member);
        // It may not listen yet.
        for attempt in 0.. {
            let request = AdmitMemberRequest {
                address: address.clone(),
            };
            match self.ask_active(&request).await {
                Ok(reply) => {
                    assert_eq!(reply.member, member as u32 + 1);
                    break;
                }
                Err(failed) => assert!(attempt < 100, "{failed}"),
            }
            self.world.sleep(20 * MS).await;
        }
        self.group.belong.borrow_mut().insert(member);
    }

    async fn remove(&self, member: usize) -> Result<(), Failed> {
        let request = DismissMemberRequest {
            member: member as u32 + 1,
        };
        for _ in 0..20 {
            if !self.ask_active(&request).await?.yields {
                self.group.belong.borrow_mut().remove(&member);
                return Ok(());
            }
            self.group.led_by(|other| other != member).await;
        }
        panic!("it does not go");
    }

    async fn force(&self, member: usize) -> Result<ForceMemberReply, CallError> {
        let request = ForceMemberRequest {
            member: member as u32 + 1,
        };
        self.ask(member, &request).await
    }

    async fn status(&self, member: usize) -> GroupStatusReply {
        self.ask(member, &GroupStatusRequest {}).await.unwrap()
    }

    /// Returns when a removed server has noticed it, and ended.
    async fn has_ended(&self, member: usize) {
        for _ in 0..500 {
            let is_told = self
                .group
                .removed
                .borrow()
                .iter()
                .any(|(of, _)| *of == member);
            if is_told && self.group.servers[member].borrow().is_none() {
                return;
            }
            self.world.sleep(10 * MS).await;
        }
        panic!("{member} does not notice");
    }
}

fn refused(answer: Result<impl std::fmt::Debug, impl ToString>, part: &str) {
    let why = answer.map_err(|error| error.to_string()).unwrap_err();
    assert!(why.contains(part), "{why}");
}

/// Makes directories until `is_done`.
async fn make_until(maker: &Maker, world: &World, is_done: &Cell<bool>) {
    while !is_done.get() {
        maker.make(world, 10).await;
        world.sleep(10 * MS).await;
    }
}

#[test]
fn a_server_that_is_let_in_becomes_a_standby_and_can_lead() {
    for seed in 0..5 {
        in_world(seed, async move |world| {
            let group = Group::with_spares(&world, 3, 2);
            group.start_all();
            group.all_count().await;
            let operator = Operator::new(&group);
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 30).await;
            let is_done = Cell::new(false);
            let work = make_until(&maker, &world, &is_done);
            let adding = async {
                let began = world.now();
                operator.add(3).await;
                group.all_count().await;
                let took = world.now() - began;
                assert!(took < 2 * SECOND, "seed {seed}: {took:?}");
                // Again: it is there.
                let address = group.address(3);
                let again = operator.ask_active(&AdmitMemberRequest { address }).await;
                assert!(again.unwrap().is_known);
                operator.add(4).await;
                group.all_count().await;
                is_done.set(true);
            };
            futures_util::join!(work, adding);
            group.all_the_same().await;
            // The five go on without two of the first three, so the new ones count.
            let active = group.active().unwrap();
            group.kill(active);
            let next = group.led_by(|other| other != active).await;
            if next < 3 {
                group.kill(next);
                let third = group.led_by(|other| other != next && other != active).await;
                assert_ne!(third, next);
            }
            maker.make(&world, 20).await;
            for member in 0..3 {
                if group.servers[member].borrow().is_none() {
                    group.start(member);
                }
            }
            group.all_count().await;
            maker.check(&group).await;
            group.all_the_same().await;
            let status = operator.status(3).await;
            assert_eq!(status.member, 4);
            assert_eq!(status.record.unwrap().members.len(), 5);
            assert!(status.committed >= 50, "{}", status.committed);
        });
    }
}

#[test]
fn who_is_let_in_takes_an_image_where_journals_begin_later() {
    in_world(1, async |world| {
        let group = Group::with_spares(&world, 3, 1);
        let mut group = Rc::into_inner(group).unwrap();
        group.settings.image_every_entries = 50;
        let group = Rc::new(group);
        group.start_all();
        group.all_count().await;
        let maker = Maker::new(&group, "maker").await;
        for _ in 0..6 {
            maker.make(&world, 60).await;
            world.sleep(2 * SECOND).await;
            for member in 0..3 {
                // Segments end with a life: what an image has made superfluous can go.
                group.kill(member);
                group.start(member);
                group.led_by(|_| true).await;
            }
        }
        let dir = std::path::Path::new(DIR);
        for node in &group.nodes[..3] {
            let left = weft_journal::segments(&node.env(), dir).unwrap();
            assert!(
                left[0] > weft_types::Sn(1),
                "the first segment is still there"
            );
        }
        group.all_count().await;
        let operator = Operator::new(&group);
        operator.add(3).await;
        group.all_count().await;
        group.all_the_same().await;
        let images = weft_journal::images(&group.nodes[3].env(), dir).unwrap();
        assert!(!images.is_empty(), "it has taken none");
        maker.check(&group).await;
    });
}

#[test]
fn a_standby_is_removed_and_does_not_come_back_by_itself() {
    for seed in 0..5 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let operator = Operator::new(&group);
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            let active = group.active().unwrap();
            let gone = (active + 1) % 3;
            let is_done = Cell::new(false);
            let work = make_until(&maker, &world, &is_done);
            let removing = async {
                operator.remove(gone).await.unwrap();
                operator.has_ended(gone).await;
                is_done.set(true);
            };
            futures_util::join!(work, removing);
            assert!(
                group.removed.borrow()[0]
                    .1
                    .contains("was removed from group 0")
            );
            assert_eq!(group.active(), Some(active), "nobody else had to lead");
            refused(operator.remove(gone).await, "has no member");

            // With what it has it is refused, also when asked for by address.
            group.start(gone);
            world.sleep(2 * SECOND).await;
            assert!(group.servers[gone].borrow().is_none());
            let exits = group.exits.borrow_mut().drain(..).collect::<Vec<_>>();
            assert!(
                exits.len() == 1 && exits[0].contains("was removed"),
                "{exits:?}"
            );
            group.all_count().await;
            let address = group.address(gone);
            let asked = operator.ask_active(&AdmitMemberRequest { address }).await;
            refused(asked, "no metadata server of cluster \"sim\" answers");

            // The two are a group: each of them is needed, and the other takes over.
            maker.make(&world, 10).await;
            group.kill(active);
            group.led_by(|other| other != active).await;
            maker.make(&world, 10).await;
            group.start(active);
            group.all_count().await;

            // With an empty directory it may come again, under its old number.
            group.kill(gone);
            group.nodes[gone].disk().wipe();
            group.nodes[gone].disk().make_durable_dir(DIR);
            operator.add(gone).await;
            group.all_count().await;
            group.all_the_same().await;
            maker.check(&group).await;
        });
    }
}

#[test]
fn the_active_is_removed_and_another_takes_over_first() {
    for seed in 0..10 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let operator = Operator::new(&group);
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            world.sleep(SECOND).await;
            let active = group.active().unwrap();
            let is_done = Cell::new(false);
            let work = make_until(&maker, &world, &is_done);
            let removing = async {
                operator.remove(active).await.unwrap();
                operator.has_ended(active).await;
                is_done.set(true);
            };
            futures_util::join!(work, removing);
            let pause = maker.longest.get();
            assert!(pause < 150 * MS, "seed {seed}: a pause of {pause:?}");
            group.all_count().await;
            group.all_the_same().await;
            maker.check(&group).await;

            // Down to the last one, which stays.
            let active = group.active().unwrap();
            operator.remove(active).await.unwrap();
            let last = group.led_by(|other| other != active).await;
            group.all_count().await;
            refused(operator.remove(last).await, "no other one could");
            maker.make(&world, 10).await;
            maker.check(&group).await;
        });
    }
}

#[test]
fn a_junior_that_is_away_for_good_is_removed() {
    in_world(1, async |world| {
        let group = Group::started(&world, 3).await;
        let operator = Operator::new(&group);
        let maker = Maker::new(&group, "maker").await;
        let active = group.active().unwrap();
        let gone = (active + 1) % 3;
        group.kill(gone);
        maker.make(&world, 20).await;
        world.sleep(3 * SECOND).await;
        let record = operator.status(active).await.record.unwrap();
        assert_eq!(record.members[gone].role, 3, "a junior by now");
        operator.remove(gone).await.unwrap();
        group.all_count().await;
        // It did not hear of that, and is told when it is started.
        group.start(gone);
        world.sleep(2 * SECOND).await;
        assert!(
            group.exits.borrow()[0].contains("was removed"),
            "{:?}",
            group.exits
        );
        group.all_count().await;
        maker.check(&group).await;
    });
}

#[test]
fn a_number_is_one_servers() {
    in_world(1, async |world| {
        let group = Group::with_spares(&world, 3, 1);
        group.start_all();
        group.all_count().await;
        let operator = Operator::new(&group);
        let maker = Maker::new(&group, "maker").await;
        maker.make(&world, 20).await;
        // Member 2 lives.
        group.start_as(3, 2);
        world.sleep(SECOND).await;
        let exits = group.exits.borrow_mut().drain(..).collect::<Vec<_>>();
        let place = "in another directory, last at meta2:7400";
        assert!(exits.len() == 1 && exits[0].contains(place), "{exits:?}");
        // Of two that wait under one number the first that is let in has it.
        group.kill(3);
        group.start_as(3, 7);
        world.sleep(SECOND).await;
        let address = group.address(3);
        let reply = operator
            .ask_active(&AdmitMemberRequest { address })
            .await
            .unwrap();
        assert_eq!((reply.member, reply.is_known), (7, false));
        group.belong.borrow_mut().insert(3);
        group.all_count().await;

        // Away for good, and its number another server's: it has no part in that one's life.
        group.kill(1);
        operator.remove(1).await.unwrap();
        group.kill(3);
        operator
            .ask_active(&DismissMemberRequest { member: 7 })
            .await
            .unwrap();
        group.belong.borrow_mut().remove(&3);
        group.nodes[3].disk().wipe();
        group.nodes[3].disk().make_durable_dir(DIR);
        group.start_as(3, 2);
        world.sleep(SECOND).await;
        let address = group.address(3);
        operator
            .ask_active(&AdmitMemberRequest { address })
            .await
            .unwrap();
        group.belong.borrow_mut().insert(3);
        group.all_count().await;
        for is_running in [true, false] {
            if !is_running {
                group.kill(3);
            }
            group.start(1);
            world.sleep(2 * SECOND).await;
            let exits = group.exits.borrow_mut().drain(..).collect::<Vec<_>>();
            assert!(
                exits.len() == 1 && exits[0].contains("has another directory"),
                "{exits:?}"
            );
            group.kill(1);
        }
        group.start_as(3, 2);
        group.all_count().await;
        group.all_the_same().await;
        maker.check(&group).await;
    });
}

#[test]
fn a_member_is_forced_to_lead_where_no_quorum_is_left() {
    for seed in 0..5 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let operator = Operator::new(&group);
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            let active = group.active().unwrap();
            let [second, third] = [(active + 1) % 3, (active + 2) % 3];
            refused(operator.force(active).await, "leads already");
            refused(operator.force(second).await, "is heard here");
            // All of them have what was acknowledged before two are gone for good.
            group.all_the_same().await;
            group.kill(active);
            group.kill(second);
            world.sleep(3 * SECOND).await;
            assert_eq!(group.active(), None);
            let before = operator.status(third).await;
            assert!(before.hears == 0 && !before.leads);
            let forced = operator.force(third).await.unwrap();
            assert!(forced.epoch > before.epoch && forced.sn >= before.last);
            assert_eq!(group.active(), Some(third));
            maker.make(&world, 20).await;

            // Whoever comes back takes part again, as a junior first.
            group.start(second);
            group.start(active);
            group.all_count().await;
            group.all_the_same().await;
            maker.check(&group).await;
        });
    }
}

/// What it had is gone with its disk. Others, which did not count at last, have nearly all of it: that it has nothing
/// must not make them give that up.
#[test]
fn the_only_one_that_counts_does_not_lead_with_a_new_disk() {
    for seed in 0..5 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let operator = Operator::new(&group);
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            group.all_the_same().await;
            let active = group.active().unwrap();
            let [second, last] = [(active + 1) % 3, (active + 2) % 3];
            for gone in [active, second] {
                group.kill(gone);
                world.sleep(SECOND).await;
            }
            assert_eq!(group.active(), Some(last));
            group.kill(last);
            group.nodes[last].disk().wipe();
            group.nodes[last].disk().make_durable_dir(DIR);
            // Whoever comes first, its place is the lost disk's.
            group.start(last);
            world.sleep(SECOND).await;
            group.start_all();
            world.sleep(5 * SECOND).await;
            assert_eq!(group.active(), None, "seed {seed}");
            let exits = group.exits.borrow_mut().drain(..).collect::<Vec<_>>();
            let place = format!(
                "is empty, and member {} of group 0 has its journal",
                last + 1
            );
            let is_refused = |why: &String| why.contains(&place);
            assert!(
                exits.len() == 2 && exits.iter().all(is_refused),
                "{exits:?}"
            );
            // The operator says who is to lead, and that the disk is lost.
            operator.force(second).await.unwrap();
            operator.replace(last).await;
            group.start(last);
            group.all_count().await;
            group.all_the_same().await;
            maker.check(&group).await;
        });
    }
}

/// An old copy of a standby's directory is put back, and nobody else is left: it has said that it had what it lacks.
#[test]
fn who_went_back_in_time_does_not_lead() {
    for seed in 0..5 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 2).await;
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            group.all_the_same().await;
            let active = group.active().unwrap();
            let standby = 1 - active;
            let copy = group.nodes[standby].disk().copy();
            maker.make(&world, 30).await;
            // Until the view says so.
            world.sleep(11 * SECOND).await;
            group.kill(active);
            group.kill(standby);
            group.nodes[standby].disk().put_back(&copy);
            group.start(standby);
            world.sleep(5 * SECOND).await;
            assert_eq!(
                group.active(),
                None,
                "seed {seed}: it leads with what it has"
            );
            group.start(active);
            group.all_count().await;
            group.all_the_same().await;
            maker.check(&group).await;
        });
    }
}

/// So it is with the only one that counts, until an operator has it lead.
#[test]
fn the_only_one_that_counts_does_not_lead_with_an_older_copy() {
    in_world(1, async move |world| {
        let group = Group::started(&world, 1).await;
        let operator = Operator::new(&group);
        let maker = Maker::new(&group, "maker").await;
        maker.make(&world, 20).await;
        let copy = group.nodes[0].disk().copy();
        let had = maker.made.get();
        maker.make(&world, 30).await;
        world.sleep(11 * SECOND).await;
        group.kill(0);
        let newest = group.nodes[0].disk().copy();
        group.nodes[0].disk().put_back(&copy);
        group.start(0);
        world.sleep(5 * SECOND).await;
        assert_eq!(group.active(), None);
        // The newest one is found.
        group.kill(0);
        group.nodes[0].disk().put_back(&newest);
        group.start(0);
        group.led_by(|_| true).await;
        maker.check(&group).await;
        // It is not.
        group.kill(0);
        group.nodes[0].disk().put_back(&copy);
        group.start(0);
        world.sleep(SECOND).await;
        operator.force(0).await.unwrap();
        group.led_by(|_| true).await;
        maker.made.set(had);
        maker.check(&group).await;
    });
}

#[test]
fn who_had_more_than_a_forced_active_gives_it_up() {
    for seed in 0..5 {
        in_world(seed, async move |world| {
            let group = Group::started(&world, 3).await;
            let operator = Operator::new(&group);
            let maker = Maker::new(&group, "maker").await;
            maker.make(&world, 20).await;
            group.all_the_same().await;
            let active = group.active().unwrap();
            let [second, third] = [(active + 1) % 3, (active + 2) % 3];
            let name = |member: usize| group.nodes[member].name();
            // The third one lacks what the others commit while they still count it.
            group.service.cut_off(&name(third));
            world.net().cut(&name(third), &name(active));
            world.net().cut(&name(third), &name(second));
            maker.make(&world, 10).await;
            world.sleep(100 * MS).await;
            group.kill(active);
            let had = operator.status(second).await;
            group.service.heal(&name(third));
            world.sleep(3 * SECOND).await;
            assert_eq!(group.active(), None, "two of three are needed");
            let forced = operator.force(third).await.unwrap();
            assert!(had.committed > forced.sn - 1, "{had:?} {forced:?}");
            world.net().heal();
            group.start(active);
            group.all_count().await;
            group.all_the_same().await;
            let has = operator.status(second).await;
            assert!(
                has.epoch >= forced.epoch && has.hears as usize == third + 1,
                "{has:?}"
            );
        });
    }
}

#[test]
fn members_come_and_go_while_others_are_killed() {
    for seed in 0..10 {
        in_world(200 + seed, async move |world| {
            let group = Group::with_spares(&world, 3, 2);
            group.start_all();
            group.all_count().await;
            let operator = Operator::new(&group);
            let maker = Maker::new(&group, "maker").await;
            let is_done = Rc::new(Cell::new(false));
            let is_settled = Rc::new(Cell::new(false));
            let work = make_until(&maker, &world, &is_done);
            let killing = async {
                let mut rng = world.rng("who is killed");
                while !is_settled.get() {
                    world.sleep(MS * (200 + rng.below(2_000) as u32)).await;
                    let members = group.members();
                    let victim = members[rng.below(members.len() as u64) as usize];
                    if group.servers[victim].borrow().is_none() {
                        continue;
                    }
                    group.kill(victim);
                    world.sleep(MS * (rng.below(1_000) as u32)).await;
                    group.start(victim);
                    world.sleep(SECOND).await;
                }
            };
            let changing = async {
                let mut rng = world.rng("who comes and goes");
                for _ in 0..6 {
                    let (inside, outside): (Vec<usize>, Vec<usize>) =
                        (0..5).partition(|member| group.belong.borrow().contains(member));
                    if inside.len() > 2 && (outside.is_empty() || rng.below(2) == 0) {
                        let gone = inside[rng.below(inside.len() as u64) as usize];
                        // Refused, or put off, while too few are there.
                        while operator.remove(gone).await.is_err() {
                            let record = operator.ask_active(&GroupStatusRequest {}).await;
                            let members = record.unwrap().record.unwrap().members;
                            if !members.iter().any(|member| member.id == gone as u32 + 1) {
                                group.belong.borrow_mut().remove(&gone);
                                break;
                            }
                            world.sleep(200 * MS).await;
                        }
                        world.sleep(3 * SECOND).await;
                        group.kill(gone);
                        group.nodes[gone].disk().wipe();
                        group.nodes[gone].disk().make_durable_dir(DIR);
                    } else {
                        let new = outside[rng.below(outside.len() as u64) as usize];
                        operator.add(new).await;
                    }
                    world.sleep(MS * (rng.below(2_000) as u32)).await;
                }
                is_settled.set(true);
            };
            let all = async {
                futures_util::join!(killing, changing);
                is_done.set(true);
            };
            futures_util::join!(work, all);
            group.all_count().await;
            maker.check(&group).await;
            group.all_the_same().await;
        });
    }
}
