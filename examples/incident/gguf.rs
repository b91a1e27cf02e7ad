//! Reader of GGUF v3 model files.
//!
//! Owns the container: keys, values, tensor places. Every length that the file states is checked against the bytes
//! that are there before anything is allocated or sliced, so a truncated or hostile file gives an error, never a
//! panic and never more memory than a small multiple of the file.
//!
//! Source: the GGUF specification, version 3, and ggml's block formats Q4_1 and Q8_0.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::ops::Range;

use crate::block::{BLOCK, Q4Block, Q8Block};
use crate::gguf_cursor::Cursor;
use crate::matrix::{Blocks, Matrix};

const F32: u32 = 0;
const Q4_1: u32 = 3;
const Q8_0: u32 = 8;

const DEFAULT_ALIGNMENT: usize = 32;

/// Why a model file could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GgufError {
    /// The file does not begin as a GGUF file does.
    NotGguf,
    /// A version other than 3.
    Version { version: u32 },
    /// The file ends, or a stated length points, outside the bytes that are there.
    Truncated { at_byte: usize },
    /// Text that is not UTF-8.
    NotText { at_byte: usize },
    /// Something that this reader does not read.
    Unsupported { what: &'static str },
    /// A key that the model needs is missing or of another kind.
    Key { key: String },
    /// A tensor that the model needs is missing, or of another type or shape.
    Tensor { name: String },
}

impl fmt::Display for GgufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGguf => write!(f, "not a GGUF file"),
            Self::Version { version } => write!(f, "GGUF version {version}, only 3 is read"),
            Self::Truncated { at_byte } => write!(f, "the file is truncated or a length is wrong at byte {at_byte}"),
            Self::NotText { at_byte } => write!(f, "text is not UTF-8 at byte {at_byte}"),
            Self::Unsupported { what } => write!(f, "not supported: {what}"),
            Self::Key { key } => write!(f, "key {key:?} is missing or of another kind"),
            Self::Tensor { name } => {
                write!(f, "tensor {name:?} is missing or of another type or shape")
            }
        }
    }
}

impl Error for GgufError {}

/// A value of the file's header. Numbers of all widths are kept in the widest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Whole(i128),
    Float(f64),
    Flag(bool),
    Text(String),
    Texts(Vec<String>),
    Wholes(Vec<i128>),
    /// An array of floats or flags: read over, as no model here needs one.
    Skipped,
}

/// Type, dimensions (fastest first) and place of a tensor.
#[derive(Debug)]
struct Tensor {
    kind: u32,
    dims: Vec<usize>,
    offset: usize,
}

/// A model file in memory.
#[derive(Debug)]
pub(crate) struct Gguf {
    values: HashMap<String, Value>,
    tensors: HashMap<String, Tensor>,
    bytes: Vec<u8>,
    /// Where the tensors' offsets count from.
    data: usize,
}

