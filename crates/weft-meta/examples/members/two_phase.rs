//! Plain two-phase commit of the same batches, to compare with: all prepare (write and flush), then the
//! coordinator writes and flushes its decision, answers, and tells the participants, which write and flush
//! it, too, and apply the batch.
//!
//! Nothing here survives anything: who does not vote is waited for without end, and no decision is ever
//! asked for. That would cost more, never less.

use crate::load::Committing;
use crate::log::Log;
use crate::wire::{Message, Sender, converse};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use tokio::sync::Notify;
use weft_env::Env;
use weft_journal::{Sealed, SyncPolicy};
use weft_namespace::State;
use weft_wire::proto::{Cred, Entry, Op, Time};

/// As `crates/weft-meta/src/committer.rs` gathers.
const BATCH_ENTRIES_MAX: usize = 4096;
/// The same.
const BATCH_BYTES: usize = 1 << 20;
/// The same.
const IN_FLIGHT_MAX: usize = 4;

type Then = Box<dyn FnOnce(bool)>;

#[derive(Default)]
struct Gathering {
    entries: Vec<Entry>,
    bytes: usize,
    waiters: Vec<Then>,
}

struct Voting {
    missing: usize,
    waiters: Vec<Then>,
}

/// The coordinator.
pub struct TwoPhase {
    env: Env,
    log: Rc<Log>,
    state: RefCell<State>,
    participants: RefCell<Vec<Rc<Sender>>>,
    gathering: RefCell<Gathering>,
    /// By number.
    voting: RefCell<BTreeMap<u64, Voting>>,
    next: Cell<u64>,
    gathered: Notify,
}

impl TwoPhase {
    /// Connects to the participants.
    ///
    /// # Errors
    /// If one cannot be reached, or the log not be opened.
    pub async fn begin(
        env: &Env,
        dir: PathBuf,
        sync: SyncPolicy,
        with: &[String],
    ) -> Result<Rc<TwoPhase>, String> {
        let two = Rc::new(TwoPhase {
            env: env.clone(),
            log: Log::open(env, dir, sync).await?,
            state: RefCell::new(State::new()),
            participants: RefCell::default(),
            gathering: RefCell::default(),
            voting: RefCell::default(),
            next: Cell::new(1),
            gathered: Notify::new(),
        });
        for address in with {
            let stream = env.connect(address).await;
            let stream = stream.map_err(|error| format!("{address}: {error}"))?;
            let of = two.clone();
            let participant = converse(env, stream, move |_, message| {
                // Of what is done everywhere nothing is kept here.
                if let Message::Yes(number) = message {
                    of.vote(number);
                }
            });
            two.participants.borrow_mut().push(participant);
        }
        env.spawn("prepare", prepare(two.clone()));
        Ok(two)
    }

    fn tell(&self, message: &Message) {
        for participant in &*self.participants.borrow() {
            participant.send(message.clone());
        }
    }

    /// One more has it on its disk.
    fn vote(self: &Rc<Self>, number: u64) {
        let mut voting = self.voting.borrow_mut();
        let Some(own) = voting.get_mut(&number) else {
            return;
        };
        own.missing -= 1;
        if own.missing > 0 {
            return;
        }
        let waiters = std::mem::take(&mut own.waiters);
        drop(voting);
        let two = self.clone();
        self.log.write(Vec::new(), move || {
            two.voting.borrow_mut().remove(&number);
            two.gathered.notify_one();
            two.tell(&Message::Commit(number));
            waiters.into_iter().for_each(|then| then(true));
        });
    }
}

