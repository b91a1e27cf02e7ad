//! Capture: what streams are told while they are captured, and the graph that comes of it.
//!
//! *Owns* what may be called meanwhile. A stream takes part in a capture because the capture began there, or because it
//! waited for an event that was recorded in it. What is captured is kept in the order in which it was issued, which is one
//! of the orders that a graph allows.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::thread::ThreadId;

use crate::driver::Driver;
use crate::event::CapturedPoint;
use crate::result::{
    CAPTURE_IMPLICIT, CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_MERGE, CAPTURE_UNJOINED, CAPTURE_UNMATCHED,
    CAPTURE_UNSUPPORTED, CAPTURE_WRONG_THREAD, CAPTURED_EVENT, Code, ILLEGAL_STATE,
};
use crate::stream::LEGACY;
use crate::work::Work;

/// Which calls a capture forbids to which threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// To all.
    Global,
    /// To the capturing one.
    ThreadLocal,
    /// To none.
    Relaxed,
}

impl Mode {
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        [Mode::Global, Mode::ThreadLocal, Mode::Relaxed].get(number as usize).copied()
    }
}

/// Whether a stream is captured, as the driver numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    None = 0,
    Active = 1,
    /// In vain, and until it is ended.
    Invalidated = 2,
}

thread_local! {
    /// What this thread lets captures forbid it.
    static INTERACTION: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Changes what this thread lets captures forbid it; answers what it was.
pub(crate) fn exchange_mode(mode: Mode) -> Mode {
    INTERACTION.replace(mode)
}

pub(crate) struct Capture {
    origin: u64,
    mode: Mode,
    thread: ThreadId,
    works: Vec<Work>,
    members: BTreeMap<u64, Member>,
    is_invalid: bool,
}

#[derive(Default)]
struct Member {
    /// How much was captured there, and how much of it somebody else has waited for.
    position: u64,
    joined: Option<u64>,
}

impl Driver {
    pub(crate) fn begin_capture(&mut self, stream: u64, mode: Mode) -> Result<(), Code> {
        if stream == LEGACY {
            return Err(CAPTURE_UNSUPPORTED);
        }
        let id = self.handle();
        let Some(state) = self.streams.get_mut(&stream) else { return Err(ILLEGAL_STATE) };
        if state.capture.is_some() {
            return Err(ILLEGAL_STATE);
        }
        state.capture = Some(id);
        let members = BTreeMap::from([(stream, Member::default())]);
        let thread = std::thread::current().id();
        self.captures
            .insert(id, Capture { origin: stream, mode, thread, works: Vec::new(), members, is_invalid: false });
        Ok(())
    }

    pub(crate) fn end_capture(&mut self, stream: u64) -> Result<Vec<Work>, Code> {
        let id = self.streams.get(&stream).and_then(|stream| stream.capture).ok_or(ILLEGAL_STATE)?;
        let capture = self.captures.get(&id).ok_or(ILLEGAL_STATE)?;
        if capture.origin != stream {
            return Err(CAPTURE_UNMATCHED);
        }
        if capture.mode != Mode::Relaxed && capture.thread != std::thread::current().id() {
            return Err(CAPTURE_WRONG_THREAD);
        }
        let capture = self.captures.remove(&id).ok_or(ILLEGAL_STATE)?;
        for member in capture.members.keys() {
            if let Some(stream) = self.streams.get_mut(member) {
                stream.capture = None;
            }
        }
        if capture.is_invalid {
            return Err(CAPTURE_INVALIDATED);
        }
        let unjoined = |(id, member): (&u64, &Member)| {
            *id != capture.origin && member.joined.is_none_or(|joined| joined < member.position)
        };
        if capture.members.iter().any(unjoined) {
            return Err(CAPTURE_UNJOINED);
        }
        Ok(capture.works)
    }

    /// Takes work of a stream into its capture; gives it back where the stream is not captured.
    pub(crate) fn capture(&mut self, stream: u64, work: Work) -> Result<Option<Work>, Code> {
        if stream == LEGACY {
            self.legacy_use()?;
        }
        let Some(id) = self.streams.get(&stream).and_then(|stream| stream.capture) else { return Ok(Some(work)) };
        let capture = self.valid(id)?;
        capture.members.entry(stream).or_default().position += 1;
        capture.works.push(work);
        Ok(None)
    }

    /// The captures of blocking streams. Until they end nobody uses the legacy stream, which comes after those streams.
    fn blocking_captures(&self) -> impl Iterator<Item = u64> {
        self.streams.values().filter(|stream| stream.blocking).filter_map(|stream| stream.capture)
    }

    /// The legacy stream would have to come after a blocking stream that is captured.
    fn legacy_use(&mut self) -> Result<(), Code> {
        let broken: Vec<_> = self.blocking_captures().collect();
        if broken.is_empty() {
            return Ok(());
        }
        broken.iter().for_each(|id| self.invalidate(*id));
        Err(CAPTURE_IMPLICIT)
    }

    fn valid(&mut self, id: u64) -> Result<&mut Capture, Code> {
        self.captures.get_mut(&id).filter(|capture| !capture.is_invalid).ok_or(CAPTURE_INVALIDATED)
    }

    fn invalidate(&mut self, id: u64) {
        if let Some(capture) = self.captures.get_mut(&id) {
            capture.is_invalid = true;
        }
    }

    /// Says whether a stream is captured, and breaks no capture by that.
    pub(crate) fn capture_status(&self, stream: u64) -> Result<Status, Code> {
        if stream == LEGACY && self.blocking_captures().next().is_some() {
            return Err(CAPTURE_IMPLICIT);
        }
        let capture = self.streams.get(&stream).and_then(|stream| self.captures.get(&stream.capture?));
        Ok(match capture {
            None => Status::None,
            Some(capture) if capture.is_invalid => Status::Invalidated,
            Some(_) => Status::Active,
        })
    }

    /// Refuses what cannot be asked of a captured stream, and ends the capture's hopes.
    pub(crate) fn refuse_captured(&mut self, stream: u64) -> Result<(), Code> {
        if stream == LEGACY {
            self.legacy_use()?;
        }
        match self.streams.get(&stream).and_then(|stream| stream.capture) {
            Some(id) => {
                self.invalidate(id);
                Err(CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    /// Refuses a call that captures forbid to this thread: one that may wait, or allocate.
    pub(crate) fn refuse_unsafe(&mut self) -> Result<(), Code> {
        let (here, mode) = (std::thread::current().id(), INTERACTION.get());
        let forbids = |capture: &Capture| match mode {
            Mode::Relaxed => false,
            Mode::ThreadLocal => capture.thread == here && capture.mode != Mode::Relaxed,
            Mode::Global => capture.mode == Mode::Global || capture.thread == here && capture.mode != Mode::Relaxed,
        };
        let broken: Vec<_> = self.captures.iter().filter(|(_, it)| forbids(it)).map(|(id, _)| *id).collect();
        if broken.is_empty() {
            return Ok(());
        }
        broken.iter().for_each(|id| self.invalidate(*id));
        Err(CAPTURE_UNSUPPORTED)
    }

    /// Refuses what is asked of all streams while one of them is captured.
    pub(crate) fn refuse_any_capture(&mut self) -> Result<(), Code> {
        let broken: Vec<_> = self.captures.keys().copied().collect();
        if broken.is_empty() {
            return Ok(());
        }
        broken.iter().for_each(|id| self.invalidate(*id));
        Err(CAPTURE_UNSUPPORTED)
    }

    /// An event recorded in a captured stream is a point of the capture.
    pub(crate) fn captured_point(&mut self, stream: u64) -> Result<Option<CapturedPoint>, Code> {
        if stream == LEGACY {
            self.legacy_use()?;
        }
        let Some(id) = self.streams.get(&stream).and_then(|stream| stream.capture) else { return Ok(None) };
        let position = self.valid(id)?.members.entry(stream).or_default().position;
        Ok(Some(CapturedPoint { capture: id, stream, position }))
    }

    /// A stream waits for an event. Says whether that was a matter of a capture alone.
    pub(crate) fn captured_wait(&mut self, stream: u64, point: Option<CapturedPoint>) -> Result<bool, Code> {
        if stream == LEGACY {
            self.legacy_use()?;
        }
        let own = self.streams.get(&stream).and_then(|stream| stream.capture);
        let in_progress = point.filter(|point| self.captures.contains_key(&point.capture));
        let Some(point) = in_progress else {
            return match own {
                Some(id) => {
                    self.invalidate(id);
                    Err(CAPTURE_ISOLATION)
                }
                // Of a capture that has ended: there is no such work to wait for.
                None if point.is_some() => Err(CAPTURED_EVENT),
                None => Ok(false),
            };
        };
        if own.is_some_and(|own| own != point.capture) {
            return Err(CAPTURE_MERGE);
        }
        let capture = self.valid(point.capture)?;
        capture.members.entry(stream).or_default();
        if stream != point.stream {
            let joined = &mut capture.members.entry(point.stream).or_default().joined;
            *joined = Some(joined.map_or(point.position, |joined| joined.max(point.position)));
        }
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.capture = Some(point.capture);
        }
        Ok(true)
    }
}
