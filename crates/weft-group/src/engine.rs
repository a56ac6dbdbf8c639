//! One member of a group: what it knows, what it is told, what it wants done.

use crate::elect::{Candidate, Collected};
use crate::lead::Reign;
use crate::steadiness::Steadiness;
use crate::{MemberId, Now, Record, Shape};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use weft_types::{Epoch, Sn};

/// How long what may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// An active tells that it lives this often.
    pub beat: Duration,
    /// A member that has heard nothing of the active for this long looks for another, if the active has been
    /// steady; if it has not, it waits longer.
    pub patience: Duration,
    /// But no longer than this. Not more than the patience: it is always the same.
    pub patience_max: Duration,
    /// For how long who answers a beat follows nobody else. At most the patience, or a hang costs more than
    /// that. Longer for an active that counts on more: its settings are others, or its version.
    pub lease: Duration,
    /// A member that was started may have promised so much before, under other settings or in another version.
    pub lease_before: Duration,
    /// Others that are asked whether they hear the active are waited for this long.
    pub asking: Duration,
    /// A voter that has answered nothing for this long is to count no more; longer where the active knows that it
    /// is not steady itself. More than patience and lease, or one that is cut off from the others makes itself
    /// the only one.
    pub drop_after: Duration,
    /// A junior that lacks no more batches than this is to count, once it has all that are committed.
    pub gap_max: u64,
    /// Batches that may be on their way to a member.
    pub window: u64,
}

/// What members tell each other. Messages from one to another arrive in order, or their connection ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// Of one that has lost the active: do you hear it?
    Hears,
    /// The answer.
    HearsAnswer {
        /// Whether it is so.
        hears: bool,
        /// Its disk may lack what it said it had, so that it cannot help to elect anybody.
        lacks: bool,
    },
    /// Of whoever has the epoch: take nothing of lower ones, and say what you have.
    Collect {
        /// Its epoch.
        epoch: Epoch,
    },
    /// The answer.
    Collected {
        /// Of whom asked.
        epoch: Epoch,
        /// The journal, what is being written included.
        shape: Shape,
        /// How far it is on the disk.
        durable: Sn,
        /// For how long it has promised others to follow nobody else.
        promised: Duration,
        /// Its disk has all that it said it had.
        is_intact: bool,
    },
    /// The active lives.
    Beat {
        /// Its epoch.
        epoch: Epoch,
        /// When this was sent, by the clock of the active.
        at: Now,
        /// All up to there is committed.
        committed: Sn,
        /// How late it has been lately, as it knows of itself.
        late: Duration,
        /// For so long it counts on the promise: who cannot promise that does not answer.
        lease: Duration,
    },
    /// The answer, and a promise.
    BeatAnswer {
        /// Of the beat.
        epoch: Epoch,
        /// Of the beat.
        at: Now,
    },
    /// Batches for the journal.
    Append {
        /// Of whom sends them.
        epoch: Epoch,
        /// Those that follow the base.
        batches: Shape,
        /// As in a beat.
        committed: Sn,
    },
    /// What is on the disk of what the active sent.
    Appended {
        /// Of the active.
        epoch: Epoch,
        /// The last batch.
        durable: Sn,
    },
    /// What you have ends before what is left here: take an image.
    Behind {
        /// Of the active.
        epoch: Epoch,
        /// What precedes the first batch that is left.
        base: Sn,
    },
    /// Of one that has the epoch and a lesser journal: send these.
    Fetch {
        /// Its epoch.
        epoch: Epoch,
        /// The batch before the first one.
        after: Sn,
        /// The last one.
        last: Sn,
    },
    /// The answer.
    Fetched {
        /// Of whom asked.
        epoch: Epoch,
        /// Those that follow the base. None: they are not there.
        batches: Option<Shape>,
    },
    /// Of the active: it answers nobody any more, and needs no promise.
    Withdrawn {
        /// Its epoch.
        epoch: Epoch,
    },
    /// There is a later reign.
    Newer {
        /// Its number, or that of a later one.
        epoch: Epoch,
    },
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// This process stood still for so long, as its clock says. What others have sent meanwhile has not been read.
    Stalled(Duration),
    /// The coordinator has this record.
    Record(Record),
    /// [`Output::Change`] was done, or cannot be done any more: the record is this now.
    ChangeEnded(Record),
    /// There is a connection to a member.
    Connected(MemberId),
    /// It has ended: what was on its way is lost.
    Lost(MemberId),
    /// The silent connection to a member came to an orderly end: that process answers nobody any more.
    ProcessEnded(MemberId),
    /// A member says something.
    Message(MemberId, Message),
    /// [`Output::Take`]s up to this number are on the disk.
    Written(u64),
    /// A batch is to be added; nothing is done with it unless this member is the active.
    Propose,
    /// The process is about to end: if it leads, another is to do so at once.
    Withdraw,
    /// A member is to belong to the group; nothing is done unless this one leads.
    Admit(MemberId),
    /// A member is to belong to it no more; nothing is done unless this one leads, and is another.
    Dismiss(MemberId),
    /// An operator says that this one is to lead with what it has, whatever others may have: what they alone
    /// have is lost.
    Force,
    /// Up to a committed batch, which is in an image, the journal's files have been removed.
    Forgotten(Sn),
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// To a member, if there is a connection. Whoever sends batches adds what they hold.
    Send(MemberId, Message),
    /// Into the journal, after what is left when all that follows the base is discarded. The batches are
    /// those of the message at hand, or the one that was proposed.
    Take {
        /// Numbered from 1 on; told when it is on the disk.
        number: u64,
        /// Those that follow the base.
        batches: Shape,
    },
    /// In the coordinator, if it has the first record still. It is tried again until the outcome is known; nothing
    /// else is asked for meanwhile.
    Change {
        /// What it must have.
        from: Record,
        /// What it shall have.
        to: Record,
    },
    /// All up to this batch is committed.
    Committed(Sn),
    /// This member is the active of its epoch and has the whole journal, up to this batch: what it applies
    /// from now on it proposes. The first batch says that the reign has begun.
    Lead(Epoch, Sn),
    /// It is not any more: what it has applied beyond what is committed is void.
    StepDown,
    /// What the active has left begins after this batch: an image is to be taken, of any member, as long as
    /// [`Engine::wants_image`] says so.
    Restore(Sn),
    /// The coordinator's record may not be the one that this member knows: another one says so. It is asked for as
    /// often as there is reason to, so whoever does this reads the record no more often than it can bear.
    Look,
    /// A member says what cannot be so, for this reason: nothing of that was done. Its connection is to be closed.
    Refuse(MemberId, &'static str),
    /// The active has another batch than the one that was committed here after this one. An operator has forced
    /// it to lead, and what it did not have is lost: a member that is started again has forgotten that it was
    /// committed.
    Contradicted(Sn),
}

