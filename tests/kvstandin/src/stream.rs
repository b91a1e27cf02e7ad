//! Streams: a queue and a thread for each.
//!
//! *Owns* the order of work. A piece of work starts when the one before it in its stream has ended, when everything that it
//! comes after in other streams has ended, and when nobody holds the stream. **The legacy stream** (handle 0) comes after
//! everything that was issued before it in blocking streams, and they after what was issued before them in it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::driver::{CHANGED, Driver, lock};
use crate::result::Code;
use crate::work::{self, Work};

/// The legacy stream.
pub(crate) const LEGACY: u64 = 0;

/// A position in a stream's queue; positions count from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Point {
    pub(crate) stream: u64,
    pub(crate) position: u64,
}

pub(crate) struct Stream {
    /// In order with the legacy stream.
    pub(crate) blocking: bool,
    queue: VecDeque<Queued>,
    pub(crate) issued: u64,
    started: u64,
    pub(crate) done: u64,
    /// Work up to this position may start.
    limit: Option<u64>,
    /// Destroyed: goes when its queue is done.
    ending: bool,
    /// The capture that it takes part in.
    pub(crate) capture: Option<u64>,
}

struct Queued {
    after: Vec<Point>,
    work: Work,
}

impl Stream {
    pub(crate) fn new(blocking: bool, held: bool) -> Self {
        Self {
            blocking,
            queue: VecDeque::new(),
            issued: 0,
            started: 0,
            done: 0,
            limit: held.then_some(0),
            ending: false,
            capture: None,
        }
    }

    pub(crate) fn hold(&mut self) {
        self.limit = Some(self.started);
    }

    pub(crate) fn release(&mut self) {
        self.limit = None;
    }

    /// Lets one more piece of work start.
    pub(crate) fn step(&mut self) {
        self.limit = self.limit.map(|limit| limit.max(self.started) + 1);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.limit.is_some()
    }

    pub(crate) fn pending(&self) -> u64 {
        self.issued - self.done
    }
}

impl Driver {
    /// Whether everything up to a point has ended. Streams that are gone have nothing left.
    pub(crate) fn is_done(&self, point: Point) -> bool {
        self.streams.get(&point.stream).is_none_or(|stream| stream.done >= point.position)
    }

    /// Queues work behind everything that it must come after.
    pub(crate) fn issue(&mut self, id: u64, mut after: Vec<Point>, work: Work) -> Point {
        let implied = |other: &Stream| Point { stream: 0, position: other.issued };
        let blocking = self.streams.get(&id).is_some_and(|stream| stream.blocking);
        if id == LEGACY {
            let others = self.streams.iter().filter(|(other, stream)| **other != LEGACY && stream.blocking);
            after.extend(others.map(|(other, stream)| Point { stream: *other, ..implied(stream) }));
        } else if blocking && let Some(legacy) = self.streams.get(&LEGACY) {
            after.push(Point { stream: LEGACY, ..implied(legacy) });
        }
        let stream = self.streams.entry(id).or_insert_with(|| Stream::new(true, false));
        stream.issued += 1;
        stream.queue.push_back(Queued { after, work });
        CHANGED.notify_all();
        Point { stream: id, position: stream.issued }
    }

    /// Lets a stream go when its work is done.
    pub(crate) fn end_stream(&mut self, id: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.ending = true;
        }
        CHANGED.notify_all();
    }

    /// Whether a stream's next piece of work has nothing to wait for but a hold.
    pub(crate) fn is_ready(&self, id: u64) -> bool {
        let first = self.streams.get(&id).and_then(|stream| stream.queue.front());
        first.is_some_and(|first| first.after.iter().all(|point| self.is_done(*point)))
    }

    fn next_work(&mut self, id: u64) -> Option<Work> {
        let stream = self.streams.get(&id)?;
        let allowed = stream.limit.is_none_or(|limit| stream.started < limit);
        if !allowed || !self.is_ready(id) {
            return None;
        }
        let stream = self.streams.get_mut(&id)?;
        stream.started += 1;
        stream.queue.pop_front().map(|queued| queued.work)
    }
}

/// Begins the thread of a stream. It ends when the stream is gone.
pub(crate) fn spawn(id: u64, life: u64) {
    let name = format!("stream {id:#x}");
    let spawned = std::thread::Builder::new().name(name).spawn(move || {
        let mut driver = lock();
        loop {
            if driver.life != life || !driver.streams.contains_key(&id) {
                return;
            }
            if let Some(work) = driver.next_work(id) {
                // Behind a fault nothing is executed any more, and nobody waits for ever.
                let is_dead = driver.sticky.is_some();
                drop(driver);
                let outcome = if is_dead { Ok(()) } else { work.execute() };
                driver = lock();
                if driver.life != life {
                    return;
                }
                driver.ended(id, &work, outcome.map_err(work::code));
                CHANGED.notify_all();
                continue;
            }
            if driver.streams.get(&id).is_some_and(|stream| stream.ending && stream.queue.is_empty()) {
                driver.streams.remove(&id);
                CHANGED.notify_all();
                return;
            }
            driver = CHANGED.wait(driver).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    });
    assert!(spawned.is_ok(), "no thread for a stream");
}

impl Driver {
    fn ended(&mut self, id: u64, work: &Work, outcome: Result<(), Code>) {
        if let Err(code) = outcome {
            self.sticky.get_or_insert(code);
        }
        if let Work::Record { event } = work
            && let Some(event) = self.events.get_mut(event)
        {
            event.time = Some(std::time::Instant::now());
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.done += 1;
        }
    }
}

/// Waits until everything up to the points has ended.
pub(crate) fn wait(mut driver: crate::driver::Guard, points: &[Point]) -> crate::driver::Guard {
    /// Nobody releases a stream any more when a test waited as long: it would hang.
    const PATIENCE: Duration = Duration::from_secs(60);
    while let Some(point) = points.iter().find(|point| !driver.is_done(**point)) {
        let (guard, waited) = CHANGED.wait_timeout(driver, PATIENCE).unwrap_or_else(|poisoned| poisoned.into_inner());
        driver = guard;
        if waited.timed_out() {
            let held = driver.streams.get(&point.stream).is_some_and(Stream::is_held);
            eprintln!(
                "kvstandin: the host waits for position {} of stream {:#x}, held: {held}",
                point.position, point.stream
            );
            std::process::abort();
        }
    }
    driver
}
