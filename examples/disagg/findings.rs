//! What one handoff showed, and how a process tells it to its parent: a line for each finding on stderr, among the lines for
//! people.

use crate::fault::{Fault, Outcome};
use crate::json::Object;
use crate::lines::note;

/// How a line begins that is a finding.
const MARK: &str = "=";

/// What the processes found, or one of them. What none of them looked at counts as wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) outcome: Option<Outcome>,
    /// The first error, in the library's words.
    pub(crate) error: Option<String>,
    pub(crate) leaked: Option<bool>,
    pub(crate) next_tenant_intact: Option<bool>,
    pub(crate) free_pages_restored: Option<bool>,
    /// "ok", or what the audit said.
    pub(crate) audit: Option<String>,
    /// Why a process did not come to its end.
    pub(crate) failure: Option<String>,
}

impl Findings {
    /// Tells all that was found to the parent.
    pub(crate) fn tell(&self) {
        let say = |name: &str, value: &str| note(format_args!("{MARK}{name} {}", value.replace('\n', " ")));
        let flag = |name: &str, value: Option<bool>| value.iter().for_each(|value| say(name, &value.to_string()));
        self.failure.iter().for_each(|failure| say("failure", failure));
        self.outcome.iter().for_each(|outcome| say("outcome", outcome.text()));
        self.error.iter().for_each(|error| say("error", error));
        flag("leaked", self.leaked);
        flag("intact", self.next_tenant_intact);
        flag("restored", self.free_pages_restored);
        self.audit.iter().for_each(|audit| say("audit", audit));
    }

    /// Takes a line of a child; `false` when it is one for people.
    pub(crate) fn hear(&mut self, line: &str) -> bool {
        let Some((name, value)) = line.strip_prefix(MARK).and_then(|line| line.split_once(' ')) else { return false };
        let flag = value == "true";
        match name {
            "outcome" => {
                let known = [Outcome::Completed, Outcome::Refused];
                self.outcome = known.into_iter().find(|outcome| outcome.text() == value);
            }
            "error" => drop(self.error.get_or_insert(value.to_owned())),
            "failure" => drop(self.failure.get_or_insert(value.to_owned())),
            // One that found it wrong is right.
            "leaked" => self.leaked = Some(self.leaked.unwrap_or(false) | flag),
            "intact" => self.next_tenant_intact = Some(self.next_tenant_intact.unwrap_or(true) & flag),
            "restored" => self.free_pages_restored = Some(self.free_pages_restored.unwrap_or(true) & flag),
            "audit" => {
                if self.audit.as_deref().is_none_or(|audit| audit == "ok") {
                    self.audit = Some(value.to_owned());
                }
            }
            _ => return false,
        }
        true
    }

    /// Whether it ended as it should, and nothing was lost or shown on the way.
    pub(crate) fn are_right(&self, fault: Fault) -> bool {
        self.failure.is_none()
            && self.outcome == Some(fault.right())
            && self.leaked == Some(false)
            && self.next_tenant_intact == Some(true)
            && self.free_pages_restored == Some(true)
            && self.audit.as_deref() == Some("ok")
            && (self.error.is_some() || fault.right() == Outcome::Completed)
    }

    /// One object of the JSON output.
    pub(crate) fn json(&self, fault: Fault) -> Object {
        Object::default()
            .text("fault", fault.name())
            .text("outcome", self.outcome_text())
            .text("error", self.words())
            .flag("leaked", self.leaked.unwrap_or(true))
            .flag("next_tenant_intact", self.next_tenant_intact.unwrap_or(false))
            .flag("free_pages_restored", self.free_pages_restored.unwrap_or(false))
            .text("audit", self.audit.as_deref().unwrap_or("none"))
    }

    /// How the request ended; "failed" when the example did not come to an end.
    pub(crate) fn outcome_text(&self) -> &'static str {
        match (&self.failure, self.outcome) {
            (None, Some(outcome)) => outcome.text(),
            _ => "failed",
        }
    }

    /// The failure, or the first error, or nothing.
    pub(crate) fn words(&self) -> &str {
        self.failure.as_deref().or(self.error.as_deref()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right() -> Findings {
        let mut findings = Findings::default();
        for line in ["=outcome refused", "=error no", "=leaked false", "=intact true", "=restored true", "=audit ok"] {
            assert!(findings.hear(line), "{line}");
        }
        findings
    }

    #[test]
    fn each_thing_that_is_wrong_makes_it_wrong() {
        assert!(right().are_right(Fault::Short));
        assert!(!right().are_right(Fault::None));
        assert!(!Findings::default().are_right(Fault::Short));
        for line in ["=outcome completed", "=leaked true", "=intact false", "=restored false", "=audit a page is lost"]
        {
            let mut findings = right();
            assert!(findings.hear(line));
            assert!(!findings.are_right(Fault::Short), "{line}");
        }
        let failed = Findings { failure: Some("killed".into()), ..right() };
        assert!(!failed.are_right(Fault::Short) && failed.json(Fault::Short).line().contains(r#""outcome":"failed""#));
    }

    #[test]
    fn what_was_wrong_once_stays_wrong_and_the_first_error_stays() {
        let mut findings = right();
        for line in ["=leaked true", "=leaked false", "=audit lost", "=audit ok", "=error other"] {
            findings.hear(line);
        }
        assert_eq!((findings.leaked, findings.audit.as_deref()), (Some(true), Some("lost")));
        assert_eq!(findings.error.as_deref(), Some("no"));
    }

    #[test]
    fn lines_for_people_are_no_findings() {
        for line in ["decode is ready", "=", "=unknown x", "outcome refused"] {
            assert!(!Findings::default().hear(line), "{line}");
        }
    }
}