/// What a member is doing besides following.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Nothing.
    Follower,
    /// It asks others whether they hear the active.
    Asking {
        /// Who has not answered.
        waits_for: BTreeSet<MemberId>,
        /// Who does not hear it either.
        agree: BTreeSet<MemberId>,
        /// Since when.
        since: Now,
    },
    /// It asks the coordinator for the next epoch.
    Claiming,
    /// It has the epoch and collects journals.
    Candidate(Candidate),
    /// It leads.
    Active(Reign),
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    pub(crate) me: MemberId,
    pub(crate) terms: Terms,
    /// What the coordinator said last. Nothing of lower epochs is taken, and of higher ones nothing either: what
    /// another member says of epochs is only a reason to look there.
    pub(crate) record: Record,
    /// Who says that it has a later epoch, and which: it is met when the record says so, too.
    claims: BTreeMap<MemberId, Epoch>,
    /// The journal, with what is being written.
    pub(crate) shape: Shape,
    pub(crate) durable: Sn,
    /// What is being written: number, and the last batch.
    pub(crate) writing: VecDeque<(u64, Sn)>,
    pub(crate) writes: u64,
    pub(crate) committed: Sn,
    pub(crate) connected: BTreeSet<MemberId>,
    /// What was asked of the coordinator, while the outcome is not known.
    pub(crate) asked: Option<Record>,
    /// Whom it has promised to follow, and until when.
    pub(crate) promised: BTreeMap<MemberId, Now>,
    /// Its disk has all that it said it had.
    pub(crate) is_intact: bool,
    /// Its process is about to end.
    pub(crate) is_leaving: bool,
    /// The record's active, if it has been heard of and not lost since.
    pub(crate) following: Option<MemberId>,
    /// It has lost the active, or never had one: others are asked at once.
    pub(crate) has_lost: bool,
    /// One of them has said that there is one: they are not asked again before.
    pub(crate) asks_from: Now,
    pub(crate) heard: Now,
    pub(crate) steadiness: Steadiness,
    /// Up to where the journal is known to be that one's.
    pub(crate) matched: Sn,
    /// Up to where that one has said that all is committed.
    pub(crate) told: Sn,
    /// Whoever leads, or has the greatest journal, has nothing of what follows this one any more: the first batch of which
    /// an image would do. None again once another one has: what the journal takes then is not to be thrown away for an image.
    pub(crate) wants_image: Option<Sn>,
    pub(crate) part: Part,
    outputs: Vec<Output>,
}

