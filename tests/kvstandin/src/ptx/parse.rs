//! Text to kernels.

use std::collections::HashMap;
use std::fmt;

use super::instruction::{Action, Address, Guard, Instruction, Kernel, Operand, Parameter, Register, Special};
use super::opcode::{self, Opcode};

/// The kernels of one PTX text.
#[derive(Debug)]
pub struct Module {
    kernels: Vec<Kernel>,
}

/// A text that is not loaded, and the statement that nobody here knows to execute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The statement as it stands in the text.
    pub statement: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.statement, self.reason)
    }
}

impl std::error::Error for Refused {}

fn refused(statement: &str, reason: &'static str) -> Refused {
    Refused { statement: statement.trim().to_owned(), reason }
}

impl Module {
    /// Reads a PTX text whole, or not at all.
    ///
    /// # Errors
    ///
    /// The first statement that is not known.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let text: String = text.lines().map(|line| line.split("//").next().unwrap_or("")).fold(
            String::with_capacity(text.len()),
            |mut text, line| {
                text.push_str(line);
                text.push('\n');
                text
            },
        );
        let mut kernels = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            if let Some(entry) = rest.strip_prefix(".visible .entry") {
                let (head, body, after) = split_entry(entry)?;
                kernels.push(Reader::kernel(head, body)?);
                rest = after.trim_start();
                continue;
            }
            // Directives of a line, and constants that NVRTC leaves in every module; one that is used is an unknown name.
            let end = match rest {
                _ if [".version", ".target", ".address_size 64"].iter().any(|known| rest.starts_with(known)) => '\n',
                _ if rest.starts_with(".global .align") => ';',
                _ => return Err(refused(rest.lines().next().unwrap_or(rest), "no directive that is known")),
            };
            let (_, after) = rest.split_once(end).ok_or_else(|| refused(rest, "a directive without an end"))?;
            rest = after.trim_start();
        }
        Ok(Self { kernels })
    }

    /// The kernels, in the order of the text.
    #[must_use]
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The kernel with a name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// The place of a kernel among the kernels.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.kernels.iter().position(|kernel| kernel.name == name)
    }
}

/// Splits ` NAME ( PARAMETERS ) { BODY } REST`.
fn split_entry(entry: &str) -> Result<(&str, &str, &str), Refused> {
    let broken = || refused(entry.lines().next().unwrap_or(entry), "an entry without a body");
    let open = entry.find('{').ok_or_else(broken)?;
    let mut depth = 0;
    for (at, character) in entry[open..].char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let close = open + at;
            return Ok((&entry[..open], &entry[open + 1..close], &entry[close + 1..]));
        }
    }
    Err(broken())
}

/// Reads one kernel.
struct Reader {
    parameters: HashMap<String, u64>,
    shared: HashMap<String, u64>,
    shared_bytes: u64,
    /// `%r` to the number of `%r0` and how many there are.
    registers: HashMap<String, (usize, usize)>,
    register_count: usize,
    labels: HashMap<String, usize>,
}

impl Reader {
    fn kernel(head: &str, body: &str) -> Result<Kernel, Refused> {
        let (name, list) = head.split_once('(').ok_or_else(|| refused(head, "an entry without parameters"))?;
        let list = list.trim().strip_suffix(')').ok_or_else(|| refused(head, "parameters without an end"))?;
        let (parameters, parameter_bytes) = parameters(list)?;
        let mut reader = Reader {
            parameters: parameters.iter().map(|it| (it.name.clone(), it.offset as u64)).collect(),
            shared: HashMap::new(),
            shared_bytes: 0,
            registers: HashMap::new(),
            register_count: 0,
            labels: HashMap::new(),
        };
        // Two passes: a branch may go forward.
        let mut statements = Vec::new();
        for statement in body.split(';').map(str::trim).filter(|it| !it.is_empty()) {
            let statement = reader.labels(statement, statements.len())?;
            if statement.starts_with('.') {
                reader.declare(statement)?;
            } else if !statement.is_empty() {
                statements.push(statement);
            }
        }
        let code = statements.iter().map(|it| reader.instruction(it)).collect::<Result<Vec<_>, _>>()?;
        // What follows a label at the very end would be outside the code.
        if !matches!(code.last(), Some(Instruction { guard: None, action: Action::Return | Action::Branch { .. } })) {
            return Err(refused(name, "an entry whose end can be passed"));
        }
        Ok(Kernel {
            name: name.trim().to_owned(),
            parameters,
            parameter_bytes,
            shared_bytes: reader.shared_bytes as usize,
            registers: reader.register_count,
            code,
        })
    }

