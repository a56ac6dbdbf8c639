//! Tests of `group.rs`.

use super::*;
use weft_wire::proto::{GroupMember, Job};

fn group(roles: &[Role]) -> Group {
    let member = |(id, role): (usize, &Role)| GroupMember {
        id: id as u32 + 1,
        address: format!("h:{id}"),
        role: (*role).into(),
        store: 9,
        ..GroupMember::default()
    };
    Group {
        id: 2,
        members: roles.iter().enumerate().map(member).collect(),
        ..Group::default()
    }
}

const WELL: [Role; 3] = [Role::Active, Role::Standby, Role::Standby];

#[test]
fn a_group_that_is_well_has_no_findings() {
    let own = Own {
        member: 1,
        room: (100 << 20, 50 << 20),
        waits: Duration::from_millis(900),
        coordinator: None,
    };
    assert_eq!(of_group(&group(&WELL), &own, &[]), []);
    assert_eq!(of_group(&group(&[Role::Active]), &Own::default(), &[]), []);
}

#[test]
fn each_member_that_does_not_count_is_named_with_what_to_do() {
    let mut group = group(&[Role::Active, Role::Junior, Role::Junior]);
    group.members[1].store = 0;
    group.members[2].store = 0;
    group.members[2].address.clear();
    let found = of_group(&group, &Own::default(), &[]);
    let todo: Vec<&str> = found.iter().map(|it| &*it.todo).collect();
    assert_eq!(
        todo,
        [
            "start meta:2.2 with an empty directory",
            "start meta:2.3, or `weft group remove 3`"
        ]
    );
    assert!(
        found
            .iter()
            .all(|it| it.means == "no other one can take over")
    );
}

#[test]
fn what_the_server_that_leads_knows_of_itself_is_judged() {
    let own = Own {
        member: 1,
        room: (100 << 20, 4 << 20),
        waits: Duration::from_secs(3),
        coordinator: Some("no answer".into()),
    };
    let waits = |text: &str| JobStatus {
        job: Some(Job {
            id: 5,
            ..Job::default()
        }),
        waits: text.into(),
        ..JobStatus::default()
    };
    let found = of_group(&group(&WELL), &own, &[waits(""), waits("for room")]);
    let found: Vec<(Check, &str)> = found.iter().map(|it| (it.check, &*it.subject)).collect();
    assert_eq!(
        found,
        [
            (Check::Room, "meta:2.1"),
            (Check::Journal, "meta:2.1"),
            (Check::Coordinator, "group 2"),
            (Check::Jobs, "job 5")
        ]
    );
}
