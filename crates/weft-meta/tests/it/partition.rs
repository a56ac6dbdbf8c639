//! Two groups of one metadata server each share a name space: what each has, and changes of both.

use crate::support::*;
use std::path::Path;
use std::time::Duration;
use weft_env::Env;
use weft_meta::{Server, Settings};
use weft_rpc::Payload;
use weft_types::{Ino, SLOTS};
use weft_wire::Failed;
use weft_wire::proto::op::Op;
use weft_wire::proto::*;

/// Servers of two groups, and a session with each.
struct Two {
    env: Env,
    servers: Vec<Server>,
    clients: Vec<Client>,
}

async fn group(env: &Env, dir: &Path, group: u32) -> Server {
    let settings = Settings {
        group,
        groups: 2,
        coordinator: format!("file:{}", dir.join("view").display()),
        ..settings(&dir.join(format!("group-{group}")))
    };
    begin(env, settings).await
}

impl Two {
    async fn start(env: &Env, dir: &Path) -> Two {
        let servers = vec![group(env, dir, 0).await, group(env, dir, 1).await];
        let mut clients = Vec::new();
        for (number, server) in servers.iter().enumerate() {
            let request = SessionRequest::default();
            let client = Client::of_group(env, server.address(), number as u32, request).await;
            let client = client.unwrap();
            client.keep_alive();
            clients.push(client);
        }
        let env = env.clone();
        Two {
            env,
            servers,
            clients,
        }
    }

    fn of(&self, ino: u64) -> &Client {
        &self.clients[group_of(ino)]
    }

    /// A directory of the other group than its parent's.
    async fn mkdir_across(&self, parent: u64, name: &str) -> u64 {
        for number in 0..100 {
            let name = format!("{name}{number}");
            let ino = self.of(parent).mkdir(parent, &name).await;
            if group_of(ino) != group_of(parent) {
                return ino;
            }
        }
        panic!("a hundred directories, all of one group");
    }

    async fn attr(&self, ino: u64) -> Result<Attr, Failed> {
        let reply = self.of(ino).inode(ino).await.map_err(failed)?;
        Ok(reply.inode.unwrap().attr.unwrap())
    }

    /// What a name stands for, and whether its attributes are to be asked of another group.
    async fn lookup(&self, parent: u64, name: &str) -> Option<(u64, bool)> {
        let reply = self.of(parent).lookup(parent, name).await.unwrap();
        let inode = reply.inode?;
        Some((inode.attr.unwrap().ino, inode.elsewhere))
    }
}

fn group_of(ino: u64) -> usize {
    usize::from(Ino(ino).slot().0 >= SLOTS / 2)
}

const ROOT: u64 = 1;

fn rename(parent: u64, name: &str, new_parent: u64, new_name: &str) -> Op {
    Op::Rename(Rename {
        parent,
        name: name.to_owned().into(),
        new_parent,
        new_name: new_name.to_owned().into(),
        ..Rename::default()
    })
}

fn unlink(parent: u64, name: &str) -> Op {
    Op::Unlink(Unlink {
        parent,
        name: name.to_owned().into(),
        ..Unlink::default()
    })
}

fn rmdir(parent: u64, name: &str) -> Op {
    Op::Rmdir(Rmdir {
        parent,
        name: name.to_owned().into(),
    })
}

fn errno(reply: &ChangeReply) -> u32 {
    reply.reply.as_ref().unwrap().failure_errno
}

fn symlink(parent: u64, name: &str) -> Op {
    Op::Create(Create {
        parent,
        name: name.to_owned().into(),
        kind: FileKind::Symlink as i32,
        target: "t".into(),
        exclusive: true,
        ..Create::default()
    })
}

#[test]
fn a_directory_of_another_group_is_made_found_and_removed() {
    run(|env, dir| async move {
        let two = Two::start(&env, &dir).await;
        let made = two.mkdir_across(ROOT, "d").await;
        let attr = two.attr(made).await.unwrap();
        assert_eq!((attr.kind(), attr.nlink), (FileKind::Directory, 2));
        let names = two.of(ROOT).list(ROOT, true).await.entries;
        let entry = names.iter().find(|entry| entry.ino == made).unwrap();
        assert_eq!(entry.kind(), FileKind::Directory);
        assert!(entry.inode.is_none(), "its attributes are another group's");
        let name = String::from_utf8(entry.name.to_vec()).unwrap();
        assert_eq!(two.lookup(ROOT, &name).await, Some((made, true)));
        assert_eq!(two.lookup(made, "..").await, Some((ROOT, true)));
        assert_eq!(two.attr(ROOT).await.unwrap().nlink, 2 + names.len() as u32);

        two.of(made).done(symlink(made, "in it")).await;
        let refused = two.of(ROOT).change(rmdir(ROOT, &name)).await.unwrap();
        assert_eq!(errno(&refused), libc::ENOTEMPTY as u32);
        two.of(made).done(unlink(made, "in it")).await;
        two.of(ROOT).done(rmdir(ROOT, &name)).await;
        assert_eq!(two.attr(made).await, Err(Failed::Errno(libc::ESTALE)));
        assert_eq!(two.lookup(ROOT, &name).await, None);
    });
}

