//! The calls of a site: with the entry of a round, or with a snapshot that replaces the log.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::time::BootInstant;

use super::super::copy::RemoteSiteCopy;
use super::super::layout_3;
use super::super::wire::{ReplyKind, ScriptCall, ScriptReply};
use super::{ExchangeRound, SiteExchange};
use crate::error::StoreError;

/// The number of attempts of a call after records of another version of the program.
const MAX_TAKEOVERS: u32 = 8;

impl SiteExchange {
    /// Calls the script with the entry of an [`ExchangeRound`]. Converts a record of another
    /// version of the program first.
    pub(super) async fn call(&self, round: &ExchangeRound) -> Result<ScriptReply, StoreError> {
        if round.enters && std::mem::take(&mut self.state.lock().has_lost) {
            return Err(self.server.forgot());
        }
        for _ in 0..MAX_TAKEOVERS {
            let position = self.state.lock().copy.position();
            let call = ScriptCall {
                position,
                keep: round.keep,
                entry: &round.entry,
                ..self.plain_call()
            };
            let reply = self.server.reply_to(&self.key, &call).await?;
            match reply.kind {
                ReplyKind::Tail | ReplyKind::Whole => return Ok(reply),
                ReplyKind::Lost if round.enters => return Err(self.server.forgot()),
                ReplyKind::Lost => self.note_loss(),
                ReplyKind::Foreign => self.take_over(&reply).await?,
                ReplyKind::Other => self.import(&reply).await?,
            }
        }
        Err(self.server.malformed())
    }

    /// Accepts the data that the server has after a loss. The next admission request receives the
    /// error.
    fn note_loss(&self) {
        let mut state = self.state.lock();
        state.has_lost = true;
        state.copy.distrust();
    }

    fn plain_call(&self) -> ScriptCall<'static> {
        ScriptCall {
            now: self.uses_caller_clock.then(|| self.server.clock.boot()),
            ..ScriptCall::default()
        }
    }

    /// Replaces the record of another version of the program by the state that this version
    /// computes from it. Afterwards a single version decides again.
    async fn take_over(&self, reply: &ScriptReply) -> Result<(), StoreError> {
        let (position, snapshot, keep) = {
            let mut state = self.state.lock();
            let read = state.copy.absorb(reply, None);
            read.map_err(|_| self.server.malformed())?;
            let copy = &mut state.copy;
            let snapshot = copy.write_snapshot(reply.now);
            (
                copy.position(),
                snapshot,
                copy.keep(reply.now, Duration::ZERO),
            )
        };
        let call = ScriptCall {
            position,
            keep: Some(keep),
            snapshot: &snapshot,
            ..self.plain_call()
        };
        self.server.reply_to(&self.key, &call).await.map(drop)
    }

    /// Replaces a record of an earlier layout.
    async fn import(&self, reply: &ScriptReply) -> Result<(), StoreError> {
        let layout = reply.bytes.first().copied().unwrap_or(0);
        if layout != layout_3::LAYOUT {
            return Err(self.server.of_another_version(layout));
        }
        let (mut site, names) =
            layout_3::read(&reply.bytes, reply.now).map_err(|_| self.server.malformed())?;
        let (snapshot, keep) = {
            let copy = &mut self.state.lock().copy;
            let snapshot = copy.write_imported(&mut site, &names, reply.now);
            (snapshot, copy.keep(reply.now, Duration::ZERO))
        };
        let call = ScriptCall {
            keep: Some(keep),
            entry: &reply.bytes,
            snapshot: &snapshot,
            ..self.plain_call()
        };
        self.server.reply_to(&self.key, &call).await.map(drop)
    }

    /// Replaces the log by a snapshot, in the background.
    pub(super) fn replace_log(&self, copy: &mut RemoteSiteCopy, now: BootInstant) {
        let (position, keep) = (copy.position(), copy.keep(now, Duration::ZERO));
        let (snapshot, plain) = (copy.write_snapshot(now), self.plain_call());
        let (server, key) = (Arc::clone(&self.server), Arc::clone(&self.key));
        #[expect(
            clippy::disallowed_methods,
            reason = "the store's own background work, in the runtime it was opened in"
        )]
        self.server.runtime.spawn(async move {
            let call = ScriptCall {
                position,
                keep: Some(keep),
                snapshot: &snapshot,
                ..plain
            };
            // If the call fails, the log stays, and the next process tries.
            let _ = server.reply_to(&key, &call).await;
        });
    }
}