impl Committing for Rc<TwoPhase> {
    fn commit(&self, op: Op, then: impl FnOnce(bool) + 'static) -> Result<(), String> {
        let wall = self.env.wall();
        let entry = Entry {
            cred: Some(Cred::default()),
            time: Some(Time {
                seconds: wall.seconds(),
                nanos: wall.subsecond_nanos(),
            }),
            random: self.env.random(),
            op: Some(op),
            ..Entry::default()
        };
        let reply = self.state.borrow_mut().apply(&entry);
        if reply.failure_errno != 0 {
            return Err(format!("refused with errno {}", reply.failure_errno));
        }
        let gathering = &mut *self.gathering.borrow_mut();
        gathering.bytes += prost::Message::encoded_len(&entry);
        gathering.entries.push(entry);
        gathering.waiters.push(Box::new(then));
        self.gathered.notify_one();
        Ok(())
    }
}

/// Begins transactions, a few at a time.
async fn prepare(two: Rc<TwoPhase>) {
    loop {
        let is_free = two.voting.borrow().len() < IN_FLIGHT_MAX;
        if !is_free || two.gathering.borrow().entries.is_empty() {
            two.gathered.notified().await;
            continue;
        }
        let (entries, waiters) = take(&mut two.gathering.borrow_mut());
        let number = two.next.get();
        two.next.set(number + 1);
        let missing = 1 + two.participants.borrow().len();
        let voting = Voting { missing, waiters };
        two.voting.borrow_mut().insert(number, voting);
        let own = two.clone();
        let (sealed, _) = two.log.write(entries, move || own.vote(number));
        two.tell(&Message::Prepare(number, sealed.content().clone()));
    }
}

/// As much as one batch holds.
fn take(gathering: &mut Gathering) -> (Vec<Entry>, Vec<Then>) {
    let mut bytes = 0;
    let fits = gathering.entries.iter().take_while(|entry| {
        bytes += prost::Message::encoded_len(*entry);
        bytes <= BATCH_BYTES
    });
    let count = fits.count().clamp(1, BATCH_ENTRIES_MAX);
    let rest = gathering
        .entries
        .split_off(count.min(gathering.entries.len()));
    let later = gathering
        .waiters
        .split_off(count.min(gathering.waiters.len()));
    let entries = std::mem::replace(&mut gathering.entries, rest);
    let waiters = std::mem::replace(&mut gathering.waiters, later);
    (entries, waiters)
}

/// Votes, until its process is ended.
///
/// # Errors
/// If it cannot listen, or write.
pub async fn participate(env: Env, dir: PathBuf, sync: SyncPolicy) -> Result<(), String> {
    let log = Log::open(&env, dir, sync).await?;
    let listener = env.listen("127.0.0.1:0").await;
    let mut listener = listener.map_err(|error| format!("cannot listen: {error}"))?;
    println!("{}", serde_json::json!({ "address": listener.address() }));
    let state = Rc::new(RefCell::new(State::new()));
    let prepared = Rc::new(RefCell::new(BTreeMap::<u64, Vec<Entry>>::new()));
    let stream = listener.accept().await;
    let stream = stream.map_err(|error| format!("cannot accept: {error}"))?;
    converse(&env, stream, move |sender, message| {
        let (sender, state, prepared) = (sender.clone(), state.clone(), prepared.clone());
        match message {
            Message::Prepare(number, batch) => match Sealed::read(batch) {
                Ok((_, batch)) => {
                    let voting = move || sender.send(Message::Yes(number));
                    let (_, entries) = log.write(batch.entries, voting);
                    prepared.borrow_mut().insert(number, entries);
                }
                Err(error) => eprintln!("weft: no batch: {error}"),
            },
            Message::Commit(number) => {
                log.write(Vec::new(), move || {
                    let entries = prepared.borrow_mut().remove(&number);
                    for entry in entries.unwrap_or_default() {
                        state.borrow_mut().apply(&entry);
                    }
                    sender.send(Message::Done(number));
                });
            }
            Message::Yes(_) | Message::Done(_) => {}
        }
    });
    // Its input ends when nobody needs it any more.
    let mut orders = crate::orders();
    while orders.recv().await.is_some() {}
    Ok(())
}
