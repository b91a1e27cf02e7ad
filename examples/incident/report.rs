//! What the example prints on stdout.
//!
//! A reader that goes away (`incident | head -1`) ends the printing, not the run: the exit code is 0 only if the run was
//! fine. Any other failure of stdout ends the run.

use std::io::Write;

use crate::checked::{Checked, Layer, LayerName};
use crate::json::Object;
pub(crate) use crate::lines::{Lines as Report, StdoutError};
use crate::prompts::PUBLIC;
use crate::tenant_a::TenantA;
use crate::unchecked::Unchecked;

/// What both runs showed.
#[derive(Debug)]
pub(crate) struct Findings<'r> {
    pub(crate) secret: &'r str,
    pub(crate) unchecked: &'r Unchecked,
    pub(crate) checked: &'r Checked,
}

impl<W: Write> Report<W> {
    /// Prints what tenant A has.
    ///
    /// # Errors
    /// As [`Report::line`]; so have the others.
    pub(crate) fn tenant_a(&mut self, tenant_a: &TenantA, secret: &str) -> Result<(), StdoutError> {
        self.line(format_args!("tenant A:  {} tokens with the secret {secret:?}", tenant_a.tokens.len()))
    }

    /// Prints the run without checks.
    pub(crate) fn unchecked(&mut self, unchecked: &Unchecked, secret: &str) -> Result<(), StdoutError> {
        let Unchecked { answer, table_pages, foreign_pages, rejection } = unchecked;
        if let Some(rejection) = rejection {
            self.line(format_args!("unchecked: tenant B is rejected ({rejection}), and admitted all the same"))?;
        }
        self.line(format_args!("unchecked: {foreign_pages} of B's {table_pages} pages are A's; tenant B receives:"))?;
        self.line(format_args!("  {answer:?}"))?;
        let leaked = if unchecked.leaks(secret) { "A's secret LEAKED to B" } else { "A's secret is not in it" };
        self.line(format_args!("  {leaked}"))
    }

    /// Prints the run through pagestamp.
    pub(crate) fn checked(&mut self, checked: &Checked) -> Result<(), StdoutError> {
        for layer in &checked.layers {
            self.layer(layer)?;
        }
        let honest = &checked.honest;
        self.line(format_args!("pagestamp: honest   requests of both tenants, A over a handoff"))?;
        self.line(format_args!("  tenant A receives {:?}", honest.answer_a))?;
        self.line(format_args!("  tenant B asks     {PUBLIC:?}"))?;
        self.line(format_args!("  tenant B receives {:?}", honest.answer_b))?;
        let same = if honest.bit_identical { "bit-identical to" } else { "DIFFERENT from" };
        self.line(format_args!("  {} logits, {same} those of one buffer per tenant", grouped(honest.logits)))?;
        self.line(format_args!("pagestamp: audit    both pools add up, free pages are zero"))?;
        self.line(format_args!("  {}", checked.audit))
    }

    fn layer(&mut self, layer: &Layer) -> Result<(), StdoutError> {
        self.line(format_args!("pagestamp: {:<8} {}", layer.name.text(), what(layer.name)))?;
        self.line(format_args!("  {}: {}", outcome(layer), layer.error))
    }

    /// Prints the verdict in one line.
    pub(crate) fn verdict(&mut self, findings: &Findings<'_>) -> Result<(), StdoutError> {
        self.line(format_args!("verdict: {}", verdict(findings)))
    }

    /// Prints the findings as one JSON object in one line.
    pub(crate) fn json(&mut self, findings: &Findings<'_>) -> Result<(), StdoutError> {
        self.line(format_args!("{}", json(findings).line()))
    }
}

/// What a layer guards against.
fn what(name: LayerName) -> &'static str {
    match name {
        LayerName::Gate => "pool smaller than what is advertised",
        LayerName::Receipt => "one page of eight arrived",
        LayerName::Extent => "reading past what was written",
        LayerName::Stale => "handles kept from tenant A",
        LayerName::Zero => "raw bytes of released pages",
    }
}

/// The last layer refuses nothing: it leaves nothing to read.
fn outcome(layer: &Layer) -> &'static str {
    match (layer.name, layer.refused) {
        (LayerName::Zero, true) => "clean",
        (LayerName::Zero, false) => "NOT CLEAN",
        (_, true) => "refused",
        (_, false) => "NOT REFUSED",
    }
}

fn verdict(findings: &Findings<'_>) -> String {
    let Findings { secret, unchecked, checked } = findings;
    let shows = if unchecked.leaks(secret) { "shows" } else { "does NOT show" };
    let held = checked.layers.iter().filter(|layer| layer.refused).count();
    let same = if checked.honest.bit_identical { "are bit-identical" } else { "DIFFER" };
    let layers = checked.layers.len();
    let mut line = format!("the leak {shows} without checks; {held} of {layers} layers held; honest answers {same}");
    if checked.honest.answer_b.contains(secret) {
        line += "; B's honest answer holds the SECRET";
    }
    if checked.audit != "ok" {
        line += "; the audit FAILED";
    }
    line
}