    /// Takes labels off the front of a statement.
    fn labels<'a>(&mut self, statement: &'a str, position: usize) -> Result<&'a str, Refused> {
        let mut rest = statement;
        while let Some((label, after)) = rest.split_once(':').filter(|_| rest.starts_with('$')) {
            if self.labels.insert(label.trim().to_owned(), position).is_some() {
                return Err(refused(statement, "a label that is there already"));
            }
            rest = after.trim_start();
        }
        Ok(rest)
    }

    fn declare(&mut self, statement: &str) -> Result<(), Refused> {
        if statement == ".pragma \"nounroll\"" {
            return Ok(());
        }
        let unknown = || refused(statement, "no declaration that is known");
        let words: Vec<_> = statement.split_whitespace().collect();
        match words[..] {
            [".reg", ".pred" | ".b16" | ".b32" | ".b64" | ".f32", name] => {
                let (prefix, count) =
                    name.strip_suffix('>').and_then(|name| name.split_once('<')).ok_or_else(unknown)?;
                let count = count.parse().map_err(|_| unknown())?;
                self.registers.insert(prefix.to_owned(), (self.register_count, count));
                self.register_count += count;
                if self.register_count > usize::from(Register::MAX) {
                    return Err(refused(statement, "more registers than a number names"));
                }
            }
            [".shared", ".align", align, kind, name] => {
                let align: u64 = align.parse().map_err(|_| unknown())?;
                let (name, bytes) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
                    Some((name, count)) if kind == ".b8" => (name, count.parse().map_err(|_| unknown())?),
                    None if kind == ".u32" => (name, 4),
                    _ => return Err(unknown()),
                };
                let at = self.shared_bytes.next_multiple_of(align.max(1));
                self.shared.insert(name.to_owned(), at);
                self.shared_bytes = at + bytes;
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    fn instruction(&self, statement: &str) -> Result<Instruction, Refused> {
        let broken = || refused(statement, "operands that do not fit the instruction");
        let (guard, rest) = match statement.strip_prefix('@') {
            None => (None, statement),
            Some(guarded) => {
                let (name, rest) = guarded.split_once(char::is_whitespace).ok_or_else(broken)?;
                let wanted = !name.starts_with('!');
                let predicate = self.register(name.trim_start_matches('!')).ok_or_else(broken)?;
                (Some(Guard { predicate, wanted }), rest.trim_start())
            }
        };
        let (spelling, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let opcode = opcode::read(spelling).ok_or_else(|| refused(statement, "no instruction that is known here"))?;
        let action = self.action(opcode, &split_operands(operands)).ok_or_else(broken)?;
        Ok(Instruction { guard, action })
    }

    fn action(&self, opcode: Opcode, operands: &[&str]) -> Option<Action> {
        Some(match (opcode, operands) {
            (Opcode::Load { space, bytes, count }, [to, at]) => {
                let mut registers = [0; 4];
                for (register, name) in registers.iter_mut().zip(elements(to, count)?) {
                    *register = self.register(name)?;
                }
                Action::Load { space, bytes, count, to: registers, at: self.address(at)? }
            }
            (Opcode::Store { space, bytes, count }, [at, from]) => {
                let mut values = [Operand::Value(0); 4];
                for (value, name) in values.iter_mut().zip(elements(from, count)?) {
                    *value = self.operand(name)?;
                }
                Action::Store { space, bytes, count, from: values, at: self.address(at)? }
            }
            (Opcode::Atomic { operation, space, bytes }, [to, at, value]) => Action::Atomic {
                operation,
                space,
                bytes,
                to: self.register(to)?,
                at: self.address(at)?,
                value: self.operand(value)?,
            },
            (Opcode::One { operation, width }, [to, a]) => {
                Action::One { operation, width, to: self.register(to)?, a: self.operand(a)? }
            }
            (Opcode::Two { operation, width }, [to, a, b]) => {
                Action::Two { operation, width, to: self.register(to)?, a: self.operand(a)?, b: self.operand(b)? }
            }
            (Opcode::MultiplyWide, [to, a, b]) => {
                Action::MultiplyWide { to: self.register(to)?, a: self.operand(a)?, b: self.operand(b)? }
            }
            (Opcode::MultiplyAdd { width }, [to, a, b, c]) => Action::MultiplyAdd {
                width,
                to: self.register(to)?,
                a: self.operand(a)?,
                b: self.operand(b)?,
                c: self.operand(c)?,
            },
            (Opcode::Float { operation }, [to, from @ ..]) if from.len() == operation.operands() => {
                let mut operands = [Operand::Value(0); 3];
                for (operand, name) in operands.iter_mut().zip(from) {
                    *operand = self.operand(name)?;
                }
                Action::Float { operation, to: self.register(to)?, from: operands }
            }
            (Opcode::Set { compare, width }, [to, a, b]) => {
                Action::Set { compare, width, to: self.register(to)?, a: self.operand(a)?, b: self.operand(b)? }
            }
            (Opcode::Select { width }, [to, a, b, predicate]) => Action::Select {
                width,
                to: self.register(to)?,
                a: self.operand(a)?,
                b: self.operand(b)?,
                predicate: self.register(predicate)?,
            },
            (Opcode::Branch, [label]) => Action::Branch { target: *self.labels.get(*label)? },
            (Opcode::Barrier, ["0"]) => Action::Barrier,
            (Opcode::Fence, []) => Action::Fence,
            (Opcode::Return, []) => Action::Return,
            _ => return None,
        })
    }

    fn register(&self, name: &str) -> Option<Register> {
        let digits = name.find(|character: char| character.is_ascii_digit())?;
        let &(first, count) = self.registers.get(&name[..digits])?;
        let number: usize = name[digits..].parse().ok()?;
        (number < count).then_some((first + number) as Register)
    }

    fn operand(&self, name: &str) -> Option<Operand> {
        if let Some(register) = self.register(name) {
            return Some(Operand::Register(register));
        }
        if let Some(&address) = self.shared.get(name).or_else(|| self.parameters.get(name)) {
            return Some(Operand::Value(address));
        }
        if let Ok(number) = name.parse::<i64>() {
            return Some(Operand::Value(number as u64));
        }
        // A number with a fraction is written by its bits.
        if let Some(digits) = name.strip_prefix("0f")
            && digits.len() == 8
            && !digits.starts_with('+')
        {
            return u32::from_str_radix(digits, 16).ok().map(|bits| Operand::Value(bits.into()));
        }
        let (what, axis) = name.rsplit_once('.')?;
        let axis = ["x", "y", "z"].iter().position(|it| *it == axis)?;
        Some(Operand::Special(match what {
            "%tid" => Special::Thread(axis),
            "%ntid" => Special::Threads(axis),
            "%ctaid" => Special::Block(axis),
            "%nctaid" => Special::Blocks(axis),
            _ => return None,
        }))
    }

    /// Reads `[base]` or `[base+offset]`.
    fn address(&self, text: &str) -> Option<Address> {
        let inner = text.strip_prefix('[')?.strip_suffix(']')?;
        let (base, offset) = match inner.split_once('+') {
            Some((base, offset)) => (base, offset.parse::<i64>().ok()? as u64),
            None => (inner, 0),
        };
        Some(Address { base: self.operand(base)?, offset })
    }
}

/// Splits at commas outside braces.
fn split_operands(text: &str) -> Vec<&str> {
    let mut operands = Vec::new();
    let (mut begin, mut depth) = (0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                operands.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    operands.push(text[begin..].trim());
    operands.retain(|operand| !operand.is_empty());
    operands
}

/// The names of `a` or `{a, b}`, exactly `count` of them.
fn elements(text: &str, count: u8) -> Option<Vec<&str>> {
    let names: Vec<_> = match text.strip_prefix('{') {
        Some(inner) if count > 1 => inner.strip_suffix('}')?.split(',').map(str::trim).collect(),
        None if count == 1 => vec![text],
        _ => return None,
    };
    (names.len() == usize::from(count)).then_some(names)
}

/// Reads `.param .align 8 .b8 name[40]` and `.param .u64 name`, separated by commas.
fn parameters(list: &str) -> Result<(Vec<Parameter>, usize), Refused> {
    let mut parameters = Vec::new();
    let mut end = 0;
    for text in list.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let unknown = || refused(text, "no parameter that is known");
        let words: Vec<_> = text.split_whitespace().collect();
        let (name, align, bytes) = match words[..] {
            [".param", ".align", align, ".b8", name] => {
                let (name, count) = name.strip_suffix(']').and_then(|name| name.split_once('[')).ok_or_else(unknown)?;
                let count: usize = count.parse().map_err(|_| unknown())?;
                (name, align.parse().map_err(|_| unknown())?, count)
            }
            [".param", ".u64", name] => (name, 8, 8),
            [".param", ".u32", name] => (name, 4, 4),
            _ => return Err(unknown()),
        };
        let offset = usize::next_multiple_of(end, usize::max(align, 1));
        end = offset + bytes;
        parameters.push(Parameter { name: name.to_owned(), offset, bytes });
    }
    Ok((parameters, end))
}
