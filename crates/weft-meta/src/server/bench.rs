//! For benchmarks (`examples/members/`): entries that come from no client, and who counts.

use super::Server;
use weft_group::MemberId;
use weft_wire::proto::{Cred, Entry, Op};

/// What the active of a group knows of another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Both connections are there.
    pub is_connected: bool,
    /// It counts: it is a standby.
    pub counts: bool,
}

impl Server {
    /// Applies a change, as if root had asked for it, and has it committed. `then` is told whether it was.
    ///
    /// # Errors
    /// If this server does not lead, takes no change now, or the change is refused; `then` is not called.
    pub fn propose(&self, op: Op, then: impl FnOnce(bool) + 'static) -> Result<(), String> {
        let reign = self.host.reign().ok_or("this server does not lead")?;
        let core = &mut *reign.core.borrow_mut();
        if let Some(refusal) = core.commits.refusal() {
            return Err(refusal.to_string());
        }
        let entry = Entry {
            cred: Some(Cred::default()),
            op: Some(op),
            ..Entry::default()
        };
        let (reply, sn) = reign.apply(core, entry);
        if reply.failure_errno != 0 {
            return Err(format!("refused with errno {}", reply.failure_errno));
        }
        reign.when_committed(core, sn, move |_, _, result| then(result.is_ok()));
        Ok(())
    }

    /// What this server, if it leads, knows of another member of its group.
    pub fn standing_of(&self, member: u32) -> Option<Standing> {
        let own = self.host.member().filter(|own| own.answers())?;
        let id = MemberId(member);
        Some(own.look(|engine, _| Standing {
            is_connected: engine.is_connected(id),
            counts: engine.record().voters.contains(&id),
        }))
    }

    /// How many members count, this one with them, if it leads.
    pub fn voters(&self) -> Option<usize> {
        let own = self.host.member().filter(|own| own.answers())?;
        Some(own.look(|engine, _| engine.record().voters.len()))
    }
}
