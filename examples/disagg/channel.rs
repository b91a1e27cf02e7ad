//! What the two processes say to each other, through a pipe each way.
//!
//! The three messages of a handoff go as [`pagestamp::handoff::wire`] writes them. Between them stand signals of this
//! example, of one fixed size.

use std::error::Error;
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread;

use pagestamp::handoff::wire::HEADER_BYTES;
use pagestamp::{Message, WireError};

/// How a signal begins; no message of a handoff does.
const MAGIC: [u8; 4] = *b"dsag";
/// Frames that wait to be looked at; then the pipe fills, and the other side waits.
const WAITING_FRAMES: usize = 64;

/// Prefill's word that none of its stores is on its way, and that none will come under the offers it has.
#[derive(Debug)]
pub(crate) struct Stopped(());

/// What is not a message of a handoff.
#[derive(Debug)]
pub(crate) enum Signal {
    /// Prefill: the first token of the answer.
    FirstToken(u32),
    /// Prefill: nothing is written any more.
    Stopped(Stopped),
    /// Decode: the request goes on, and prefill's pages are wanted no more.
    Accepted,
    /// Either: the other may go on.
    Ready,
    /// Decode: no request comes any more.
    Bye,
}

/// One thing that was said.
#[derive(Debug)]
pub(crate) enum Frame {
    Message(Message),
    Signal(Signal),
}

/// Why nothing more can be said or heard.
#[derive(Debug)]
pub(crate) enum ChannelError {
    /// The other process has closed its pipe: it ended.
    Gone,
    Io(io::Error),
    Wire(WireError),
    /// A signal that nobody gives.
    Unknown {
        kind: u32,
    },
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => write!(f, "the other process is gone: its pipe is closed"),
            Self::Io(error) => error.fmt(f),
            Self::Wire(error) => error.fmt(f),
            Self::Unknown { kind } => write!(f, "signal {kind} is none"),
        }
    }
}

impl Error for ChannelError {}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => Self::Gone,
            _ => Self::Io(error),
        }
    }
}

impl From<WireError> for ChannelError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

/// The pipe to the other process and the one from it.
#[derive(Debug)]
pub(crate) struct Channel {
    frames: Receiver<Result<Frame, ChannelError>>,
}

impl Channel {
    /// Takes this process's stdin and stdout, which its parent connected to the other one.
    pub(crate) fn of_this_process() -> Self {
        let (to, frames) = mpsc::sync_channel(WAITING_FRAMES);
        thread::spawn(move || read_all(&mut io::stdin().lock(), &to));
        Self { frames }
    }

    /// Says a message.
    ///
    /// # Errors
    /// [`ChannelError::Gone`] and others.
    pub(crate) fn send(&self, message: &Message) -> Result<(), ChannelError> {
        put(&message.to_bytes()?)
    }

    /// Gives a signal.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub(crate) fn signal(&self, signal: &Signal) -> Result<(), ChannelError> {
        put(&encode(signal))
    }

    /// Says that nothing is written any more. The caller's last store is behind it.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub(crate) fn stopped(&self) -> Result<(), ChannelError> {
        self.signal(&Signal::Stopped(Stopped(())))
    }

    /// Waits for what comes next.
    ///
    /// # Errors
    /// [`ChannelError::Gone`] when nothing does.
    pub(crate) fn next(&self) -> Result<Frame, ChannelError> {
        self.frames.recv().unwrap_or(Err(ChannelError::Gone))
    }

    /// Looks whether something has come.
    ///
    /// # Errors
    /// As [`Channel::next`].
    pub(crate) fn look(&self) -> Result<Option<Frame>, ChannelError> {
        match self.frames.try_recv() {
            Ok(frame) => frame.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(ChannelError::Gone),
        }
    }
}

fn put(bytes: &[u8]) -> Result<(), ChannelError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

fn read_all(pipe: &mut impl Read, to: &SyncSender<Result<Frame, ChannelError>>) {
    loop {
        let frame = read(pipe);
        let ends = frame.is_err();
        if to.send(frame).is_err() || ends {
            return;
        }
    }
}

/// Reads one frame. Room is made as bytes arrive, not as they are announced.
fn read(pipe: &mut impl Read) -> Result<Frame, ChannelError> {
    let mut header = [0; HEADER_BYTES];
    pipe.read_exact(&mut header)?;
    if header.starts_with(&MAGIC) {
        return decode(&header).map(Frame::Signal);
    }
    let body_bytes = Message::body_bytes(&header)?;
    let mut bytes = header.to_vec();
    if pipe.take(body_bytes as u64).read_to_end(&mut bytes)? < body_bytes {
        return Err(ChannelError::Gone);
    }
    Ok(Frame::Message(Message::from_bytes(&bytes)?))
}

/// As many bytes as a message's header: the magic, a kind, a number, four zeroes.
fn encode(signal: &Signal) -> [u8; HEADER_BYTES] {
    let (kind, number) = match signal {
        Signal::FirstToken(token) => (1_u32, *token),
        Signal::Stopped(_) => (2, 0),
        Signal::Accepted => (3, 0),
        Signal::Ready => (4, 0),
        Signal::Bye => (5, 0),
    };
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..8].copy_from_slice(&kind.to_le_bytes());
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Signal, ChannelError> {
    let [_, _, _, _, k0, k1, k2, k3, n0, n1, n2, n3, ..] = *bytes;
    match (u32::from_le_bytes([k0, k1, k2, k3]), u32::from_le_bytes([n0, n1, n2, n3])) {
        (1, token) => Ok(Signal::FirstToken(token)),
        (2, _) => Ok(Signal::Stopped(Stopped(()))),
        (3, _) => Ok(Signal::Accepted),
        (4, _) => Ok(Signal::Ready),
        (5, _) => Ok(Signal::Bye),
        (kind, _) => Err(ChannelError::Unknown { kind }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagestamp::{Refusal, Side, TransferId};

    #[test]
    fn frames_are_read_one_by_one_and_a_cut_one_is_the_end() {
        let transfer = TransferId::from_bits(1 << 64 | 1).expect("a transfer");
        let refusal = Refusal::new(transfer, Side::Sender, &fmt::Error);
        let mut bytes = encode(&Signal::FirstToken(7)).to_vec();
        bytes.extend(refusal.to_bytes().expect("it is short"));
        bytes.extend(encode(&Signal::Bye));
        let mut pipe = bytes.as_slice();
        assert!(matches!(read(&mut pipe), Ok(Frame::Signal(Signal::FirstToken(7)))));
        assert!(matches!(read(&mut pipe), Ok(Frame::Message(Message::Refusal(read))) if read == refusal));
        assert!(matches!(read(&mut pipe), Ok(Frame::Signal(Signal::Bye))));
        assert!(matches!(read(&mut pipe), Err(ChannelError::Gone)));
        for cut in [9, HEADER_BYTES + 9, HEADER_BYTES * 2 + 9] {
            let mut pipe = &bytes[..cut];
            let last = std::iter::from_fn(|| Some(read(&mut pipe))).find(Result::is_err);
            assert!(matches!(last, Some(Err(ChannelError::Gone))), "cut at {cut}");
        }
    }

    #[test]
    fn unknown_signals_are_refused_and_known_ones_come_back() {
        for signal in [Signal::Stopped(Stopped(())), Signal::Accepted, Signal::Ready, Signal::Bye] {
            let bytes = encode(&signal);
            assert_eq!(decode(&bytes).map(|read| encode(&read)).ok(), Some(bytes));
        }
        assert!(matches!(decode(&[0; HEADER_BYTES]), Err(ChannelError::Unknown { kind: 0 })));
    }
}