impl Gguf {
    /// Reads the header of a file; tensors are read when asked for.
    ///
    /// # Errors
    /// The file is no GGUF of version 3, is truncated, or states a length that is not there.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, GgufError> {
        let mut cursor = Cursor::new(&bytes);
        if cursor.array()? != *b"GGUF" {
            return Err(GgufError::NotGguf);
        }
        let version = cursor.u32()?;
        if version != 3 {
            return Err(GgufError::Version { version });
        }
        let tensor_count = cursor.length()?;
        let value_count = cursor.length()?;
        let values = read_values(&mut cursor, value_count)?;
        let tensors = read_tensors(&mut cursor, tensor_count)?;
        let data = cursor.at().next_multiple_of(alignment(&values)?);
        Ok(Self { values, tensors, bytes, data })
    }

    /// A text.
    ///
    /// # Errors
    /// [`GgufError::Key`].
    pub(crate) fn text(&self, key: &str) -> Result<&str, GgufError> {
        match self.values.get(key) {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(GgufError::Key { key: key.to_owned() }),
        }
    }

    /// A whole number that is no less than zero.
    ///
    /// # Errors
    /// [`GgufError::Key`].
    pub(crate) fn size(&self, key: &str) -> Result<usize, GgufError> {
        let whole = match self.values.get(key) {
            Some(&Value::Whole(whole)) => usize::try_from(whole).ok(),
            _ => None,
        };
        whole.ok_or_else(|| GgufError::Key { key: key.to_owned() })
    }

    /// A finite float.
    ///
    /// # Errors
    /// [`GgufError::Key`].
    pub(crate) fn float(&self, key: &str) -> Result<f32, GgufError> {
        match self.values.get(key) {
            Some(&Value::Float(float)) if float.is_finite() => Ok(float as f32),
            _ => Err(GgufError::Key { key: key.to_owned() }),
        }
    }

    /// An array of texts.
    ///
    /// # Errors
    /// [`GgufError::Key`].
    pub(crate) fn texts(&self, key: &str) -> Result<&[String], GgufError> {
        match self.values.get(key) {
            Some(Value::Texts(texts)) => Ok(texts),
            _ => Err(GgufError::Key { key: key.to_owned() }),
        }
    }

    /// An array of whole numbers.
    ///
    /// # Errors
    /// [`GgufError::Key`].
    pub(crate) fn wholes(&self, key: &str) -> Result<&[i128], GgufError> {
        match self.values.get(key) {
            Some(Value::Wholes(wholes)) => Ok(wholes),
            _ => Err(GgufError::Key { key: key.to_owned() }),
        }
    }

    /// A tensor of `len` f32.
    ///
    /// # Errors
    /// [`GgufError::Tensor`], [`GgufError::Truncated`].
    pub(crate) fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>, GgufError> {
        let tensor = self.tensor(name, &[len])?;
        match tensor.kind {
            F32 => Ok(self.elements(tensor, len)?.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()),
            _ => Err(GgufError::Tensor { name: name.to_owned() }),
        }
    }

    /// A quantised tensor of `rows * columns`.
    ///
    /// # Errors
    /// [`GgufError::Tensor`], [`GgufError::Truncated`].
    pub(crate) fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, GgufError> {
        let wrong = || GgufError::Tensor { name: name.to_owned() };
        let tensor = self.tensor(name, &[columns, rows])?;
        let blocks = rows.checked_mul(columns / BLOCK).ok_or_else(wrong)?;
        let blocks = match tensor.kind {
            Q4_1 => Blocks::Q4(self.elements(tensor, blocks)?.iter().map(Q4Block::from_file).collect()),
            Q8_0 => Blocks::Q8(self.elements(tensor, blocks)?.iter().map(Q8Block::from_file).collect()),
            _ => return Err(wrong()),
        };
        Matrix::new(rows, columns, blocks).ok_or_else(wrong)
    }

    fn tensor(&self, name: &str, dims: &[usize]) -> Result<&Tensor, GgufError> {
        let tensor = self.tensors.get(name).filter(|tensor| tensor.dims == dims);
        tensor.ok_or_else(|| GgufError::Tensor { name: name.to_owned() })
    }

    /// The first `count` elements of `SIZE` bytes of a tensor.
    fn elements<const SIZE: usize>(&self, tensor: &Tensor, count: usize) -> Result<&[[u8; SIZE]], GgufError> {
        let place = self.place(tensor, count.checked_mul(SIZE));
        let bytes = place.and_then(|place| self.bytes.get(place));
        Ok(bytes.ok_or(GgufError::Truncated { at_byte: self.bytes.len() })?.as_chunks().0)
    }

    fn place(&self, tensor: &Tensor, len: Option<usize>) -> Option<Range<usize>> {
        let start = self.data.checked_add(tensor.offset)?;
        Some(start..start.checked_add(len?)?)
    }
}

fn alignment(values: &HashMap<String, Value>) -> Result<usize, GgufError> {
    match values.get("general.alignment") {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(&Value::Whole(alignment @ 1..=65536)) => Ok(alignment as usize),
        Some(_) => Err(GgufError::Unsupported { what: "alignment" }),
    }
}

fn read_values(cursor: &mut Cursor<'_>, count: usize) -> Result<HashMap<String, Value>, GgufError> {
    let mut values = HashMap::new();
    for _ in 0..count {
        let key = cursor.text()?;
        let kind = cursor.u32()?;
        values.insert(key, read_value(cursor, kind)?);
    }
    Ok(values)
}

fn read_value(cursor: &mut Cursor<'_>, kind: u32) -> Result<Value, GgufError> {
    match kind {
        6 => Ok(Value::Float(f32::from_le_bytes(cursor.array()?).into())),
        7 => Ok(Value::Flag(cursor.array::<1>()? != [0])),
        8 => Ok(Value::Text(cursor.text()?)),
        9 => read_array(cursor),
        12 => Ok(Value::Float(f64::from_le_bytes(cursor.array()?))),
        kind => Ok(Value::Whole(read_whole(cursor, kind)?)),
    }
}

fn read_whole(cursor: &mut Cursor<'_>, kind: u32) -> Result<i128, GgufError> {
    Ok(match kind {
        0 => u8::from_le_bytes(cursor.array()?).into(),
        1 => i8::from_le_bytes(cursor.array()?).into(),
        2 => u16::from_le_bytes(cursor.array()?).into(),
        3 => i16::from_le_bytes(cursor.array()?).into(),
        4 => u32::from_le_bytes(cursor.array()?).into(),
        5 => i32::from_le_bytes(cursor.array()?).into(),
        10 => u64::from_le_bytes(cursor.array()?).into(),
        11 => i64::from_le_bytes(cursor.array()?).into(),
        _ => {
            return Err(GgufError::Unsupported { what: "kind of value" });
        }
    })
}