impl Engine {
    /// A member that has just started. `record` was read after that, and `shape` is what its journal holds, all of it
    /// on the disk; if the disk may have lost what it said was written, it is not intact.
    pub fn new(
        me: MemberId,
        terms: Terms,
        record: Record,
        (shape, is_intact): (Shape, bool),
        now: Now,
    ) -> Engine {
        // Whom it has promised what it does not remember. If the last reign was its own, nobody.
        let was_active = record.active == me;
        let others = record
            .members()
            .filter(|member| !was_active && *member != me);
        let promised = others
            .map(|member| (member, now + terms.lease_before))
            .collect();
        Engine {
            me,
            terms,
            claims: BTreeMap::new(),
            durable: shape.last(),
            committed: shape.base(),
            matched: shape.base(),
            told: Sn(0),
            wants_image: None,
            shape,
            record,
            writing: VecDeque::new(),
            writes: 0,
            connected: BTreeSet::new(),
            asked: None,
            promised,
            is_intact,
            is_leaving: false,
            following: None,
            has_lost: was_active,
            asks_from: now,
            heard: now,
            steadiness: Steadiness::begin(&terms, now),
            part: Part::Follower,
            outputs: Vec::new(),
        }
    }

    /// Its name.
    pub fn me(&self) -> MemberId {
        self.me
    }

    /// What it is doing.
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// What it knows of who counts.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Its journal, with what is being written.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Its journal cannot go on: an image of this batch, or of a later one, is to take its place. None: it goes on, and
    /// what is in it may be counted on.
    pub fn wants_image(&self) -> Option<Sn> {
        self.wants_image
    }

    /// How far its journal is on the disk.
    pub fn durable(&self) -> Sn {
        self.durable
    }

    /// Whether its disk has all that it said it had.
    pub fn is_intact(&self) -> bool {
        self.is_intact
    }

    /// The highest epoch that it knows: the coordinator's, as it was told last.
    pub fn floor(&self) -> Epoch {
        self.record.epoch
    }

    /// Whether there is a connection to a member.
    pub fn is_connected(&self, member: MemberId) -> bool {
        self.connected.contains(&member)
    }

    /// Whom it follows.
    pub fn following(&self) -> Option<MemberId> {
        self.following
    }

    /// All up to this batch is committed, as far as it knows.
    pub fn committed(&self) -> Sn {
        self.committed
    }

    /// While it leads: how much of what is committed each voter has on its disk.
    pub fn had(&self) -> Option<BTreeMap<MemberId, Sn>> {
        let Part::Active(reign) = &self.part else {
            return None;
        };
        let had = |member: &MemberId| {
            let durable = self.durable_at(reign, *member)?;
            Some((*member, durable.min(self.committed)))
        };
        Some(self.record.voters.iter().filter_map(had).collect())
    }

    /// Handles one event. Answers what is to be done.
    pub fn on(&mut self, now: Now, input: Input) -> Vec<Output> {
        match input {
            Input::Tick => {}
            Input::Stalled(late) => self.stalled(now, late),
            Input::Record(record) => self.on_record(now, record),
            Input::ChangeEnded(record) => self.on_change_ended(now, record),
            Input::Connected(member) => self.on_connected(member),
            Input::Lost(member) => self.on_lost(member),
            Input::ProcessEnded(member) => {
                self.process_ended(now, member);
                self.lose(member);
                if let Part::Active(reign) = &mut self.part {
                    reign.ended(member);
                }
            }
            Input::Message(from, message) => self.on_message(now, from, message),
            Input::Written(number) => self.on_written(number),
            Input::Propose => self.propose(),
            Input::Withdraw => self.withdraw(),
            Input::Admit(member) => self.admit(member),
            Input::Dismiss(member) => self.dismiss(member),
            Input::Force => self.force(),
            Input::Forgotten(sn) => self.shape.forget(sn.min(self.committed)),
        }
        self.look_around(now);
        std::mem::take(&mut self.outputs)
    }

    /// What it has seen of how steady all are.
    pub fn steadiness(&self) -> &Steadiness {
        &self.steadiness
    }

    /// As one that was this member before, in the same process and by the same clock, has seen it.
    pub fn recall(&mut self, seen: Steadiness) {
        self.steadiness = seen;
    }

