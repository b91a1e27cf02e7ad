//! Rivals that take turns.

use std::time::{Duration, Instant};

use crate::Scale;
use crate::engine::{Engine, Stream};

/// Something that is queued on streams.
pub(crate) trait Work {
    /// Makes everything as it has to be, and waits; not timed.
    fn prepare(&mut self) {}

    /// Queues it, so that the stream in which the race ends is behind it.
    fn queue(&mut self);
}

/// Medians, in microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) host_us: f64,
    pub(crate) wall_us: f64,
    pub(crate) device_us: f64,
}

/// Where a race begins and ends, and how often it is run.
pub(crate) struct Course {
    pub(crate) from: Stream,
    pub(crate) to: Stream,
    pub(crate) scale: Scale,
}

impl Course {
    pub(crate) fn race(&self, engine: &Engine, works: &mut [&mut dyn Work]) -> Vec<Times> {
        let (warm_up, rounds) = if self.scale == Scale::Full { (5, 41) } else { (1, 2) };
        let mut samples = vec![[Vec::new(), Vec::new(), Vec::new()]; works.len()];
        for round in 0..warm_up + rounds {
            for turn in 0..works.len() {
                let at = (round + turn) % works.len();
                let sample = self.once(engine, works[at]);
                if round >= warm_up {
                    samples[at].iter_mut().zip(sample).for_each(|(samples, time)| samples.push(time));
                }
            }
        }
        let times = samples.into_iter().map(|it| it.map(median));
        times.map(|[host_us, wall_us, device_us]| Times { host_us, wall_us, device_us }).collect()
    }

    fn once(&self, engine: &Engine, work: &mut dyn Work) -> [f64; 3] {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        work.prepare();
        let begin = Instant::now();
        work.queue();
        let host = begin.elapsed();
        engine.finish(self.to);
        let wall = begin.elapsed();
        work.prepare();
        engine.keep_busy(self.from, host * 2);
        let device_us = engine.between(self.from, self.to, || work.queue());
        [us(host), us(wall), device_us]
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
