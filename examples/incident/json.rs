//! Just enough JSON to print one object.

use std::fmt::Write;

/// A JSON object under construction.
#[derive(Debug, Default)]
pub(crate) struct Object {
    fields: Vec<String>,
}

impl Object {
    /// Adds a text.
    pub(crate) fn text(mut self, name: &str, value: &str) -> Self {
        self.fields.push(format!("{}:{}", quote(name), quote(value)));
        self
    }

    /// Adds a whole number.
    pub(crate) fn number(mut self, name: &str, value: usize) -> Self {
        self.fields.push(format!("{}:{value}", quote(name)));
        self
    }

    /// Adds true or false.
    pub(crate) fn flag(mut self, name: &str, value: bool) -> Self {
        self.fields.push(format!("{}:{value}", quote(name)));
        self
    }

    /// Adds an object.
    pub(crate) fn object(mut self, name: &str, value: &Self) -> Self {
        self.fields.push(format!("{}:{}", quote(name), value.line()));
        self
    }

    /// Adds a list of objects.
    pub(crate) fn objects(mut self, name: &str, values: impl Iterator<Item = Self>) -> Self {
        let values: Vec<String> = values.map(|value| value.line()).collect();
        self.fields.push(format!("{}:[{}]", quote(name), values.join(",")));
        self
    }

    /// The object in one line.
    pub(crate) fn line(&self) -> String {
        format!("{{{}}}", self.fields.join(","))
    }
}

fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                // Control characters are all below U+10000; writing to a String never fails.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[test]
fn object_is_one_escaped_line() {
    let object = Object::default().text("a\"", "x\n\\").number("n", 7).flag("f", true);
    assert_eq!(object.line(), r#"{"a\"":"x\u000a\\","n":7,"f":true}"#);
    let one = |n| Object::default().number("n", n);
    let nested = Object::default().object("o", &one(1)).objects("l", (2..4).map(one));
    assert_eq!(nested.line(), r#"{"o":{"n":1},"l":[{"n":2},{"n":3}]}"#);
}