    /// When [`Input::Tick`] is due at the latest.
    pub fn wakes_at(&self, now: Now) -> Now {
        let next = match &self.part {
            Part::Follower if !self.may_lead(now) => now + self.terms.patience,
            Part::Follower => match self.has_lost {
                true => self.asks_from,
                false => self.asks_from.max(self.heard + self.patience(now)),
            },
            Part::Asking { since, .. } => *since + self.terms.asking,
            Part::Claiming => now + self.terms.patience,
            Part::Candidate(candidate) => candidate.beats.next,
            Part::Active(reign) => self.reign_wakes_at(reign, now),
        };
        // Nothing is so urgent that other events must wait for it. A clock that is looked at as often as an active
        // beats shows where the process itself stands still.
        next.clamp(now + Duration::from_millis(1), now + self.terms.beat)
    }

    /// What no event says by itself: something is due, or has become possible.
    fn look_around(&mut self, now: Now) {
        match self.part {
            Part::Follower | Part::Asking { .. } => self.seek(now),
            Part::Claiming => {}
            Part::Candidate(_) => self.pursue(now),
            Part::Active(_) => self.rule(now),
        }
    }

    pub(crate) fn out(&mut self, output: Output) {
        self.outputs.push(output);
    }

    pub(crate) fn send(&mut self, to: MemberId, message: Message) {
        if self.connected.contains(&to) {
            self.outputs.push(Output::Send(to, message));
        }
    }

    pub(crate) fn send_all(&mut self, message: &Message) {
        for member in self.connected.clone() {
            self.send(member, message.clone());
        }
    }

    /// Adds batches to the journal, after all that follows their base is discarded. The caller knows that
    /// they fit there.
    pub(crate) fn take(&mut self, batches: Shape) {
        let after = batches.base();
        debug_assert!(after >= self.committed, "what is committed stays");
        let fits = self.shape.splice(&batches);
        debug_assert!(fits, "they follow what is there");
        self.durable = self.durable.min(after);
        for (_, written) in &mut self.writing {
            *written = (*written).min(after);
        }
        self.writes += 1;
        let number = self.writes;
        self.writing.push_back((number, batches.last()));
        self.out(Output::Take { number, batches });
    }

    fn on_written(&mut self, number: u64) {
        while let Some((_, last)) = self.writing.front().filter(|(first, _)| *first <= number) {
            self.durable = self.durable.max(*last);
            self.writing.pop_front();
        }
        self.tell_durable();
        self.regain();
    }

    fn on_connected(&mut self, member: MemberId) {
        self.connected.insert(member);
        if matches!(self.part, Part::Candidate(_) | Part::Active(_)) {
            let epoch = self.floor();
            self.send(member, Message::Collect { epoch });
        }
    }

    fn on_lost(&mut self, member: MemberId) {
        self.connected.remove(&member);
        self.claims.remove(&member);
        self.lose(member);
        match &mut self.part {
            Part::Follower | Part::Claiming => {}
            Part::Asking {
                waits_for, agree, ..
            } => {
                waits_for.remove(&member);
                agree.remove(&member);
            }
            Part::Candidate(candidate) => candidate.lost(member),
            Part::Active(reign) => reign.lost(member),
        }
    }

    /// What it was promised is void. Whoever has been told of that promise waits for its end, and is told.
    fn process_ended(&mut self, now: Now, member: MemberId) {
        let was = self.promised.remove(&member);
        let next = self.following.filter(|next| *next != member);
        if let (Some(until), Some(next)) = (was, next)
            && until > now
        {
            let collected = self.collected(now, next);
            self.send(next, collected);
        }
    }

    fn lose(&mut self, member: MemberId) {
        if self.following == Some(member) {
            self.following = None;
            self.has_lost = true;
        }
    }

    /// There is a later reign than any that it knew of, of another's.
    fn fall_behind(&mut self, now: Now) {
        self.give_up();
        self.matched = self.shape.base();
        self.told = Sn(0);
        // Whoever has it is given time to say so.
        self.heard = now;
        self.has_lost = false;
        if let Part::Active(_) = std::mem::replace(&mut self.part, Part::Follower) {
            self.out(Output::StepDown);
        }
    }

    fn on_record(&mut self, now: Now, record: Record) {
        let was = self.floor();
        if record.epoch < was {
            return;
        }
        self.record = record;
        if self.floor() == was {
            return;
        }
        let active = self.record.active;
        let claimed = self.claims.remove(&active);
        let is_later = |epoch: &Epoch| *epoch > self.record.epoch;
        self.claims.retain(|_, epoch| is_later(epoch));
        // (A reign that its process had before it was started it knew from the start.)
        if active == self.me {
            return self.elected(now);
        }
        self.fall_behind(now);
        if claimed == Some(self.floor()) {
            // It has said so already, and what it said was not heeded: it is told where this member is.
            self.on_collect(now, active, self.floor());
        } else if let Some(epoch) = claimed.filter(|epoch| *epoch > self.floor()) {
            self.claims.insert(active, epoch);
        }
    }