fn json(findings: &Findings<'_>) -> Object {
    let Findings { secret, unchecked, checked } = findings;
    let leak = Object::default()
        .flag("leaked", unchecked.leaks(secret))
        .text("text", &unchecked.answer)
        .number("table_pages", unchecked.table_pages)
        .number("foreign_pages", unchecked.foreign_pages);
    let layer = |layer: &Layer| {
        Object::default().text("name", layer.name.text()).flag("refused", layer.refused).text("error", &layer.error)
    };
    let honest = Object::default()
        .flag("bit_identical", checked.honest.bit_identical)
        .number("logits", checked.honest.logits)
        .text("a", &checked.honest.answer_a)
        .text("b", &checked.honest.answer_b);
    Object::default()
        .text("secret", secret)
        .object("unchecked", &leak)
        .objects("layers", checked.layers.iter().map(layer))
        .object("honest", &honest)
        .text("audit", &checked.audit)
}

/// A number with a comma before each three digits.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let comma = |place: usize| place > 0 && (digits.len() - place).is_multiple_of(3);
    let group = |(place, digit)| comma(place).then_some(',').into_iter().chain(Some(digit));
    digits.chars().enumerate().flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::checked::Honest;

    /// A writer that takes some lines and then fails.
    struct Failing {
        lines: usize,
        kind: io::ErrorKind,
        calls: usize,
    }

    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            if self.lines == 0 {
                return Err(self.kind.into());
            }
            self.lines -= bytes.iter().filter(|byte| **byte == b'\n').count();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn failing(lines: usize, kind: io::ErrorKind) -> Report<Failing> {
        Report::new(Failing { lines, kind, calls: 0 })
    }

    fn unchecked(answer: &str) -> Unchecked {
        Unchecked { answer: answer.into(), table_pages: 8, foreign_pages: 7, rejection: None }
    }

    fn checked(refused: bool) -> Checked {
        let names = [LayerName::Gate, LayerName::Receipt, LayerName::Extent, LayerName::Stale, LayerName::Zero];
        Checked {
            layers: names.map(|name| Layer::new(name, refused, "said")).into(),
            honest: Honest { logits: 9, bit_identical: true, answer_a: "its S".into(), answer_b: "x".into() },
            audit: "ok".into(),
        }
    }

    fn verdict_of(answer: &str, checked: &Checked) -> String {
        verdict(&Findings { secret: "S", unchecked: &unchecked(answer), checked })
    }

    #[test]
    fn a_reader_that_is_gone_ends_the_printing_without_an_error() {
        let mut report = failing(1, io::ErrorKind::BrokenPipe);
        for _ in 0..3 {
            assert!(report.line(format_args!("x")).is_ok());
        }
        let calls = report.out.calls;
        assert!(report.closed && report.checked(&checked(true)).is_ok());
        assert_eq!(report.out.calls, calls);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let mut report = failing(1, io::ErrorKind::StorageFull);
        assert!(report.line(format_args!("x")).is_ok());
        let error = report.line(format_args!("x")).expect_err("the disk is full");
        assert!(error.to_string().starts_with("stdout: "), "{error}");
    }

    #[test]
    fn each_layer_says_what_it_is_and_what_it_did() {
        let print = |refused| {
            let mut report = Report::new(Vec::new());
            report.checked(&checked(refused)).expect("memory is written");
            String::from_utf8(report.out).expect("text")
        };
        let (held, failed) = (print(true), print(false));
        assert!(held.contains("gate     pool smaller than what is advertised\n  refused: said\n"), "{held}");
        assert!(held.contains("zero     raw bytes of released pages\n  clean: said\n"), "{held}");
        assert!(held.contains("tenant A receives \"its S\"\n  tenant B asks"), "{held}");
        assert!(held.contains("\n  tenant B receives \"x\"\n"), "{held}");
        assert_eq!((held.matches("refused").count(), failed.matches("NOT REFUSED").count()), (4, 4));
        assert!(failed.contains("  NOT CLEAN: said\n"), "{failed}");
    }

    #[test]
    fn verdict_tells_what_went_wrong() {
        let fine = "the leak shows without checks; 5 of 5 layers held; honest answers are bit-identical";
        assert_eq!(verdict_of("the S", &checked(true)), fine);
        let mut bad = checked(true);
        bad.layers[2].refused = false;
        bad.honest.bit_identical = false;
        bad.honest.answer_b = "an S".into();
        bad.audit = "lost".into();
        assert_eq!(
            verdict_of("no", &bad),
            "the leak does NOT show without checks; 4 of 5 layers held; honest answers DIFFER; \
             B's honest answer holds the SECRET; the audit FAILED"
        );
    }

    #[test]
    fn json_keeps_refused_for_all_layers() {
        let line = json(&Findings { secret: "S", unchecked: &unchecked("S"), checked: &checked(true) }).line();
        assert_eq!(line.matches(r#""refused":true"#).count(), 5);
        assert!(line.contains(r#"{"name":"zero","refused":true,"error":"said"}"#), "{line}");
        assert!(line.contains(r#""honest":{"bit_identical":true,"logits":9,"a":"its S","b":"x"}"#), "{line}");
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (98_362_432, "98,362,432"), (123_456, "123,456")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }
}