/// Vectors grow as elements are read, so a huge stated count costs no more than the bytes that are there.
fn read_array(cursor: &mut Cursor<'_>) -> Result<Value, GgufError> {
    let kind = cursor.u32()?;
    let count = cursor.length()?;
    match kind {
        // Arrays of arrays would let the file choose the depth of a recursion.
        9 => Err(GgufError::Unsupported { what: "array of arrays" }),
        8 => Ok(Value::Texts((0..count).map(|_| cursor.text()).collect::<Result<_, _>>()?)),
        6 | 7 | 12 => {
            for _ in 0..count {
                read_value(cursor, kind)?;
            }
            Ok(Value::Skipped)
        }
        kind => Ok(Value::Wholes((0..count).map(|_| read_whole(cursor, kind)).collect::<Result<_, _>>()?)),
    }
}

fn read_tensors(cursor: &mut Cursor<'_>, count: usize) -> Result<HashMap<String, Tensor>, GgufError> {
    let mut tensors = HashMap::new();
    for _ in 0..count {
        let name = cursor.text()?;
        let dims = match cursor.u32()? {
            dims @ 1..=4 => (0..dims).map(|_| cursor.size()).collect::<Result<_, _>>()?,
            _ => {
                return Err(GgufError::Unsupported { what: "number of dimensions" });
            }
        };
        tensors.insert(name, Tensor { dims, kind: cursor.u32()?, offset: cursor.size()? });
    }
    Ok(tensors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(file: &mut Vec<u8>, text: &str) {
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text.as_bytes());
    }

    /// A file with one value of each shape, one vector of two and one Q8_0 matrix of one block.
    fn small_file() -> Vec<u8> {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(2_u64.to_le_bytes());
        file.extend(3_u64.to_le_bytes());
        text(&mut file, "size");
        file.extend([4, 0, 0, 0, 30, 0, 0, 0]);
        text(&mut file, "names");
        file.extend([9, 0, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        text(&mut file, "a");
        text(&mut file, "b");
        text(&mut file, "kinds");
        file.extend([9, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255]);
        for (name, dims, kind, offset) in [("norm", vec![2_u64], F32, 0_u64), ("head", vec![32, 1], Q8_0, 32)] {
            text(&mut file, name);
            file.extend((dims.len() as u32).to_le_bytes());
            file.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
            file.extend(kind.to_le_bytes());
            file.extend(offset.to_le_bytes());
        }
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend([1.5_f32, -2.0].iter().flat_map(|x| x.to_le_bytes()));
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend([0x00, 0x3c]); // scale 1
        file.extend(0..32);
        file
    }

    /// Reads everything that [`small_file`] holds.
    fn read_all(bytes: &[u8]) -> Result<(), GgufError> {
        let file = Gguf::parse(bytes.to_vec())?;
        file.size("size")?;
        file.texts("names")?;
        file.wholes("kinds")?;
        file.vector("norm", 2)?;
        file.matrix("head", 1, 32)?;
        Ok(())
    }

    #[test]
    fn small_file_reads_back() {
        let file = Gguf::parse(small_file()).expect("it is whole");
        assert_eq!(file.size("size"), Ok(30));
        assert_eq!(file.texts("names").map(<[String]>::len), Ok(2));
        assert_eq!(file.wholes("kinds"), Ok(&[-1][..]));
        assert_eq!(file.vector("norm", 2), Ok(vec![1.5, -2.0]));
        assert_eq!(file.matrix("head", 1, 32).expect("it is there").row(0)[..3], [0.0, 1.0, 2.0]);
        assert_eq!(file.size("names"), Err(GgufError::Key { key: "names".into() }));
        assert_eq!(file.vector("norm", 3), Err(GgufError::Tensor { name: "norm".into() }));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let whole = small_file();
        assert_eq!(read_all(&whole), Ok(()));
        for len in 0..whole.len() {
            assert!(read_all(&whole[..len]).is_err(), "{len} of {} bytes", whole.len());
        }
    }

    #[test]
    fn hostile_bytes_never_panic() {
        let whole = small_file();
        for place in 0..whole.len() {
            for byte in [0, 1, 9, 0x7f, 0x80, 0xff] {
                let mut hostile = whole.clone();
                hostile[place] = byte;
                let _ = read_all(&hostile);
                // A whole length field, the largest there is.
                let end = whole.len().min(place + 8);
                hostile[place..end].fill(byte);
                let _ = read_all(&hostile);
            }
        }
    }
}