    fn on_change_ended(&mut self, now: Now, record: Record) {
        self.asked = None;
        if let Part::Claiming = self.part {
            // If another has it, that one is given time to say so. If only who counts was changed meanwhile,
            // nobody has: the active is as silent as before.
            self.part = Part::Follower;
        }
        self.on_record(now, record);
    }

    /// Notes that a member says that it has a later epoch, and has the coordinator asked whether that is so.
    pub(crate) fn on_claim(&mut self, from: MemberId, epoch: Epoch) {
        self.claims.insert(from, epoch);
        self.out(Output::Look);
    }

    /// What only the active says comes from it. Otherwise it is refused.
    pub(crate) fn is_of_active(&mut self, from: MemberId) -> bool {
        let is_active = from == self.record.active;
        if !is_active {
            self.refuse(
                from,
                "it speaks as the active, which another one is by the coordinator's record",
            );
        }
        is_active
    }

    pub(crate) fn refuse(&mut self, from: MemberId, why: &'static str) {
        self.out(Output::Refuse(from, why));
    }

    fn on_collect(&mut self, now: Now, from: MemberId, epoch: Epoch) {
        if self.follows(now, from, epoch) {
            let collected = self.collected(now, from);
            self.send(from, collected);
        }
    }

    /// Asks the coordinator, which has nothing else of this member to do.
    pub(crate) fn ask(&mut self, to: Record) {
        debug_assert!(self.asked.is_none(), "one thing at a time");
        self.asked = Some(to.clone());
        let from = self.record.clone();
        self.out(Output::Change { from, to });
    }

    pub(crate) fn collected(&self, now: Now, asked_by: MemberId) -> Message {
        Message::Collected {
            epoch: self.floor(),
            shape: self.shape.clone(),
            durable: self.durable,
            promised: self.promised_to_others(now, asked_by),
            is_intact: self.is_intact,
        }
    }

    fn on_message(&mut self, now: Now, from: MemberId, message: Message) {
        self.steadiness.hear(&self.terms, now, from);
        match message {
            Message::Hears => {
                let hears = self.hears(now);
                let lacks = !self.is_intact;
                self.send(from, Message::HearsAnswer { hears, lacks });
            }
            Message::HearsAnswer { hears, lacks } => {
                self.on_hears_answer(now, from, hears, lacks);
            }
            // Whether that is so the coordinator knows.
            Message::Newer { epoch } => {
                if epoch > self.floor() {
                    self.out(Output::Look);
                }
            }
            Message::Withdrawn { epoch } => {
                if epoch == self.floor() && self.is_of_active(from) {
                    self.promised.remove(&from);
                    self.lose(from);
                }
            }
            Message::Collect { epoch } => self.on_collect(now, from, epoch),
            Message::Beat {
                epoch,
                at,
                committed,
                late,
                lease,
            } => {
                self.steadiness.tell(&self.terms, from, late);
                if self.follows(now, from, epoch) {
                    self.on_beat(now, from, (epoch, at, lease), committed);
                }
            }
            Message::Append {
                epoch,
                batches,
                committed,
            } => {
                if self.follows(now, from, epoch) {
                    self.on_append(now, from, batches, committed);
                }
            }
            Message::Behind { epoch, base } => {
                if self.follows(now, from, epoch) {
                    self.wants_image = Some(base);
                    self.out(Output::Restore(base));
                }
            }
            Message::Fetch { epoch, after, last } => {
                if self.follows(now, from, epoch) {
                    let batches = self.shape.slice(after, last);
                    self.send(from, Message::Fetched { epoch, batches });
                }
            }
            Message::Collected {
                epoch,
                shape,
                durable,
                promised,
                is_intact,
            } => {
                if epoch == self.floor() {
                    let promised_until = now + promised;
                    let collected = Collected {
                        shape,
                        durable,
                        promised_until,
                        is_intact,
                    };
                    self.on_collected(now, from, collected);
                }
            }
            Message::Fetched { epoch, batches } => {
                if epoch == self.floor() {
                    self.on_fetched(from, batches);
                }
            }
            Message::BeatAnswer { epoch, at } => {
                if epoch == self.floor() {
                    self.on_beat_answer(now, from, at);
                }
            }
            Message::Appended { epoch, durable } => {
                if epoch == self.floor() {
                    self.on_appended(now, from, durable)
                }
            }
        }
    }
}