#[test]
fn a_name_goes_from_group_to_group_and_the_inode_stays() {
    run(|env, dir| async move {
        let two = Two::start(&env, &dir).await;
        let there = two.mkdir_across(ROOT, "d").await;
        let (made, _) = two.of(there).done(symlink(there, "a")).await;
        let ino = made.attr.unwrap().ino;
        assert_eq!(group_of(ino), group_of(there));

        let (moved, _) = two.of(there).done(rename(there, "a", ROOT, "b")).await;
        assert_eq!(moved.attr.unwrap().ino, ino);
        assert_eq!(two.lookup(there, "a").await, None);
        assert_eq!(two.lookup(ROOT, "b").await, Some((ino, true)));
        let link = Op::Link(Link {
            parent: ROOT,
            name: "c".into(),
            ino,
            unnamed: false,
        });
        two.of(ROOT).done(link).await;
        assert_eq!(two.attr(ino).await.unwrap().nlink, 2);
        let again = two.of(ROOT).change(rename(ROOT, "b", ROOT, "c")).await;
        assert_eq!(errno(&again.unwrap()), 0, "two names of one file");
        let (gone, _) = two.of(ROOT).done(unlink(ROOT, "b")).await;
        assert_eq!(gone.victim.unwrap().nlink, 1);
        two.of(ROOT).done(unlink(ROOT, "c")).await;
        assert_eq!(two.attr(ino).await, Err(Failed::Errno(libc::ESTALE)));
    });
}

#[test]
fn no_directory_comes_to_be_within_itself() {
    run(|env, dir| async move {
        let two = Two::start(&env, &dir).await;
        let upper = two.mkdir_across(ROOT, "upper").await;
        let lower = two.mkdir_across(upper, "lower").await;
        let names = two.of(ROOT).list(ROOT, false).await.entries;
        let name = names.iter().find(|entry| entry.ino == upper).unwrap();
        let name = String::from_utf8(name.name.to_vec()).unwrap();
        let refused = two.of(ROOT).change(rename(ROOT, &name, lower, "x")).await;
        assert_eq!(errno(&refused.unwrap()), libc::EINVAL as u32);
        assert_eq!(two.lookup(ROOT, &name).await, Some((upper, true)));
    });
}

#[test]
fn what_follows_a_change_at_once_finds_it_done_wherever_it_asks() {
    run(|env, dir| async move {
        let two = Two::start(&env, &dir).await;
        let other = two.mkdir_across(ROOT, "other").await;
        for round in 0..40 {
            let name = format!("d{round}");
            let made = two.of(ROOT).mkdir(ROOT, &name).await;
            assert_eq!(two.attr(made).await.unwrap().nlink, 2);
            let inner = two.of(made).mkdir(made, &name).await;
            two.of(inner).done(symlink(inner, "in it")).await;
            two.of(made).done(rename(made, &name, other, &name)).await;
            two.of(other).done(rename(other, &name, ROOT, "back")).await;
            two.of(inner).done(unlink(inner, "in it")).await;
            two.of(ROOT).done(rename(ROOT, "back", made, "last")).await;
            two.of(made).done(rmdir(made, "last")).await;
            two.of(ROOT).done(rmdir(ROOT, &name)).await;
        }
    });
}

#[test]
fn a_change_that_is_sent_again_is_done_once() {
    run(|env, dir| async move {
        let two = Two::start(&env, &dir).await;
        let there = two.mkdir_across(ROOT, "d").await;
        two.of(there).done(symlink(there, "a")).await;
        let request = two.of(there).request(rename(there, "a", ROOT, "b"));
        let both =
            futures_util::future::join(two.of(there).call(&request), two.of(there).call(&request));
        let (first, second) = both.await;
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!(errno(&first), 0);
        assert_eq!(first.reply, second.reply);
        let later = two.of(there).call(&request).await.unwrap();
        assert_eq!(first.reply, later.reply);
    });
}

