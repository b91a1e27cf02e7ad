//! Which call is to fail, and how many there were.

use std::collections::BTreeMap;

use crate::result::Code;

/// Stands for every function.
pub(crate) const ANY: &str = "*";

#[derive(Debug, Default)]
pub(crate) struct Injection {
    calls: BTreeMap<String, u64>,
    /// By name: calls until the one that fails, and its code.
    plans: BTreeMap<String, (u64, Code)>,
    failed: Option<&'static str>,
}

impl Injection {
    /// Lets the `nth` call from now fail, 1 being the next; 0 takes the plan back.
    pub(crate) fn plan(&mut self, name: &str, nth: u64, code: Code) {
        match nth {
            0 => self.plans.remove(name),
            _ => self.plans.insert(name.to_owned(), (nth, code)),
        };
    }

    /// Counts a call; says what it fails with, if it is to fail.
    pub(crate) fn call(&mut self, name: &'static str) -> Result<(), Code> {
        let mut failure = None;
        for key in [name, ANY] {
            *self.calls.entry(key.to_owned()).or_default() += 1;
            if let Some((left, code)) = self.plans.get_mut(key) {
                *left -= 1;
                if *left == 0 {
                    failure = Some(*code);
                    self.plans.remove(key);
                }
            }
        }
        match failure {
            Some(code) => {
                self.failed = Some(name);
                Err(code)
            }
            None => Ok(()),
        }
    }

    /// Calls of a function since the last reset.
    pub(crate) fn calls(&self, name: &str) -> u64 {
        self.calls.get(name).copied().unwrap_or(0)
    }

    /// The function whose call was made to fail last.
    pub(crate) fn failed(&self) -> Option<&'static str> {
        self.failed
    }
}