#[test]
fn who_caches_what_another_groups_change_touches_gives_it_back_first() {
    run(|env, dir| async move {
        let two = Two::start(&env, &dir).await;
        let there = two.mkdir_across(ROOT, "d").await;
        let (made, _) = two.of(ROOT).done(symlink(ROOT, "a")).await;
        let ino = made.attr.unwrap().ino;
        // Another client caches the directory that gets the name, and the file.
        let watching = |at: u64| {
            let (env, server) = (env.clone(), &two.servers[group_of(at)]);
            async move {
                let group = group_of(at) as u32;
                let request = SessionRequest::default();
                let client = Client::of_group(&env, server.address(), group, request).await;
                let client = client.unwrap();
                client.keep_alive();
                assert!(!client.inode(at).await.unwrap().leases.is_empty());
                client
            }
        };
        let (of_dir, of_file) = (watching(there).await, watching(ino).await);
        two.of(ROOT).done(rename(ROOT, "a", there, "b")).await;
        let asked = |client: &Client| -> Vec<u64> {
            let asked = client.manners.asked.borrow();
            asked.iter().map(|(ino, _, _)| *ino).collect()
        };
        assert_eq!(asked(&of_dir), [there]);
        assert_eq!(asked(&of_file), [ino]);
    });
}

#[test]
fn who_replaces_a_file_that_he_has_open_keeps_it() {
    run(|env, dir| async move {
        let two = Two::start(&env, &dir).await;
        let there = two.mkdir_across(ROOT, "d").await;
        let client = two.of(ROOT);
        let (made, _) = client.done(symlink(ROOT, "a")).await;
        let ino = made.attr.unwrap().ino;
        client.done(symlink(ROOT, "b")).await;
        client.done(rename(ROOT, "a", there, "c")).await;
        // Its home has it, and the name's directory is the other group's.
        client.inode(ino).await.unwrap();
        client.manners.open.borrow_mut().insert(ino);
        client.done(rename(ROOT, "b", there, "c")).await;
        assert_eq!(two.attr(ino).await.unwrap().nlink, 0);
        client.done(Op::Release(Release { ino })).await;
        assert_eq!(two.attr(ino).await, Err(Failed::Errno(libc::ESTALE)));
    });
}

#[test]
fn a_group_that_is_away_keeps_nobody_from_what_it_has_no_part_in() {
    run(|env, dir| async move {
        let mut two = Two::start(&env, &dir).await;
        let there = two.mkdir_across(ROOT, "d").await;
        two.of(ROOT).done(symlink(ROOT, "a")).await;
        two.clients.pop();
        two.servers.pop().unwrap().stop().await;
        let waits = two.clients[0].request(rename(ROOT, "a", there, "b"));
        let (connection, env_in) = (two.clients[0].connection.clone(), two.env.clone());
        let renamed = env_in.spawn("rename", async move {
            // Answered at last, whatever the answer.
            connection.call(&waits, Payload::none()).await.unwrap();
        });
        two.env.sleep(Duration::from_millis(300)).await;
        assert!(!renamed.is_finished());
        // Its name is locked at times, and free in between.
        two.clients[0].done(symlink(ROOT, "other")).await;
        two.clients[0].done(unlink(ROOT, "other")).await;
        two.servers.push(group(&env, &dir, 1).await);
        until(&env, "the rename is done", || renamed.is_finished()).await;
        assert_eq!(two.lookup(ROOT, "a").await, None);
    });
}

#[test]
fn a_change_is_not_done_any_more_once_its_number_is_taken() {
    run(|env, dir| async move {
        let mut two = Two::start(&env, &dir).await;
        let there = two.mkdir_across(ROOT, "d").await;
        two.of(ROOT).done(symlink(ROOT, "a")).await;
        two.clients.pop();
        two.servers.pop().unwrap().stop().await;
        let waits = two.clients[0].request(rename(ROOT, "a", there, "b"));
        // What a client sends that wants to know whether a change was done.
        let lock = FileLock {
            kind: file_lock::Kind::Unlock as i32,
            owner: u64::MAX,
            last: u64::MAX,
            ..FileLock::default()
        };
        let nothing = Op::SetLock(SetLock {
            ino: ROOT,
            lock: Some(lock),
            ..SetLock::default()
        });
        let asks = ChangeRequest {
            operation: waits.operation,
            ..two.clients[0].request(nothing)
        };
        let (connection, env_in) = (two.clients[0].connection.clone(), two.env.clone());
        let renamed = env_in.spawn("rename", async move {
            connection.call(&waits, Payload::none()).await.unwrap();
        });
        two.env.sleep(Duration::from_millis(100)).await;
        assert_eq!(errno(&two.clients[0].call(&asks).await.unwrap()), 0);
        two.servers.push(group(&env, &dir, 1).await);
        let request = SessionRequest::default();
        let client = Client::of_group(&env, two.servers[1].address(), 1, request).await;
        let client = client.unwrap();
        client.keep_alive();
        two.clients.push(client);
        until(&env, "the rename is answered", || renamed.is_finished()).await;
        assert!(two.lookup(ROOT, "a").await.is_some(), "it was not done");
        assert_eq!(two.lookup(there, "b").await, None, "nor half of it");
        two.of(there).done(symlink(there, "b")).await;
    });
}
